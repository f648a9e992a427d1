"""DARP's own solver: rows and columns in turn (Kim et al., 2020, Algorithm 1).

Shapes: M rows of probabilities, K classes.

A round makes each column sum to its target with the row duals held fixed, then each
row sum to one. A column is one equation in one unknown, f(ν_k) = T_k with f a sum of
falling exponentials. Its logarithm is convex and nearly straight: Newton's method on
it overshoots at most once and then goes to the root from one side. All columns are
solved together, and what the last trial computed serves the rows.
"""

import torch
from torch import Tensor

from fewlabels.training.darp.problem import Tilted, Tilter

_MOST_TRIALS = 50
_NEAR = 400.0  # powers of two by which a trial may change an entry


def sweep(
    tilter: Tilter, start_K: Tensor, rounds: int, tolerance: float
) -> tuple[Tilted, int]:
    """Balance columns and rows in turn.

    Args:
        tilter: The problem.
        start_K: Where to begin.
        rounds: How many rounds at most.
        tolerance: Largest difference to the target at which the rounds end early; the
            columns of a round are solved to a tenth of it.

    Returns:
        The rows after the last round, which sum to one, and the number of rounds.
    """
    point = tilter.rows(start_K)
    for number in range(rounds):
        if point.error(tilter.problem) <= tolerance:
            return point, number
        dual_K = _balanced_columns(tilter, point, 0.1 * tolerance)
        point = tilter.summed(dual_K, point.row_duals_M)
    return point, rounds


def _balanced_columns(tilter: Tilter, point: Tilted, tolerance: float) -> Tensor:
    """Return the dual with which every column sums to its target, rows left alone."""
    target_K = tilter.problem.target_K
    dual_K, sums_K = point.dual_K, point.columns_K
    speeds_K = tilter.column_speeds(point.sums_M)
    reach = _NEAR / tilter.fastest
    for _ in range(_MOST_TRIALS):
        step_K = (sums_K / target_K).log_().mul_(sums_K).div_(speeds_K)
        step_K = step_K.nan_to_num_(nan=-reach)  # a column that has vanished
        dual_K = dual_K + step_K.clamp_(-reach, reach)
        sums_K, speeds_K = tilter.columns(dual_K, point.row_duals_M)
        if float((sums_K - target_K).abs().max()) <= tolerance:
            break
    return dual_K
