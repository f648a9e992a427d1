"""Several annotators at once: nobody does what another does, unless it is wanted."""

import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context

import pytest
from tests.projects.store.toy import fill, label

from fewlabels.errors import UsageError
from fewlabels.projects.store import Event, Kind, RoundItem, Store, StoredRound

FORK = get_context("fork")  # a new process takes longer to begin than to label


def annotate(place, name, overlap, everybody):
    with Store.open(place, busy_seconds=120) as store:
        got = store.lease(name, 10, overlap=overlap, ttl=120)
        everybody.wait()
        while True:
            time.sleep(0.02)  # a look at the images
            store.append(
                Event(kind=Kind.LABEL, annotator=name, item=item, class_number=0)
                for item in got.items
            )
            if not got.items and not got.num_held:
                break
            time.sleep(0 if got.items else 0.05)
            got = store.lease(name, 10, overlap=overlap, ttl=120)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self):
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self):
        return self.time

    def advance(self, seconds):
        self.time += timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def timed(place, clock):
    with Store.open(place, clock=clock) as opened:
        yield opened


def names(leased):
    return list(leased.items)


@pytest.mark.parametrize(
    ("overlap", "number"),
    [(2, 80), *(pytest.param(n, 400, marks=pytest.mark.slow) for n in (1, 2))],
)
def test_four_annotators_at_once(place, overlap, number):
    with Store.open(place) as store:
        items = fill(store, number)
    everybody = FORK.Barrier(4, timeout=120)
    people = [
        FORK.Process(target=annotate, args=(place, f"ann-{n}", overlap, everybody))
        for n in range(4)
    ]
    for person in people:
        person.start()
    for person in people:
        person.join(250)
    assert [person.exitcode for person in people] == [0] * 4
    with Store.open(place) as store:
        labels = store.labels()
        assert len(list(store.events(after=3))) == len(labels)
    assert Counter(one.item for one in labels) == dict.fromkeys(items, overlap)
    shares = Counter(one.annotator for one in labels)
    assert len(shares) == 4  # all of them took part


def test_nobody_gets_what_another_holds(timed):
    items = fill(timed, 5)
    assert names(timed.lease("ann", 3)) == items[:3]
    bob = timed.lease("bob", 3)
    assert names(bob) == items[3:]
    assert bob.num_held == 3


def test_an_abandoned_lease_frees_itself(timed, clock):
    items = fill(timed, 3)
    timed.lease("ann", 3, ttl=60)
    clock.advance(59)
    waiting = timed.lease("bob", 3, ttl=60)
    assert waiting.items == ()
    assert waiting.num_held == 3
    assert waiting.frees_at == clock.time + timedelta(seconds=1)
    clock.advance(1)
    assert names(timed.lease("bob", 3, ttl=60)) == items


def test_a_sign_of_life_keeps_a_lease(timed, clock):
    items = fill(timed, 2)
    got = timed.lease("ann", 2, ttl=60)
    clock.advance(50)
    assert list(timed.heartbeat(got.token, ttl=60)) == items
    clock.advance(50)
    assert timed.lease("bob", 2).items == ()
    clock.advance(10)
    assert timed.heartbeat(got.token) == ()  # too late: it has ended
    assert names(timed.lease("bob", 2)) == items


def test_what_is_given_back_is_free(timed):
    items = fill(timed, 3)
    got = timed.lease("ann", 3)
    assert timed.release(got.token) == 3
    assert timed.release(got.token) == 0
    assert names(timed.lease("bob", 3)) == items


def test_two_tabs_of_one_person_show_different_items(timed):
    items = fill(timed, 4)
    one, two = timed.lease("ann", 2), timed.lease("ann", 2)
    assert names(one) + names(two) == items
    again = timed.lease("ann", 2, token=one.token)  # the page was loaded again
    assert names(again) == names(one)
    assert timed.lease("ann", 1).num_held == 4


