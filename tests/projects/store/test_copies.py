"""Backups while somebody writes, and stores of other versions."""

import sqlite3
import threading
from contextlib import closing

import pytest
from sqlalchemy import inspect, text
from tests.projects.store.toy import all_items, current, fill, label

from fewlabels.errors import NewerStoreError, StoreError, UsageError
from fewlabels.projects.store import RoundItem, Store, StoredRound
from fewlabels.projects.store.schema import METADATA


def everything(store):
    """Return all that a store holds, without leases."""
    return (
        list(store.events()),
        all_items(store),
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
            with Store.open(tmp_path / f"{number}.sqlite") as copy:
                seen.append(len(copy.labels()))
            seen.append(len(list(store.events())) - 3)
    finally:
        stop.set()
        writer.join()
    assert not failed
    assert all(number % 2 == 0 for number in seen)
    assert seen == sorted(seen)
    assert len(store.labels()) >= seen[-1]


def test_the_tables_are_those_that_queries_know(store):
    with store.read_connection() as connection:
        for name, table in METADATA.tables.items():
            there = [c["name"] for c in inspect(connection).get_columns(name)]
            assert there == table.columns.keys(), name


def test_a_newer_store_is_refused_and_left_alone(place, tmp_path):
    with Store.open(place) as store:
        with store.write_connection() as connection:
            connection.execute(text("UPDATE schema_version SET version = 99"))
        with pytest.raises(NewerStoreError, match=r"version 99.*update fewlabels"):
            Store.open(place)
        with store.read_connection() as connection:
            found = connection.execute(text("SELECT version FROM schema_version"))
            assert found.scalar_one() == 99


def test_a_backup_is_one_plain_file(tmp_path):
    with Store.open(tmp_path / "labels.sqlite") as store:
        item = fill(store)[0]
        store.append([label(item)])  # still in the write-ahead log
        store.backup(tmp_path / "copy.sqlite")
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as copy:
        assert copy.execute("SELECT count(*) FROM events").fetchone() == (4,)
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)
