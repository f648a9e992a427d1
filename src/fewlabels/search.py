"""Subset search over any kernel or score; pure functions.

Shapes::

    N items in the pool    L labeled    S members of a set    Q queried    M draws

Draws are keyed by their number: the subset of draw ``i`` is the same however the draws
are split into chunks or spread over processes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Generator, Tensor

from fewlabels.errors import BudgetError, ShapeError, UnknownNameError
from fewlabels.gram import eigenvalue_ceiling, smallest_eigenvalue
from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.rng import fork, keyed_uniforms

_CHUNK_BYTES = 32 * 2**20
_METHODS = ("random",)


@dataclass(frozen=True, eq=False)
class Found:
    """The best set of a search, and how good it can be called."""

    indices: Tensor
    """The chosen items, shape (Q,)."""
    value: float
    """Smallest eigenvalue of the Gram matrix of labeled and chosen items."""
    ceiling: float
    """What no set can exceed."""
    num_draws: int
    """How many sets were tried."""
    is_tie: bool
    """Whether all sets score zero up to rounding, so that the choice means nothing."""


def top(scores: Tensor, candidates: Tensor, size: int, generator: Generator) -> Tensor:
    """Return the ``size`` candidates with the largest scores, ties broken at random.

    Args:
        scores: One score per candidate, shape (n,).
        candidates: Indices, shape (n,).
        size: How many to return.
        generator: Decides between equal scores.

    Returns:
        Indices, best first, shape (size,).
    """
    check_size(size, len(candidates))
    shuffled = torch.randperm(len(candidates), generator=generator)
    order = scores[shuffled].sort(descending=True, stable=True).indices
    return candidates[shuffled[order[:size]]]


def uniform_subsets(candidates: Tensor, size: int, key: int, numbers: range) -> Tensor:
    """Return uniformly drawn subsets, one per draw number, shape (M, Q).

    Floyd's algorithm (Bentley and Floyd, 1987) for all draws at once: the j-th item is
    drawn from the first N - Q + j candidates, and a repetition is replaced by the last
    of these, which cannot have been drawn before.

    Args:
        candidates: Indices to draw from, shape (n,).
        size: Members of each subset, Q.
        key: Distinguishes this search from every other; from
            :func:`fewlabels.rng.fork`.
        numbers: The draw numbers.

    Returns:
        Distinct candidates in each row.
    """
    check_size(size, len(candidates))
    uniforms = keyed_uniforms(key, np.arange(numbers.start, numbers.stop), size)
    chosen = np.empty((len(numbers), size), dtype=np.int64)
    for position in range(size):
        last = len(candidates) - size + position
        drawn = (uniforms[:, position] * (last + 1)).astype(np.int64)
        repeated = (chosen[:, :position] == drawn[:, None]).any(axis=1)
        chosen[:, position] = np.where(repeated, last, drawn)
    return candidates[torch.from_numpy(chosen)]


def maximize_smallest_eigenvalue(
    kernel: Kernel,
    *,
    labeled: Tensor,
    candidates: Tensor,
    size: int,
    method: str = "random",
    draws: int | Tensor | None = None,
    generator: Generator,
) -> Found:
    """Find the set whose Gram matrix with the labeled items is best conditioned.

    Maximizes λmin(L ∪ S) over sets S of ``size`` candidates (NPC paper, Eq. (3) and
    Algorithm 1): the best of many random draws, the earliest one among equals.

    Args:
        kernel: Kernel over the whole pool.
        labeled: Indices labeled already, shape (L,); may be empty.
        candidates: Indices to choose from, shape (n,).
        size: How many to choose, Q.
        method: ``"random"``, the paper's Algorithm 1.
        draws: Number of draws, explicit subsets (M, Q), or None for as many draws as
            there are candidates.
        generator: Source of the draws.

    Returns:
        The best set with its value and the ceiling no set exceeds.

    Raises:
        UnknownNameError: If there is no such method.
    """
    if method not in _METHODS:
        raise UnknownNameError("search method", method, _METHODS)
    check_size(size, len(candidates))
    if isinstance(draws, Tensor):
        chunks, num_draws = _given_chunks(draws, len(labeled), size), len(draws)
    else:
        num_draws = len(candidates) if draws is None else draws
        _check_draws(num_draws)
        key = fork(generator)
        chunks = _drawn_chunks(candidates, size, key, num_draws, len(labeled))
    best, value = _best_draw(kernel, labeled, chunks, num_draws)
    members = torch.cat([labeled, best])
    scale = float(kernel.diagonal(members).sum())  # at least the largest eigenvalue
    return Found(
        indices=best,
        value=value,
        ceiling=eigenvalue_ceiling(kernel, labeled, candidates, size),
        num_draws=num_draws,
        is_tie=value <= len(members) * torch.finfo(torch.float64).eps * scale,
    )


def _best_draw(
    kernel: Kernel, labeled: Tensor, chunks: Iterator[Tensor], num_draws: int
) -> tuple[Tensor, float]:
    """Return the first best subset of all chunks and its smallest eigenvalue."""
    gram_LL = kernel.block(labeled, labeled)
    best, value = labeled.new_empty(0), -torch.inf
    with track("Searching", num_draws) as advance:
        for subsets_MQ in chunks:
            values_M = smallest_eigenvalue(
                _joined_gram(kernel, gram_LL, labeled, subsets_MQ)
            )
            first = int(values_M.argmax())
            if float(values_M[first]) > value:
                best, value = subsets_MQ[first], float(values_M[first])
            advance(len(subsets_MQ))
    return best, value


def _joined_gram(
    kernel: Kernel, gram_LL: Tensor, labeled: Tensor, subsets_MQ: Tensor
) -> Tensor:
    """Gram matrices of labeled and drawn items, shape (M, L + Q, L + Q)."""
    num_draws = len(subsets_MQ)
    gram_MQQ = kernel.block(subsets_MQ, subsets_MQ)
    gram_MLQ = kernel.block(labeled.expand(num_draws, -1), subsets_MQ)
    upper = torch.cat([gram_LL.expand(num_draws, -1, -1), gram_MLQ], dim=-1)
    lower = torch.cat([gram_MLQ.mT, gram_MQQ], dim=-1)
    return torch.cat([upper, lower], dim=-2)


def _drawn_chunks(
    candidates: Tensor, size: int, key: int, num_draws: int, num_labeled: int
) -> Iterator[Tensor]:
    step = _chunk_length(num_labeled + size)
    for start in range(0, num_draws, step):
        numbers = range(start, min(start + step, num_draws))
        yield uniform_subsets(candidates, size, key, numbers)


def _given_chunks(draws: Tensor, num_labeled: int, size: int) -> Iterator[Tensor]:
    if draws.ndim != 2 or draws.shape[1] != size or not len(draws):
        msg = (
            f"draws have shape {tuple(draws.shape)}; give one subset of {size} items "
            f"per row, shape (M, {size})."
        )
        raise ShapeError(msg)
    return iter(torch.split(draws, _chunk_length(num_labeled + size)))


def _chunk_length(num_members: int) -> int:
    """Draws whose Gram matrices fit into a bounded piece of memory."""
    return max(1, _CHUNK_BYTES // (8 * num_members**2))


def _check_draws(num_draws: int) -> None:
    if num_draws < 1:
        msg = f"draws is {num_draws}; at least one set has to be tried."
        raise BudgetError(msg)


def check_size(size: int, num_candidates: int) -> None:
    """Raise unless ``size`` items can be chosen from ``num_candidates``.

    Args:
        size: How many items are wanted.
        num_candidates: How many there are.

    Raises:
        BudgetError: If that is impossible.
    """
    if not 1 <= size <= num_candidates:
        msg = (
            f"{size} items are asked for, and there are {num_candidates} candidates; "
            f"choose a size from 1 to {num_candidates}."
        )
        raise BudgetError(msg)
