import math
from statistics import fmean

import pytest

from fewlabels.errors import ShapeError, UsageError
from fewlabels.experiments.evaluation import (
    Change,
    Confidences,
    accuracy_interval,
    checks_to_confirm,
    expected_gain,
    fall_note,
    lasting_interval,
    learning_curve,
    stopping_advice,
)
from fewlabels.experiments.evaluation.measurement import GAINED, SPREAD, SPREAD_POWER


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
        lasting_interval(k, 40, 0.9) for k in (20, 30)
    ]
    assert [point.once for point in curve] == [
        accuracy_interval(k, 40, 0.9) for k in (20, 30)
    ]


def test_a_curve_without_an_audit_is_all_open():
    (point,) = learning_curve([10], [[]])
    assert (point.audited.low, point.audited.high) == (0.0, 1.0)


def test_sure_models_shorten_the_interval_for_one_look():
    right = answers([0.75, 0.8], 40)
    sure = [0.95 if each else 0.5 for each in right[1]]
    known = Confidences(checks=sure, mean=fmean(sure), num_images=1000)
    first, second = learning_curve([10, 20], right, confidences=[None, known])
    assert (first.once.kind, second.once.kind) == ("exact", "sharpened")
    assert first.audited == lasting_interval(30, 40)
    assert second.audited == lasting_interval(32, 40)


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


def test_the_gain_follows_from_the_predictions_that_change():
    # As many for each doubling: a share of 0.1 from 50 to 100, and again to 200.
    gain = expected_gain([Change(25, 50, 0.1), Change(50, 100, 0.1)], 100)
    middle = 0.1 * GAINED
    low, high = (middle + share * 0.1**SPREAD_POWER for share in SPREAD)
    assert (gain.low, gain.gain, gain.high) == pytest.approx((low, middle, high))
    assert str(gain) == (
        "100 more labels are expected to bring 1.2 points (-1.1 to 4.4 at the 90 % "
        "level)."
    )


def test_the_last_three_rounds_count():
    late = [Change(n, n + 20, 0.1 * 20 / n) for n in (60, 80, 100)]
    assert expected_gain([Change(10, 20, 1.0), *late], 20) == expected_gain(late, 20)
    assert expected_gain(late[1:], 20) != expected_gain(late, 20)


def test_fewer_changes_are_a_smaller_gain_and_at_last_little():
    shares = [0.3, 0.1, 0.05, 0.03, 0.01, 0.0]
    gains = [expected_gain([Change(100, 120, share)], 20) for share in shares]
    values = [gain.gain for gain in gains]
    assert values == sorted(values, reverse=True)
    little = [gain.is_little for gain in gains]
    assert little == sorted(little)
    assert (little[0], little[-1]) == (False, True)
    assert all(gain.low <= gain.gain <= gain.high for gain in gains)


@pytest.mark.parametrize(
    ("changes", "more", "reason"),
    [
        ([], 20, "it takes two models of one kind"),
        ([Change(0, 20, 0.9)], 20, "it takes two models"),  # untrained before
        ([Change(20, 20, 0.1)], 20, "it takes two models"),
        (
            [Change(10, 20, 0.3)],
            21,
            "21 more labels are too many to look ahead from 20.",
        ),
    ],
)
def test_it_refuses_to_guess_and_says_why(changes, more, reason):
    found = expected_gain(changes, more)
    assert found.gain is None
    assert not found.is_little
    assert found.reason.startswith(reason)
    assert str(found) == f"No forecast: {found.reason}"


@pytest.mark.parametrize("num_right", [0, 12, 30, 54, 57, 60])
def test_as_many_checks_as_are_advised_confirm_the_accuracy(num_right):
    audited = lasting_interval(num_right, 60)
    found = checks_to_confirm(audited)
    if found is None:
        assert num_right == 0
        return
    number, target = found
    assert audited.low < target < audited.accuracy
    right = int(audited.accuracy * (60 + number) + 1e-9)
    assert lasting_interval(right, 60 + number).low >= target - 1e-9
    assert number <= 200
    few = checks_to_confirm(audited, 30)
    assert few is None or (few[0] <= 30 and few[1] <= target)
    assert checks_to_confirm(audited, 0) is None


def test_advice_says_what_is_known():
    measured, little = lasting_interval(54, 60), Change(180, 200, 0.02)
    gain, more = expected_gain([little], 20), expected_gain([Change(20, 40, 0.4)], 20)
    checks = " About 120 more random checks would confirm at least 80 %."
    stop = "You may stop labeling (under 0.3 points for 20 labels)"
    assert stopping_advice(gain, measured) == f"{stop}: {gain}{checks}"
    assert stopping_advice(more, measured) == f"Go on labeling: {more}{checks}"
    assert stopping_advice(gain, lasting_interval(0, 0)).endswith("level).")
    unknown = expected_gain([], 20)
    assert stopping_advice(unknown, None) == str(unknown)
    assert stopping_advice(None, None) == ""


def test_refusals():
    right = answers([0.5, 0.6, 0.7], 20)
    with pytest.raises(ShapeError, match="give 2, one per round"):
        learning_curve([10, 20], right)
    with pytest.raises(ShapeError, match=r"row of right has 19 entries; give 20"):
        learning_curve([10, 20, 30], [*right[:2], right[2][1:]])
    with pytest.raises(ShapeError, match="give 3, one per round"):
        learning_curve([10, 20, 30], right, confidences=[None])
    with pytest.raises(UsageError, match="num_more is 0"):
        expected_gain([Change(10, 20, 0.1)], 0)
