"""Long lists in pieces that every database takes as parameters of one statement."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Connection, select

Entry = TypeVar("Entry")

CHUNK = 400
"""Entries per statement; a row of several columns then stays far below all limits."""


def chunked(entries: Iterable[Entry], size: int = CHUNK) -> Iterator[list[Entry]]:
    """Yield the entries in lists of at most ``size``, without holding all of them.

    Example:
        >>> list(chunked("abcde", 2))
        [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(entries)
    while some := list(islice(rest, size)):
        yield some


def unknown_of(
    connection: Connection, column: ColumnElement[Any], named: Iterable[Entry]
) -> set[Entry]:
    """Return the entries that stand in no row of a column."""
    unknown = set(named)
    for some in chunked(tuple(unknown)):
        query = select(column).where(column.in_(some))
        unknown -= set(connection.execute(query).scalars())
    return unknown
