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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import quote

import sqlalchemy as sa
from platformdirs import user_state_path
from sqlalchemy import create_engine, event, exc

from fewlabels import errors, files

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

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, "55P03"}  # lock not available
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_UNWRITABLE = {
    *(sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM),
    *(sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL),
    *("25006", "42501", "53100", "53200"),  # forbidden, or no space
}


# ---------------------------------------------------------------------- addresses


def store_url(place: str | Path) -> sa.URL:
    """Return the address of a store, a file or a server, with the driver to use."""
    if isinstance(place, Path) or "://" not in place:
        return sa.URL.create("sqlite", database=str(Path(place).absolute()))
    shown = place.partition("://")[0]
    with suppress(exc.ArgumentError, ValueError):
        url = sa.make_url(place)
        shown, kind = without_secrets(url), url.get_backend_name()
        if kind in {"postgresql", "postgres"}:
            return url.set(drivername="postgresql+psycopg")
        if kind == "sqlite" and url.database and url.database != ":memory:":
            return store_url(Path(url.database))
    raise errors.UsageError(
        f"'{shown}' is not a place for a label store; give a file or postgresql://..."
    )


def without_secrets(url: sa.URL) -> str:
    """Return an address for messages, without password and parameters."""
    return url.set(query={}).render_as_string(hide_password=True)


def system_mounts() -> list[tuple[Path, str]]:
    """Return folder and kind of each mounted file system; empty except on Linux."""
    escaped = re.compile(r"\\(040|011|012|134)")  # how blanks and the like are written
    mounts = []
    with suppress(OSError):
        for line in _MOUNTS.read_text("utf-8", errors="replace").splitlines():
            _, folder, kind, *_ = line.split()
            plain = escaped.sub(lambda code: chr(int(code[1], 8)), folder)
            mounts.append((Path(plain), kind))
    return mounts


def check_drive(path: Path) -> None:
    """Refuse a file on a network drive."""
    real = path.resolve()
    above = [mount for mount in system_mounts() if real.is_relative_to(mount[0])]
    # Of several mounts at one folder the last one is seen.
    above.sort(key=lambda mount: len(mount[0].parts))
    if above and above[-1][1] in _NETWORK_SYSTEMS:
        raise errors.NetworkDriveError(
            f"'{path}' is on a network drive ({above[-1][1]}). Use a local disk or "
            "PostgreSQL."
        )


def check_address(address: str) -> sa.URL | None:
    """Return the address of a project's server; None for a file.

    Raises:
        UsageError: If it has parameters that could lead the connection to another
            server, or to other files of this user, than it seems to.
    """
    url = store_url(address)
    if url.get_backend_name() != "postgresql":
        return None
    if not (
        url.query.keys() <= {"sslmode"}
        and url.query.get("sslmode", "require") in _SSL_MODES
        and _PLAIN_HOST.fullmatch(url.host or "")
        and _PLAIN_DATABASE.fullmatch(url.database or "")
    ):
        raise errors.UsageError(
            f"'{without_secrets(url)}' is not a plain address. Give postgresql://user@"
            "host:port/database, with ?sslmode= if needed, anything else by PGHOST etc."
        )
    return url


def check_trusted(folder: Path, address: str, *, confirm: bool = False) -> None:
    """Raise unless a project's store is a file, or a server that the user confirmed.

    The client library of PostgreSQL sends the user's password to whatever server an
    address names. An address that came with somebody else's ``project.json`` is
    therefore used only after the user has confirmed it, once per folder and address.

    Args:
        folder: Folder of the project.
        address: The store that its ``project.json`` names.
        confirm: Whether the user confirms it now; this is remembered.
    """
    url = check_address(address)
    if url is None:
        return
    usual = user_state_path("fewlabels", appauthor=False)
    state = os.environ.get("FEWLABELS_STATE") or usual
    key = sha256(f"{folder.resolve()}\n{address}".encode()).hexdigest()
    path = Path(state).expanduser() / "trusted-stores" / key
    if confirm:
        with files.wrap_os_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        files.replace_text(path, f"{folder.resolve()}\n{without_secrets(url)}\n")
    elif not path.exists():
        raise errors.UntrustedStoreError(folder, without_secrets(url))


# ------------------------------------------------------------------------- errors


class UnreadableValueError(Exception):
    """A database returned a value that no version of this package writes."""


def damaged(place: str, reason: str) -> errors.DamagedStoreError:
    """Return the error for a store that cannot be read."""
    return errors.DamagedStoreError(
        f"The label store '{place}' cannot be read: {reason}. Nothing was changed. Move"
        " it aside with its -wal and -shm files and put the newest backup there."
    )


@contextmanager
def translate_errors(place: str) -> Iterator[None]:
    """Turn an error of the database inside the block into a sentence about a place."""
    try:
        yield
    # The latter in the names of tables, or in a message of SQLite.
    except (UnreadableValueError, UnicodeDecodeError) as error:
        raise damaged(place, str(error)) from error
    except (sqlite3.Error, exc.DBAPIError, exc.TimeoutError) as error:
        cause = error.orig if isinstance(error, exc.DBAPIError) else error
        reason = " ".join(str(cause).split())
        code: int | str = getattr(cause, "sqlstate", None) or ""
        if isinstance(cause, sqlite3.Error):
            code = getattr(cause, "sqlite_errorcode", 0) & 0xFF  # without its details
        if code in _DAMAGED:
            raise damaged(place, reason) from error
        kind: type[errors.FewlabelsError] = errors.StoreError
        problem = f"refused the work: {reason}"
        # A connection times out if all of this process are in use.
        if isinstance(error, exc.TimeoutError) or code in _BUSY:
            kind = errors.StoreBusyError
            problem = "is held by another writer; try again"
        elif code in _UNWRITABLE:
            kind = errors.StorageError
            problem = f"could not be written: {reason}; make it writable or free space"
        # Such an error is never about the data sent: the server went away.
        elif isinstance(error, exc.OperationalError | exc.InterfaceError) and not (
            isinstance(cause, sqlite3.Error)
        ):
            kind = errors.StoreAwayError
            problem = f"could not be reached: {reason}; check the server"
        raise kind(
            f"The label store '{place}' {problem}. Nothing of this call was written; "
            "everything acknowledged before is safe."
        ) from error


