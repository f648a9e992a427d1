"""Spectra of Gram matrices; pure functions.

Shapes: N items in the pool, S members of a set, F penultimate features.
"""

import torch
from torch import Tensor

from fewlabels.gram.rows import Matrix, Rows
from fewlabels.protocols import Kernel


def smallest_eigenvalue(gram_SS: Tensor) -> Tensor:
    """Smallest eigenvalue of symmetric matrices.

    NPC paper, Eq. (3). Departs from the paper: a dense solver instead of LOBPCG, which
    at these sizes is slower and now and then far off.

    Args:
        gram_SS: Symmetric matrices, shape (..., S, S).

    Returns:
        One eigenvalue per matrix, shape (...).
    """
    spectra: Tensor = torch.linalg.eigvalsh((gram_SS + gram_SS.mT) / 2)
    return spectra[..., 0]


def eigenvalue_ceiling(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> float:
    """Upper bound on the smallest eigenvalue over all sets that could be chosen.

    By Cauchy's interlacing, the smallest eigenvalue of a Gram matrix only falls as
    items are added, so it is at most that of the labeled items alone, and at most each
    diagonal entry; ``size`` candidates are chosen, so the ``size``-th largest one
    counts.

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        size: How many are chosen.

    Returns:
        The bound.
    """
    diagonal = kernel.diagonal(candidates)
    bound = float(diagonal.topk(size).values[-1])
    if len(labeled):
        of_labeled = float(smallest_eigenvalue(kernel.block(labeled, labeled)))
        bound = min(bound, of_labeled)
    return bound


def numerical_rank(features: Matrix) -> int:
    """Rank of [H, 1] in double precision, from the spectrum of its second moments."""
    rows = Rows(features, has_bias=True, is_normalized=False)
    moments = torch.zeros(rows.width, rows.width, dtype=torch.float64)
    for items in torch.split(torch.arange(len(features)), 65_536):
        part = rows.take(items)
        moments += part.T @ part
    spectrum = torch.linalg.eigvalsh(moments)
    tolerance = float(spectrum[-1]) * len(features) * torch.finfo(torch.float64).eps
    return int((spectrum > tolerance).sum())
