"""Pools are checked when they are built and never changed; rows may stay in files."""

import pickle
import re
import sys
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from fewlabels.errors import (
    FewlabelsError,
    LabelError,
    NotFiniteError,
    StrategyError,
    UsageError,
)
from fewlabels.gram import last_layer_kernel
from fewlabels.pool import (
    UNKNOWN,
    WITHHELD,
    Answers,
    ArrayImages,
    MappedRows,
    Pool,
    Query,
    Round,
    Split,
    as_rows,
    check_indices,
    check_labels,
    check_query,
    row_chunks,
    take_rows,
)
from fewlabels.protocols import Outputs

CLASSES = ("cat", "dog", "fox")
VIEWS = {
    "all": np.s_[:],
    "a part": np.s_[10:],
    "backwards": np.s_[::-2],
    "some columns": np.s_[5:80:3, 1:4],
    "none": np.s_[:0],
}


def make_pool(labels, **options):
    images = ArrayImages(torch.zeros(len(labels), 3, 8, 8, dtype=torch.uint8))
    return Pool.build(images, tensor(labels, dtype=torch.int64), CLASSES, **options)


# ------------------------------------------------------------------- what it knows


def test_a_pool_counts_what_it_holds():
    pool = make_pool([0, UNKNOWN, 2, UNKNOWN, 0])
    assert len(pool) == 5
    assert pool.num_classes == 3
    assert pool.labeled.tolist() == [0, 2, 4]
    assert pool.unlabeled.tolist() == [1, 3]
    assert pool.candidates.tolist() == [1, 3]
    assert pool.class_counts == (2, 0, 1)
    assert pool.ids == ("0", "1", "2", "3", "4")


def test_a_withheld_label_is_labeled_and_counts_for_no_class():
    pool = make_pool([0, WITHHELD, UNKNOWN])
    assert pool.labeled.tolist() == [0, 1]
    assert pool.candidates.tolist() == [2]
    assert pool.class_counts == (1, 0, 0)


def test_unlabeled_items_need_not_be_candidates():
    pool = make_pool([0, UNKNOWN, UNKNOWN], ids=["a.png#1", "b.png#2", "c"])
    assert pool.ids == ("a.png#1", "b.png#2", "c")
    pool = replace(pool, candidates=tensor([2]))
    assert pool.unlabeled.tolist() == [1, 2]
    assert pool.candidates.tolist() == [2]


def test_images_and_vectors_are_copied_on_reading():
    images = ArrayImages(torch.zeros(4, 1, 2, 2, dtype=torch.uint8))
    assert (images.shape, len(images)) == ((1, 2, 2), 4)
    images.read(tensor([1])).fill_(9)
    assert not images.items.any()
    assert ArrayImages(torch.eye(4)).read(tensor([2])).tolist() == [[0, 0, 1, 0]]


# ---------------------------------------------------------------- what it refuses


VECTORS = ArrayImages(torch.zeros(2, 4))
OUTSIDE = "labels are outside the {} classes, the first is {} at position {}; -1 means"
WRONG = [
    (
        lambda: make_pool([UNKNOWN] * 2, ids=["a", "b", "c"]),
        "ids has 3 entries; give 2",
    ),
    (
        lambda: make_pool([UNKNOWN] * 3, ids=["a", "b", "a"]),
        "The id 'a' is there 2 time",
    ),
    (lambda: make_pool([0, 3, 2]), f"1 {OUTSIDE.format(3, 3, 1)}"),
    (lambda: make_pool([0, -3, 2]), f"1 {OUTSIDE.format(3, -3, 1)}"),
    (
        lambda: replace(make_pool([0, UNKNOWN]), candidates=tensor([0, 1])),
        "1 candidates are labeled, the first at index 0.",
    ),
    (
        lambda: replace(make_pool([UNKNOWN] * 2), candidates=tensor([-1, 1])),
        "candidates run from -1 to 1, but the pool has 2 items.",
    ),
    (
        lambda: replace(make_pool([UNKNOWN] * 2), candidates=tensor([0, 2])),
        "candidates run from 0 to 2, but the pool has 2 items.",
    ),
    (
        lambda: check_indices(tensor([1, 0, 1]), 2, "labeled"),
        "labeled hold 3 indices, but only 2 distinct ones.",
    ),
    (
        lambda: check_indices(tensor([0]), 0, "labeled"),
        "labeled run from 0 to 0, but the",
    ),
    (lambda: check_labels(tensor([0]), 0), f"1 {OUTSIDE.format(0, 0, 0)}"),
    (
        lambda: Split(VECTORS, tensor([0, 1, 2])),
        "labels has 3 entries; give 2, one per",
    ),
    (
        lambda: Answers(tensor([0, 1]), tensor([0])),
        "labels has 1 entries; give 2, one per",
    ),
    (
        lambda: make_pool([-1, -1]).with_answers(Answers(tensor([1]), tensor([7]))),
        f"1 {OUTSIDE.format(3, 7, 1)}",
    ),
]


