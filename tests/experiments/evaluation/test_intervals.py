import math

import pytest
import torch
from scipy import stats

from fewlabels.errors import UsageError
from fewlabels.experiments.evaluation import accuracy_interval
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
