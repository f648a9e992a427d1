import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from sklearn.isotonic import IsotonicRegression

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import area_under_curve, labels_saved

LABELS = [10, 30, 50, 70]


@pytest.mark.parametrize(
    ("num_labels", "accuracies", "area"),
    [
        ([10, 30], [0.5, 0.7], 0.6),
        ([10, 20, 40], [0.5, 0.7, 0.8], (0.6 * 10 + 0.75 * 20) / 30),
        ([0, 1, 2, 4], [0, 1, 1, 0], (0.5 + 1 + 1) / 4),
        ([20], [0.7], 0.7),
    ],
)
def test_areas_by_hand(num_labels, accuracies, area):
    assert area_under_curve(num_labels, accuracies) == pytest.approx(area)


def test_the_area_agrees_with_numpy_and_scipy():
    rng = np.random.default_rng(0)
    labels = np.cumsum(rng.integers(1, 30, size=9))
    accuracies = rng.uniform(size=(3, 5, 9))
    found = area_under_curve(labels, accuracies)
    scaled = (labels - labels[0]) / (labels[-1] - labels[0])
    assert found.shape == (3, 5)
    np.testing.assert_allclose(found, np.trapezoid(accuracies, scaled))
    np.testing.assert_allclose(found, integrate.trapezoid(accuracies, scaled))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.data())
def test_the_area_is_a_mean_accuracy(accuracies, data):
    steps = data.draw(
        st.lists(st.integers(1, 50), min_size=len(accuracies), max_size=len(accuracies))
    )
    labels = np.cumsum(steps)
    area = float(area_under_curve(labels, accuracies))
    assert min(accuracies) - 1e-9 <= area <= max(accuracies) + 1e-9
    shifted = area_under_curve(labels * 3 + 7, np.array(accuracies) + 1)
    assert float(shifted) == pytest.approx(area + 1)


def test_savings_by_hand():
    found = labels_saved(LABELS, [[0.5, 0.85, 0.7, 0.99]], [[0.5, 0.7, 0.9, 0.9]])
    assert [one.reached for one in found] == [
        "from the start",
        "within the budget",
        "within the budget",
        "never",
    ]
    # 3/4 of the way from 30 to 50, by logarithms of one label more.
    assert found[1].needed_by_random == pytest.approx(31 * (51 / 31) ** 0.75 - 1)
    assert found[2].needed_by_random == 30  # random had it earlier: a loss
    for one in (found[0], found[3]):
        assert one.needed_by_random is None
    assert [one.num_labels for one in found] == LABELS
    assert [one.accuracy for one in found] == [0.5, 0.85, 0.7, 0.99]
    assert {(one.low, one.high) for one in found} == {(None, None)}  # a single seed
    assert [one.worth for one in found] == ["at most 10", "44", "30", "over 70"]


def test_a_dip_of_random_is_smoothed():
    found = labels_saved(LABELS, [[0.1, 0.2, 0.3, 0.625]], [[0.4, 0.6, 0.5, 0.7]])
    # 0.55 at 30 and at 50 labels, then half of the way to 0.7 at 70.
    assert found[3].needed_by_random == pytest.approx((51 * 71) ** 0.5 - 1)


def test_the_first_time_counts_where_random_stands_still():
    found = labels_saved(LABELS, [[0.1, 0.6, 0.6, 0.6]], [[0.4, 0.6, 0.6, 0.6]])
    assert [one.needed_by_random for one in found] == [None, 30, 30, 30]


def slow_needed(labels, curve, accuracy):
    """Walk over random's curve in small steps until it is as high."""
    monotone = IsotonicRegression().fit_transform(labels, curve)
    grid = np.linspace(labels[0], labels[-1], 60_001)
    heights = np.interp(np.log1p(grid), np.log1p(labels), monotone)
    there = np.flatnonzero(heights >= accuracy - 1e-9)
    return float(grid[there[0]]) if len(there) else None