@pytest.mark.parametrize(("build", "message"), WRONG)
def test_what_does_not_belong_together_is_refused(build, message):
    with pytest.raises(FewlabelsError, match=f"^{re.escape(message)}") as caught:
        build()
    assert isinstance(caught.value, LabelError if "outside" in message else UsageError)


def test_no_indices_are_fine():
    check_indices(tensor([], dtype=torch.int64), 0, "labeled")


# -------------------------------------------------------------- how it goes forward


@st.composite
def pools_and_answers(draw):
    """A pool, and answers to any part of its candidates, some of them skipped."""
    labels = draw(st.lists(st.integers(UNKNOWN, 2), min_size=1, max_size=12))
    pool = make_pool(labels)
    fates = draw(
        st.lists(
            st.sampled_from(["label", "skip", "open"]),
            min_size=len(pool.candidates),
            max_size=len(pool.candidates),
        )
    )
    chosen = pool.candidates.tolist()
    labeled = [i for i, fate in zip(chosen, fates, strict=True) if fate == "label"]
    skipped = [i for i, fate in zip(chosen, fates, strict=True) if fate == "skip"]
    given_labels = draw(
        st.lists(st.integers(0, 2), min_size=len(labeled), max_size=len(labeled))
    )
    answers = Answers(
        indices=tensor(labeled, dtype=torch.int64),
        labels=tensor(given_labels, dtype=torch.int64),
        skipped=tensor(skipped, dtype=torch.int64),
    )
    return pool, answers


@given(pools_and_answers())
def test_answers_make_a_new_pool_and_leave_the_old_one_alone(example):
    pool, answers = example
    labels, candidates = pool.labels.clone(), pool.candidates.clone()
    after = pool.with_answers(answers)
    assert torch.equal(pool.labels, labels)
    assert torch.equal(pool.candidates, candidates)
    assert torch.equal(after.labels[answers.indices], answers.labels)
    assert after.ids == pool.ids
    assert len(after.labeled) == len(pool.labeled) + len(answers.indices)


@given(pools_and_answers())
def test_what_was_left_open_stays_a_candidate_and_nothing_else_does(example):
    pool, answers = example
    after = pool.with_answers(answers)
    closed = {*answers.indices.tolist(), *answers.skipped.tolist()}
    left = [index for index in pool.candidates.tolist() if index not in closed]
    assert after.candidates.tolist() == left
    assert set(answers.skipped.tolist()) <= set(after.unlabeled.tolist())


@given(pools_and_answers())
def test_answers_in_two_parts_are_the_same_as_at_once(example):
    pool, answers = example
    half = len(answers.indices) // 2
    first = Answers(answers.indices[:half], answers.labels[:half])
    second = Answers(answers.indices[half:], answers.labels[half:], answers.skipped)
    at_once, in_parts = (
        pool.with_answers(answers),
        pool.with_answers(first).with_answers(second),
    )
    assert torch.equal(at_once.labels, in_parts.labels)
    assert torch.equal(at_once.candidates, in_parts.candidates)


def test_records_are_frozen():
    pool = make_pool([UNKNOWN])
    with pytest.raises(FrozenInstanceError):
        pool.labels = tensor([0])
    with pytest.raises(FrozenInstanceError):
        Query().value = 1.0
    record = Round(
        step=0,
        num_labeled=0,
        class_counts=(0, 0, 0),
        accuracy=None,
        query=Query(),
        answers=Answers(),
    )
    with pytest.raises(FrozenInstanceError):
        record.accuracy = 1.0


def test_an_empty_query_asks_nothing():
    assert len(Query()) == 0
    assert Query().record == {}
    assert len(Query(indices=tensor([3, 1]))) == 2
    after = make_pool([UNKNOWN]).with_answers(Answers())
    assert after.candidates.tolist() == [0]


# ------------------------------------------------------------------- a strategy's query


def test_a_query_that_can_be_written_down_passes():
    pool = make_pool([UNKNOWN] * 4)
    record = {"turn": 1, "weights": [0.5, None], "deep": {"a": "b"}}
    check_query(Query(tensor([1, 3]), 0.25, record), pool, 2)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ([1, 3], "returned a list; return a Query"),
        (Query([1, 3]), "indices are a list; .* int64"),
        (Query(tensor([1.0, 3.0])), r"tensor of shape \(2,\) and type torch.float32"),
        (Query(tensor([[1, 3]])), r"tensor of shape \(1, 2\)"),
        (Query(tensor([1, 3]), "high"), "The strategy's value is a str"),
        (Query(tensor([1, 3]), None, [1]), r"record is \[1\]; give a dictionary"),
        (Query(tensor([1, 3]), None, {1: 2}), "record is {1: 2}; give a dictionary"),
        (
            Query(tensor([1, 3]), None, {"a": 1, "b": [tensor(1)]}),
            r"record is .*'b': \[tensor\(1\)\]}; give a dictionary of words with plain",
        ),
    ],
)
def test_what_cannot_be_written_down_is_refused_before_it_is_paid_for(query, message):
    with pytest.raises(StrategyError, match=message):
        check_query(query, make_pool([UNKNOWN] * 4), 2)


