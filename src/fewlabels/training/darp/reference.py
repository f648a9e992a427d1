"""From probabilities to the problem: masking and entropies.

Shapes: M rows of probabilities, K classes, m some of the rows.
"""

import torch
from torch import Tensor

from fewlabels.training.darp import masking
from fewlabels.training.darp.problem import LEAST_PROBABILITY, RefinementProblem, chunks

_LEAST_ENTROPY = 1e-8
_SMOOTHING = 1e-6  # of the public code


def problem(
    probabilities_MK: Tensor,
    target_K: Tensor,
    *,
    capacity: float | None,
    is_weighted: bool,
    is_smoothed: bool,
) -> RefinementProblem:
    """Return the problem of refining some rows."""
    least = float(probabilities_MK.min())
    if least != 0 and least < LEAST_PROBABILITY:
        is_nothing_MK = probabilities_MK < LEAST_PROBABILITY
        probabilities_MK = probabilities_MK.masked_fill(is_nothing_MK, 0)
    ones_M = target_K.new_ones(len(probabilities_MK))
    reference_MK, sums_M = probabilities_MK, ones_M
    has_zeros = least < LEAST_PROBABILITY
    if capacity is not None and is_smoothed:
        reference_MK = _smoothed(probabilities_MK, target_K, capacity)
        probabilities_MK, has_zeros = reference_MK, False
    elif capacity is not None:
        reference_MK, sums_M = _masked(probabilities_MK, target_K, capacity)
        has_zeros = True
    entropies_M = _entropies(probabilities_MK) if is_weighted else ones_M
    return RefinementProblem(reference_MK, sums_M, entropies_M, target_K, has_zeros)


def _entropies(probabilities_MK: Tensor) -> Tensor:
    """Return the entropy of each row, in nats, kept above zero; float64."""
    num_rows, num_classes = probabilities_MK.shape
    sums_M = probabilities_MK.new_empty(num_rows, dtype=torch.float64)
    entropies_M = torch.empty_like(sums_M)
    ones_K = sums_M.new_ones(num_classes)
    for chunk in chunks(probabilities_MK):
        rows_mK = probabilities_MK[chunk].double()
        logs_mK = rows_mK.clamp_min(LEAST_PROBABILITY).log_()
        torch.mv(rows_mK, ones_K, out=sums_M[chunk])
        torch.mv(logs_mK.mul_(rows_mK), ones_K, out=entropies_M[chunk])
    # Rows of single precision sum to one up to rounding: H is that of y / Σ y.
    entropies_M.neg_().div_(sums_M).add_(sums_M.log())
    return entropies_M.clamp_min_(_LEAST_ENTROPY)


def _masked(
    probabilities_MK: Tensor, target_K: Tensor, capacity: float
) -> tuple[Tensor, Tensor]:
    """Return the largest entries of each column and zeros: the paper's way.

    A row of which nothing would be left is not masked. The row sums come second.
    """
    counts = masking.places(target_K, capacity, len(probabilities_MK))
    kept_MK = masking.kept(probabilities_MK, counts)
    sums_M = kept_MK @ kept_MK.new_ones(len(target_K))
    is_empty_M = sums_M == 0
    kept_MK[is_empty_M] = probabilities_MK[is_empty_M]
    sums_M[is_empty_M] = 1
    return kept_MK, sums_M.double()


def _smoothed(probabilities_MK: Tensor, target_K: Tensor, capacity: float) -> Tensor:
    """Mask, bring each column to its target, smooth, divide: the public code's way."""
    counts = masking.places(target_K, capacity, len(probabilities_MK))
    matrix_MK = masking.kept(probabilities_MK, counts).double()
    scales_K = (target_K + _SMOOTHING) / (matrix_MK.sum(dim=0) + _SMOOTHING)
    matrix_MK.mul_(scales_K).add_(_SMOOTHING)
    return matrix_MK.div_(matrix_MK.sum(dim=1, keepdim=True))
