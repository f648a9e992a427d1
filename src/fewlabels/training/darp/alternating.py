"""DARP's own solver: columns and rows in turn (Kim et al., 2020, Algorithm 1).

Shapes: M rows of probabilities, K classes, m some of the rows.

A round makes each column sum to its target with the row duals held fixed, then each
row sum to one. A column is one equation in one unknown, f(ν_k) = T_k with f a sum of
falling exponentials. Its logarithm is convex and nearly straight: Newton's method on
it overshoots at most once and then goes to the root from one side. All columns are
solved together, and the last trial of a round also finds what the next one begins with.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.training.darp.problem import NEAR, Tilter

_MOST_TRIALS = 50


@dataclass(frozen=True, eq=False)
class Sums:
    """Column sums and their derivatives."""

    columns: Tensor
    """Column sums, shape (K,)."""
    speeds: Tensor
    """How fast each falls with its ν, shape (K,)."""


def sweep(
    tilter: Tilter, start_K: Tensor, rounds: int, tolerance: float
) -> tuple[Tensor, Tensor, int]:
    """Balance columns and rows in turn."""
    problem = tilter.problem
    dual_K = start_K
    row_duals_M = tilter.rough_row_duals(start_K)
    _, balanced, row_duals_M = _sums(tilter, dual_K, row_duals_M)
    for number in range(rounds):
        if problem.error(balanced.columns) <= tolerance:
            return dual_K, row_duals_M, number
        dual_K, balanced, row_duals_M = _balanced_columns(
            tilter, dual_K, balanced, row_duals_M, 0.1 * tolerance
        )
    return dual_K, row_duals_M, rounds


def _balanced_columns(
    tilter: Tilter, dual_K: Tensor, sums: Sums, row_duals_M: Tensor, tolerance: float
) -> tuple[Tensor, Sums, Tensor]:
    """Make every column sum to its target with the rows left alone, then the rows."""
    target_K = tilter.problem.target
    reach = NEAR / tilter.fastest
    balanced, exact_M = sums, row_duals_M
    for _ in range(_MOST_TRIALS):
        step_K = (sums.columns / target_K).log_()
        step_K.mul_(sums.columns).div_(sums.speeds)
        step_K.nan_to_num_(nan=-reach)  # a column that has vanished
        dual_K = dual_K + step_K.clamp_(-reach, reach)
        sums, balanced, exact_M = _sums(tilter, dual_K, row_duals_M)
        if tilter.problem.error(sums.columns) <= tolerance:
            break
    return dual_K, balanced, exact_M


def _sums(
    tilter: Tilter, dual_K: Tensor, row_duals_M: Tensor
) -> tuple[Sums, Sums, Tensor]:
    """Return sums with these row duals, sums with exact ones, and the exact ones."""
    entropies_M = tilter.problem.entropies
    ones_K, ones_M = torch.ones_like(dual_K), torch.ones_like(row_duals_M)
    sums_M = torch.empty_like(row_duals_M)
    totals_4K = dual_K.new_zeros(4, len(dual_K))
    for chunk, tilted_mK in tilter.tilted(dual_K, row_duals_M):
        torch.mv(tilted_mK, ones_K, out=sums_M[chunk])
        inverse_m = sums_M[chunk].reciprocal()
        totals_4K[0] += ones_M[chunk] @ tilted_mK
        totals_4K[1] += entropies_M[chunk] @ tilted_mK
        totals_4K[2] += inverse_m @ tilted_mK
        totals_4K[3] += inverse_m.mul_(entropies_M[chunk]) @ tilted_mK
    exact_M = tilter.exact_row_duals(row_duals_M, sums_M)
    return Sums(totals_4K[0], totals_4K[1]), Sums(totals_4K[2], totals_4K[3]), exact_M
