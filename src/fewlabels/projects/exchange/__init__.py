"""Files that ask and files that answer: CSV, JSON Lines and Label Studio's JSON."""

from fewlabels.errors import Fault
from fewlabels.projects.exchange.reading import read_answers
from fewlabels.projects.exchange.records import Answer, AskedItem, Format, Parsed
from fewlabels.projects.exchange.writing import (
    MAX_BYTES,
    config_path,
    is_query,
    write_query,
)

__all__ = [
    "MAX_BYTES",
    "Answer",
    "AskedItem",
    "Fault",
    "Format",
    "Parsed",
    "config_path",
    "is_query",
    "read_answers",
    "write_query",
]
