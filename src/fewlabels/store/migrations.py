"""How a label store grows from one version of its tables to the next.

Each migration is a list of statements that run in one transaction, so that a store is
always of one version. A migration that was released is never changed: the next change
is the next one in the list. Before an older store is touched it is copied: on SQLite to
a file beside it, on a server to tables beside its own.
"""

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from sqlalchemy import Connection, create_engine, inspect, select, text, update

from fewlabels.errors import DamagedStoreError, NewerStoreError
from fewlabels.store import checksums
from fewlabels.store.copies import copy_file
from fewlabels.store.database import Database
from fewlabels.store.failures import damaged
from fewlabels.store.schema import METADATA, VERSION


@dataclass(frozen=True)
class Migration:
    """One step from a version to the next."""

    statements: tuple[str, ...]
    """For both databases; ``{text}`` stands for text that sorts by its bytes."""
    on_sqlite: tuple[str, ...] = ()
    on_postgresql: tuple[str, ...] = ()


_UNCHANGING = ("events", "rounds", "round_items")

_FIRST = Migration(
    statements=(
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
            round INTEGER NOT NULL REFERENCES rounds,
            rank INTEGER NOT NULL,
            item {text} NOT NULL REFERENCES items,
            role {text} NOT NULL CHECK (role IN ('query', 'audit')),
            PRIMARY KEY (round, rank),
            UNIQUE (round, item))""",
        """CREATE TABLE events (
            sequence BIGINT PRIMARY KEY,
            uuid {text} NOT NULL UNIQUE,
            kind {text} NOT NULL,
            annotator {text} NOT NULL,
            item {text} REFERENCES items,
            class_number INTEGER REFERENCES classes,
            target BIGINT REFERENCES events,
            root BIGINT REFERENCES events,
            client_time {text},
            server_time {text} NOT NULL,
            round INTEGER REFERENCES rounds,
            strategy {text},
            model {text},
            payload {text} NOT NULL,
            CHECK ((kind = 'undo') = (target IS NOT NULL)),
            CHECK ((target IS NULL) = (root IS NULL)))""",
        "CREATE INDEX events_by_item ON events (item, annotator, sequence)",
        "CREATE INDEX events_by_annotator ON events (annotator, sequence)",
        "CREATE INDEX events_by_root ON events (root) WHERE root IS NOT NULL",
        """CREATE TABLE leases (
            item {text} NOT NULL REFERENCES items,
            annotator {text} NOT NULL,
            token {text} NOT NULL,
            expires {text} NOT NULL,
            PRIMARY KEY (item, annotator))""",
        # A verdict holds while an even number of undos lead to it (see `appending`).
        """CREATE VIEW in_force AS
            SELECT * FROM events AS e
            WHERE kind IN ('label', 'relabel', 'skip', 'unsure')
            AND (SELECT count(*) FROM events AS u WHERE u.root = e.sequence) % 2 = 0""",
        """CREATE VIEW verdicts AS
            SELECT item, annotator, kind, class_number, sequence, uuid, server_time,
                round, strategy, model
            FROM in_force AS v
            WHERE NOT EXISTS (
                SELECT 1 FROM in_force AS later
                WHERE later.item = v.item AND later.annotator = v.annotator
                AND later.sequence > v.sequence)""",
    ),
    on_sqlite=tuple(
        f"""CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table}
            BEGIN SELECT RAISE(ABORT, '{table} are never changed'); END"""
        for table in _UNCHANGING
        for verb in ("UPDATE", "DELETE")
    ),
    on_postgresql=(
        """CREATE FUNCTION fewlabels_unchanging() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION '% are never changed', TG_TABLE_NAME; END $$""",
        *(
            f"""CREATE TRIGGER {table}_unchanging
            BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
            FOR EACH STATEMENT EXECUTE FUNCTION fewlabels_unchanging()"""
            for table in _UNCHANGING
        ),
    ),
)

_CHECKSUMS = Migration(
    statements=(
        """CREATE TABLE checksums (
            name {text} PRIMARY KEY,
            checksum {text} NOT NULL)""",
    ),
)

_GRANTED = Migration(
    statements=(
        "DROP TABLE leases",
        """CREATE TABLE leases (
            item {text} NOT NULL REFERENCES items,
            annotator {text} NOT NULL,
            token {text} NOT NULL,
            granted {text} NOT NULL,
            expires {text} NOT NULL,
            PRIMARY KEY (item, annotator))""",
        "CREATE INDEX round_items_by_item ON round_items (item, round)",
    ),
)

MIGRATIONS = (_FIRST, _CHECKSUMS, _GRANTED)
"""All of them; the version of a store is how many it has been through."""


def upgrade(database: Database, migrations: tuple[Migration, ...]) -> Path | None:
    """Return the copy of a file that was older, after bringing a store up to date.

    Its tables are made where there are none. None: nothing was copied to a file.
    """
    with database.reading() as connection:
        old = _version(connection, database.place)
    _check_not_newer(old, len(migrations), database.place)
    if old == len(migrations):
        return None
    copied = None
    with database.writing() as connection:
        old = _version(connection, database.place)  # somebody may have been faster
        _check_not_newer(old, len(migrations), database.place)
        if 0 < old < len(migrations):
            copied = _copy(database, connection, old)
        for migration in migrations[old:]:
            _apply(connection, migration)
        _write_version(connection, len(migrations))
        if checksums.are_kept(connection):
            checksums.renew_all(connection)
    return copied


def is_empty(database: Database) -> bool:
    """Say whether a database holds no label store yet."""
    with database.reading() as connection:
        return _version(connection, database.place) == 0


def check_schema(database: Database, migrations: tuple[Migration, ...]) -> None:
    """Refuse a file with a table, view, trigger or index that fewlabels did not make.

    Somebody else's view could answer anything, or never end. Nothing but the list of
    what there is, and the number of the version, is read before this.
    """
    with database.reading() as connection:
        actual = _schema(connection)
        key = ("table", VERSION.name)
        version = 0
        if key in actual and actual[key] == _expected_schema(())[key]:
            version = _version(connection, database.place)
            _check_not_newer(version, len(migrations), database.place)
        expected = _expected_schema(migrations[:version]) if version else {}
    for kind, name in sorted(actual.keys() | expected.keys()):
        if (kind, name) not in actual:
            raise damaged(database.place, f"its {kind} '{name}' is missing")
        if actual[kind, name] != expected.get((kind, name)):
            raise DamagedStoreError(
                f"'{database.place}' holds a {kind} '{name}' that fewlabels did not "
                "make, so it belongs to something else or was tampered with. Nothing "
                "was changed; give another file, or put the newest backup there."
            )


def _schema(connection: Connection) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return table and statement of all that a SQLite database holds."""
    rows = connection.execute(
        text("SELECT type, name, tbl_name, sql FROM sqlite_master")
    )
    return {(row.type, row.name): (row.tbl_name, row.sql) for row in rows}


