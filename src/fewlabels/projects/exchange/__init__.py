"""Files that ask and files that answer: CSV, JSON Lines and Label Studio's JSON."""

from fewlabels.projects.exchange.reader import Answer, Parsed, read_answers
from fewlabels.projects.exchange.writer import AskedItem, config_path, write_query

__all__ = [
    "Answer",
    "AskedItem",
    "Parsed",
    "config_path",
    "read_answers",
    "write_query",
]
