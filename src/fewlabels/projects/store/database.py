"""Where a label store lies, and transactions there: one writer at a time.

On SQLite a writing transaction begins with ``BEGIN IMMEDIATE``; on PostgreSQL it first
takes one advisory lock. Sequence numbers are therefore given in the order in which
they become visible: who has read up to number 17 misses nothing by asking for what
comes after it. Labels come by the second, so the lock costs nothing.

SQLite's write-ahead log needs memory that all its processes share, which no network
drive gives them, and what such a drive says is on the disk may be lost besides. A label
store is therefore refused there.
"""

import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

from platformdirs import user_state_path
from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    Row,
    Select,
    Table,
    create_engine,
    event,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from fewlabels import files
from fewlabels.errors import (
    DamagedStoreError,
    FewlabelsError,
    NetworkDriveError,
    StorageError,
    StoreAwayError,
    StoreBusyError,
    StoreError,
    UntrustedStoreError,
    UsageError,
)

Clock = Callable[[], datetime]
"""A function that returns the time, with its zone."""

Entry = TypeVar("Entry")

ROWS_AT_ONCE = 1000
"""Rows in memory while a table is read from one end to the other."""

_MOUNTS = Path("/proc/mounts")
_NETWORK_SYSTEMS = frozenset(
    {"nfs", "nfs3", "nfs4", "cifs", "smb", "smb2", "smb3", "smbfs", "9p", "afs"}
    | {"ceph", "glusterfs", "lustre", "gpfs", "beegfs", "ncpfs", "davfs", "webdav"}
    | {"fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"}
    | {"fuse.davfs2", "fuse.smbnetfs", "fuse.ceph", "fuse.juicefs", "fuse.blobfuse"}
)
_SSL_MODES = frozenset({"require", "verify-ca", "verify-full"})
_PLAIN_HOST = re.compile(r"[\w.:-]*", re.ASCII)
_PLAIN_DATABASE = re.compile(r"[^=/?\\']*")

_PAUSE = 0.02
_WRITES = "fewlabels_writes"
_WRITER_LOCK = 0x6665776C6162656C  # "fewlabel", so that it is nobody else's by chance

_SQLITE_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_SQLITE_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_SQLITE_UNWRITABLE = {
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
}
_SERVER_BUSY = "55P03"  # lock not available
_SERVER_UNWRITABLE = {"25006", "42501", "53100", "53200"}  # forbidden, or no space


# ---------------------------------------------------------------------- addresses


def store_url(place: str | Path) -> URL:
    """Return the address of a store, a file or a server, with the driver to use."""
    if isinstance(place, Path) or "://" not in place:
        return URL.create("sqlite", database=str(Path(place).absolute()))
    try:
        url = make_url(place)
    except (ArgumentError, ValueError):
        seen = place.partition("://")[0]
    else:
        seen, kind = shown(url), url.get_backend_name()
        if kind in {"postgresql", "postgres"}:
            return url.set(drivername="postgresql+psycopg")
        if kind == "sqlite" and url.database and url.database != ":memory:":
            return store_url(Path(url.database))
    raise UsageError(
        f"'{seen}' is not a place for a label store. Give a file, such as "
        "'labels.sqlite', or the address of a PostgreSQL server, such as "
        "'postgresql://user:password@host/database'."
    )


def shown(url: URL) -> str:
    """Return an address for messages: no password, which may stand behind '?' too."""
    return url.set(query={}).render_as_string(hide_password=True)


def system_mounts() -> list[tuple[Path, str]]:
    """List the mounted file systems, folder and kind; none where Linux does not say."""
    try:
        lines = _MOUNTS.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    escaped = re.compile(r"\\(040|011|012|134)")  # how blanks and the like are written
    return [
        (Path(escaped.sub(lambda code: chr(int(code[1], 8)), folder)), kind)
        for _, folder, kind, *_ in (line.split() for line in lines)
    ]


def check_drive(path: Path) -> None:
    """Refuse a file on a network drive."""
    real = path.resolve()
    above = [mount for mount in system_mounts() if real.is_relative_to(mount[0])]
    # Of several mounts at one folder the last one is seen.
    above.sort(key=lambda mount: len(mount[0].parts))
    if above and above[-1][1] in _NETWORK_SYSTEMS:
        folder, kind = above[-1]
        raise NetworkDriveError(
            f"'{path}' is on a network drive ({kind} at '{folder}'), where SQLite "
            "cannot keep labels safe. Give a folder on this machine's own disk, or the "
            "address of a PostgreSQL server."
        )


