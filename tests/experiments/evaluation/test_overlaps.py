from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    chance_overlap,
    overlap_across_trials,
    overlap_of_differences,
    overlap_of_unions,
    overlap_per_trial,
)

# ------------------------------------------------------------------------- by hand

STARTS = [{0}, {9}]
ONE = [{0, 1, 2}, {9, 1, 3}]
OTHER = [{0, 2, 4}, {9, 1, 3}]


def test_three_overlaps_of_one_example():
    # Unions: {0, 1, 2, 3, 9} and {0, 1, 2, 3, 4, 9}.
    assert overlap_of_unions(ONE, OTHER) == 5 / 6
    # Acquired: {1, 2} with {2, 4}; {1, 3} with {1, 3}.
    assert overlap_per_trial(ONE, OTHER, starts=STARTS).tolist() == [1 / 3, 1]
    # {1, 2} with {1, 3}; {1, 3} with {2, 4}.
    found = overlap_across_trials(ONE, OTHER, starts=STARTS)
    assert found == pytest.approx((1 / 3 + 0) / 2)


LISTS = st.lists(st.lists(st.integers(0, 9)), min_size=6, max_size=6)


@given(LISTS)
def test_what_recurs_agrees_with_dense_vectors(label_lists):
    one, other = label_lists[:3], label_lists[3:]
    x = np.array(
        [
            np.bincount(a, minlength=10) - np.bincount(b, minlength=10)
            for a, b in zip(*(map(np.int_, side) for side in (one, other)), strict=True)
        ]
    )
    products = x @ x.T
    own = products.trace() / 3
    other_trials = (products.sum() - products.trace()) / 6
    expected = min(1, max(0, other_trials / own)) if own else 0
    assert overlap_of_differences(one, other) == pytest.approx(expected)


def test_what_recurs_at_the_ends_of_its_range():
    assert overlap_of_differences([{0}, {1}], [{2}, {3}]) == 0  # disjoint
    assert overlap_of_differences([{0}, {0}], [{2}, {2}]) == 1  # the same again
    assert overlap_of_differences([{9, 0}, {9, 1}], [{9, 2}, {9, 3}]) == 0  # the start
    assert overlap_of_differences([{0}], [{2}]) == 0
    assert overlap_of_differences([{0}, {1}], [{0}, {1}]) == 0


def test_what_recurs_is_the_correlation_if_items_add_up():
    rng = np.random.default_rng(0)
    sums, shares = [], []
    for _ in range(2000):
        amounts, tastes = rng.normal(size=(2, 100))
        trials = []
        for _ in range(2):
            liking = tastes + rng.normal(size=100)
            trials.append((np.argsort(liking)[:20], rng.permutation(100)[:20]))
        sums.append([amounts[a].sum() - amounts[b].sum() for a, b in trials])
        shares.append(overlap_of_differences(*zip(*trials, strict=True)))
    correlation = np.corrcoef(np.transpose(sums))[0, 1]
    assert np.mean(shares) == pytest.approx(correlation, abs=0.05)
    assert 0.1 < correlation < 0.5


def test_both_starts_are_left_out_across_trials():
    one, other = [{0, 1, 9}, {9, 5}], [{0, 7}, {9, 1, 0}]
    # Without 0 and 9: {1} with {1}; {5} with {7}.
    assert overlap_across_trials(one, other, starts=STARTS) == 0.5


def test_tensors_and_arrays_are_compared_by_their_numbers():
    # Elements of tensors are all different to a set, which would make any overlap 0.
    one = [torch.tensor(sorted(items)) for items in ONE]
    other = [np.array(sorted(items)) for items in OTHER]
    starts = [torch.tensor(sorted(items)) for items in STARTS]
    assert overlap_of_unions(one, other) == 5 / 6
    assert overlap_per_trial(one, other, starts=starts).tolist() == [1 / 3, 1]
    with pytest.raises(UsageError, match=r"An item of one is 1.5, of type float"):
        overlap_of_unions([[1.5]], [[1]])


@given(st.lists(st.sets(st.integers(0, 20), min_size=1), min_size=2, max_size=4))
def test_a_strategy_against_itself(label_sets):
    nothing = [()] * len(label_sets)
    assert overlap_of_unions(label_sets, label_sets) == 1
    assert (overlap_per_trial(label_sets, label_sets, starts=nothing) == 1).all()
    across = overlap_across_trials(label_sets, label_sets, starts=nothing)
    slow = [len(a & b) / len(a | b) for a, b in combinations(label_sets, 2)]
    assert across == pytest.approx(np.mean(slow))


def test_unions_of_more_trials_overlap_more():
    rng = np.random.default_rng(0)
    draws = [set(rng.choice(100, 20, replace=False).tolist()) for _ in range(20)]
    few = overlap_of_unions(draws[:2], draws[10:12])
    assert overlap_of_unions(draws[:10], draws[10:]) > few + 0.3


