"""Several calls as one: a moment that is read, a transaction that is written."""

import pytest
from tests.projects.store.toy import current, fill, label

from fewlabels.errors import StoreError, UsageError
from fewlabels.projects.store import Store


def test_what_is_read_together_is_of_one_moment(store, place):
    one, two, _ = fill(store)
    store.append([label(one)])
    with Store.open(place) as other, store.reading() as moment:
        before = (moment.labels(), moment.classes(), len(list(moment.events())))
        other.append([label(two)])
        other.add_classes(["owl"], annotator="ann")
        assert len(other.labels()) == 2
        assert (moment.labels(), moment.classes()) == before[:2]
        assert len(list(moment.events())) == before[2]
    assert len(store.labels()) == 2


def test_nothing_is_written_while_one_moment_is_read(store):
    item = fill(store)[0]
    with store.reading() as moment:
        for write in (
            lambda: moment.append([label(item)]),
            lambda: moment.undo("ann"),
            lambda: moment.lease("ann", 1),
        ):
            with pytest.raises(UsageError, match="Nothing is written while"):
                write()
    assert current(store) == {}


def test_what_is_written_together_is_there_wholly_or_not_at_all(store, place):
    one, two, _ = fill(store)
    with Store.open(place) as other, store.writing() as together:
        together.append([label(one, 1)])
        together.add_classes(["owl"], annotator="ann")
        together.append([label(two, 3)])
        assert current(together) == {(one, "ann"): 1, (two, "ann"): 3}
        assert (other.labels(), len(other.classes())) == ((), 3)
    before = current(store)
    assert before == {(one, "ann"): 1, (two, "ann"): 3}

    def fail_halfway():
        with store.writing() as again:
            again.undo("ann")
            again.append([label("nobody")])

    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        fail_halfway()
    assert current(store) == before


def test_while_one_transaction_writes_others_wait(store, place):
    one, two, _ = fill(store)
    with Store.open(place, busy_seconds=0.1) as other, store.writing() as together:
        together.append([label(one)])
        with pytest.raises(StoreError, match="is held by another writer"):
            other.append([label(two)])
    assert current(store) == {(one, "ann"): 0}
