"""Calls that cannot be right, told with the numbers seen."""

import math

import pytest
import torch
from tests.training.darp.rows import EXAMPLE, TWO_EACH

from fewlabels.errors import UsageError
from fewlabels.training import darp


def changed(row, column, value):
    rows = EXAMPLE.clone()
    rows[row, column] = value
    return rows


NOT_ROWS = "apply torch.softmax"
NOT_MATRIX = "give floating point numbers"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (EXAMPLE[0], rf"shape \(3,\) and type torch\.float64; {NOT_MATRIX}"),
        (EXAMPLE[:0], rf"shape \(0, 3\) .*{NOT_MATRIX}"),
        (EXAMPLE[:, :0], rf"shape \(6, 0\) .*{NOT_MATRIX}"),
        (EXAMPLE.long(), rf"type torch\.int64; {NOT_MATRIX}"),
        (changed(4, 1, 0.6), rf"1 of 6 rows .*\(as 4: 1\.1,.*{NOT_ROWS}"),
        (EXAMPLE * 2, r"6 of 6 rows .*\(as 0: 2,"),
        (changed(2, 1, math.nan), r"1 of 6 rows .*\(as 2: nan,"),
        (changed(2, 1, math.inf), r"1 of 6 rows .*\(as 2: inf,"),
        (torch.tensor([[0.5, 0.5], [1.25, -0.25]]), "least -0.25"),
    ],
)
def test_rows_that_are_no_probabilities(rows, message):
    with pytest.raises(UsageError, match=message):
        darp.refine(rows, TWO_EACH)


@pytest.mark.parametrize(
    ("target", "seen"),
    [
        ([3.0, 3.0], r"\[3\.0, 3\.0\] and adds up to 6"),
        ([[2.0, 2.0, 2.0]], r"\[\[2\.0, 2\.0, 2\.0\]\]"),
        ([3.0, 3.0, 0.0], r"\[3\.0, 3\.0, 0\.0\]"),
        ([4.0, 4.0, -2.0], r"\[4\.0, 4\.0, -2\.0\]"),
        ([2.0, math.nan, 2.0], "adds up to nan"),
        ([2.0, 2.0, 3.0], "adds up to 7"),
        ([2.0, 2.0, math.inf], "adds up to inf"),
    ],
)
def test_targets_that_mean_nothing(target, seen):
    message = rf"target is .*{seen}.*3 numbers above 0 that add up to 6"
    with pytest.raises(UsageError, match=message):
        darp.refine(EXAMPLE, torch.tensor(target))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"capacity": 0.9}, r"capacity is 0\.9; it must be at least 1"),
        ({"capacity": math.nan}, "capacity is nan"),
        ({"rounds": 0}, r"rounds is 0; it must be at least 1"),
        ({"rounds": 2.5}, r"rounds is 2\.5, of type float"),
        ({"tolerance": 0.0}, r"tolerance is 0\.0; it must be above 0"),
        ({"tolerance": math.nan}, "tolerance is nan"),
        ({"tolerance": math.inf}, "tolerance is inf"),
        ({"weighting": "entrop"}, "weighting called 'entrop'"),
        ({"masking": "papers"}, r"masking called .* 'paper'\?"),
        ({"solver": "newtons"}, r"solver called .* 'newton'\?"),
        ({"start": torch.zeros(4)}, r"start is \[0\.0, .* 3 classes"),
        (
            {"start": torch.tensor([0.0, math.nan, 1.0])},
            r"start is \[0\.0, nan, 1\.0\]",
        ),
    ],
)
def test_options_that_mean_nothing(options, message):
    with pytest.raises(UsageError, match=message):
        darp.refine(EXAMPLE, TWO_EACH, **options)


def test_the_last_digits_of_a_target_are_forgiven():
    close = TWO_EACH.float() * (1 + 5e-7)
    refined = darp.refine(EXAMPLE, close, capacity=None)
    torch.testing.assert_close(refined.sum(dim=0), TWO_EACH, rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match=r"adds up to 6\.00003; .* add up to 6"):
        darp.refine(EXAMPLE, TWO_EACH * (1 + 5e-6), capacity=None)