# ------------------------------------------------------------------- transactions


@dataclass(frozen=True)
class Database:
    """The database of a store: connections, transactions and the time."""

    engine: sa.Engine
    place: str
    """Where it is, for messages; without the password."""
    path: Path | None
    """The file; None on a server."""
    clock: Clock | None = None
    """Gives the time; None: the server where there is one, else this machine."""
    joined: sa.Connection | None = None
    """A transaction that all reading and writing joins; None: each has its own."""

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the store."""
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Self]:
        """Yield this store as of one moment, read-only, while others may write."""
        with self.read_connection() as connection:
            yield replace(self, joined=connection)

    @contextmanager
    def writing(self) -> Iterator[Self]:
        """Yield this store for one transaction, durable at the end of the block.

        Nobody else writes meanwhile. If the block raises an error, nothing is written.
        """
        with self.write_connection() as connection:
            yield replace(self, joined=connection)

    @contextmanager
    def read_connection(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees one moment of the store."""
        if self.joined is not None:
            yield self.joined
            return
        with translate_errors(self.place), self.engine.begin() as connection:
            if not self.path:
                level = "REPEATABLE READ"
                connection.execute(sa.text(f"SET TRANSACTION ISOLATION LEVEL {level}"))
            yield connection

    @contextmanager
    def write_connection(self) -> Iterator[sa.Connection]:
        """Yield a connection that alone may write; durable at the end of the block."""
        if self.joined is not None:
            if not self.joined.get_execution_options().get(_WRITES):
                raise errors.UsageError("Nothing is written while a moment is read.")
            yield self.joined
            return
        with translate_errors(self.place), self.engine.connect() as connection:
            connection.execution_options(**{_WRITES: True})
            with connection.begin():
                if not self.path:
                    lock = f"SELECT pg_advisory_xact_lock({_WRITER_LOCK})"
                    connection.execute(sa.text(lock))
                yield connection

    def now(self, connection: sa.Connection) -> datetime:
        """Return the time; on a server its time, which all annotators share."""
        if self.clock:
            return self.clock().astimezone(UTC)
        if self.path:
            return datetime.now(UTC)
        moment: datetime = connection.scalar(sa.text("SELECT clock_timestamp()"))
        return moment.astimezone(UTC)


def connect(
    place: str | Path, busy_seconds: float
) -> tuple[sa.Engine, str, Path | None]:
    """Return an engine for a store, its place for messages, and its file if it is one.

    No connection is opened yet.
    """
    url = store_url(place)
    if url.get_backend_name() == "sqlite":
        path = Path(str(url.database))
        check_drive(path)
        return _sqlite_engine(url, path, busy_seconds), str(path), path
    milliseconds = max(1, round(busy_seconds * 1000))  # 0 would mean: for ever
    options = f"-c lock_timeout={milliseconds} -c synchronous_commit=on"
    arguments: dict[str, object] = {"options": options}
    if "connect_timeout" not in url.query:  # without it, minutes if nobody answers
        arguments["connect_timeout"] = max(1, round(busy_seconds))
    try:
        engine = create_engine(url, connect_args=arguments, pool_pre_ping=True)
    except ModuleNotFoundError as error:
        raise errors.StoreError(
            "A driver is not installed. Run: pip install 'fewlabels[postgres]'"
        ) from error
    return engine, without_secrets(url), None


def _sqlite_engine(url: sa.URL, path: Path, busy_seconds: float) -> sa.Engine:
    """Return an engine; read-only in a folder that cannot be written to."""
    is_read_only = os.access(path, os.R_OK) and not os.access(path.parent, os.W_OK)
    if is_read_only:
        log = path.with_name(f"{path.name}-wal")
        # The log needs a second file, which cannot be created there. Without a log
        # there is no writer either.
        is_still = not log.exists() or not log.stat().st_size
        query = {"mode": "ro", "uri": "true"} | ({"immutable": "1"} if is_still else {})
        url = sa.URL.create("sqlite", database=f"file:{quote(str(path))}", query=query)
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
        # On macOS fsync is not enough.
        for setting in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}")
        connection.execute("PRAGMA trusted_schema=OFF")

    @event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
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


def streamed(connection: sa.Connection, query: sa.Select[Any]) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query, with a thousand in memory at a time."""
    options = {"yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        yield from rows  # closed also if the reader stops halfway


def rows_with(
    connection: sa.Connection,
    query: sa.Select[Any],
    column: sa.ColumnElement[Any],
    entries: Iterable[Any] | None,
) -> Iterator[sa.Row[Any]]:
    """Yield the rows of a query with some entries in a column; None: all rows."""
    if entries is None:
        yield from streamed(connection, query)
        return
    for some in chunked(entries):
        yield from streamed(connection, query.where(column.in_(some)))


def analyze(connection: sa.Connection, table: sa.Table) -> None:
    """Update PostgreSQL's statistics of a table that has grown by much.

    It does so by itself every minute or so. Until then it plans for an empty table, and
    reading 10,000 labels takes seconds instead of a third of one.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text(f"ANALYZE {table.name}"))