def check_address(address: str) -> URL | None:
    """Return the address of a server, if it says only where the server is.

    Args:
        address: What ``project.json`` names as the store.

    Returns:
        The address; None: it is a file, which needs no password.

    Raises:
        UsageError: If it has other parameters, which could lead the connection to
            another server, or to other files of this user, than it seems to.
    """
    url = store_url(address)
    if url.get_backend_name() != "postgresql":
        return None
    other = sorted(url.query.keys() - {"sslmode"})
    if other:
        problem = f"has the parameter '{other[0]}'"
    elif "sslmode" in url.query and url.query["sslmode"] not in _SSL_MODES:
        problem = f"has sslmode={url.query['sslmode']!r}"
    elif not _PLAIN_HOST.fullmatch(url.host or ""):
        problem = f"names the host {url.host!r}"
    elif not _PLAIN_DATABASE.fullmatch(url.database or ""):
        problem = f"names the database {url.database!r}"
    else:
        return url
    raise UsageError(
        f"The address of the label store {problem}. A project takes only "
        "'postgresql://user@host:port/database', and behind it ?sslmode=require, "
        "verify-ca or verify-full. Set anything else by the variables of PostgreSQL, "
        "such as PGHOST or PGSERVICE."
    )


def check_trusted(folder: Path, address: str, *, confirm: bool = False) -> None:
    """Raise unless a project's store is a file, or a server that the user confirmed.

    The client library of PostgreSQL sends the user's password to whatever server an
    address names. An address that came with somebody else's ``project.json`` is
    therefore used only after the user has confirmed it, once per folder and address.

    Args:
        folder: Of the project.
        address: What its ``project.json`` names as the store.
        confirm: Whether the user confirms it now; this is remembered.
    """
    url = check_address(address)
    if url is None:
        return
    given = os.environ.get("FEWLABELS_STATE")
    usual = user_state_path("fewlabels", appauthor=False)
    state = Path(given).expanduser() if given else usual
    key = sha256(f"{folder.resolve()}\n{address}".encode()).hexdigest()
    path = state / "trusted-stores" / key
    if confirm:
        with files.wrap_os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace_text(path, f"{folder.resolve()}\n{shown(url)}\n")
    elif not path.exists():
        raise UntrustedStoreError(folder, shown(url))


# ------------------------------------------------------------------------- errors


class UnreadableValueError(Exception):
    """A database gave a value that nobody here wrote."""


def damaged(place: str, what: str) -> DamagedStoreError:
    """Return the error that says a store cannot be read; nothing was written."""
    return DamagedStoreError(
        f"The label store '{place}' cannot be read: {what}. Nothing was changed. Move "
        "the file aside together with its -wal and -shm (do not delete them), put the "
        "newest backup in its place, and try again."
    )


@contextmanager
def explained(place: str) -> Iterator[None]:
    """Turn an error of the database inside the block into a sentence about a place."""
    try:
        yield
    # The latter in the names of tables, or in a message of SQLite.
    except (UnreadableValueError, UnicodeDecodeError) as error:
        raise damaged(place, str(error)) from error
    except (sqlite3.Error, DBAPIError, NoConnectionError) as error:
        raise _sentence(place, error) from error


def _sentence(place: str, error: Exception) -> FewlabelsError:
    cause = error.orig if isinstance(error, DBAPIError) else error
    reason = " ".join(str(cause).split())
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # without its details
    state = getattr(cause, "sqlstate", None)
    if (
        isinstance(error, NoConnectionError)  # others of this process have them all
        or code in _SQLITE_BUSY
        or state == _SERVER_BUSY
    ):
        return StoreBusyError(
            f"Another writer held the label store '{place}' beyond the waiting time, "
            "so nothing was written. Try again; if this persists, look for a process "
            "that hangs, or wait longer with busy_seconds."
        )
    if code in _SQLITE_DAMAGED:
        return damaged(place, reason)
    if code in _SQLITE_UNWRITABLE or state in _SERVER_UNWRITABLE:
        return StorageError(
            f"The label store '{place}' could not be written: {reason}. Everything "
            "acknowledged before is safe; make it writable or free some space, and try "
            "again."
        )
    # Such a fault is never that of what was sent: it went away, or has no room.
    is_sqlite = isinstance(cause, sqlite3.Error)
    if isinstance(error, OperationalError | InterfaceError) and not is_sqlite:
        return StoreAwayError(
            f"The label store '{place}' could not be reached: {reason}. Everything "
            "acknowledged before is safe; check that the server is running and the "
            "address is right, and try again."
        )
    return StoreError(
        f"The label store '{place}' refused the work: {reason}. Nothing of it was "
        "written, and everything acknowledged before is safe."
    )


