"""Connections and transactions: one writer at a time, on either database.

On SQLite a writing transaction begins with ``BEGIN IMMEDIATE``; on PostgreSQL it first
takes one advisory lock. Sequence numbers are therefore given in the order in which
they become visible: who has read up to number 17 misses nothing by asking for what
comes after it. Labels come by the second, so the lock costs nothing.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, text

from fewlabels.errors import StoreError, UsageError
from fewlabels.store.failures import explained
from fewlabels.store.locations import Mounts, check_drive, shown, store_url

Clock = Callable[[], datetime]
"""Something that tells the time, with its zone."""

_PAUSE = 0.02
_WRITES = "fewlabels_writes"
_WRITER_LOCK = 0x6665776C6162656C  # "fewlabel", so that it is nobody else's by chance


@dataclass(frozen=True)
class Database:
    """A database that stands ready."""

    engine: Engine
    place: str
    """Where it is, for messages; without the password."""
    path: Path | None
    """Its file; None on a server."""
    clock: Clock | None = None
    """Who tells the time; None: the server where there is one, else this machine."""
    joined: Connection | None = None
    """A transaction that all reading and writing joins; None: each has its own."""

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one moment of the store."""
        if self.joined is not None:
            yield self.joined
            return
        with explained(self.place), self.engine.begin() as connection:
            if not self.path:
                _say(connection, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Yield a connection that alone may write; all becomes durable at the end."""
        if self.joined is not None:
            if not self.joined.get_execution_options().get(_WRITES):
                raise UsageError("Nothing can be written while one moment is read.")
            yield self.joined
            return
        with (
            explained(self.place),
            self.engine.connect() as connection,
            self.transaction(connection),
        ):
            yield connection

    @contextmanager
    def transaction(self, connection: Connection) -> Iterator[None]:
        """Let a connection write alone until the end of the block."""
        connection.execution_options(**{_WRITES: True})
        try:
            with connection.begin():
                if not self.path:
                    _say(connection, f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})")
                yield
        finally:
            connection.execution_options(**{_WRITES: False})

    def now(self, connection: Connection) -> datetime:
        """Tell the time; on a server its time, which all annotators share."""
        if self.clock:
            return self.clock().astimezone(UTC)
        if self.path:
            return datetime.now(UTC)
        told = connection.execute(text("SELECT clock_timestamp()"))
        moment: datetime = told.scalar_one()
        return moment.astimezone(UTC)


def connect(
    place: str | Path, *, busy_seconds: float, mounts: Mounts, clock: Clock | None
) -> Database:
    """Return a database that is ready for connections, without making one yet.

    The place is a file, or the address of a PostgreSQL server.
    """
    url = store_url(place)
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        check_drive(path, mounts)
        engine = _sqlite_engine(url, path, busy_seconds)
        event.listen(engine, "begin", _begin_sqlite)
        return Database(engine, str(path), path, clock)
    address = shown(url)
    milliseconds = max(1, round(busy_seconds * 1000))  # 0 would mean: for ever
    wait = f"-c lock_timeout={milliseconds} -c synchronous_commit=on"
    arguments: dict[str, object] = {"options": wait}
    if "connect_timeout" not in url.query:  # else, where nobody answers, minutes
        arguments["connect_timeout"] = max(1, round(busy_seconds))
    try:
        engine = create_engine(url, connect_args=arguments, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"The label store '{address}' is on a PostgreSQL server, and the driver "
            "for it is not installed. Run: pip install 'fewlabels[postgres]'"
        ) from error
    return Database(engine, address, None, clock)


def count_anew(connection: Connection, table: Table) -> None:
    """Let PostgreSQL look at a table that has grown by much.

    It does so by itself every minute or so, and until then plans for an empty table:
    reading 10,000 labels then takes seconds instead of a third of one.
    """
    if connection.dialect.name == "postgresql":
        _say(connection, f"ANALYZE {table.name}")


def _sqlite_engine(url: URL, path: Path, busy_seconds: float) -> Engine:
    """Return an engine; in a folder that cannot be written to, one that reads."""
    patience: float | None = busy_seconds
    if os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK):
        patience = None
        log = path.with_name(f"{path.name}-wal")
        # The log needs a second file, which nobody can make there. Without a log there
        # is no writer either.
        still = not log.exists() or not log.stat().st_size
        query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if still else {})
        url = URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
    engine = create_engine(url, connect_args={"timeout": busy_seconds})
    event.listen(engine, "connect", lambda c, _: _prepare_sqlite(c, patience))
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, busy_seconds: float | None) -> None:
    """Set up a connection: durable commits, keys that hold, our own BEGIN."""
    connection.isolation_level = None
    cursor = connection.cursor()
    if busy_seconds is not None:
        _use_log(cursor, time.monotonic() + busy_seconds)
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA fullfsync=ON")  # for macOS, where fsync alone is not enough
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.execute("PRAGMA trusted_schema=OFF")
    cursor.close()


def _use_log(cursor: sqlite3.Cursor, until: float) -> None:
    """Switch to the write-ahead log; SQLite itself does not wait where two do this."""
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
            if not is_busy or time.monotonic() > until:
                raise
            time.sleep(_PAUSE)
        else:
            return


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _say(connection: Connection, statement: str) -> None:
    connection.execute(text(statement))
