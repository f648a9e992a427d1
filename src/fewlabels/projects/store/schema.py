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

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    Select,
    Table,
    Text,
    create_engine,
    delete,
    inspect,
    select,
    text,
    type_coerce,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator

from fewlabels import files
from fewlabels.errors import DamagedStoreError, NewerStoreError, StoreError
from fewlabels.projects.store.database import (
    ROWS_AT_ONCE,
    Database,
    UnreadableValueError,
    damaged,
)
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
    "CREATE INDEX items_by_digest ON items (digest)",
    "CREATE INDEX items_by_duplicates ON items (duplicates)",
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
    """A JSON value, written one way only so that equal values are equal texts."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _: Dialect) -> str | None:
        """Write a value down."""
        return None if value is None else canonical(value)

    def process_result_value(self, value: str | None, _: Dialect) -> Any:
        """Read a value back."""
        try:
            return None if value is None else files.parse_json(value)
        except (ValueError, TypeError) as error:
            raise UnreadableValueError(f"a value is not JSON: {value!r:.80}") from error


class Moment(TypeDecorator[datetime]):
    """A moment, as text in UTC: equal on all databases, sorted like time itself."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: datetime | None, _: Dialect) -> str | None:
        """Write a moment down."""
        if value is None:
            return None
        return value.astimezone(UTC).isoformat(timespec="microseconds")

    def process_result_value(self, value: str | None, _: Dialect) -> datetime | None:
        """Read a moment back."""
        try:
            return None if value is None else datetime.fromisoformat(value)
        except (ValueError, TypeError) as error:
            msg = f"a value is not a time: {value!r:.80}"
            raise UnreadableValueError(msg) from error


def _create(connection: Connection) -> None:
    """Make all tables, views and triggers."""
    is_sqlite = connection.dialect.name == "sqlite"
    kind = "TEXT" if is_sqlite else 'TEXT COLLATE "C"'
    for statement in (*_STATEMENTS, *(_ON_SQLITE if is_sqlite else _ON_POSTGRESQL)):
        connection.execute(text(statement.replace("{text}", kind)))


