import math

import numpy as np
import pytest
import torch
from scipy import stats

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    Confidences,
    accuracy_interval,
    lasting_interval,
    sharpened_interval,
)
from fewlabels.rng import stream


@pytest.mark.parametrize(
    ("num_right", "num_audited", "level", "low", "high"),
    [
        # One item: the tails are p = .025 and 1 - p = .025.
        (1, 1, 0.95, 0.025, 1.0),
        (0, 1, 0.95, 0.0, 0.975),
        # All right: low ** n = .025, the "rule of three" at both ends.
        (10, 10, 0.95, 0.025 ** (1 / 10), 1.0),
        (0, 20, 0.9, 0.0, 1 - 0.05 ** (1 / 20)),
        # 1 of 2 right: 1 - (1 - p)^2 = .025 and 1 - p^2 = .025.
        (1, 2, 0.95, 1 - math.sqrt(0.975), math.sqrt(0.975)),
    ],
)
def test_golden_values(num_right, num_audited, level, low, high):
    interval = accuracy_interval(num_right, num_audited, level)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-12)
    assert interval.accuracy == num_right / num_audited


@pytest.mark.parametrize("num_audited", [1, 7, 30, 200])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_it_is_scipys_exact_interval(num_audited, level):
    for num_right in range(0, num_audited + 1, max(1, num_audited // 9)):
        interval = accuracy_interval(num_right, num_audited, level)
        oracle = stats.binomtest(num_right, num_audited).proportion_ci(level, "exact")
        assert (interval.low, interval.high) == pytest.approx(tuple(oracle), abs=1e-9)


def simulated_projects(interval_of, num_projects=100):
    """Audit 60 of 1,200 images in each project; count covered ones, compare widths."""
    num_items, num_audited = 1200, 60
    covered, width, reference = 0, 0.0, 0.0
    for project in range(num_projects):
        draws = stream(project, "simulated audit")
        skill = 0.5 + 0.5 * torch.rand(1, generator=draws)
        right = torch.rand(num_items, generator=draws) < skill
        slice_ = torch.randperm(num_items, generator=draws)[:num_audited]
        num_right = int(right[slice_].sum())
        low, high = interval_of(num_right, num_audited)
        covered += low <= float(right.double().mean()) <= high
        width += high - low
        exact = stats.binomtest(num_right, num_audited).proportion_ci(0.95, "exact")
        reference += exact.high - exact.low
    return covered, width / reference


def test_a_hundred_simulated_projects_are_covered():
    def ours(num_right, num_audited):
        interval = accuracy_interval(num_right, num_audited)
        return interval.low, interval.high

    covered, relative_width = simulated_projects(ours)
    assert covered >= 90
    assert relative_width <= 1.2


def test_the_simulation_can_fail():
    def half_as_wide(num_right, num_audited):
        interval = accuracy_interval(num_right, num_audited)
        quarter = (interval.high - interval.low) / 4
        return interval.low + quarter, interval.high - quarter

    covered, relative_width = simulated_projects(half_as_wide)
    assert covered < 90
    assert relative_width == pytest.approx(0.5)


def test_without_an_audit_anything_is_possible():
    interval = accuracy_interval(0, 0)
    assert (interval.low, interval.high, interval.accuracy) == (0.0, 1.0, None)
    assert str(interval).startswith("not measured: no image was audited")


def test_it_says_what_it_interval():
    assert "from 1 random image)" in str(accuracy_interval(1, 1))
    assert str(accuracy_interval(3, 4, 0.9)).startswith(
        "75.0 % (24.9 to 98.7 at the 90"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((5, 4), "num_right is 5; .* at most 4"),
        ((-1, 4), "num_right is -1"),
        ((1.0, 4), "num_right is 1.0, of type float"),
        ((1, 4, 1.0), "level is 1.0; it must be above 0 and below 1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(UsageError, match=message):
        accuracy_interval(*arguments)


# ---------------------------------------------------------------- however often one looks


@pytest.mark.parametrize("num_audited", [1, 2, 10, 30, 100])
def test_a_lasting_interval_contains_the_exact_one(num_audited):
    found = [lasting_interval(k, num_audited) for k in range(num_audited + 1)]
    for right, interval in enumerate(found):
        exact = accuracy_interval(right, num_audited)
        assert interval.low <= exact.low <= exact.high <= interval.high
        assert interval.low <= right / num_audited <= interval.high
    lows, highs = [each.low for each in found], [each.high for each in found]
    assert lows == sorted(lows)
    assert highs == sorted(highs)
    assert (lows[0], highs[-1]) == (0, 1)
    assert 0 < highs[0] < 1
    assert lows[-1] == pytest.approx(1 - highs[0])


def test_a_lasting_interval_without_an_audit_is_all_open():
    interval = lasting_interval(0, 0)
    assert (interval.low, interval.high, interval.accuracy) == (0, 1, None)


def test_a_lasting_interval_ends_where_the_mixture_explains_enough_more():
    # One of one right: the mixture by Jeffreys' prior explains it with chance 1/2.
    assert lasting_interval(1, 1, 0.9).low == pytest.approx(0.6 * 0.1 / 2)
    assert "however often one looks" in str(lasting_interval(3, 4))


def missed_at_any_look(interval_of, num_projects=300, num_looks=60):
    """Look after each of some checks; count projects with the truth outside once."""
    draws, missed, known = np.random.default_rng(0), 0, {}
    for _ in range(num_projects):
        truth = draws.uniform(0.6, 0.95)
        num_right = (draws.random(num_looks) < truth).cumsum().tolist()
        for number, right in enumerate(num_right, start=1):
            if (right, number) not in known:
                known[right, number] = interval_of(right, number)
            if not known[right, number].low <= truth <= known[right, number].high:
                missed += 1
                break
    return missed / num_projects


def test_a_lasting_interval_holds_at_all_looks_and_the_exact_one_does_not():
    assert missed_at_any_look(lasting_interval) <= 0.05
    assert missed_at_any_look(accuracy_interval) > 0.1


# ------------------------------------------------------------------ sharpened for one look


def simulated_model(seed, num_images=2000):
    """Return which images a model is right about, and how sure it is."""
    draws = np.random.default_rng(seed)
    sure = draws.beta(4, 1, num_images)
    return draws.random(num_images) < sure, sure


def sharpened(right, sure, chosen):
    rest = np.delete(sure, chosen)
    known = Confidences(
        checks=sure[chosen].tolist(), mean=float(rest.mean()), num_images=len(rest)
    )
    return sharpened_interval(right[chosen].tolist(), known)


def test_confidences_shorten_the_interval_and_it_still_covers():
    draws, covered, width, exact_width = np.random.default_rng(1), 0, 0.0, 0.0
    for seed in range(300):
        right, sure = simulated_model(seed)
        chosen = draws.permutation(len(right))[:40]
        found = sharpened(right, sure, chosen)
        exact = accuracy_interval(int(right[chosen].sum()), 40)
        covered += found.low <= right.mean() <= found.high
        width, exact_width = width + found.high - found.low, exact_width + exact.high
        exact_width -= exact.low
    assert covered >= 0.94 * 300
    assert width < 0.97 * exact_width


def test_confidences_that_tell_nothing_hardly_move_the_interval():
    right, _ = simulated_model(0)
    draws = np.random.default_rng(2)
    chosen = draws.permutation(len(right))[:200]
    found = sharpened(right, draws.random(len(right)), chosen)
    exact = accuracy_interval(int(right[chosen].sum()), 200)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high), abs=0.02)


@pytest.mark.parametrize(
    ("right", "sure"),
    [
        ([True] * 10 + [False] * 9, [0.9] * 10 + [0.4] * 9),  # too few
        ([True] * 30, [0.9, 0.8] * 15),  # no mistake to explain
        ([True] * 20 + [False] * 10, [0.7] * 30),  # equally sure
    ],
)
def test_where_confidences_cannot_help_the_interval_is_exact(right, sure):
    known = Confidences(checks=sure, mean=0.6, num_images=100)
    assert sharpened_interval(right, known) == accuracy_interval(sum(right), len(right))


def test_each_check_needs_a_confidence():
    with pytest.raises(ShapeError, match="audited item"):
        sharpened_interval([True], Confidences(checks=[], mean=0.5, num_images=9))
