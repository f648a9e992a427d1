"""The set of largest determinant, item by item: pivoted Cholesky.

Shapes: N candidates, A members so far.
"""

import math

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.blocks import fill_block
from fewlabels.search.inputs import known_sets
from fewlabels.search.scores import check_size, largest, top
from fewlabels.search.workers import threads_for

_NOTHING = 1e-12


def maximize_determinant(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    generator: Generator,
) -> tuple[Tensor, float]:
    """Add the item that labeled and chosen ones explain least, ``size`` times.

    Each step multiplies the determinant of the Gram matrix by the residual
    k_ii − k_iA K_AA⁻¹ k_Ai of the added item, so the largest residual is the greedy
    choice (D-optimal design; Chen, Zhang and Zhou, 2018, for the fast update).

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        size: How many to choose.
        generator: Decides between equal residuals, and where none is left.

    Returns:
        The chosen indices, and the logarithm of the determinant of what they add; minus
        infinity where the rank of the kernel is exhausted.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates)
    check_size(size, len(candidates))
    with threads_for(len(candidates) * (len(labeled) + size) ** 2):
        return _pivoted(kernel, labeled, candidates, size, generator)


def _pivoted(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int, generator: Generator
) -> tuple[Tensor, float]:
    everything = torch.cat([candidates, labeled])
    residuals = kernel.diagonal(everything).clone()  # a kernel may keep its own
    least = _NOTHING * float(residuals.max())
    columns = residuals.new_empty(len(everything), len(labeled) + size)
    fill_block(kernel, everything, labeled, columns[:, : len(labeled)])
    for number in range(len(labeled)):
        _eliminate(residuals, columns, number, len(candidates) + number)
    residuals[len(candidates) :] = 0
    chosen: list[int] = []
    value = 0.0
    with track("Adding", size) as advance:
        for number in range(len(labeled), len(labeled) + size):
            free = residuals[: len(candidates)].clone()
            free[chosen] = -1
            best = largest(free, generator)
            if float(free[best]) <= least:
                return _filled(candidates, chosen, size, generator), -math.inf
            value += math.log(float(free[best]))
            chosen.append(best)
            added = columns[:, number : number + 1]
            fill_block(kernel, everything, candidates[best : best + 1], added)
            _eliminate(residuals, columns, number, best)
            advance()
    return candidates[torch.tensor(chosen)], value


def _eliminate(residuals: Tensor, columns_NA: Tensor, number: int, pivot: int) -> None:
    """Take out of all residuals what one more item explains.

    Column ``number`` holds the kernel's values of that item, and what it explains
    beyond the columns before it afterwards.
    """
    left = float(residuals[pivot])
    if left <= _NOTHING * float(residuals.max().clamp_min(0)):
        columns_NA[:, number] = 0
        return
    column = columns_NA[:, number]
    column = column - columns_NA[:, :number] @ columns_NA[pivot, :number]
    column /= math.sqrt(left)
    columns_NA[:, number] = column
    residuals.sub_(column.square()).clamp_min_(0)


def _filled(
    candidates: Tensor, chosen: list[int], size: int, generator: Generator
) -> Tensor:
    """Fill a set at random where no item adds anything any more."""
    scores = torch.zeros(len(candidates))
    scores[chosen] = torch.arange(len(chosen), 0, -1, dtype=scores.dtype)
    return top(scores, candidates, size, generator)
