"""Backups and exports while somebody writes; stores that grow older."""

import json
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime

import pytest
from sqlalchemy import inspect, text
from tests.store.toy import current, fill, label

from fewlabels.errors import NewerStoreError, StoreError, UsageError
from fewlabels.store import Event, Kind, RoundItem, Store, StoredRound, migrations
from fewlabels.store.migrations import MIGRATIONS, Migration
from fewlabels.store.schema import METADATA, VIEWS

NEWER = Migration(
    statements=(
        "ALTER TABLE items ADD COLUMN note {text}",
        "UPDATE items SET note = 'old'",
    )
)
BROKEN = Migration(statements=(*NEWER.statements, "SELECT nonsense FROM nowhere"))


def everything(store):
    """Return all that a store holds, without leases."""
    return (
        list(store.events()),
        list(store.items(with_missing=True)),
        store.classes(),
        store.rounds(),
        store.verdicts(),
    )


def test_a_backup_is_a_store_with_everything_in_it(store, tmp_path):
    one, two, _ = fill(store)
    store.add_round(StoredRound(step=0, strategy="npc", items=(RoundItem(one),)))
    store.append([label(one, 1, payload={"seconds": 2}), label(two, round=0)])
    store.undo("ann")
    number = store.backup(tmp_path / "copy.sqlite")
    assert number == len(list(store.events()))
    assert not list(tmp_path.glob("copy.sqlite?*"))
    with Store.open(tmp_path / "copy.sqlite", create=False) as copy:
        assert everything(copy) == everything(store)
        copy.append([label(two, 2)])
    assert current(store) == {(one, "ann"): 1}


def test_a_backup_never_replaces_a_file(store, tmp_path):
    (tmp_path / "there").write_text("precious")
    with pytest.raises(UsageError, match="exists already"):
        store.backup(tmp_path / "there")
    assert (tmp_path / "there").read_text() == "precious"


def test_copies_made_while_somebody_writes_are_of_one_moment(store, place, tmp_path):
    """Each writing adds two labels at once: no copy may hold one of them alone."""
    items = fill(store, 400)
    stop, failed = threading.Event(), []

    def write():
        with Store.open(place) as other:
            for one, two in zip(items[::2], items[1::2], strict=True):
                if stop.is_set():
                    return
                try:
                    other.append([label(one), label(two)])
                except StoreError as error:
                    failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    try:
        for number in range(3):
            store.backup(tmp_path / f"{number}.sqlite")
            store.export_events(tmp_path / f"{number}.jsonl")
            with Store.open(tmp_path / f"{number}.sqlite") as copy:
                seen.append(len(copy.labels()))
            lines = (tmp_path / f"{number}.jsonl").read_text("utf-8").splitlines()
            seen.append(len(lines) - 3)
    finally:
        stop.set()
        writer.join()
    assert not failed
    assert all(number % 2 == 0 for number in seen)
    assert seen == sorted(seen)
    assert len(store.labels()) >= seen[-1]


def test_exported_events_are_whole(store, tmp_path):
    item = fill(store)[0]
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    given = label(item, 1, client_time=noon, payload={"über": 1})
    undo = Event(kind=Kind.UNDO, annotator="ann", target=given.uuid)
    store.append([given, undo])
    assert store.export_events(tmp_path / "events.jsonl") == 5
    lines = (tmp_path / "events.jsonl").read_text("utf-8").splitlines()
    *_, first, last = map(json.loads, lines)
    assert list(first)[:2] == ["schema_version", "sequence"]
    assert first["uuid"] == given.uuid
    assert first["kind"] == "label"
    assert first["client_time"] == noon.isoformat()
    assert first["payload"] == {"über": 1}
    assert (last["target"], last["item"]) == (given.uuid, item)


# -------------------------------------------------------------------------- versions


def test_the_tables_are_those_that_queries_know(store):
    with store.database.reading() as connection:
        for metadata in (METADATA, VIEWS):
            for name, table in metadata.tables.items():
                there = {c["name"] for c in inspect(connection).get_columns(name)}
                assert there == set(table.columns.keys()), name


def older(place, newer, monkeypatch):
    """Make a store, then pretend that the program has one migration more."""
    with Store.open(place) as store:
        item = fill(store)[0]
        store.append([label(item, 1)])
        before = everything(store)
    monkeypatch.setattr(migrations, "MIGRATIONS", (*MIGRATIONS, newer))
    return before


def test_an_older_store_is_copied_and_brought_up_to_date(place, monkeypatch):
    before = older(place, NEWER, monkeypatch)
    with Store.open(place) as store:
        assert everything(store) == before
        with store.database.reading() as connection:
            query = text("SELECT DISTINCT note FROM items")
            assert connection.execute(query).scalar_one() == "old"
            version = text("SELECT version FROM schema_version")
            assert connection.execute(version).scalar_one() == len(MIGRATIONS) + 1
            if store.database.path is None:
                table = f"version_{len(MIGRATIONS)}_events"
                copied = text(f"SELECT count(*) FROM {table}")
                assert connection.execute(copied).scalar() == len(before[0])
        path = store.database.path
    if path:
        monkeypatch.undo()
        copied = path.with_name(f"{path.name}.version-{len(MIGRATIONS)}")
        with Store.open(copied) as copy:
            assert everything(copy) == before
    monkeypatch.undo()
    with pytest.raises(NewerStoreError, match=r"is of version 4, .* up to 3"):
        Store.open(place)


def test_a_migration_that_fails_changes_nothing(place, monkeypatch):
    before = older(place, BROKEN, monkeypatch)
    with pytest.raises(StoreError):
        Store.open(place)
    monkeypatch.undo()
    with Store.open(place) as store:
        assert everything(store) == before


def test_a_newer_store_is_refused_and_left_alone(place, tmp_path):
    with Store.open(place) as store:
        with store.database.writing() as connection:
            connection.execute(text("UPDATE schema_version SET version = 99"))
        with pytest.raises(NewerStoreError, match=r"version 99.*update fewlabels"):
            Store.open(place)
        with store.database.reading() as connection:
            found = connection.execute(text("SELECT version FROM schema_version"))
            assert found.scalar_one() == 99
    assert not list(tmp_path.glob("*version*"))


def test_a_backup_is_one_plain_file(tmp_path):
    with Store.open(tmp_path / "labels.sqlite") as store:
        item = fill(store)[0]
        store.append([label(item)])  # still in the write-ahead log
        store.backup(tmp_path / "copy.sqlite")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (4,)
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)
