"""The list of images: moved files keep their labels, changed ones are asked again."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.projects.store.toy import (
    all_items,
    current,
    files,
    fill,
    found,
    index,
    label,
)

from fewlabels.errors import StoreError
from fewlabels.projects.store import (
    ListedFile,
    RoundItem,
    Store,
    StoredRound,
    candidates_digest,
)


def paths(store):
    return {item.id: item.path for item in store.items()}


def test_a_listed_file_is_an_item(store):
    file = found("a/b.png", "01ab", size=7, mtime_ns=2**60, details={"height": 3})
    assert index(store, [file]) == (1, 0, 0, 0, 1)
    (item,) = store.items()
    assert item.id == "a/b.png@01ab"
    assert (item.path, item.digest, item.group) == ("a/b.png", "01ab", "01ab")
    assert (item.size, item.mtime_ns) == (7, 2**60)
    assert item.details == {"height": 3}


def test_listing_again_changes_nothing(store):
    store.index(files(50))
    before = list(store.items())
    assert index(store, files(50)) == (0, 0, 0, 0, 50)
    assert list(store.items()) == before


def test_a_touched_file_is_the_same_item(store):
    store.index([found("a.png", "01")])
    assert index(store, [found("a.png", "01", mtime_ns=77)])[0] == 0
    assert [item.mtime_ns for item in store.items()] == [77]


def test_a_moved_file_keeps_its_label(store):
    one, two, _ = fill(store)
    store.append([label(one, 1), label(two, 2)])
    moved = found("elsewhere/new name.png", f"{0:016x}", mtime_ns=9)
    assert index(store, [moved, *files(3)[1:]]) == (0, 1, 0, 0, 3)
    assert paths(store)[one] == "elsewhere/new name.png"
    assert current(store) == {(one, "ann"): 1, (two, "ann"): 2}
    assert next(item for item in store.items() if item.id == one).mtime_ns == 9


def test_two_files_that_change_places_keep_their_labels(store):
    one, two, _ = fill(store)
    store.append([label(one, 1), label(two, 2)])
    a, b, c = files(3)
    swapped = [found(a.path, b.digest), found(b.path, a.digest), c]
    assert index(store, swapped)[1] == 2
    assert paths(store)[one] == b.path
    assert current(store) == {(one, "ann"): 1, (two, "ann"): 2}


def test_a_changed_file_is_asked_again_and_its_old_content_is_not_forgotten(store):
    one, *_ = fill(store)
    store.append([label(one, 1)])
    a, b, c = files(3)
    assert index(store, [found(a.path, "ff"), b, c]) == (1, 0, 0, 1, 3)
    assert current(store) == {}
    assert [v.item for v in store.labels()] == [one]
    assert f"{a.path}@ff" in paths(store)
    assert index(store, [a, b, c]) == (0, 0, 1, 1, 3)
    assert current(store) == {(one, "ann"): 1}


def test_a_missing_file_keeps_its_label_for_later(store):
    one, *_ = fill(store)
    store.append([label(one, 1)])
    assert index(store, files(3)[1:])[3] == 1
    assert current(store) == {}
    assert one in all_items(store)
    assert one not in paths(store)
    back = found("archive/a.png", f"{0:016x}")
    assert index(store, [back, *files(3)[1:]])[1] == 1
    assert current(store) == {(one, "ann"): 1}


def test_of_two_equal_files_the_labeled_one_is_found_again(store):
    store.add_classes(["cat"], annotator="ann")
    store.index([found("a.png", "01"), found("b.png", "01")])
    assert {item.group for item in store.items()} == {"01"}
    store.append([label("b.png@01")])
    store.index([found("c.png", "01")])
    assert paths(store) == {"b.png@01": "c.png"}


def test_a_copy_at_a_path_that_once_gave_a_name_gets_another(store):
    store.index([found("a.png", "01")])
    store.index([found("b.png", "01")])
    assert paths(store) == {"a.png@01": "b.png"}
    store.index([found("a.png", "01"), found("b.png", "01")])
    assert paths(store) == {"a.png@01": "b.png", "a.png@01#2": "a.png"}
    assert index(store, [found("b.png", "01")])[3] == 1


def test_groups_stay_until_others_are_given(store):
    store.index([found("a.png", "01", group="g"), found("b.png", "02")])
    store.index([found("a.png", "01"), found("b.png", "02", group="g")])
    store.index([found("a.png", "01"), found("b.png", "02")])
    assert {item.group for item in store.items()} == {"g"}


def test_labeling_goes_on_while_files_are_listed(store, place):
    two = fill(store)[1]

    def slowly():
        yield files(3)[0]
        yield from files(900)[3:]
        with Store.open(place, busy_seconds=1) as other:
            other.append([label(two, 1)])
        yield from files(3)[1:]

    assert index(store, slowly()) == (897, 0, 0, 0, 900)
    assert current(store) == {(two, "ann"): 1}


listings = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from("0123"), max_size=4),
    max_size=5,
)


@settings(max_examples=20)
@given(listings)
def test_no_listing_loses_a_label_or_invents_an_item(tmp_path_factory, listed):
    folder = tmp_path_factory.mktemp("index")
    with Store.open(folder / "labels.sqlite") as store:
        store.add_classes(map(str, range(4)), annotator="ann")
        for contents in listed:
            store.index(found(path, digest) for path, digest in contents.items())
            items = list(store.items())
            assert {i.path: i.digest for i in items} == contents
            known = {v.item for v in store.labels()}
            fresh = [i for i in items if i.id not in known]
            store.append([label(i.id, int(i.digest)) for i in fresh])
            digests = {name: row.digest for name, row in all_items(store).items()}
            for one in store.labels():
                assert one.class_number == int(digests[one.item])


# --------------------------------------------------------------------------- rounds


def test_a_round_is_read_back_as_it_was(store):
    one, two, _ = fill(store)
    given_round = StoredRound(
        step=0,
        strategy="npc",
        items=(RoundItem(two), RoundItem(one, "audit")),
        options={"kernel": "auto", "draws": None},
        seed=2**40,
        model=None,
        candidates_digest=candidates_digest([one, two]),
    )
    stored = store.add_round(given_round)
    assert stored.created is not None
    assert store.rounds() == (stored,)
    store.append([label(one, round=0)])
    assert store.labels()[0].round == 0


def test_a_round_never_changes(store):
    one, two, _ = fill(store)
    store.add_round(StoredRound(step=0, strategy="npc", items=(RoundItem(one),)))
    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.add_round(StoredRound(step=0, strategy="npc", items=(RoundItem(two),)))
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        store.add_round(
            StoredRound(step=1, strategy="a", items=(RoundItem(one), RoundItem("x")))
        )
    with pytest.raises(StoreError, match=r"(?i)unique"):
        store.add_round(
            StoredRound(step=1, strategy="a", items=(RoundItem(one), RoundItem(one)))
        )
    assert len(store.rounds()) == 1


def test_details_left_out_stay_as_they_were(store):
    first = ListedFile(
        path="a.png", digest="0f", size=1, mtime_ns=0, details={"width": 8}
    )
    store.index([first])
    store.index([replace(first, mtime_ns=5, details=None)])
    (item,) = store.items()
    assert (item.mtime_ns, item.details) == (5, {"width": 8})
    store.index([replace(first, path="b.png", digest="1f", details=None)])
    (item,) = store.items()
    assert item.details == {}