@pytest.mark.parametrize("seed", range(20))
def test_savings_agree_with_walking_along_the_curve(seed):
    rng = np.random.default_rng(seed)
    own = np.round(rng.uniform(size=(1, 4)), 1)  # rounded, so that there are ties
    other = np.round(rng.uniform(size=(1, 3)), 1)
    for one in labels_saved(LABELS, own, other, random_labels=[5, 20, 90]):
        slow = slow_needed([5, 20, 90], other[0], one.accuracy)
        if one.needed_by_random is not None:
            assert one.needed_by_random == pytest.approx(slow, abs=0.01)
        elif one.reached == "never":
            assert slow is None
        else:
            assert slow == 5


def test_random_saves_nothing_against_itself():
    curves = [[0.5, 0.7, 0.8, 0.9], [0.4, 0.72, 0.8, 0.93]]
    found = labels_saved(LABELS, curves, curves)
    assert [one.needed_by_random for one in found] == [None, *LABELS[1:]]
    # Resampled together, both have the same curve whichever seeds are drawn.
    assert [(one.low, one.high) for one in found[1:]] == [(n, n) for n in LABELS[1:]]
    assert found[1].worth == "30 (30 to 30)"


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    labels = np.array([10, 20, 40, 80, 160])
    mean = 0.3 + 0.1 * np.log(labels)
    truth = 40.0
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(100):
        luck = rng.normal(scale=0.02, size=(20, 1))  # of a seed, shared by both
        random = mean + luck + rng.normal(scale=0.02, size=(20, 5))
        own = mean[2] + luck + rng.normal(scale=0.02, size=(20, 1))
        (one,) = labels_saved([20], own, random, random_labels=labels)
        assert one.low <= one.high
        covered += one.low <= truth <= one.high
    assert 88 <= covered <= 99


def test_the_ends_of_an_interval_may_be_bounds():
    random = [[0.5, 0.6], [0.5, 0.7], [0.4, 0.6]]
    (one,) = labels_saved([15], [[0.65]] * 3, random, random_labels=[10, 20])
    assert (one.reached, one.high) == ("never", None)
    assert 10 < one.low < 20
    assert one.worth == f"over 20 ({one.low:.0f} to over 20)"
    (one,) = labels_saved([15], [[0.47]] * 3, random, random_labels=[10, 20])
    assert one.low == 0
    assert one.worth.startswith("10 (less than 10 to 1")
    (far,) = labels_saved([15], [[0.9]] * 3, random, random_labels=[10, 20])
    assert (far.low, far.high, far.worth) == (20, None, "over 20")
    (near,) = labels_saved([15], [[0.1]] * 3, random, random_labels=[10, 20])
    assert (near.low, near.high, near.worth) == (0, 10, "at most 10")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: area_under_curve([10, 10], [1, 1]), UsageError, "rising whole"),
        (lambda: area_under_curve([10, 20.5], [1, 1]), UsageError, "whole numbers"),
        (lambda: area_under_curve([-1, 2], [1, 1]), UsageError, "whole numbers from 0"),
        (
            lambda: area_under_curve([10, 20], [1]),
            ShapeError,
            "give 2, one per entry of num_labels",
        ),
        (lambda: area_under_curve([10], 0.5), ShapeError, r"shape \(\)"),
        (lambda: area_under_curve([1, 2], [1, np.nan]), UsageError, "1 of 2 numbers"),
        (
            lambda: labels_saved([1, 2], [[1]], [[1, 2]]),
            ShapeError,
            "accuracies has 1 entries",
        ),
        (
            lambda: labels_saved([1, 2], [[1, 2]], [[1]]),
            ShapeError,
            "random_accuracies has 1 entries",
        ),
        (lambda: labels_saved([1], [1], [[1]]), ShapeError, r"\(seeds, measurements"),
        (
            lambda: labels_saved([1], [[1]], [[1], [1]]),
            ShapeError,
            "give 1, one per seed",
        ),
    ],
)
def test_refusals(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
