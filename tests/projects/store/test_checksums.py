"""What a store holds is what was written to it, or it is refused."""

import sqlite3
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import text
from tests.projects.store.test_copies import everything
from tests.projects.store.toy import files, fill, found, label

from fewlabels.errors import DamagedStoreError
from fewlabels.projects.store import Event, Kind, RoundItem, Store, StoredRound, schema

DAMAGE = {
    "another class": ("events", "UPDATE events SET class_number = 2 WHERE sequence=4"),
    "another undo": ("events", "UPDATE events SET root = 4 WHERE sequence = 6"),
    "an event lost": ("events", "DELETE FROM events WHERE sequence = 7"),
    "another item asked": ("round_items", "UPDATE round_items SET rank = rank + 5"),
    "another seed": ("rounds", "UPDATE rounds SET seed = 8"),
    "another name": ("classes", "UPDATE classes SET name = 'cot' WHERE number = 0"),
    "another group": ("items", "UPDATE items SET duplicates = 'x' WHERE size = 10"),
    "another file": ("items", "UPDATE items SET path = path || 'x'"),
}


@contextmanager
def unguarded(store, table):
    """Let statements change what the store itself never changes."""
    with store.write_connection() as connection:
        if store.path is None:
            connection.execute(text("SET LOCAL session_replication_role = replica"))
            yield connection
            return
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        triggers = connection.execute(text(query)).all()
        for name, _ in triggers:
            connection.execute(text(f"DROP TRIGGER {name}"))
        yield connection
        for _, statement in triggers:
            connection.exec_driver_sql(statement)


def filled(store):
    """Use all that writes: classes, files, groups, a round, labels, undos."""
    one, two, three = fill(store)
    grouped = [replace(file, group="a") for file in files(2)]
    store.index([*grouped, found("moved.png", f"{2:016x}")])
    asked = (RoundItem(one), RoundItem(two, "audit"))
    store.add_round(StoredRound(step=0, strategy="npc", items=asked, seed=7))
    store.append([label(one, 1, round=0), label(two)])
    store.undo("ann")
    rename = {"class_number": 2, "payload": {"name": "wolf"}}
    store.append([Event(kind=Kind.CLASS_RENAMED, annotator="ann", **rename)])
    store.append([label(three, 2)])


def test_what_was_written_is_opened(place):
    with Store.open(place) as store:
        filled(store)
        before = everything(store)
    with Store.open(place) as store:
        assert everything(store) == before
        store.append([label(next(iter(before[1])), 0)])
    Store.open(place).close()


@pytest.mark.parametrize("kind", DAMAGE)
def test_what_was_not_written_is_refused(place, kind):
    table, statement = DAMAGE[kind]
    with Store.open(place) as store:
        filled(store)
        with unguarded(store, table) as connection:
            assert connection.execute(text(statement)).rowcount
    told = f"the checksum of '{table}' does not fit.*newest backup"
    with pytest.raises(DamagedStoreError, match=told):
        Store.open(place)


def test_a_view_that_says_something_else_is_refused(tmp_path):
    with Store.open(tmp_path / "labels.sqlite") as store:
        filled(store)
        with store.write_connection() as connection:
            query = text("SELECT sql FROM sqlite_master WHERE name = 'in_force'")
            made = connection.execute(query).scalar_one()
            connection.execute(text("DROP VIEW in_force"))
            connection.exec_driver_sql(made.replace("% 2 = 0", "% 2 = 1"))
    with pytest.raises(
        DamagedStoreError, match="a view 'in_force' that fewlabels did not"
    ):
        Store.open(tmp_path / "labels.sqlite")


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT"
FORGED = {
    "view 'verdicts'": (
        "DROP VIEW verdicts",
        f"CREATE VIEW verdicts AS {ENDLESS} i AS item FROM n",
    ),
    "trigger 'more'": (
        f"""CREATE TRIGGER more AFTER INSERT ON leases
            BEGIN SELECT max(i) FROM ({ENDLESS} i FROM n); END""",
    ),
    "table 'more'": ("CREATE TABLE more (number INTEGER)",),
    "view 'more'": (f"CREATE VIEW more AS {ENDLESS} i FROM n",),
    "index 'more'": ("CREATE INDEX more ON items (hex(zeroblob(size)))",),
    "table 'schema_version'": (
        "CREATE TABLE schema_version (n INTEGER, version AS (2))",
    ),
}


@pytest.mark.parametrize("what", FORGED)
def test_a_schema_that_somebody_forged_is_refused(tmp_path, monkeypatch, what):
    path = tmp_path / "labels.sqlite"
    if what == "table 'schema_version'":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(*FORGED[what])
    else:
        with monkeypatch.context() as forger:
            forged = (*schema._STATEMENTS, *FORGED[what])
            forger.setattr(schema, "_STATEMENTS", forged)
            with Store.open(path) as store:
                store.add_classes(["cat"], annotator="mallory")
    before = path.read_bytes()
    with pytest.raises(DamagedStoreError, match=f"holds a {what} that fewlabels did"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_trigger_that_is_gone_is_noticed(tmp_path):
    path = tmp_path / "labels.sqlite"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TRIGGER events_no_DELETE")
    with pytest.raises(DamagedStoreError, match="or lacks its own"):
        Store.open(path)
