"""Events: durable, once each, never changed; labels are a view of them."""

import sqlite3
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

import pytest
from sqlalchemy import text
from tests.projects.store.toy import current, fill, label

from fewlabels.errors import ReplayError, StoreError, UsageError
from fewlabels.projects.store import Event, Kind, LabelClass, Store, new_uuid


def test_what_was_written_is_read_back_as_it_was(store):
    (item, *_) = fill(store)
    noon = datetime(2026, 3, 1, 12, 0, 0, 250, timezone(timedelta(hours=2)))
    given = label(
        item,
        2,
        client_time=noon,
        strategy="npc",
        model="round-3",
        payload={"seconds": 1.5, "über": [1, None, "ß"]},
    )
    (written,) = store.append([given])
    (stored,) = store.events(after=written.sequence - 1)
    assert stored == written
    assert {name: getattr(stored, name) for name in vars(given)} == vars(given)
    assert abs(stored.server_time - datetime.now(UTC)) < timedelta(minutes=5)


def test_events_are_numbered_without_gaps(store):
    items = fill(store)
    with pytest.raises(StoreError):
        store.append([label(items[0]), label("nobody knows me")])
    store.append([label(item) for item in items])
    assert [e.sequence for e in store.events()] == list(range(1, 7))
    assert [e.sequence for e in store.events(after=4)] == [5, 6]


def test_a_repeated_event_counts_once(store):
    items = fill(store)
    events = [label(item) for item in items]
    first = store.append(events)
    assert store.append(events) == first
    again = store.append([events[1], label(items[0], 1), events[1]])
    assert [stored.sequence for stored in again] == [5, 7, 5]
    assert len(list(store.events())) == 3 + 3 + 1


def test_a_repeated_event_counts_once_whatever_zone_and_order_it_is_written_in(store):
    item = fill(store)[0]
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    given = label(item, client_time=noon, payload={"a": 1, "b": 2})
    elsewhere = noon.astimezone(timezone(timedelta(hours=5)))
    again = replace(given, client_time=elsewhere, payload={"b": 2, "a": 1})
    assert store.append([given]) == store.append([again])


