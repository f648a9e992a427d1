"""A tally counts, step by step, what a snapshot counts at once."""

from collections import Counter

import numpy as np
import pytest
from tests.projects.store.toy import all_items, files

from fewlabels.errors import FewlabelsError
from fewlabels.projects.snapshot import Snapshot, Tally
from fewlabels.projects.store import (
    Event,
    Kind,
    RoundItem,
    Store,
    StoredRound,
    new_uuid,
)
from fewlabels.projects.store.records import CONFIRMED, IMPORTED, LABELS

PEOPLE = ("ann", "bob", "eve")
NUM_ITEMS = 30


def counted_at_once(store, overlap):
    """Return all counts from everything that the store holds."""
    with store.reading() as moment:
        snapshot = Snapshot(
            items=(),
            classes=tuple(one.name for one in moment.classes()),
            verdicts=moment.verdicts(),
            rounds=moment.rounds(),
            overlap=overlap,
        )
        waiting = {one.id for one in moment.items(ids=sorted(snapshot.waiting))}
        sequence = max(event.sequence for event in moment.events())
    labels = [one for one in snapshot.verdicts if one.kind in LABELS]
    skipped = {one.item for one in snapshot.verdicts} - {one.item for one in labels}
    last = snapshot.rounds[-1].items if snapshot.rounds else ()
    return {
        "sequence": sequence,
        "waiting": waiting,
        "open in last": sum(one.item in waiting for one in last),
        "open": len(
            waiting
            & {one.item for asked in snapshot.open_rounds for one in asked.items}
        ),
        "classes": Counter(snapshot.known.values()),
        "spent": snapshot.num_spent,
        "confirmed": len({one.item for one in labels if one.is_confirmed}),
        "skipped": len(skipped),
        "imported": len({one.item for one in snapshot.verdicts if one.is_imported}),
        "rounds": list(snapshot.rounds),
    }


def counted(tally):
    return {
        "sequence": tally.sequence,
        "waiting": tally.waiting,
        "open in last": tally.num_open_since(len(tally.rounds) - 1),
        "open": tally.num_open,
        "classes": +tally.class_counts,
        "spent": tally.num_items["spent"],
        "confirmed": tally.num_items["confirmed"],
        "skipped": tally.num_items["skipped"],
        "imported": tally.num_items["imported"],
        "rounds": tally.rounds,
    }


def act(store, random):
    """Do something to a store, as people, other programs and the file system do."""
    who = PEOPLE[random.choice(3, p=[0.6, 0.35, 0.05])]
    ids = sorted(all_items(store))
    item, verb = str(random.choice(ids)), random.integers(12)
    kind = Kind.LABEL
    if verb < 3:
        undone = store.undo(who)
        return undone if verb < 2 else store.undo(who, target=undone.uuid)
    if verb == 3:
        asked = tuple(RoundItem(str(one)) for one in random.choice(ids, 6, False))
        step = len(store.rounds())
        ahead = {"since": max(0, step - int(random.integers(3)))}
        return store.add_round(
            StoredRound(step=step, strategy="random", items=asked, options=ahead)
        )
    if verb == 4:
        there = random.random(NUM_ITEMS) < 0.8
        return store.index(
            one
            for one, is_there in zip(files(NUM_ITEMS), there, strict=True)
            if is_there
        )
    if verb < 7:
        kind = Kind.SKIP if verb == 5 else Kind.UNSURE
    unasked = {7: {"strategy": CONFIRMED}, 8: {"strategy": IMPORTED}}
    number = int(random.integers(3)) if kind is Kind.LABEL else None
    given = Event(
        kind=kind,
        annotator=who,
        item=item,
        class_number=number,
        uuid=new_uuid(),
        **unasked.get(int(verb), {}),
    )
    return store.append([given])


@pytest.mark.parametrize("overlap", [1, 2])
@pytest.mark.parametrize("most_listed", [0, 1000])
def test_a_tally_is_what_a_snapshot_counts(place, overlap, most_listed, monkeypatch):
    monkeypatch.setattr("fewlabels.projects.store.store._MOST_LISTED", most_listed)
    random = np.random.default_rng(overlap)
    with Store.open(place) as store, Store.open(place) as other:
        store.add_classes(["cat", "dog", "fox"], annotator="owner")
        store.index(files(NUM_ITEMS))
        tally, now_and_then = Tally(overlap=overlap), Tally(overlap=overlap)
        for number in range(80):
            writer = (store, other)[number % 2]
            try:
                act(writer, random)
            except FewlabelsError:  # nothing to undo
                continue
            tally.update(store)
            assert counted(tally) == counted_at_once(other, overlap)
            if number % 7 == 0:
                now_and_then.update(other)
                assert counted(now_and_then) == counted(tally)


def test_a_store_that_fails_halfway_spoils_no_count(tmp_path, monkeypatch):
    with Store.open(tmp_path / "labels.sqlite") as store:
        store.add_classes(["cat"], annotator="owner")
        store.index(files(3))
        ids = [one.id for one in store.items()]
        asked = tuple(RoundItem(item) for item in ids)
        store.add_round(StoredRound(step=0, strategy="random", items=asked))
        store.append(
            [Event(kind=Kind.LABEL, annotator="a", item=ids[0], class_number=0)]
        )
        tally = Tally(overlap=1)

        def fail(*_, **__):
            raise OSError("the disk is gone")

        with monkeypatch.context() as patch:
            patch.setattr(Store, "items", fail)
            with pytest.raises(OSError, match="gone"):
                tally.update(store)
        tally.update(store)
        assert counted(tally) == counted_at_once(store, 1)
