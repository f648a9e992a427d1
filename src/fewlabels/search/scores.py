"""The simplest search: the items with the largest scores."""

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.errors import BudgetError, whole_number

_SAME = 1e-10


def top(
    scores: Tensor, candidates: ArrayLike, size: int, generator: Generator
) -> Tensor:
    """Return the ``size`` candidates with the largest scores, ties broken at random.

    Args:
        scores: One score per candidate, shape (n,).
        candidates: Indices, shape (n,).
        size: How many to return.
        generator: Decides between equal scores.

    Returns:
        Indices, best first, shape (size,).
    """
    candidates = torch.as_tensor(candidates)
    check_size(size, len(candidates))
    shuffled = torch.randperm(len(candidates), generator=generator)
    order = scores[shuffled].sort(descending=True, stable=True).indices
    return candidates[shuffled[order[:size]]]


def largest(scores: Tensor, generator: Generator) -> int:
    """Return the position of the largest score, a random one where several share it.

    Scores of copies differ by rounding, which depends on how rows are cut into chunks;
    so scores that agree to ten digits count as equal.
    """
    best = float(scores.max())
    positions = torch.nonzero(scores >= best - _SAME * abs(best)).flatten()
    if len(positions) == 1:
        return int(positions[0])
    return int(positions[int(torch.randint(len(positions), (1,), generator=generator))])


def check_size(size: int, num_candidates: int) -> None:
    """Raise unless ``size`` items can be chosen from ``num_candidates``.

    Args:
        size: How many items are wanted.
        num_candidates: How many there are.

    Raises:
        BudgetError: If that is impossible.
    """
    if not 1 <= whole_number("size", size) <= num_candidates:
        advice = (
            f"choose a size from 1 to {num_candidates}"
            if num_candidates
            else "nothing is left to choose"
        )
        raise BudgetError(
            f"{size} items are asked for, and there are {num_candidates} candidates; "
            f"{advice}."
        )