def _schema(connection: Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return table and statement of all that a SQLite database holds."""
    rows = connection.execute(
        text("SELECT type, name, tbl_name, sql FROM sqlite_master")
    )
    return {(row.type, row.name): (row.tbl_name, row.sql) for row in rows}


METADATA = MetaData()


def _table(name: str, **types: type[TypeDecorator[Any]]) -> Table:
    own = [Column(column, kind) for column, kind in types.items()]
    return Table(name, METADATA, *own, autoload_with=_EMPTY)


with create_engine("sqlite://").begin() as _EMPTY:
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
    IN_FORCE = _table("in_force")
    VERDICTS = _table("verdicts", server_time=Moment)

CHECKED = (ITEMS, CLASSES, ROUNDS, ROUND_ITEMS, EVENTS)

# ---------------------------------------------------------------------- checksums


def written_checksums(connection: Connection) -> dict[str, str]:
    """Return the checksums as they were written, by the names of their tables."""
    rows = connection.execute(select(CHECKSUMS))
    return {row.name: row.checksum for row in rows}


def renew_checksums(connection: Connection, *tables: Table) -> None:
    """Write the checksums of tables changed in this transaction; none given: of all."""
    for table in tables or CHECKED:
        _write_checksum(connection, table, _checksum(connection, table))


def extend_checksum(connection: Connection, last: int) -> None:
    """Write the checksum of the events after ``last``, added in this transaction."""
    before = written_checksums(connection)[EVENTS.name]
    added = _raw(EVENTS).where(EVENTS.c.sequence > last)
    _write_checksum(connection, EVENTS, _chained(connection, added, before, 1))


def _checksum(connection: Connection, table: Table) -> str:
    at_once = 1 if table is EVENTS else ROWS_AT_ONCE
    return _chained(connection, _raw(table), "", at_once)


def _raw(table: Table) -> Select[Any]:
    """Select the columns of a table as the database holds them."""
    columns = (
        type_coerce(column, Text) if isinstance(column.type, TypeDecorator) else column
        for column in table.columns
    )
    return select(*columns).order_by(*table.primary_key.columns)


def _chained(
    connection: Connection, query: Select[Any], checksum: str, at_once: int
) -> str:
    """Return a checksum after more rows, so many in each link of the chain."""
    options = {"yield_per": ROWS_AT_ONCE}
    with connection.execute(query, execution_options=options) as rows:
        for some in rows.partitions(at_once):
            # Only damage puts bytes, which JSON does not know, into a column.
            link = json.dumps([checksum, *map(tuple, some)], default=repr)
            checksum = blake2b(link.encode(), digest_size=16).hexdigest()
    return checksum


def _write_checksum(connection: Connection, table: Table, checksum: str) -> None:
    connection.execute(delete(CHECKSUMS).where(CHECKSUMS.c.name == table.name))
    connection.execute(CHECKSUMS.insert(), {"name": table.name, "checksum": checksum})


# ------------------------------------------------------------------------ opening


def make_ready(database: Database, *, create: bool) -> None:
    """Check a store before anything is written there, or make one if that is wanted.

    Nothing but the list of what a file holds, and the number of the version, is read
    before the former is known to be ours: a stranger's view could answer anything, or
    never end.
    """
    path, place = database.path, database.place
    version = 0
    if path is None or _has_content(path):
        with database.read_connection() as connection:
            if path:
                _check_schema(connection, place)
                intact = connection.scalar(text("PRAGMA integrity_check(1)"))
                if intact != "ok":
                    raise damaged(place, str(intact))
            version = _version(connection, place)
    if not version and not create:
        raise StoreError(
            f"There is no label store in '{place}'. If there was one, put the newest "
            "backup there; nothing was changed."
        )
    if not version:
        with database.write_connection() as connection:
            if not _version(connection, place):  # nobody was faster
                _create(connection)
                connection.execute(VERSION.insert(), {"version": SCHEMA_VERSION})
                renew_checksums(connection)
    with database.read_connection() as connection:
        known = written_checksums(connection)
        for table in CHECKED:
            if known.get(table.name) != _checksum(connection, table):
                raise damaged(place, f"the checksum of '{table.name}' does not fit")


def _has_content(path: Path) -> bool:
    """Say whether a file is there and not empty; refuse a folder that is not there."""
    with files.wrap_os_errors(path):
        has_folder = path.parent.is_dir()
        has_content = path.exists() and path.stat().st_size > 0
    if not has_folder:
        msg = f"There is no folder '{path.parent}' for a label store; make it first."
        raise StoreError(msg)
    return has_content


def _check_schema(connection: Connection, place: str) -> None:
    """Refuse a file with a table, view, trigger or index that is not ours."""
    actual, expected, key = _schema(connection), _EXPECTED, ("table", VERSION.name)
    if actual.get(key) != expected[key]:
        expected = {}
    else:
        _version(connection, place)  # of a newer one it says just that
    for kind, name in sorted(actual.keys() | expected.keys()):
        if (kind, name) not in actual:
            raise damaged(place, f"its {kind} '{name}' is missing")
        if actual[kind, name] != expected.get((kind, name)):
            raise _not_ours(place, f"{kind} '{name}'")


def _version(connection: Connection, place: str) -> int:
    """Return the version of a store, 0 where there is none; refuse a newer one."""
    names = set(inspect(connection).get_table_names())
    if VERSION.name not in names:
        others = names & set(METADATA.tables)
        if others:
            raise _not_ours(place, f"table '{min(others)}'")
        return 0
    versions = connection.execute(select(VERSION).limit(4)).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise damaged(place, f"its table {VERSION.name} holds {list(versions)[:3]}")
    if versions[0] > SCHEMA_VERSION:
        raise NewerStoreError(
            f"The label store '{place}' is of version {versions[0]}, and this "
            f"fewlabels knows versions up to {SCHEMA_VERSION}. Nothing was changed; "
            "update fewlabels."
        )
    return versions[0]


def _not_ours(place: str, what: str) -> DamagedStoreError:
    return DamagedStoreError(
        f"'{place}' holds a {what} that fewlabels did not make, so it belongs to "
        "something else or was tampered with. Nothing was changed; give another file "
        "or an empty database, or put the newest backup there."
    )
