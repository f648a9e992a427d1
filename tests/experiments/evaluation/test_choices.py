import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    class_coverage,
    redundant_share,
)


@pytest.mark.parametrize(
    ("counts", "coverage"),
    [([1, 1, 1, 1], 1), ([4, 0, 0, 0], 0.25), ([2, 1, 1, 0], 0.75), ([5], 1)],
)
def test_coverage_by_hand(counts, coverage):
    assert class_coverage(counts) == coverage


def test_larger_random_sets_have_more_of_the_classes():  # paper, Sec. 1
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 100)

    def mean_coverage(size):
        sets = [rng.choice(labels, size, replace=False) for _ in range(300)]
        return np.mean([class_coverage(np.bincount(s, minlength=10)) for s in sets])

    for size in (10, 20, 40):
        assert mean_coverage(size) == pytest.approx(1 - 0.9**size, abs=0.02)
    assert mean_coverage(200) == 1


def slow_redundant_share(picks, labeled, groups):
    """Go through the picks one by one, as the definition says."""
    seen = [groups[item] for item in labeled]
    num_redundant = 0
    for pick in picks:
        num_redundant += groups[pick] in seen
        seen.append(groups[pick])
    return num_redundant / len(picks)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=25), st.data())
def test_redundancy_agrees_with_going_one_by_one(groups, data):
    order = data.draw(st.permutations(range(len(groups))))
    num_picks = data.draw(st.integers(1, len(groups)))
    num_labeled = data.draw(st.integers(0, len(groups) - num_picks))
    picks = order[:num_picks]
    labeled = order[num_picks : num_picks + num_labeled]
    found = redundant_share(picks, labeled, groups)
    assert found == pytest.approx(slow_redundant_share(picks, labeled, groups))
    turned = slow_redundant_share(picks[::-1], labeled, groups)
    assert found == pytest.approx(turned)  # in any order


def test_tensors_are_taken():
    found = redundant_share(
        torch.tensor([0, 1, 3, 5]), torch.tensor([4]), torch.tensor([0, 0, 0, 1, 1, 2])
    )
    assert found == 0.5


def test_without_copies_nothing_is_redundant():
    assert redundant_share([3, 1], [0], np.arange(5)) == 0
    assert redundant_share([1], [], [0, 0]) == 0


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: class_coverage([1, -1]), UsageError, "none can be below 0"),
        (lambda: class_coverage([]), ShapeError, r"counts has shape \(0,\)"),
        (lambda: class_coverage([[1, 2]]), ShapeError, r"shape \(classes,\)"),
        (lambda: class_coverage([1, np.nan]), UsageError, "1 of 2 numbers in counts"),
        (lambda: redundant_share([], [], [0]), UsageError, r"picks are \[\]"),
        (lambda: redundant_share([0, 0], [], [0]), UsageError, "items, each once"),
        (
            lambda: redundant_share([0], [0], [0]),
            UsageError,
            r"labeled \[0\]; give new",
        ),
        (lambda: redundant_share([2], [], [0, 1]), UsageError, "positions below 2"),
        (lambda: redundant_share([0], [-1], [0, 1]), UsageError, r"labeled \[-1\]"),
        (lambda: redundant_share([0], [], [0.5]), ShapeError, "groups is float64"),
        (lambda: redundant_share([0], [], [[0]]), ShapeError, r"int64 \(1, 1\)"),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
