from .reader import Answer as Answer, Parsed as Parsed, read_answers as read_answers
from .writer import AskedItem as AskedItem, config_path as config_path
from .writer import write_query as write_query
