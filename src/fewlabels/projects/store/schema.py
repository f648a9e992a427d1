"""The tables of a label store, and the checks before one is used.

The statements below are the schema. SQLAlchemy reads the tables that queries name from
an empty database in memory, so that nothing is said twice.

A database notices when its own structure is broken, and not when a byte of somebody's
label becomes another. Each table therefore has a checksum over all its rows in the
order of their keys, renewed in every transaction that changes the table. It is a chain:
the hash of the checksum so far and the next rows. Events, which are only ever added,
are links of their own, so that one more costs the same however many there are.
"""

import json
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from fewlabels import files
from fewlabels.errors import DamagedStoreError, NewerStoreError, StoreError
from fewlabels.projects.store import database
from fewlabels.projects.store.database import UnreadableValueError, damaged
from fewlabels.projects.store.records import canonical

SCHEMA_VERSION = 1

PRESENT, MISSING = "present", "missing"
"""States of an item: its file is there, or was not when files were last listed."""

_UNCHANGING = ("events", "rounds", "round_items")

_STATEMENTS = (  # {text} stands for text that sorts by its bytes
    "CREATE TABLE schema_version (version INTEGER)",
    """CREATE TABLE items (
        id {text} PRIMARY KEY,
        path {text} NOT NULL,
        digest {text} NOT NULL,
        duplicates {text} NOT NULL,
        size BIGINT NOT NULL,
        mtime_ns BIGINT NOT NULL,
        state {text} NOT NULL CHECK (state IN ('present', 'missing')),
        details {text} NOT NULL,
        UNIQUE (path, digest))""",
    """CREATE TABLE classes (
        number INTEGER PRIMARY KEY,
        name {text} NOT NULL UNIQUE,
        active BOOLEAN NOT NULL)""",
    """CREATE TABLE rounds (
        step INTEGER PRIMARY KEY,
        strategy {text} NOT NULL,
        options {text} NOT NULL,
        seed BIGINT,
        model {text},
        candidates_digest {text},
        created {text} NOT NULL)""",
    """CREATE TABLE round_items (
        round INTEGER NOT NULL REFERENCES rounds (step),
        rank INTEGER NOT NULL,
        item {text} NOT NULL REFERENCES items (id),
        role {text} NOT NULL CHECK (role IN ('query', 'audit')),
        PRIMARY KEY (round, rank),
        UNIQUE (round, item))""",
    "CREATE INDEX round_items_by_item ON round_items (item, round)",
    """CREATE TABLE events (
        sequence BIGINT PRIMARY KEY,
        uuid {text} NOT NULL UNIQUE,
        kind {text} NOT NULL,
        annotator {text} NOT NULL,
        item {text} REFERENCES items (id),
        class_number INTEGER REFERENCES classes (number),
        target BIGINT REFERENCES events (sequence),
        root BIGINT REFERENCES events (sequence),
        client_time {text},
        server_time {text} NOT NULL,
        round INTEGER REFERENCES rounds (step),
        strategy {text},
        model {text},
        payload {text} NOT NULL,
        CHECK ((kind = 'undo') = (target IS NOT NULL)),
        CHECK ((target IS NULL) = (root IS NULL)))""",
    "CREATE INDEX events_by_item ON events (item, annotator, sequence)",
    "CREATE INDEX events_by_annotator ON events (annotator, sequence)",
    "CREATE INDEX events_by_root ON events (root) WHERE root IS NOT NULL",
    """CREATE TABLE leases (
        item {text} NOT NULL REFERENCES items (id),
        annotator {text} NOT NULL,
        token {text} NOT NULL,
        granted {text} NOT NULL,
        expires {text} NOT NULL,
        PRIMARY KEY (item, annotator))""",
    "CREATE TABLE checksums (name {text} PRIMARY KEY, checksum {text} NOT NULL)",
    # A verdict holds while an even number of undos lead to it (see `events`).
    """CREATE VIEW in_force AS
        SELECT * FROM events AS e
        WHERE kind IN ('label', 'relabel', 'skip', 'unsure')
        AND (SELECT count(*) FROM events AS u WHERE u.root = e.sequence) % 2 = 0""",
    # The last event in force of each annotator on each item.
    """CREATE VIEW verdicts AS
        SELECT item, annotator, kind, class_number, sequence, uuid, server_time,
            round, strategy, model
        FROM in_force AS v
        WHERE NOT EXISTS (
            SELECT 1 FROM in_force AS later
            WHERE later.item = v.item AND later.annotator = v.annotator
            AND later.sequence > v.sequence)""",
)