@cache
def _expected_schema(
    migrations: tuple[Migration, ...],
) -> dict[tuple[str, str], tuple[str, str | None]]:
    """Return what a SQLite database holds after these migrations."""
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        for migration in migrations:
            _apply(connection, migration)
        _write_version(connection, len(migrations))
        schema = _schema(connection)
    engine.dispose()
    return schema


def _version(connection: Connection, place: str) -> int:
    names = set(inspect(connection).get_table_names())
    if VERSION.name in names:
        found = connection.execute(select(VERSION.c.version).limit(4)).scalars().all()
        if len(found) != 1 or not isinstance(found[0], int) or found[0] < 1:
            raise damaged(place, f"its table {VERSION.name} holds {list(found)[:3]}")
        return found[0]
    strange = names & set(METADATA.tables)
    if strange:
        raise DamagedStoreError(
            f"'{place}' holds a table '{min(strange)}' that fewlabels did not make, so "
            "it belongs to something else. Nothing was changed; give another file or "
            "an empty database."
        )
    return 0


def _check_not_newer(version: int, newest: int, place: str) -> None:
    if version > newest:
        raise NewerStoreError(
            f"The label store '{place}' is of version {version}, and this fewlabels "
            f"knows versions up to {newest}. Nothing was changed; update fewlabels."
        )


def _apply(connection: Connection, migration: Migration) -> None:
    is_sqlite = connection.dialect.name == "sqlite"
    kind = "TEXT" if is_sqlite else 'TEXT COLLATE "C"'
    own = migration.on_sqlite if is_sqlite else migration.on_postgresql
    for statement in (*migration.statements, *own):
        connection.execute(text(statement.replace("{text}", kind)))


def _write_version(connection: Connection, version: int) -> None:
    if not inspect(connection).has_table(VERSION.name):
        VERSION.create(connection)
        connection.execute(VERSION.insert(), {"version": version})
    connection.execute(update(VERSION).values(version=version))


def _copy(database: Database, connection: Connection, version: int) -> Path | None:
    if database.path:
        copied = database.path.with_name(f"{database.path.name}.version-{version}")
        copy_file(database, copied)
        return copied
    for name in METADATA.tables:
        if inspect(connection).has_table(name):
            copy = f"version_{version}_{name}"
            connection.execute(text(f'CREATE TABLE "{copy}" AS TABLE "{name}"'))
    return None
