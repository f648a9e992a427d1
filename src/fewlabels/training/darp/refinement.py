"""Refined pseudo-labels: the public side of DARP.

Shapes: M rows of probabilities, K classes.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewlabels.errors import InfeasibleTargetError
from fewlabels.training.darp import alternating, checks, newton, reference
from fewlabels.training.darp.feasibility import check_places
from fewlabels.training.darp.problem import Tilter

Weighting = Literal["entropy", "none"]
Masking = Literal["paper", "code"]
Solver = Literal["newton", "alternating"]


@dataclass(frozen=True, eq=False)
class Refinement:
    """Refined probabilities and how they were found."""

    refined: Tensor
    """Rows that sum to one, shape (M, K), of the type that was given."""
    dual: Tensor
    """The dual ν, shape (K,), float64, of mean zero: give it as the next ``start``."""
    iterations: int
    """Newton steps, or rounds of the alternating solver."""
    marginal_error: float
    """Largest difference of a column sum to its target, in rows, before rounding to
    the type that was given."""


def solve(
    probabilities: Tensor,
    target: Tensor,
    *,
    capacity: float | None = 2.0,
    weighting: Weighting = "entropy",
    masking: Masking = "paper",
    solver: Solver = "newton",
    start: Tensor | None = None,
    rounds: int = 10,
    tolerance: float = 1e-6,
) -> Refinement:
    """Move pseudo-labels as little as possible, so that classes get their numbers.

    Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
    Semi-supervised Learning" (NeurIPS 2020), Eq. (1) to (3) and Algorithm 1: of all
    matrices whose rows sum to one and whose columns sum to the target, return the one
    with the least Σ_m w_m KL(x_m || y_m). Rows are weighted by w = 1 / H, so that those
    with a high entropy H move most; a row that is certain stays.

    Args:
        probabilities: Rows that sum to one, shape (M, K), of any floating type.
        target: How many rows each class shall get, shape (K,); positive, adding up to
            M. See :mod:`fewlabels.training.darp.targets`.
        capacity: Before all else each column keeps its floor(capacity * target) largest
            entries, and the others become zero (the paper's delta). None keeps all.
        weighting: ``"entropy"`` as above, ``"none"`` to weight all rows equally.
        masking: ``"paper"`` moves away from the masked rows, with entropies of the
            original ones; a row of which nothing is left is not masked. ``"code"`` does
            what the authors' program does: rescale each column to its target, add 1e-6
            to every entry, divide the rows, and take the entropies of that.
        solver: ``"newton"`` meets the target to the tolerance, or raises;
            ``"alternating"`` balances columns and rows in turn, as the paper does, and
            stops after ``rounds`` wherever it is.
        start: The dual of an earlier refinement of similar probabilities.
        rounds: Most rounds of the alternating solver.
        tolerance: Largest difference of a column to its target, in rows.

    Returns:
        The refined rows, with the dual and the difference that is left.

    Raises:
        InfeasibleTargetError: If no such matrix exists.
    """
    checks.check_options(
        capacity=capacity,
        weighting=weighting,
        masking=masking,
        solver=solver,
        rounds=rounds,
        tolerance=tolerance,
    )
    probabilities = torch.as_tensor(probabilities)
    matrix_MK = checks.probability_rows(probabilities)
    target_K = checks.column_target(target, matrix_MK)
    start_K = checks.starting_dual(start, target_K)
    tilter = Tilter(
        reference.problem(
            matrix_MK,
            target_K,
            capacity=capacity,
            is_weighted=weighting == "entropy",
            is_smoothed=masking == "code",
        )
    )
    rows_MK = torch.empty_like(matrix_MK)
    try:
        check_places(tilter.problem)
        if solver == "newton":
            point, iterations = newton.minimize(tilter, start_K, tolerance, rows_MK)
        else:
            dual_K, row_duals_M, iterations = alternating.sweep(
                tilter, start_K, rounds, tolerance
            )
            point = tilter.point(dual_K, row_duals_M, rows_MK)
    except InfeasibleTargetError as error:
        raise InfeasibleTargetError(f"{error} {_advice(capacity, masking)}") from None
    return Refinement(
        refined=rows_MK.to(probabilities.dtype),
        dual=point.dual - point.dual.mean(),
        iterations=iterations,
        marginal_error=tilter.problem.error(point.columns),
    )


def refine(
    probabilities: Tensor,
    target: Tensor,
    *,
    capacity: float | None = 2.0,
    weighting: Weighting = "entropy",
    masking: Masking = "paper",
    solver: Solver = "newton",
    start: Tensor | None = None,
    rounds: int = 10,
    tolerance: float = 1e-6,
) -> Tensor:
    """Return the refined rows of :func:`solve`, and nothing else.

    Example:
        >>> sure, doubtful = [1.0, 0.0], [0.6, 0.4]
        >>> rows = torch.tensor([sure, sure, doubtful, doubtful])
        >>> refine(rows, torch.tensor([2.5, 1.5]), capacity=None)
        tensor([[1.0000, 0.0000],
                [1.0000, 0.0000],
                [0.2500, 0.7500],
                [0.2500, 0.7500]])

    Args:
        probabilities: Rows that sum to one, shape (M, K).
        target: How many rows each class shall get, shape (K,).
        capacity: How many times its target each column keeps; None keeps all.
        weighting: ``"entropy"`` or ``"none"``.
        masking: ``"paper"`` or ``"code"``.
        solver: ``"newton"`` or ``"alternating"``.
        start: The dual of an earlier refinement of similar probabilities.
        rounds: Most rounds of the alternating solver.
        tolerance: Largest difference of a column to its target, in rows.

    Returns:
        Rows that sum to one, shape (M, K), of the type that was given.
    """
    return solve(
        probabilities,
        target,
        capacity=capacity,
        weighting=weighting,
        masking=masking,
        solver=solver,
        start=start,
        rounds=rounds,
        tolerance=tolerance,
    ).refined


def _advice(capacity: float | None, masking: Masking) -> str:
    """Return what to do about a target out of reach."""
    other = "choose a target nearer to the predictions (darp.targets.estimated)"
    if capacity is None or masking == "code":
        return f"{other[0].upper()}{other[1:]}."
    return (
        f"Raise capacity, which is {capacity:g} (None masks nothing), use "
        f"masking='code', which leaves no entry at zero, or {other}."
    )
