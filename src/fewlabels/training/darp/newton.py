"""Newton's method on the dual of DARP.

Shapes: M rows of probabilities, K classes, m some of the rows.

With the row duals eliminated, what is left to minimize over K numbers is the convex

    g(ν) = Σ_m logΣexp_k(log y0_mk − H_m ν_k) / H_m + ν·T = −Σ_m μ_m(ν) + ν·T.

Its gradient is T − c, with c the column sums of the tilted rows x, and its Hessian is
the Laplacian of a graph over the classes whose edges weigh A_kl = Σ_m H_m x_mk x_ml.
The diagonal of a Laplacian is the sum of its edges: nothing is subtracted, and single
precision is enough for the products. A constant may be added to ν at will.

A step solves the linearized equations log c = log T rather than c = T. A class by
itself has c ~ exp(−H ν), whose logarithm is straight, so that a bad start is left in
fewer steps. Should that lead uphill, the plain Newton step, which cannot, is taken.
"""

import torch
from torch import Tensor

from fewlabels.errors import InfeasibleTargetError
from fewlabels.training.darp.feasibility import check_reachable
from fewlabels.training.darp.problem import NEAR, Point, RefinementProblem, Tilter

_MOST_STEPS = 100
_STEPS_BEFORE_A_DOUBT = (8, 16, 32, 64)
_MOST_TRIALS = 40
_LEAST_REACH, _LARGEST_REACH = 1e3, 1e12  # powers of two that a step may go
_LEAST_DEGREE = 1e-200
_LEAST_RATIO = torch.finfo(torch.float64).tiny  # an empty column has a logarithm too
_RIDGE = 1e-12
_EPSILON = torch.finfo(torch.float64).eps
_SINGLE_RANGE = 1e-20  # smallest column for which products fit single precision


def minimize(
    tilter: Tilter, start_K: Tensor, tolerance: float, rows_MK: Tensor
) -> tuple[Point, int]:
    """Find the dual with which all columns sum to their targets."""
    problem = tilter.problem
    tolerance = max(tolerance, 4 * _EPSILON * len(rows_MK))
    point = _begun(tilter, start_K, rows_MK)
    step, error = 0, problem.error(point.columns)
    while error > tolerance and step < _MOST_STEPS:
        if step in _STEPS_BEFORE_A_DOUBT:
            check_reachable(problem, point.dual)
        point = _stepped(tilter, point, rows_MK)
        step, error = step + 1, problem.error(point.columns)
    if error <= tolerance:
        return point, step
    check_reachable(problem, point.dual)
    if bool(start_K.any()):  # so far away that no step leads back
        point, more = minimize(tilter, torch.zeros_like(start_K), tolerance, rows_MK)
        return point, step + more
    raise InfeasibleTargetError(
        f"After {step} steps of Newton's method a class is still {error:.3g} rows away "
        "from its target: entries that would have to grow are all but zero."
    )


def _begun(tilter: Tilter, start_K: Tensor, rows_MK: Tensor) -> Point:
    """Begin at the start, or at zero if the start is of no use."""
    problem = tilter.problem
    point = tilter.point(start_K, tilter.rough_row_duals(start_K), rows_MK)
    is_fine = problem.error(point.columns) < float(problem.target.max())
    if is_fine or not bool(start_K.any()):
        return point
    zeros_K = torch.zeros_like(start_K)
    other = tilter.point(zeros_K, tilter.rough_row_duals(zeros_K), rows_MK)
    if _value(problem, other) <= _value(problem, point):
        return other
    return tilter.point(start_K, point.row_duals, rows_MK)


def _value(problem: RefinementProblem, point: Point) -> float:
    """Return g at a point."""
    return float(point.dual @ problem.target - point.row_duals.sum())


