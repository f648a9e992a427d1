import math

import numpy as np
import pytest
import torch

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    accuracy_interval,
    expected_gain,
    fall_note,
    learning_curve,
)
from fewlabels.rng import stream


def answers(accuracies, num_audited):
    """Rounds of exactly these accuracies on one slice, later ones right about more."""
    return [
        [item < share * num_audited for item in range(num_audited)]
        for share in accuracies
    ]


def test_a_curve_has_the_interval_of_each_round():
    curve = learning_curve([10, 30], answers([0.5, 0.75], 40), 0.9)
    assert [point.num_labeled for point in curve] == [10, 30]
    assert [point.audited for point in curve] == [
        accuracy_interval(k, 40, 0.9) for k in (20, 30)
    ]


def test_a_curve_without_an_audit_is_all_open():
    (point,) = learning_curve([10], [[]])
    assert (point.audited.low, point.audited.high) == (0.0, 1.0)


def test_a_clean_power_law_is_gone_on_with():
    # Errors 1/4, 1/8, 1/16 at 20, 40, 80 labels: 80 more halve 1/16 again.
    gain = expected_gain([20, 40, 80], answers([0.75, 0.875, 0.9375], 4_000), 80, 0)
    assert gain.gain == pytest.approx(1 / 32, rel=0.01)
    assert gain.low <= gain.gain <= gain.high
    assert gain.high - gain.low < 0.02
    assert str(gain).startswith("80 more labels are expected to add 3.1 points")
    assert str(gain).endswith(" at the 80 % level).")


def test_the_fit_is_that_of_numpy():
    labels, right = [10, 25, 30, 60], answers([0.5, 0.7, 0.65, 0.8], 200)
    errors = [(0.5 + 200 - k) / 201 for k in map(sum, right)]
    slope, at_one = np.polyfit(np.log(labels), np.log(errors), 1)
    expected = math.exp(at_one) * (60**slope - 75**slope)
    found = expected_gain(labels, right, 15, 0)
    assert found.gain == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("shares", "seen"),
    [
        ([0.62, 0.72, 0.57], "62, 72, 57"),
        ([0.8, 0.7, 0.7, 0.6], "80, 70, 70, 60"),
        ([0.5, 0.72, 0.62], "50, 72, 62"),  # the line through them rises
        ([0.9, 0.9, 0.9], "90, 90, 90"),
        ([1.0, 1.0, 1.0], "100, 100, 100"),
    ],
)
def test_rounds_that_do_not_rise_clearly_carry_no_forecast(shares, seen):
    labels = [20, 40, 60, 80][: len(shares)]
    found = expected_gain(labels, answers(shares, 100), 20, 0)
    assert found.gain is None
    assert found.reason == (
        f"the accuracy ({seen} %) does not rise clearly with the labels so far."
    )


def test_a_fall_is_said_with_what_chance_does():
    assert fall_note(answers([0.6, 0.7, 0.55], 60)) == (
        "The accuracy fell from 70 % to 55 %: of 60 audited images, 9 changed from "
        "right to wrong and 0 from wrong to right. Chance alone would do as much in "
        "0.2 % of cases."
    )
    before = [True] * 5 + [False] * 15
    now = [False] * 3 + [True] * 4 + [False] * 13
    chance = (math.comb(5, 3) + math.comb(5, 4) + 1) / 2**5  # three or more of five
    note = fall_note([before, now])
    assert note is not None
    assert "5 changed" not in note
    assert "3 changed from right to wrong and 2 from wrong to right" in note
    assert f"as much in {100 * chance:.0f} % of cases" in note
    assert "less than 0.1 %" in fall_note(answers([0.9, 0.1], 1000))


def test_a_rise_is_no_fall():
    for shares in ([0.9, 0.5, 0.5], [0.5, 0.6], [0.5]):
        assert fall_note(answers(shares, 20)) is None
    assert fall_note([[], []]) is None


def test_few_rounds_leave_more_open_than_many():
    def width(labels):
        wiggle = [0.02 * (-1) ** i for i in range(len(labels))]
        shares = [1 - 2 / math.sqrt(n) + w for n, w in zip(labels, wiggle, strict=True)]
        found = expected_gain(labels, answers(shares, 1000), 80, 0)
        return found.high - found.low

    assert width([20, 40, 80]) > 2 * width([20, 25, 30, 40, 50, 60, 70, 80])


def test_the_interval_covers_what_then_happens():
    """Learners that obey another law, with a floor, audited on 100 items."""
    labels, more, covered, num_forecasts = [20, 40, 60, 80], 20, 0, 0

    def error(n, floor, start):
        return floor + start * n**-0.7

    for project in range(100):
        draws = stream(project, "simulated curve")
        floor, start = torch.rand(2, generator=draws).tolist()
        law = [error(n, 0.1 * floor, 2 + 2 * start) for n in [*labels, 100]]
        hardness = torch.rand(100, generator=draws)
        noise = 0.02 * torch.randn(4, generator=draws)
        right = hardness > (torch.tensor(law[:4]) + noise)[:, None]
        found = expected_gain(labels, right.tolist(), more, project)
        num_forecasts += found.gain is not None
        covered += found.gain is not None and found.low <= law[3] - law[4] <= found.high
    assert num_forecasts >= 80
    assert covered >= 0.7 * num_forecasts


def test_a_round_without_labels_does_not_count():
    right = answers([0.1, 0.5, 0.6, 0.8], 50)
    found = expected_gain([0, 10, 20, 30], right, 10, 0)
    assert found == expected_gain([10, 20, 30], right[1:], 10, 0)


def test_the_same_draws_give_the_same_forecast():
    right = answers([0.5, 0.6, 0.8], 50)
    first, second, other = (
        expected_gain([10, 20, 30], right, 10, seed) for seed in (0, 0, 1)
    )
    assert first == second != other


TRAINED = "the models so far were trained on"


@pytest.mark.parametrize(
    ("labels", "num_audited", "more", "reason"),
    [
        ([10, 20], 50, 5, f"{TRAINED} 2 different numbers of labels; at least 3"),
        ([10], 50, 5, f"{TRAINED} 1 different number of labels; at least 3"),
        ([10, 20, 20], 50, 5, f"{TRAINED} 2 different"),
        ([10, 20, 30], 9, 5, "9 audited images; at least 10"),
        ([], 50, 5, f"{TRAINED} 0"),
        ([0, 20, 30], 50, 5, f"{TRAINED} 2"),  # untrained: no point of the curve
        ([10, 20, 30], 50, 31, "31 more labels would exceed 2 times the current 30"),
    ],
)
def test_it_refuses_to_guess_and_says_why(labels, num_audited, more, reason):
    right = [[True] * num_audited] * len(labels)
    found = expected_gain(labels, right, more, 0)
    assert found.gain is None
    assert found.reason.startswith(reason)
    assert str(found) == f"No forecast: {found.reason}"


def test_refusals():
    right = answers([0.5, 0.6, 0.7], 20)
    with pytest.raises(ShapeError, match="give 2, one per round"):
        learning_curve([10, 20], right)
    with pytest.raises(ShapeError, match=r"row of right has 19 entries; give 20"):
        learning_curve([10, 20, 30], [*right[:2], right[2][1:]])
    with pytest.raises(UsageError, match="num_more is 0"):
        expected_gain([10, 20, 30], right, 0, 0)
    with pytest.raises(UsageError, match="level is 1"):
        expected_gain([10, 20, 30], right, 5, 0, level=1)
