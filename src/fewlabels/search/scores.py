"""The simplest searches: the largest scores, at once or one after the other."""

from collections.abc import Callable

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.search.inputs import check_size

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


def greedy(
    gains: Callable[[], Tensor],
    add: Callable[[int], object],
    size: int,
    generator: Generator,
    *,
    task: str = "Adding",
) -> list[int]:
    """Add the item with the largest gain, ``size`` times.

    Args:
        gains: Returns a new tensor of what each item would add now, shape (n,).
        add: Takes the position of the item that is added.
        size: How many to choose.
        generator: Decides between equal gains.
        task: What to call it in reports of progress.

    Returns:
        Positions in the order of choice.
    """
    chosen: list[int] = []
    with track(task, size) as advance:
        for _ in range(size):
            scores = gains()
            scores[chosen] = -torch.inf
            chosen.append(largest(scores, generator))
            add(chosen[-1])
            advance()
    return chosen