# ------------------------------------------------------------------- chance levels


def enumerated(pool_size, one_size, other_size, shared):
    """Mean IoU over all pairs of subsets, as a fraction."""
    common = set(range(-shared, 0))
    total = number = 0
    for one in combinations(range(pool_size), one_size):
        for other in combinations(range(pool_size), other_size):
            first, second = common | set(one), common | set(other)
            total += Fraction(len(first & second), len(first | second))
            number += 1
    return float(total / number)


@pytest.mark.parametrize("shared", [0, 1, 3])
@pytest.mark.parametrize(
    ("pool_size", "one_size", "other_size"),
    [(1, 1, 1), (4, 2, 2), (5, 2, 4), (6, 3, 3), (5, 5, 3), (6, 0, 2), (7, 5, 6)],
)
def test_chance_agrees_with_all_pairs_of_subsets(
    pool_size, one_size, other_size, shared
):
    found = chance_overlap(pool_size, one_size, other_size, shared=shared)
    assert found == pytest.approx(enumerated(pool_size, one_size, other_size, shared))
    turned = chance_overlap(pool_size, other_size, one_size, shared=shared)
    assert turned == pytest.approx(found)


def simulated_runs(rng, pool_size, starts, num_picks):
    """One strategy that picks at random: a label set per trial, start included."""
    runs = []
    for start in starts:
        rest = np.setdiff1d(np.arange(pool_size), list(start))
        runs.append(start | set(rng.choice(rest, num_picks, replace=False).tolist()))
    return runs


def assert_mean_is_zero(deviations):
    error = np.std(deviations, ddof=1) / np.sqrt(len(deviations))
    assert abs(np.mean(deviations)) < 4 * error
    assert error < 0.002  # so that the test can fail


POOL, PICKS, DRAWS = 120, 24, 1500
SEEDED_STARTS = [set(range(10)), set(range(5, 15)), set(range(10))]


def test_random_against_random_is_at_its_chance_level_per_trial():
    rng = np.random.default_rng(1)
    chance = chance_overlap(POOL - 10, PICKS, PICKS)
    deviations = []
    for _ in range(DRAWS):
        one, other = (simulated_runs(rng, POOL, SEEDED_STARTS, PICKS) for _ in range(2))
        found = overlap_per_trial(one, other, starts=SEEDED_STARTS)
        deviations.append(found.mean() - chance)
    assert_mean_is_zero(deviations)


def test_random_against_random_is_at_its_chance_level_of_unions():
    rng = np.random.default_rng(2)
    starts = set().union(*SEEDED_STARTS)
    deviations, overlaps = [], []
    for _ in range(DRAWS):
        one, other = (simulated_runs(rng, POOL, SEEDED_STARTS, PICKS) for _ in range(2))
        sizes = [len(set().union(*runs) - starts) for runs in (one, other)]
        chance = chance_overlap(POOL - len(starts), *sizes, shared=len(starts))
        overlaps.append(overlap_of_unions(one, other))
        deviations.append(overlaps[-1] - chance)
    assert_mean_is_zero(deviations)
    # The paper's measure makes random look three times as alike as it is.
    assert np.mean(overlaps) > 3 * chance_overlap(POOL - 10, PICKS, PICKS)


def test_a_shared_start_alone_looks_like_overlap():
    # 1,000 more labels after the same 1,000 of 50,000: a third, by chance.
    assert chance_overlap(49_000, 1000, 1000, shared=1000) == pytest.approx(0.34, 0.01)
    assert chance_overlap(49_000, 1000, 1000) == pytest.approx(0.01, abs=0.001)


# ------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: overlap_of_unions([], []), UsageError, "all trials together"),
        (
            lambda: overlap_per_trial([{1}], [{1}, {2}], starts=[{1}]),
            ShapeError,
            "other has 2 entries; give 1",
        ),
        (
            lambda: overlap_per_trial([], [], starts=[]),
            ShapeError,
            "one has 0 entries; give 1",
        ),
        (
            lambda: overlap_per_trial([{1}], [{1}], starts=[{1}]),
            UsageError,
            "Both sets of trial 0 are empty",
        ),
        (
            lambda: overlap_per_trial([{1, 2}], [{1, 3}], starts=[{1, 3}]),
            UsageError,
            "Trial 0: 1 of 2 starts",
        ),
        (
            lambda: overlap_across_trials([{1}], [{1}], starts=[()]),
            UsageError,
            "There is 1 trial",
        ),
        (lambda: chance_overlap(5, 6, 1), UsageError, r"\(6, 1\), .* 0 to 5"),
        (lambda: chance_overlap(5, -1, 1), UsageError, r"\(-1, 1\), .* 0 to 5"),
        (lambda: chance_overlap(5, 0, 0), UsageError, "not all of them 0"),
        (lambda: chance_overlap(5, 1.5, 1), UsageError, "one_size is 1.5"),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
