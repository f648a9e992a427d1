"""Calls that cannot be right, told with the numbers seen."""

import math

import pytest
import torch
from tests.training.darp.rows import EXAMPLE, TWO_EACH

from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.training import darp


def changed(row, column, value):
    rows = EXAMPLE.clone()
    rows[row, column] = value
    return rows


@pytest.mark.parametrize(
    ("rows", "kind", "message"),
    [
        (EXAMPLE[0], ShapeError, r"probabilities have shape \(3,\); give one row"),
        (EXAMPLE[:0], ShapeError, r"probabilities have shape \(0, 3\)"),
        (EXAMPLE[:, :0], ShapeError, r"probabilities have shape \(6, 0\)"),
        (EXAMPLE.long(), UsageError, r"of type torch\.int64; give floating point"),
        (changed(4, 1, 0.6), UsageError, r"Row 4 .* sums to 1\.1, .* 1 of 6 rows"),
        (EXAMPLE * 2, UsageError, r"Row 0 .* sums to 2, .* 6 of 6 rows"),
        (changed(2, 1, math.nan), UsageError, r"Row 2 .* sums to nan, .* 1 of 6"),
        (changed(2, 1, math.inf), UsageError, r"Row 2 .* sums to inf"),
        (
            torch.tensor([[0.5, 0.5], [1.25, -0.25]]),
            UsageError,
            r"probability of class 1 in row 1 is -0\.25; .* none of them below 0",
        ),
    ],
)
def test_rows_that_are_no_probabilities(rows, kind, message):
    with pytest.raises(kind, match=message):
        darp.refine(rows, TWO_EACH)


@pytest.mark.parametrize(
    ("target", "kind", "message"),
    [
        ([3.0, 3.0], ShapeError, r"target has shape \(2,\), .* have 3 columns"),
        ([[2.0, 2.0, 2.0]], ShapeError, r"target has shape \(1, 3\)"),
        ([3.0, 3.0, 0.0], UsageError, r"target of class 2 is 0; .* share above 0"),
        ([4.0, 4.0, -2.0], UsageError, r"target of class 2 is -2"),
        ([2.0, math.nan, 2.0], UsageError, r"target of class 1 is nan"),
        ([2.0, 2.0, 3.0], UsageError, r"adds up to 7, and there are 6 rows"),
        ([2.0, 2.0, math.inf], UsageError, r"adds up to inf, and there are 6 rows"),
    ],
)
def test_targets_that_mean_nothing(target, kind, message):
    with pytest.raises(kind, match=message):
        darp.refine(EXAMPLE, torch.tensor(target))


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"capacity": 0.9}, UsageError, r"capacity is 0\.9; .* at least 1 .* or None"),
        ({"capacity": math.nan}, UsageError, "capacity is nan"),
        ({"rounds": 0}, UsageError, r"rounds is 0; give at least 1"),
        ({"rounds": 2.5}, UsageError, r"rounds is 2\.5, of type float"),
        ({"tolerance": 0.0}, UsageError, r"tolerance is 0\.0; .* such as 1e-6"),
        ({"tolerance": math.nan}, UsageError, "tolerance is nan"),
        ({"tolerance": math.inf}, UsageError, "tolerance is inf"),
        ({"weighting": "entrop"}, UnknownNameError, "weighting called 'entrop'"),
        ({"masking": "papers"}, UnknownNameError, r"masking called .* 'paper'\?"),
        ({"solver": "newtons"}, UnknownNameError, r"solver called .* 'newton'\?"),
        (
            {"start": torch.zeros(4)},
            ShapeError,
            r"start has shape \(4,\), and there are 3 classes",
        ),
        (
            {"start": torch.tensor([0.0, math.nan, math.inf])},
            UsageError,
            r"2 of 3 entries of start are not finite",
        ),
    ],
)
def test_options_that_mean_nothing(options, kind, message):
    with pytest.raises(kind, match=message):
        darp.refine(EXAMPLE, TWO_EACH, **options)


def test_the_last_digits_of_a_target_are_forgiven():
    close = TWO_EACH.float() * (1 + 5e-7)
    refined = darp.refine(EXAMPLE, close, capacity=None)
    torch.testing.assert_close(refined.sum(dim=0), TWO_EACH, rtol=0, atol=1e-5)
    with pytest.raises(UsageError, match=r"adds up to 6\.00003, and there are 6 rows"):
        darp.refine(EXAMPLE, TWO_EACH * (1 + 5e-6), capacity=None)
