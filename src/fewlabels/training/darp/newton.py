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
from fewlabels.training.darp.problem import Tilted, Tilter, chunks

_MOST_STEPS = 100
_STEPS_BEFORE_A_DOUBT = (8, 16, 32, 64)
_MOST_TRIALS = 40
_NEAR = 400.0  # powers of two between which row duals stay useful
_FAR = 1e6  # powers of two that no target within reach asks for in one step
_RIDGE = 1e-12
_LEAST_DEGREE = 1e-200
_SINGLE_RANGE = 1e-20  # smallest column for which products fit single precision


def minimize(tilter: Tilter, start_K: Tensor, tolerance: float) -> tuple[Tilted, int]:
    """Find the dual with which all columns sum to their targets.

    Args:
        tilter: The problem.
        start_K: Where to begin.
        tolerance: Largest difference to the target that a column may keep.

    Returns:
        The rows at the optimum and the number of steps.

    Raises:
        InfeasibleTargetError: If there is no such dual, or if it is not found.
    """
    point = tilter.rows(start_K)
    for step in range(_MOST_STEPS):
        if point.error(tilter.problem) <= tolerance:
            return point, step
        if step in _STEPS_BEFORE_A_DOUBT:
            check_reachable(tilter.problem, point.dual_K)
        point = _stepped(tilter, point)
    check_reachable(tilter.problem, point.dual_K)
    msg = (
        f"After {_MOST_STEPS} steps of Newton's method a class is still "
        f"{point.error(tilter.problem):.3g} rows away from its target: entries that "
        "would have to grow are all but zero."
    )
    raise InfeasibleTargetError(msg)


def _stepped(tilter: Tilter, point: Tilted) -> Tilted:
    """Go along the Newton direction until the dual no longer falls steeply.

    g is convex: where it still falls ahead, it has fallen all the way; where it hardly
    rises, its minimum along the line is near.
    """
    target_K = tilter.problem.target_K
    direction_K = _direction(tilter, point)
    slope = float((target_K - point.columns_K) @ direction_K)
    span = float(direction_K.max() - direction_K.min()) * tilter.fastest
    if span > _FAR:
        check_reachable(tilter.problem, direction_K)
    length = min(1.0, _FAR / span)
    tried = point
    for _ in range(_MOST_TRIALS):
        near_M = point.row_duals_M if length * span < _NEAR else None
        tried = tilter.rows(point.dual_K + length * direction_K, near_M)
        ahead = float((target_K - tried.columns_K) @ direction_K)
        rise_M = point.row_duals_M - tried.row_duals_M
        rise = float(rise_M.sum() + length * (direction_K @ target_K))
        if ahead <= -0.1 * slope or rise <= 1e-4 * length * slope:
            break
        length *= min(max(slope / (slope - ahead), 0.1), 0.7)
    return tried


def _direction(tilter: Tilter, point: Tilted) -> Tensor:
    """Return a direction in which g falls; its entries sum to zero."""
    columns_K, target_K = point.columns_K, tilter.problem.target_K
    edges_KK = _edges(tilter, point)
    roots_K = edges_KK.sum(dim=1).clamp_min_(_LEAST_DEGREE).sqrt_()
    scaled_KK = -edges_KK / torch.outer(roots_K, roots_K)
    scaled_KK += torch.outer(roots_K, roots_K) / roots_K.square().sum()
    scaled_KK.diagonal().add_(1 + _RIDGE)
    factor_KK = torch.linalg.cholesky(scaled_KK)
    logs_K = torch.xlogy(columns_K, columns_K / target_K)
    straight_K = logs_K - columns_K * (logs_K.sum() / columns_K.sum())
    plain_K = columns_K - target_K
    residuals_K2 = torch.stack([straight_K, plain_K], dim=1) / roots_K[:, None]
    directions_K2 = torch.cholesky_solve(residuals_K2, factor_KK) / roots_K[:, None]
    directions_K2 -= directions_K2.mean(dim=0)
    straight_falls, _ = (plain_K @ directions_K2 > 0).tolist()
    return directions_K2[:, 0 if straight_falls else 1]


def _edges(tilter: Tilter, point: Tilted) -> Tensor:
    """Return Σ_m H_m x_mk x_ml for different classes, and zeros on the diagonal."""
    fits = float(point.columns_K.min()) > _SINGLE_RANGE
    dtype = torch.float32 if fits else torch.float64
    weights_M = tilter.problem.entropies_M.sqrt().div_(point.sums_M)
    num_classes = len(point.columns_K)
    edges_KK = weights_M.new_zeros(num_classes, num_classes, dtype=dtype)
    for chunk in chunks(tilter.buffer_MK):
        rows_mK = torch.empty_like(tilter.buffer_MK[chunk], dtype=dtype)
        torch.mul(tilter.buffer_MK[chunk], weights_M[chunk, None], out=rows_mK)
        edges_KK.addmm_(rows_mK.T, rows_mK)
    return edges_KK.double().fill_diagonal_(0)