_ON_SQLITE = tuple(
    f"""CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
        BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"""
    for table in _UNCHANGING
    for verb in ("UPDATE", "DELETE")
)

_ON_POSTGRESQL = (
    """CREATE FUNCTION fewlabels_unchanging() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION '% are never changed', TG_TABLE_NAME; END $$""",
    *(
        f"""CREATE TRIGGER {table}_unchanging
        BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
        FOR EACH STATEMENT EXECUTE FUNCTION fewlabels_unchanging()"""
        for table in _UNCHANGING
    ),
)


# ------------------------------------------------------------------------- tables


class Json(TypeDecorator[Any]):
    """A JSON value; equal values are stored as equal texts."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: Dialect) -> str | None:
        """Return a value as text."""
        return None if value is None else canonical(value)

    def process_result_value(self, value: str | None, _: Dialect) -> Any:
        """Return a value from its text."""
        try:
            return None if value is None else files.parse_json(value)
        except (ValueError, TypeError) as error:
            raise UnreadableValueError(f"a value is not JSON: {value!r:.80}") from error


class Moment(TypeDecorator[datetime]):
    """A time as text in UTC, which is the same on all databases and sorts by time."""

    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> str | None:
        """Return a time as text."""
        return (
            value.astimezone(UTC).isoformat(timespec="microseconds") if value else None
        )

    def process_result_value(self, value: str | None, _: Dialect) -> datetime | None:
        """Return a time from its text."""
        try:
            return None if value is None else datetime.fromisoformat(value)
        except (ValueError, TypeError) as error:
            raise UnreadableValueError(f"{value!r:.80} is not a time") from error


def _create(connection: sa.Connection) -> None:
    """Create all tables, views and triggers."""
    is_sqlite = connection.dialect.name == "sqlite"
    kind = "TEXT" if is_sqlite else 'TEXT COLLATE "C"'
    for statement in (*_STATEMENTS, *(_ON_SQLITE if is_sqlite else _ON_POSTGRESQL)):
        connection.execute(sa.text(statement.replace("{text}", kind)))


def _schema(connection: sa.Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return table and statement of each entry of a SQLite schema, by type and name."""
    query = "SELECT type, name, tbl_name, sql FROM sqlite_master"
    rows = connection.execute(sa.text(query))
    return {(kind, name): (table, sql) for kind, name, table, sql in rows}


METADATA = sa.MetaData()


def _table(name: str, **types: type[TypeDecorator[Any]]) -> sa.Table:
    columns = [sa.Column(column, kind) for column, kind in types.items()]
    return sa.Table(name, METADATA, *columns, autoload_with=_EMPTY)


with sa.create_engine("sqlite://").begin() as _EMPTY:
    _create(_EMPTY)
    _EXPECTED = _schema(_EMPTY)
    VERSION = _table("schema_version")
    ITEMS = _table("items", details=Json)
    CLASSES = _table("classes")
    ROUNDS = _table("rounds", options=Json, created=Moment)
    ROUND_ITEMS = _table("round_items")
    EVENTS = _table("events", client_time=Moment, server_time=Moment, payload=Json)
    LEASES = _table("leases", granted=Moment, expires=Moment)
    CHECKSUMS = _table("checksums")
    IN_FORCE = _table("in_force", server_time=Moment)
    VERDICTS = _table("verdicts", server_time=Moment)
_EMPTY.engine.dispose()

CHECKED = (ITEMS, CLASSES, ROUNDS, ROUND_ITEMS, EVENTS)

# ---------------------------------------------------------------------- checksums


def written_checksums(connection: sa.Connection) -> dict[str, str]:
    """Return the stored checksums by the names of their tables."""
    rows = connection.execute(sa.select(CHECKSUMS))
    return {row.name: row.checksum for row in rows}


