"""From probabilities to the problem: checks, entropies, masking.

Shapes: M rows of probabilities, K classes, m some of the rows.
"""

import math

import torch
from torch import Tensor

from fewlabels.training.darp import masking
from fewlabels.training.darp.problem import Problem, chunks

_LEAST_ENTROPY = 1e-8
_TINY = torch.finfo(torch.float64).tiny
_SMOOTHING = 1e-6  # of the public code


def problem(
    probabilities_MK: Tensor,
    target_K: Tensor,
    *,
    capacity: float | None,
    is_weighted: bool,
    is_smoothed: bool,
) -> Problem:
    """Return the problem of refining some rows.

    Args:
        probabilities_MK: Rows that sum to one, checked.
        target_K: Wanted column sums, checked; float64.
        capacity: Each column keeps this many times its target; None keeps all.
        is_weighted: Whether rows are weighted by 1 / H, else all equally.
        is_smoothed: Whether the masked matrix is rescaled and smoothed as in the public
            code, where the paper leaves zeros and takes the original entropies.

    Returns:
        The problem.
    """
    if capacity is not None and is_smoothed:
        reference_MK = _smoothed(probabilities_MK, target_K, capacity)
    else:
        reference_MK = probabilities_MK
    logarithms_MK, entropies_M, has_zeros = _logarithms(reference_MK)
    if capacity is not None and not is_smoothed:
        _mask(logarithms_MK, probabilities_MK, target_K, capacity)
        has_zeros = True
    if not is_weighted:
        entropies_M = torch.ones_like(entropies_M)
    return Problem(logarithms_MK, entropies_M, target_K, has_zeros)


def _logarithms(reference_MK: Tensor) -> tuple[Tensor, Tensor, bool]:
    """Return base-2 logarithms and entropies (in nats), and whether there are zeros."""
    logarithms_MK = torch.empty_like(reference_MK, dtype=torch.float64)
    sums_M = logarithms_MK.new_empty(len(reference_MK))
    entropies_M = torch.empty_like(sums_M)
    ones_K = logarithms_MK.new_ones(reference_MK.shape[1])
    has_zeros = float(reference_MK.min()) == 0
    for chunk in chunks(reference_MK):
        rows_mK = reference_MK[chunk].double()
        logs_mK = logarithms_MK[chunk]
        torch.clamp_min(rows_mK, _TINY, out=logs_mK).log2_()
        torch.mv(rows_mK, ones_K, out=sums_M[chunk])
        torch.mv(rows_mK * logs_mK, ones_K, out=entropies_M[chunk])
        if has_zeros:
            logs_mK.masked_fill_(rows_mK == 0, -torch.inf)
    # Rows of single precision sum to one up to rounding: H is that of y / Σ y.
    entropies_M.mul_(-math.log(2)).div_(sums_M).add_(sums_M.log())
    return logarithms_MK, entropies_M.clamp_min_(_LEAST_ENTROPY), has_zeros


def _mask(
    logarithms_MK: Tensor, probabilities_MK: Tensor, target_K: Tensor, capacity: float
) -> None:
    """Set what is masked to log 0; a row of which nothing is left keeps everything."""
    counts = masking.places(target_K, capacity, len(probabilities_MK))
    keep_MK = masking.largest(probabilities_MK, counts)
    for chunk in chunks(probabilities_MK):
        keep_mK = keep_MK[chunk]
        is_empty_m = ~(keep_mK & (probabilities_MK[chunk] > 0)).any(dim=1)
        keep_mK |= is_empty_m[:, None]
        logarithms_MK[chunk].masked_fill_(~keep_mK, -torch.inf)


def _smoothed(probabilities_MK: Tensor, target_K: Tensor, capacity: float) -> Tensor:
    """Mask, bring each column to its target, smooth, divide: the public code's way."""
    counts = masking.places(target_K, capacity, len(probabilities_MK))
    keep_MK = masking.largest(probabilities_MK, counts)
    matrix_MK = probabilities_MK.double() * keep_MK
    scales_K = (target_K + _SMOOTHING) / (matrix_MK.sum(dim=0) + _SMOOTHING)
    matrix_MK.mul_(scales_K).add_(_SMOOTHING)
    return matrix_MK.div_(matrix_MK.sum(dim=1, keepdim=True))
