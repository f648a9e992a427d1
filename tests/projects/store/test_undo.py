"""The view of current labels against a slow twin, over random histories."""

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.projects.store.toy import current, fill, label

from fewlabels.errors import ReplayError, StoreError, UsageError
from fewlabels.projects.store import Event, Kind, Store, new_uuid

ANNOTATORS = ("ann", "bob")
NUM_ITEMS = 3
VERDICTS = (Kind.LABEL, Kind.RELABEL, Kind.SKIP, Kind.UNSURE)


class Twin:
    """What the store promises, word for word: no numbers, no parity, no view."""

    def __init__(self):
        self.log = []

    def holds(self, event):
        """Say whether no undo that holds itself cancels an event."""
        later = [e for e in self.log if e.target == event.uuid]
        return not any(self.holds(undo) for undo in later)

    def root(self, event):
        while event.target is not None:
            event = next(e for e in self.log if e.uuid == event.target)
        return event

    def may_undo(self, event, annotator):
        """Only what holds, by its author, and of all undos of a thing the last one."""
        if event.annotator != annotator or not self.holds(event):
            return False
        same = [e for e in self.log if self.root(e) is self.root(event)]
        return event.target is None or event is same[-1]

    def labels(self):
        found = {}
        for event in self.log:
            if event.kind in VERDICTS and self.holds(event):
                found[event.item, event.annotator] = event
        return {
            key: event.class_number
            for key, event in found.items()
            if event.class_number is not None
        }


actions = st.lists(
    st.tuples(
        st.sampled_from(["verdict", "undo", "undo"]),
        st.sampled_from(ANNOTATORS),
        st.sampled_from(VERDICTS),
        st.integers(0, NUM_ITEMS - 1),
        st.integers(0, 2),
        st.integers(0, 30),
    ),
    max_size=30,
)


def play(store, items, steps, first_uuid=1):
    """Do the steps to the store and to the twin, comparing after each."""
    twin = Twin()
    for number, (what, annotator, kind, item, class_number, back) in enumerate(steps):
        uuid = str(UUID(int=first_uuid + number))
        if what == "undo" and twin.log:
            target = twin.log[-1 - back % len(twin.log)]
            event = Event(
                kind=Kind.UNDO, annotator=annotator, uuid=uuid, target=target.uuid
            )
            allowed = twin.may_undo(target, annotator)
        else:
            has_class = kind in {Kind.LABEL, Kind.RELABEL}
            event = Event(
                kind=kind,
                annotator=annotator,
                uuid=uuid,
                item=items[item],
                class_number=class_number if has_class else None,
            )
            allowed = True
        try:
            store.append([event])
        except StoreError:
            assert not allowed
        else:
            assert allowed
            twin.log.append(event)
        labels = {(v.item, v.annotator): v.class_number for v in store.labels()}
        assert labels == twin.labels()
    return twin


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=actions)
def test_the_view_is_what_the_events_say(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("undo")
    with Store.open(folder / "labels.sqlite") as store:
        items = fill(store, NUM_ITEMS)
        twin = play(store, items, steps)
        events = list(store.events(after=3))
        assert [e.uuid for e in events] == [e.uuid for e in twin.log]  # none deleted


def test_the_view_is_the_same_on_both_databases(store):
    """A long fixed history: labels, undos of all depths, two annotators."""
    items = fill(store, NUM_ITEMS)
    steps = [
        (
            ("verdict", "undo", "undo")[(i * 7) % 3],
            ANNOTATORS[(i // 5) % 2],
            VERDICTS[(i * i) % 4],
            (i * 3) % NUM_ITEMS,
            i % 3,
            (i * 5) % 11,
        )
        for i in range(90)
    ]
    twin = play(store, items, steps)
    assert len(twin.log) > 40
    assert sum(e.kind is Kind.UNDO for e in twin.log) > 10


def test_undoing_everything_and_the_undos_restores_the_view(store):
    items = fill(store, NUM_ITEMS)
    events = [
        Event(kind=Kind.LABEL, annotator="ann", item=item, class_number=c)
        for c in range(3)
        for item in items
    ]
    store.append(events)
    before = store.labels()
    undos = [store.undo("ann").uuid for _ in events]
    assert store.labels() == ()
    for uuid in undos:
        store.undo("ann", target=uuid)
    assert store.labels() == before
    assert len(list(store.events(after=3))) == 3 * len(events)


class Editor:
    """Undo of one annotator as everybody knows it: a stack."""

    def __init__(self):
        self.done = []

    def labels(self):
        """The last word on each item; a skip takes the label away."""
        words = {event.item: event.class_number for event in self.done}
        return {item: word for item, word in words.items() if word is not None}


SKIPPED = 3  # in the place of a class
keys = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "undo"]),
        st.sampled_from(ANNOTATORS),
        st.integers(0, NUM_ITEMS - 1),
        st.integers(0, SKIPPED),
    ),
    max_size=40,
)