def renew_checksums(
    connection: sa.Connection, *tables: sa.Table, after: int = 0
) -> None:
    """Write the checksums of tables that were changed in this transaction.

    Args:
        connection: The connection of the transaction.
        *tables: The tables; none for all.
        after: Number of the last event before the transaction, whose checksum is
            extended by those after it; 0 to read all events.
    """
    for table in tables or CHECKED:
        before = written_checksums(connection)[table.name] if after else ""
        checksum = _checksum(connection, table, before, after)
        is_table = CHECKSUMS.c.name == table.name
        connection.execute(sa.delete(CHECKSUMS).where(is_table))
        values = {"name": table.name, "checksum": checksum}
        connection.execute(CHECKSUMS.insert(), values)


def _checksum(
    connection: sa.Connection, table: sa.Table, checksum: str = "", after: int = 0
) -> str:
    """Return the checksum of a table; of events also from the one up to a number."""
    columns = (
        sa.type_coerce(column, sa.Text)
        if isinstance(column.type, TypeDecorator)
        else column
        for column in table.columns
    )
    query = sa.select(*columns).order_by(*table.primary_key.columns)
    at_once = database.ROWS_AT_ONCE
    if table is EVENTS:
        query, at_once = query.where(EVENTS.c.sequence > after), 1
    streamed = database.streamed(connection, query)
    for rows in database.chunked(streamed, at_once):
        # Only damage puts bytes, which JSON cannot hold, into a column.
        link = json.dumps([checksum, *map(tuple, rows)], default=repr)
        checksum = blake2b(link.encode(), digest_size=16).hexdigest()
    return checksum


# ------------------------------------------------------------------------ opening


def make_ready(store: database.Database, *, create: bool) -> None:
    """Check a store before anything is written there, or create one if that is allowed.

    Only the schema and the version are read before the schema is known to be ours:
    an untrusted view could return anything, or never end.
    """
    path, place, version = store.path, store.place, 0
    with files.wrap_os_errors(path or Path(place)):
        if path is not None and not path.parent.is_dir():
            raise StoreError(f"There is no folder for a label store '{place}'.")
        has_content = path is None or (path.exists() and path.stat().st_size > 0)
    if has_content:
        with store.read_connection() as connection:
            if path:
                _check_schema(connection, place)
                integrity = connection.scalar(sa.text("PRAGMA integrity_check(1)"))
                if integrity != "ok":
                    raise damaged(place, str(integrity))
            version = _version(connection, place)
    if not version and not create:
        raise StoreError(
            f"There is no label store in '{place}'. Put the newest backup there."
        )
    if not version:
        with store.write_connection() as connection:
            if not _version(connection, place):  # nobody was faster
                _create(connection)
                connection.execute(VERSION.insert(), {"version": SCHEMA_VERSION})
                renew_checksums(connection)
    with store.read_connection() as connection:
        written = written_checksums(connection)
        for table in CHECKED:
            if written.get(table.name) != _checksum(connection, table):
                raise damaged(place, f"the checksum of '{table.name}' does not fit")


def _check_schema(connection: sa.Connection, place: str) -> None:
    """Refuse a file whose tables, views, triggers and indexes are not ours."""
    actual, expected, key = _schema(connection), _EXPECTED, ("table", VERSION.name)
    if actual.get(key) == expected[key]:
        _version(connection, place)  # a newer version is an error of its own
    else:
        expected = {}
    for kind, name in sorted(actual.keys() | expected.keys()):
        if actual.get((kind, name)) != expected.get((kind, name)):
            raise _foreign(place, f"{kind} '{name}'")


def _version(connection: sa.Connection, place: str) -> int:
    """Return the version of a store, 0 if there is none; refuse a newer one."""
    names = set(sa.inspect(connection).get_table_names())
    if VERSION.name not in names:
        others = names & set(METADATA.tables)
        if others:
            raise _foreign(place, f"table '{min(others)}'")
        return 0
    versions = connection.execute(sa.select(VERSION).limit(4)).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise damaged(place, f"its table {VERSION.name} holds {list(versions)[:3]}")
    if versions[0] > SCHEMA_VERSION:
        raise NewerStoreError(
            f"'{place}' is of the newer version {versions[0]}; update fewlabels."
        )
    return versions[0]


def _foreign(place: str, what: str) -> DamagedStoreError:
    return DamagedStoreError(
        f"'{place}' holds a {what} that fewlabels did not make, or lacks its own. Give "
        "another file or an empty database, or put the newest backup there."
    )
