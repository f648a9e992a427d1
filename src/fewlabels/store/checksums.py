"""Checksums of what a store holds, so that damage is noticed before it is believed.

A database notices when its own structure is broken, and not when a byte of somebody's
label becomes another. Each table has a checksum over all its rows in the order of their
keys, renewed in every transaction that changes the table. It is a chain: the hash of
the checksum so far and the next rows. Events, which are only ever added, are links of
their own, so that one more costs the same however many there are.
"""

import json
from hashlib import blake2b
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Table,
    Text,
    delete,
    inspect,
    select,
    type_coerce,
)
from sqlalchemy.types import TypeDecorator

from fewlabels.store.schema import (
    CHECKSUMS,
    CLASSES,
    EVENTS,
    ITEMS,
    ROUND_ITEMS,
    ROUNDS,
)

_TABLES = (ITEMS, CLASSES, ROUNDS, ROUND_ITEMS, EVENTS)
_ROWS_AT_ONCE = 1000
_NOTHING = ""


def renew(connection: Connection, *tables: Table) -> None:
    """Write the checksums of tables that were changed in this transaction."""
    for table in tables:
        _write(connection, table.name, _of_table(connection, table))


def extend(connection: Connection, last: int) -> None:
    """Write the checksum of the events after ``last``, added in this transaction."""
    added = _raw(EVENTS).where(EVENTS.c.sequence > last)
    before = written(connection).get(EVENTS.name, _NOTHING)
    _write(connection, EVENTS.name, _chained(connection, added, before, at_once=1))


def renew_all(connection: Connection) -> None:
    """Write all checksums, of tables that were just made or copied."""
    renew(connection, *_TABLES)


def damaged_part(connection: Connection) -> str | None:
    """Return the first table that is not what its checksum says; None if all are."""
    known = written(connection)
    for table in _TABLES:
        if known.get(table.name) != _of_table(connection, table):
            return table.name
    return None


def are_kept(connection: Connection) -> bool:
    """Say whether the tables of this version of a store have checksums."""
    return inspect(connection).has_table(CHECKSUMS.name)


def _of_table(connection: Connection, table: Table) -> str:
    at_once = 1 if table is EVENTS else _ROWS_AT_ONCE
    return _chained(connection, _raw(table), _NOTHING, at_once=at_once)


def _raw(table: Table) -> Select[Any]:
    """Select the columns of a table as the database holds them."""
    return select(
        *(
            type_coerce(column, Text)
            if isinstance(column.type, TypeDecorator)
            else column
            for column in table.columns
        )
    ).order_by(*table.primary_key.columns)


def _chained(
    connection: Connection, query: Select[Any], checksum: str, *, at_once: int
) -> str:
    """Return a checksum after more rows, so many in each link of the chain."""
    options = {"yield_per": _ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        for some in rows.partitions(at_once):
            # Only damage puts bytes, which JSON does not know, into a column.
            link = json.dumps([checksum, *map(tuple, some)], default=repr)
            checksum = blake2b(link.encode(), digest_size=16).hexdigest()
    return checksum


def written(connection: Connection) -> dict[str, str]:
    """Return the checksums as they were written, by the names of their tables."""
    rows = connection.execute(select(CHECKSUMS.c.name, CHECKSUMS.c.checksum))
    return {row.name: row.checksum for row in rows}


def _write(connection: Connection, name: str, checksum: str) -> None:
    connection.execute(delete(CHECKSUMS).where(CHECKSUMS.c.name == name))
    connection.execute(CHECKSUMS.insert(), {"name": name, "checksum": checksum})