def test_an_answer_ends_the_lease_and_the_item_does_not_come_again(timed):
    one, two, three = fill(timed, 3)
    got = timed.lease("ann", 3)
    skip = Event(kind=Kind.SKIP, annotator="ann", item=two)
    unsure = Event(kind=Kind.UNSURE, annotator="ann", item=three)
    timed.append([label(one), skip, unsure])
    assert timed.heartbeat(got.token) == ()
    assert timed.lease("ann", 3).items == ()
    assert names(timed.lease("bob", 3)) == [three]  # somebody else may know


def test_an_undone_label_is_asked_again(timed):
    item, *_ = fill(timed, 1)
    timed.append([label(item)])
    finished = timed.lease("ann", 1)
    assert finished.items == ()
    assert finished.num_held == 0
    timed.undo("ann")
    assert names(timed.lease("bob", 1)) == [item]


def test_overlap_hands_an_item_to_exactly_so_many(timed):
    (item,) = fill(timed, 1)
    timed.append([label(item)])
    assert timed.lease("ann", 1, overlap=2).items == ()
    assert names(timed.lease("bob", 1, overlap=2)) == [item]
    cem = timed.lease("cem", 1, overlap=2)
    assert cem.items == ()
    assert cem.num_held == 1
    assert names(timed.lease("cem", 1, overlap=3)) == [item]


def test_items_come_in_the_order_of_the_round_or_by_path(timed):
    items = fill(timed, 4)
    chosen = (RoundItem(items[2]), RoundItem(items[0], "audit"))
    timed.add_round(StoredRound(step=0, strategy="npc", items=chosen))
    assert names(timed.lease("ann", 9, asked=True)) == [items[2], items[0]]
    wanted = [items[3], items[2], items[1]]
    bob = timed.lease("bob", 9, among=wanted)
    assert names(bob) == [items[1], items[3]]
    assert bob.num_held == 1
    again = timed.lease("bob", 9, among=wanted, token=bob.token)
    assert names(again) == [items[1], items[3]]
    assert timed.lease("bob", 9, among=[]).items == ()


def test_a_long_list_of_items_fits_into_a_lease(timed):
    items = fill(timed, 2)
    listed = [f"unknown {number}" for number in range(9_998)]
    assert names(timed.lease("ann", 9, among=[*listed, items[1]])) == [items[1]]


def test_missing_images_are_not_handed_out(timed):
    fill(timed, 2)
    timed.index([])
    assert timed.lease("ann", 2).items == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"count": -1},
        {"count": 10_001},
        {"overlap": 0},
        {"ttl": 0},
        {"ttl": float("inf")},
        {"ttl": float("nan")},
        {"ttl": 1e300},
    ],
)
def test_impossible_wishes_are_refused(timed, wrong):
    with pytest.raises(UsageError, match=next(iter(wrong))):
        timed.lease("ann", **({"count": 1} | wrong))


@pytest.mark.parametrize("ttl", [0, -1, float("inf"), float("nan"), 1e300])
def test_a_sign_of_life_for_an_impossible_time_is_refused(timed, ttl):
    fill(timed, 1)
    got = timed.lease("ann", 1)
    with pytest.raises(UsageError, match="ttl"):
        timed.heartbeat(got.token, ttl=ttl)
    assert timed.heartbeat(got.token) == got.items


def test_a_clock_that_ran_ahead_locks_nothing_for_long(timed, clock):
    items = fill(timed, 4)
    clock.advance(24 * 3600)
    timed.lease("ann", 4, ttl=120)
    clock.advance(-24 * 3600)
    assert names(timed.lease("bob", 4)) == []  # ann may still be at work
    clock.advance(121)
    assert names(timed.lease("bob", 4)) == items


def test_a_clock_that_is_set_back_a_little_ends_no_lease(timed, clock):
    items = fill(timed, 2)
    held = timed.lease("ann", 1, ttl=120)
    clock.advance(-3)
    assert names(timed.lease("bob", 2)) == items[1:]
    clock.advance(100)
    assert list(timed.heartbeat(held.token)) == items[:1]
