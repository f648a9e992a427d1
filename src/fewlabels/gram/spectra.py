"""Spectra of Gram matrices; pure functions.

Shapes: N items in the pool, S members of a set, F penultimate features.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from fewlabels.errors import BudgetError
from fewlabels.gram.kernels import DoubleRows
from fewlabels.pool import Matrix, as_rows
from fewlabels.protocols import Kernel

_EPSILON = torch.finfo(torch.float64).eps
_CHUNK_LENGTH = 65_536
_LOBPCG_TOLERANCE = 1e-6
_LOBPCG_STEPS = 200
_LOBPCG_LEAST_SIZE = 5


@dataclass(frozen=True)
class Spectrum:
    """Eigenvalues of one Gram matrix, and their consequences for training."""

    smallest: float
    """Smallest eigenvalue, the paper's objective; about -1e-16 of the largest for 0."""
    largest: float
    """Largest eigenvalue."""
    rank: int
    """Number of eigenvalues above rounding."""
    condition: float
    """Largest over smallest eigenvalue; infinite if the matrix is singular."""
    step_limit: float
    """Learning rate past which linearized gradient descent diverges: 2 / largest."""


def spectrum(gram_SS: Tensor) -> Spectrum:
    """Return the spectrum of one Gram matrix, for diagnosis.

    Rounding moves an eigenvalue by up to S times the machine precision of the largest
    one; what is not above that counts as zero.

    Example:
        >>> spectrum(torch.diag(torch.tensor([4.0, 1.0])))
        Spectrum(smallest=1.0, largest=4.0, rank=2, condition=4.0, step_limit=0.5)

    Args:
        gram_SS: A symmetric positive semi-definite matrix, shape (S, S), S at least 1.

    Returns:
        Its extremes and what follows from them.
    """
    values = torch.linalg.eigvalsh(_symmetric(gram_SS).to(torch.float64))
    smallest, largest = float(values[0]), float(values[-1])
    tolerance = len(values) * _EPSILON * max(largest, 0)
    return Spectrum(
        smallest=smallest,
        largest=largest,
        rank=int((values > tolerance).sum()),
        condition=largest / smallest if smallest > tolerance else float("inf"),
        step_limit=2 / largest if largest > 0 else float("inf"),
    )


def smallest_eigenvalue(gram_SS: Tensor) -> Tensor:
    """Smallest eigenvalue of symmetric matrices.

    NPC paper, Eq. (3). Departs from the paper: a dense solver instead of LOBPCG, which
    at these sizes is slower and now and then far off; see
    :func:`lobpcg_smallest_eigenvalue`.

    Args:
        gram_SS: Symmetric matrices, shape (..., S, S).

    Returns:
        One eigenvalue per matrix, shape (...).
    """
    spectra: Tensor = torch.linalg.eigvalsh(_symmetric(gram_SS))
    return spectra[..., 0]


def lobpcg_smallest_eigenvalue(
    gram_SS: Tensor, generator: Generator
) -> tuple[float, bool]:
    """Smallest eigenvalue by LOBPCG, checked, and by a dense solver where that failed.

    NPC paper, Sec. 3.4 (Knyazev, 2001), on the CPU: one vector, no preconditioner. The
    iteration may stop early or at another eigenvalue, so its answer (λ, v) counts only
    if v is an eigenvector up to the tolerance, and if K - (λ - tolerance) I has a
    Cholesky factor, so that no eigenvalue lies lower. The tolerance is 1e-6 of the
    largest diagonal entry, which is at most the largest eigenvalue.

    Args:
        gram_SS: A symmetric positive semi-definite matrix, shape (S, S).
        generator: Where the iteration starts.

    Returns:
        The smallest eigenvalue, and whether it is LOBPCG's own: False means that the
        check failed, or that the matrix has fewer than five rows, and that the value
        is the dense one.
    """
    from scipy.sparse.linalg import lobpcg

    gram = _symmetric(gram_SS).to("cpu", torch.float64)
    tolerance = _LOBPCG_TOLERANCE * float(gram.diagonal().max())
    if len(gram) >= _LOBPCG_LEAST_SIZE and tolerance > 0:
        start = torch.randn(len(gram), 1, generator=generator, dtype=torch.float64)
        settings = {"tol": tolerance, "maxiter": _LOBPCG_STEPS, "largest": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the answer is checked below
            _, vectors = lobpcg(gram.numpy(), start.numpy(), **settings)
        vector = torch.from_numpy(np.asarray(vectors)[:, 0])
        vector = vector / vector.norm()
        value = float(vector @ gram @ vector)
        residual = float((gram @ vector - value * vector).norm())
        shifted = gram - (value - tolerance) * torch.eye(len(gram), dtype=gram.dtype)
        has_no_lower = int(torch.linalg.cholesky_ex(shifted).info) == 0
        if residual <= tolerance and has_no_lower:
            return value, True
    return float(smallest_eigenvalue(gram)), False


def eigenvalue_ceiling(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> float:
    """Upper bound on the smallest eigenvalue over all sets that could be chosen.

    By Cauchy's interlacing, the smallest eigenvalue of a Gram matrix only falls as
    items are added, so it is at most that of the labeled items alone, and at most each
    diagonal entry; ``size`` candidates are chosen, so the ``size``-th largest one
    counts. The diagonal is read in chunks.

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from, shape (n,).
        size: How many are chosen.

    Returns:
        The bound.
    """
    if not 1 <= size <= len(candidates):
        raise BudgetError(
            f"size is {size}; give 1 to {len(candidates)}, the candidates."
        )
    first, *others = torch.split(candidates, max(size, _CHUNK_LENGTH))
    diagonals = kernel.diagonal(first).topk(size).values
    for part in others:
        diagonals = torch.cat([diagonals, kernel.diagonal(part)]).topk(size).values
    return ceiling_below(kernel, labeled, diagonals)


def ceiling_below(kernel: Kernel, labeled: Tensor, diagonals: Tensor) -> float:
    """Return the ceiling, given the largest diagonal entries of the candidates."""
    bound = float(diagonals[-1])
    if not len(labeled):
        return bound
    return min(bound, float(smallest_eigenvalue(kernel.block(labeled, labeled))))


def numerical_rank(features: Matrix) -> int:
    """Rank of [H, 1] in double precision, from rows that are read once, in chunks.

    The triangular factor of all rows is that of the factor so far and the next rows
    (tall-skinny QR), and has the singular values of [H, 1]. Its second moments would be
    cheaper, but square the condition: columns that differ by less than 1e-8 would look
    dependent.

    Args:
        features: Inputs of the last layer, shape (N, F).

    Returns:
        The number of singular values above max(N, F + 1) roundings of the largest.
    """
    rows = DoubleRows(as_rows(features), has_bias=True)
    factor = torch.empty(0, rows.width, dtype=torch.float64, device=rows.device)
    for items in rows.chunks(torch.arange(rows.num_items)):
        stacked = torch.cat([factor, rows.take(items)])
        factor = torch.linalg.qr(stacked, mode="r").R
    values = torch.linalg.svdvals(factor)
    tolerance = max(rows.num_items, rows.width) * _EPSILON * float(values.max())
    return int((values > tolerance).sum())


def _symmetric(gram_SS: Tensor) -> Tensor:
    return (gram_SS + gram_SS.mT) / 2