def press(store, items, steps):
    """Do the steps to the store and to an editor per annotator, comparing."""
    editors = {name: Editor() for name in ANNOTATORS}
    for verb, annotator, item, number in steps:
        editor = editors[annotator]
        if verb == "say":
            said = None if number == SKIPPED else number
            kind = Kind.SKIP if said is None else Kind.LABEL
            event = Event(
                kind=kind, annotator=annotator, item=items[item], class_number=said
            )
            store.append([event])
            editor.done.append(event)
        elif editor.done:
            undone = store.undo(annotator)
            assert undone.target == editor.done.pop().uuid
            assert store.event(undone.uuid) == undone
        else:
            with pytest.raises(UsageError, match=f"'{annotator}' has nothing to undo"):
                store.undo(annotator)
        labels = {(v.item, v.annotator): v.class_number for v in store.labels()}
        assert labels == {
            (item, name): number
            for name, editor in editors.items()
            for item, number in editor.labels().items()
        }


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=keys)
def test_undo_is_that_of_an_editor(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("editor")
    with Store.open(folder / "labels.sqlite") as store:
        press(store, fill(store, NUM_ITEMS), steps)


def test_undo_is_the_same_on_both_databases(store):
    verbs = ("say", "say", "undo", "say", "say", "say", "undo", "undo", "undo")
    steps = [
        (verbs[i % 9], ANNOTATORS[i // 20 % 2], i * 7 % NUM_ITEMS, i * i % 4)
        for i in range(54)
    ]
    press(store, fill(store, NUM_ITEMS), steps)


def test_an_undo_that_is_sent_twice_counts_once(store):
    one, two, three = fill(store, NUM_ITEMS)
    given = label(one)
    store.append([given, label(two), label(three)])
    undo, back = new_uuid(), new_uuid()
    first = store.undo("ann", uuid=undo)
    store.undo("ann")
    assert store.undo("ann", uuid=undo) == first
    assert set(current(store)) == {(one, "ann")}
    restored = store.undo("ann", uuid=back, target=undo)
    assert store.undo("ann", uuid=back, target=undo) == restored
    assert store.undo("ann", uuid=undo) == first
    before = current(store)
    assert set(before) == {(one, "ann"), (three, "ann")}
    for wrong in (
        lambda: store.undo("ann", uuid=undo, target=back),
        lambda: store.undo("ann", uuid=back, target=given.uuid),
        lambda: store.undo("ann", uuid=given.uuid),
        lambda: store.append([label(one, uuid=undo)]),
    ):
        with pytest.raises(ReplayError, match="came again with another content"):
            wrong()
    assert current(store) == before


def test_what_was_undone_out_of_order_comes_back(store):
    one, two, three = fill(store, NUM_ITEMS)
    given_first = label(one, 1)
    store.append([given_first, label(two), label(three)])
    undone = store.undo("ann", target=given_first.uuid)
    store.undo("ann")
    assert set(current(store)) == {(two, "ann")}
    store.undo("ann", target=undone.uuid)
    assert set(current(store)) == {(one, "ann"), (two, "ann")}
    assert current(store)[one, "ann"] == 1