# ------------------------------------------------------------------- transactions


@dataclass(frozen=True)
class Database:
    """A database that is ready for connections."""

    engine: Engine
    place: str
    """Where it is, for messages; without the password."""
    path: Path | None
    """Its file; None on a server."""
    clock: Clock | None = None
    """Gives the time; None: the server where there is one, else this machine."""
    joined: Connection | None = None
    """A transaction that all reading and writing joins; None: each has its own."""

    def close(self) -> None:
        """Let go of all connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Yield this store as of one moment: all that is read of it fits together.

        Others may write meanwhile; the block does not see it, and cannot write.
        """
        with self.read_connection() as connection:
            yield replace(self, joined=connection)

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Yield this store for one transaction, so that nobody writes in between.

        All that the block wrote becomes durable at its end or, where it raises an
        error, none of it.
        """
        with self.write_connection() as connection:
            yield replace(self, joined=connection)

    @contextmanager
    def read_connection(self) -> Iterator[Connection]:
        """Yield a connection that sees one moment of the store."""
        if self.joined is not None:
            yield self.joined
            return
        with explained(self.place), self.engine.begin() as connection:
            if not self.path:
                level = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
                connection.execute(text(level))
            yield connection

    @contextmanager
    def write_connection(self) -> Iterator[Connection]:
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
                    lock = f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"
                    connection.execute(text(lock))
                yield
        finally:
            connection.execution_options(**{_WRITES: False})

    def now(self, connection: Connection) -> datetime:
        """Return the time; on a server its time, which all annotators share."""
        if self.clock:
            return self.clock().astimezone(UTC)
        if self.path:
            return datetime.now(UTC)
        moment: datetime = connection.scalar(text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)


def connect(place: str | Path, busy_seconds: float) -> tuple[Engine, str, Path | None]:
    """Return an engine for a store, its place for messages, and its file if it is one.

    No connection is made yet.
    """
    url = store_url(place)
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        check_drive(path)
        return _sqlite_engine(url, path, busy_seconds), str(path), path
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
    return engine, address, None


def _sqlite_engine(url: URL, path: Path, busy_seconds: float) -> Engine:
    """Return an engine; in a folder that cannot be written to, one that reads."""
    is_read_only = os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK)
    if is_read_only:
        log = path.with_name(f"{path.name}-wal")
        # The log needs a second file, which nobody can make there. Without a log there
        # is no writer either.
        still = not log.exists() or not log.stat().st_size
        query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if still else {})
        url = URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
    engine = create_engine(url, connect_args={"timeout": busy_seconds})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        """Set up a connection: durable commits, keys that hold, our own BEGIN."""
        connection.isolation_level = None
        until = time.monotonic() + busy_seconds
        while not is_read_only:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError as error:
                # SQLite itself does not wait where two switch to the log.
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA fullfsync=ON")  # on macOS fsync is not enough
        connection.execute("PRAGMA foreign_keys=ON")
        connection.execute("PRAGMA trusted_schema=OFF")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


# ------------------------------------------------------------------------ queries


def chunked(entries: Iterable[Entry], size: int = 400) -> Iterator[list[Entry]]:
    """Yield the entries in lists that any database takes as parameters of a statement.

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
    """Return the entries that are in no row of a column."""
    unknown = set(named)
    for some in chunked(tuple(unknown)):
        query = select(column).where(column.in_(some))
        unknown -= set(connection.execute(query).scalars())
    return unknown


def streamed(connection: Connection, query: Select[Any]) -> Iterator[Row[Any]]:
    """Yield the rows of a query, a thousand in memory at a time."""
    options = {"yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        yield from rows  # closed also where the reader stops halfway


def count_anew(connection: Connection, table: Table) -> None:
    """Let PostgreSQL look at a table that has grown by much.

    It does so by itself every minute or so, and until then plans for an empty table:
    reading 10,000 labels then takes seconds instead of a third of one.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"ANALYZE {table.name}"))
