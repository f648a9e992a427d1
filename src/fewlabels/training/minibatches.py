"""Which items are in which step."""

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fewlabels import rng


@dataclass(frozen=True, eq=False)
class Minibatches:
    """An endless row of shuffled passes over some items, cut into minibatches.

    Few labels simply repeat inside a minibatch, and no item is ever more than one pass
    ahead of another. The minibatch of a step depends on the step alone, so that a
    training can be taken up anywhere.
    """

    indices: Tensor
    """The items, shape (n,), at least one."""
    size: int
    """Items in a minibatch."""
    key: int
    """What distinguishes this training from every other."""
    purpose: str
    """What distinguishes this row from others of the same training."""

    def at(self, step: int) -> Tensor:
        """Return the indices of the items of one step, shape (size,)."""
        num_items = len(self.indices)
        first, last = step * self.size, (step + 1) * self.size - 1
        passes = range(first // num_items, last // num_items + 1)
        order = torch.cat(
            [_shuffled(num_items, self.key, self.purpose, number) for number in passes]
        )
        start = first - passes[0] * num_items
        return self.indices[order[start : start + self.size]]


def balanced(indices: Tensor, labels: Tensor) -> Tensor:
    """Return the indices with those of rarer classes repeated, all classes alike.

    Example:
        >>> balanced(torch.tensor([4, 6, 7]), torch.tensor([0, 1, 1])).tolist()
        [4, 4, 6, 7]

    Args:
        indices: Items, shape (n,).
        labels: Their class numbers, shape (n,).

    Returns:
        Items, shape (classes that occur · items of the most frequent one,).
    """
    members = [indices[labels == number] for number in sorted(set(labels.tolist()))]
    most = max(map(len, members))
    return torch.cat([m.repeat(math.ceil(most / len(m)))[:most] for m in members])


@lru_cache(maxsize=4)
def _shuffled(num_items: int, key: int, purpose: str, number: int) -> Tensor:
    """Return the order of one pass."""
    return torch.randperm(num_items, generator=rng.stream(key, purpose, number))