class Counted(tuple):
    """Names that know how often they were looked through."""

    times = 0

    def __iter__(self):
        type(self).times += 1
        return super().__iter__()


def test_names_are_compared_once_and_not_in_every_round():
    pool = make_pool([UNKNOWN] * 6)
    pool = replace(pool, ids=Counted("abcdef"))
    assert Counted.times == 1
    later = pool.with_answers(Answers(tensor([1]), tensor([0]), tensor([4])))
    assert later.with_answers(Answers(tensor([0]), tensor([2]))).ids == tuple("abcdef")
    assert Counted.times == 1
    with pytest.raises(UsageError, match="The id 'a' is there 2 times"):
        replace(later, ids=Counted("aabcde"))


# ------------------------------------------------------------------ rows of a file


def saved(path, rows):
    np.save(path / "rows.npy", rows)
    return np.load(path / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize("kind", ["f2", "f4", ">f4", "f8", "u1", "?"])
@pytest.mark.parametrize("view", VIEWS)
def test_rows_of_a_file_are_those_of_the_array(view, kind, tmp_path):
    given = (np.random.default_rng(0).normal(size=(100, 6)) * 3).astype(kind)
    file = saved(tmp_path, given)[VIEWS[view]]
    wanted = torch.from_numpy(given[VIEWS[view]].astype(np.float64))
    rows = as_rows(file)
    assert isinstance(rows, MappedRows)
    assert rows.shape == tuple(wanted.shape)
    assert rows.dtype == (
        torch.float32 if "f" in kind[:2] and "8" not in kind else torch.float64
    )
    again = pickle.loads(pickle.dumps(rows))
    for copy in (rows, again, pickle.loads(pickle.dumps(again))):
        assert torch.equal(copy[:].double(), wanted)
        assert torch.equal(torch.cat([*row_chunks(copy), wanted[:0]]), wanted)
    if len(wanted):
        places = torch.tensor([[3, 0], [7, 3]])
        assert torch.equal(rows[places].double(), wanted[places])
        part = take_rows(rows, torch.tensor([9, 2, 4]))
        assert isinstance(part, MappedRows)
        sent = pickle.loads(pickle.dumps(part))
        assert torch.equal(
            take_rows(sent, torch.tensor([2, 0]))[:], rows[torch.tensor([4, 9])]
        )


def test_a_kernel_over_a_file_travels_as_a_path(tmp_path):
    rows = saved(tmp_path, np.random.default_rng(0).normal(size=(20_000, 8)))
    kernel = last_layer_kernel(rows, num_classes=3)
    sent = pickle.dumps(kernel)
    assert len(sent) < 10_000
    items = torch.tensor([19_999, 3, 500])
    assert torch.equal(
        pickle.loads(sent).block(items, items), kernel.block(items, items)
    )


def test_a_file_that_is_gone_is_named(tmp_path):
    rows = as_rows(saved(tmp_path, np.zeros((5, 2))))
    sent = pickle.dumps(rows)
    (tmp_path / "rows.npy").unlink()
    assert torch.equal(rows[:], torch.zeros(5, 2))  # this process holds it open
    with pytest.raises(UsageError, match=r"rows.npy' cannot be read by this process"):
        pickle.loads(sent)


def test_a_map_that_copies_on_write_is_memory(tmp_path):
    saved(tmp_path, np.zeros((5, 2)))
    rows = np.load(tmp_path / "rows.npy", mmap_mode="c")
    rows[3] = 7
    copied = as_rows(rows)
    assert isinstance(copied, torch.Tensor)
    assert torch.equal(pickle.loads(pickle.dumps(copied))[3], torch.tensor([7.0, 7.0]))


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of memory")
@pytest.mark.parametrize("read", ["in order", "at random"])
def test_pages_that_were_read_are_given_back(read, tmp_path):
    def resident():
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(x for x in lines if x.startswith("RssFile")).split()[1]) / 1024

    rows = as_rows(saved(tmp_path, np.ones((60_000, 128), dtype=np.float32)))
    before = resident()
    if read == "in order":
        assert all(chunk.sum() > 0 for chunk in row_chunks(rows))
    else:
        assert rows[torch.arange(60_000).flip(0)].sum() > 0
    assert resident() - before < 8  # megabytes, of 31


def test_outputs_over_a_file_are_finite(tmp_path):
    rows = np.ones((70_000, 64), dtype=np.float32)
    rows[69_000, 3] = np.nan
    file = as_rows(saved(tmp_path, rows))
    with pytest.raises(NotFiniteError, match=r"1 of 70000 features of .* index 69000"):
        Outputs(file, torch.zeros(70_000, 2))
    part = take_rows(file, torch.arange(100))
    assert Outputs(part, torch.zeros(100, 2)).features is part