def _stepped(tilter: Tilter, point: Point, rows_MK: Tensor) -> Point:
    """Return a point along the Newton direction where g is lower.

    g is convex: where it still falls, it has fallen all the way. Near the optimum its
    differences drown in rounding, and a slope that has all but gone decides.
    """
    target_K = tilter.problem.target
    reach = min(max(_LEAST_REACH, 100 * tilter.span(point.dual)), _LARGEST_REACH)
    direction_K = _direction(tilter, point, rows_MK, reach / tilter.fastest)
    slope = float((target_K - point.columns) @ direction_K)
    span = tilter.span(direction_K)
    length = min(1.0, reach / max(span, 1.0))
    tried = point
    for _ in range(_MOST_TRIALS):
        dual_K = point.dual + length * direction_K
        is_near = length * span < NEAR
        near_M = point.row_duals if is_near else tilter.rough_row_duals(dual_K)
        tried = tilter.point(dual_K, near_M, rows_MK)
        ahead = float((target_K - tried.columns) @ direction_K)
        if ahead <= 0:
            break
        rise_M = point.row_duals - tried.row_duals
        rise = float(rise_M.sum() + length * (direction_K @ target_K))
        is_flat = ahead <= -0.1 * slope and rise <= _noise(tilter, point)
        if is_flat or rise <= 1e-4 * length * slope:
            break
        length *= min(max(slope / (slope - ahead), 0.1), 0.5)
    return tried


def _noise(tilter: Tilter, point: Point) -> float:
    """Return the size of what rounding adds to differences of g."""
    return _EPSILON * float(
        (1 / tilter.problem.entropies + point.row_duals.abs()).sum()
    )


def _direction(tilter: Tilter, point: Point, rows_MK: Tensor, reach: float) -> Tensor:
    """Return a direction in which g falls; its entries sum to zero."""
    columns_K, target_K = point.columns, tilter.problem.target
    is_single = float(columns_K.min()) > _SINGLE_RANGE
    edges_KK = _edges(tilter, rows_MK, torch.float32 if is_single else torch.float64)
    ratios_K = (columns_K / target_K).clamp_min_(_LEAST_RATIO)
    logs_K = torch.xlogy(columns_K, ratios_K)
    straight_K = logs_K - columns_K * (logs_K.sum() / columns_K.sum())
    plain_K = columns_K - target_K
    straight_step_K = _solution(edges_KK, straight_K, reach)
    plain_step_K = _solution(edges_KK, plain_K, reach)
    falls = float(plain_K @ straight_step_K) > 0
    is_short = tilter.span(straight_step_K) < 10 * tilter.span(plain_step_K)
    return straight_step_K if falls and is_short else plain_step_K


def _solution(edges_KK: Tensor, residual_K: Tensor, reach: float) -> Tensor:
    """Return the solution of the Laplacian's equations.

    A class whose rows are all but certain has no edges to go by: it is given just
    enough of a diagonal to go as far as the reach.
    """
    least_K = residual_K.abs().div_(reach).clamp_min_(_LEAST_DEGREE)
    roots_K = edges_KK.sum(dim=1).maximum(least_K).sqrt_()
    scaled_KK = -edges_KK / torch.outer(roots_K, roots_K)
    scaled_KK += torch.outer(roots_K, roots_K) / roots_K.square().sum()
    scaled_KK.diagonal().add_(1 + _RIDGE)
    factor_KK = torch.linalg.cholesky(scaled_KK)
    scaled_K1 = torch.cholesky_solve((residual_K / roots_K)[:, None], factor_KK)
    solution_K = scaled_K1[:, 0] / roots_K
    return solution_K - solution_K.mean()


def _edges(tilter: Tilter, rows_MK: Tensor, dtype: torch.dtype) -> Tensor:
    """Return Σ_m H_m x_mk x_ml for different classes, and zeros on the diagonal."""
    weights_M = tilter.problem.entropies.sqrt().to(dtype)
    num_classes = rows_MK.shape[1]
    edges_KK = weights_M.new_zeros(num_classes, num_classes)
    for chunk in tilter.chunks:
        weighted_mK = rows_MK[chunk].to(dtype) * weights_M[chunk, None]
        edges_KK.addmm_(weighted_mK.T, weighted_mK)
    double_KK = edges_KK.double()
    return ((double_KK + double_KK.T) / 2).fill_diagonal_(0)