@pytest.mark.parametrize(
    "change",
    [
        {"class_number": 1},
        {"annotator": "bob"},
        {"payload": {"seconds": 2}},
        {"client_time": datetime(2026, 1, 1, tzinfo=UTC)},
        {"model": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_one_uuid_with_two_contents_is_refused_whole(store, change):
    items = fill(store)
    given = label(items[0])
    store.append([given])
    with pytest.raises(ReplayError, match=f"{next(iter(change))} was .* in event 4"):
        store.append([label(items[1]), replace(given, **change)])
    assert current(store) == {(items[0], "ann"): 0}


def test_unknown_items_classes_and_rounds_are_refused(store):
    items = fill(store)
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.append([label(items[0]), label("nobody")])
    with pytest.raises(StoreError, match="Class 7 of a label is not in use"):
        store.append([label(items[0], 7)])
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.append([label(items[0], round=3)])
    assert current(store) == {}


def test_the_database_itself_refuses_to_change_events(store):
    item = fill(store)[0]
    store.append([label(item)])
    for statement in ("UPDATE events SET class_number = 2", "DELETE FROM events"):
        with (
            pytest.raises(StoreError, match="events are never changed"),
            store.write_connection() as connection,
        ):
            connection.execute(text(statement))
    assert current(store) == {(item, "ann"): 0}


def test_a_relabel_wins_and_a_skip_takes_the_label_away(store):
    item = fill(store)[0]
    store.append([label(item, 0), replace(label(item, 1), kind=Kind.RELABEL)])
    assert current(store) == {(item, "ann"): 1}
    store.append([Event(kind=Kind.SKIP, annotator="ann", item=item)])
    assert current(store) == {}
    assert [v.kind for v in store.verdicts()] == [Kind.SKIP]
    store.undo("ann")
    assert current(store) == {(item, "ann"): 1}


def test_what_does_not_hold_cannot_be_undone(store):
    item = fill(store)[0]
    given = label(item, 1)
    store.append([given])
    first = store.undo("ann", target=given.uuid)
    with pytest.raises(StoreError, match=r"Event 4 \(label\) does not hold.*event 5"):
        store.undo("ann", target=given.uuid)
    store.undo("ann", target=first.uuid)
    store.undo("ann", target=given.uuid)
    with pytest.raises(StoreError, match=r"Event 5 \(undo\) does not hold.*event 7"):
        store.undo("ann", target=first.uuid)
    assert current(store) == {}


def test_each_annotator_undoes_her_own(store):
    item = fill(store)[0]
    given = label(item)
    store.append([given])
    with pytest.raises(StoreError, match="is by 'ann', who alone can undo it"):
        store.undo("bob", target=given.uuid)
    with pytest.raises(StoreError, match=r"no event .* to undo"):
        store.undo("bob", target=new_uuid())
    assert current(store) == {(item, "ann"): 0}


def test_classes_are_added_renamed_retired_and_restored(store):
    item = fill(store)[0]
    store.add_classes(["owl"], annotator="ann")
    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.add_classes(["bee", "dog"], annotator="ann")

    def change(kind, number, **payload):
        known = {"kind": kind, "annotator": "ann", "class_number": number}
        return store.append([Event(**known, payload=payload)])

    change(Kind.CLASS_RENAMED, 3, name="barn owl")
    change(Kind.CLASS_RETIRED, 0)
    assert store.classes() == (
        LabelClass(0, "cat", is_active=False),
        LabelClass(1, "dog"),
        LabelClass(2, "fox"),
        LabelClass(3, "barn owl"),
    )
    with pytest.raises(StoreError, match="Class 0 of a label is not in use"):
        store.append([label(item, 0)])
    change(Kind.CLASS_RESTORED, 0)
    store.append([label(item, 0)])
    with pytest.raises(StoreError, match=r"(?i)unique"):
        change(Kind.CLASS_RENAMED, 3, name="dog")
    with pytest.raises(StoreError, match=r"(?i)unique"):
        change(Kind.CLASS_ADDED, 2, name="bee")
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        change(Kind.CLASS_RETIRED, 9)
    with pytest.raises(StoreError, match="cannot be undone; change the class"):
        store.undo("owner", target=next(store.events()).uuid)


def test_threads_share_a_store(store):
    items = fill(store, 40)
    failed = []

    def work(name):
        try:
            for item in items:
                store.append([label(item, annotator=name)])
        except StoreError as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(current(store)) == 160
    assert [e.sequence for e in store.events()] == list(range(1, 164))


def test_sqlite_commits_are_synced_in_full(tmp_path):
    with Store.open(tmp_path / "labels.sqlite") as store:
        with store.read_connection() as connection:
            found = {
                name: connection.execute(text(f"PRAGMA {name}")).scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys")
            }
        assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
        with (
            pytest.raises(StoreError, match="FOREIGN KEY"),
            store.write_connection() as connection,
        ):
            connection.execute(
                text("INSERT INTO leases VALUES ('nobody', 'a', 't', 'x', 'u')")
            )
    assert sqlite3.connect(tmp_path / "labels.sqlite").close() is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"kind": "label", "item": "x"}, "'label' needs class_number"),
        ({"kind": "label", "class_number": 1}, "'label' needs item"),
        ({"kind": "skip", "item": "x", "class_number": 1}, "'skip' has no class_num"),
        ({"kind": "undo"}, "'undo' needs target"),
        ({"kind": "class_added", "class_number": 1}, "payload with a 'name'"),
        ({"kind": "skip", "item": "x", "annotator": " "}, "needs an annotator"),
        ({"kind": "skip", "item": "x", "uuid": "7"}, "'7', which is not a UUID"),
        ({"kind": "skip", "item": "x", "uuid": UUID(int=7)}, "which is not a UUID"),
        ({"kind": "skip", "item": "x\0"}, "cannot be stored"),
        ({"kind": "skip", "item": "x", "annotator": "\ud800"}, "cannot be stored"),
        ({"kind": "skip", "item": "x", "payload": {"a": float("nan")}}, "as JSON"),
        ({"kind": "skip", "item": "x", "payload": {"a": object()}}, "as JSON"),
        ({"kind": "skip", "item": "x", "payload": {"a": "\ud800"}}, "as JSON"),
    ],
)
def test_an_event_says_what_its_kind_needs(wrong, says):
    known = {"annotator": "ann"} | wrong
    known["kind"] = Kind(known["kind"])
    with pytest.raises(UsageError, match=says):
        Event(**known)
