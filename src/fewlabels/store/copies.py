"""Copies of a whole store, made while others write."""

import json
import sqlite3
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from typing import Any

from sqlalchemy import Select, Table, select

from fewlabels.errors import UsageError
from fewlabels.files import replacing
from fewlabels.store import checksums
from fewlabels.store.chunks import chunked
from fewlabels.store.database import Database
from fewlabels.store.failures import explained
from fewlabels.store.reading import events, streamed
from fewlabels.store.records import Event, StoredEvent
from fewlabels.store.schema import CHECKSUMS, METADATA, VERSION

EXPORT_VERSION = 1
"""Version of the lines of exported events."""


def check_free(path: Path) -> None:
    """Refuse to write over a file."""
    if path.exists():
        raise UsageError(
            f"'{path}' exists already, and a backup never replaces a file: it could be "
            "the last good one. Give another name."
        )


def copy_file(database: Database, path: Path) -> int:
    """Copy a store on SQLite, as of one moment; return how many events the copy has."""
    with (
        explained(database.place),
        replacing(path) as partial,
        closing(sqlite3.connect(str(database.path))) as source,
        closing(sqlite3.connect(partial)) as target,
    ):
        source.backup(target)
        # Without a write-ahead log of its own the copy is a single file.
        target.execute("PRAGMA journal_mode=DELETE")
        number: int = target.execute("SELECT count(*) FROM events").fetchone()[0]
    return number


def copy_tables(database: Database, target: Database) -> None:
    """Copy all rows of a store, as of one moment, into an empty one of its version."""
    with database.reading() as source, target.writing() as connection:
        for table in METADATA.sorted_tables:
            if table in {VERSION, CHECKSUMS}:
                continue
            for rows in chunked(streamed(source, _ordered(table))):
                connection.execute(table.insert(), [dict(r._mapping) for r in rows])
        checksums.renew_all(connection)


def export_events(database: Database, path: Path) -> int:
    """Return the number of events, written as of one moment, a JSON object a line."""
    number = 0
    with (
        replacing(path) as partial,
        partial.open("w", encoding="utf-8", newline="\n") as file,
        database.reading() as connection,
    ):
        for stored in events(connection):
            file.write(_line(stored) + "\n")
            number += 1
    return number


def _ordered(table: Table) -> Select[Any]:
    return select(table).order_by(*table.primary_key.columns)


def _line(stored: StoredEvent) -> str:
    content: dict[str, Any] = {
        "schema_version": EXPORT_VERSION,
        "sequence": stored.sequence,
        "server_time": stored.server_time.isoformat(),
    }
    content |= {f.name: getattr(stored.event, f.name) for f in fields(Event)}
    if stored.event.client_time:
        content["client_time"] = stored.event.client_time.isoformat()
    return json.dumps(content, ensure_ascii=False)
