"""Which items are in which step, and what of them is seen.

Shapes: B labeled items in a minibatch, U unlabeled ones.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from fewlabels import rng
from fewlabels.pool import Pool
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.schedule import Schedule
from fewlabels.training.views import View, Views


@dataclass(frozen=True, eq=False)
class Minibatch:
    """What one process looks at in one step."""

    labeled: Tensor
    """The labeled items, B of them."""
    labels: Tensor
    """Their classes."""
    items: Tensor
    """The unlabeled items, U of them."""
    views: Mapping[str, Tensor]
    """Views of either, by the names that the learner gave them."""

    def to(self, device: torch.device) -> "Minibatch":
        """Return the minibatch on a device."""
        return Minibatch(
            self.labeled.to(device, non_blocking=True),
            self.labels.to(device, non_blocking=True),
            self.items.to(device, non_blocking=True),
            {k: v.to(device, non_blocking=True) for k, v in self.views.items()},
        )


@dataclass(frozen=True, eq=False)
class Minibatcher:
    """Makes the minibatch of any step from its number alone.

    A process draws for its own share; with one process there is one share. Nothing
    depends on what was made before, so minibatches can be made ahead, and a training
    can be taken up anywhere.
    """

    inputs: Views
    """Where views come from."""
    wanted: Mapping[str, View]
    """Which views, by name."""
    mu: int
    """Unlabeled items for each labeled one."""
    pool: Pool
    """The pool; at least one item is labeled."""
    schedule: Schedule
    """How many labeled items."""
    key: int
    """The key of the training's streams."""
    group: ProcessGroup
    """Whose share."""

    @property
    def num_views(self) -> int:
        """Views in a step, over all processes."""
        sizes = [1 if view.is_labeled else self.mu for view in self.wanted.values()]
        return self.schedule.minibatch_size * sum(sizes)

    def at(self, step: int) -> Minibatch:
        """Return the minibatch of one step."""
        items_B = self.group.share(self._labeled.at(step))
        shown = self._shown(items_B, step, is_labeled=True)
        items_U = items_B[:0]
        if self.mu:
            items_U = self.group.share(self._unlabeled.at(step))
            shown |= self._shown(items_U, step, is_labeled=False)
        return Minibatch(items_B, self.pool.labels[items_B], items_U, shown)

    def _shown(
        self, items: Tensor, step: int, *, is_labeled: bool
    ) -> dict[str, Tensor]:
        wanted = {
            name: (view.kind, self.group.stream(self.key, f"{name} views", step))
            for name, view in self.wanted.items()
            if view.is_labeled == is_labeled
        }
        return self.inputs.shown(items, wanted)

    @cached_property
    def _labeled(self) -> "Minibatches":
        items = self.pool.labeled
        if self.schedule.balances_classes:
            items = balanced(items, self.pool.labels[items])
        size = self.schedule.minibatch_size
        return Minibatches(items, size, self.key, "labeled items")

    @cached_property
    def _unlabeled(self) -> "Minibatches":
        # Labeled items stay among the unlabeled ones, as in the official code.
        everything = torch.arange(len(self.pool))
        size = self.mu * self.schedule.minibatch_size
        return Minibatches(everything, size, self.key, "unlabeled items")


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
    """
    members = [indices[labels == number] for number in sorted(set(labels.tolist()))]
    most = max(map(len, members))
    return torch.cat([m.repeat(math.ceil(most / len(m)))[:most] for m in members])


@lru_cache(maxsize=4)
def _shuffled(num_items: int, key: int, purpose: str, number: int) -> Tensor:
    """Return the order of one pass."""
    return torch.randperm(num_items, generator=rng.stream(key, purpose, number))
