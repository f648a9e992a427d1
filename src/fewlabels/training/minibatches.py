"""Which items are in which step."""

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


@lru_cache(maxsize=4)
def _shuffled(num_items: int, key: int, purpose: str, number: int) -> Tensor:
    """Return the order of one pass."""
    return torch.randperm(num_items, generator=rng.stream(key, purpose, number))
