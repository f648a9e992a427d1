"""The items of each step, and their views.

Shapes: B labeled items in a minibatch, U unlabeled ones.
"""

import math
from collections import deque
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from fewlabels import rng
from fewlabels.pool import Pool
from fewlabels.training.devices import ProcessGroup
from fewlabels.training.schedule import Schedule
from fewlabels.training.views import View, Views


@dataclass(frozen=True, eq=False)
class Minibatch:
    """Items, labels and views of one process in one step."""

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

        def moved(tensor: Tensor) -> Tensor:
            return tensor.to(device, non_blocking=True)

        labeled, labels, items = map(moved, (self.labeled, self.labels, self.items))
        views = {name: moved(view) for name, view in self.views.items()}
        return Minibatch(labeled, labels, items, views)


@dataclass(frozen=True, eq=False)
class Minibatcher:
    """Returns the minibatch of any step from its number alone.

    A process draws for its own share; with one process there is one share. Minibatches
    do not depend on earlier ones, so they can be prepared ahead, and a training can be
    resumed at any step.
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
        items_B = self._items(self._labeled, 1, "labeled items", step)
        items_U = items_B[:0]
        if self.mu:  # labeled items are among the unlabeled ones, as in official code
            every = torch.arange(len(self.pool))
            items_U = self._items(every, self.mu, "unlabeled items", step)
        views: dict[str, Tensor] = {}
        for is_labeled, items in ((True, items_B), (False, items_U)):
            wanted = {
                name: (view.kind, self.group.stream(self.key, f"{name} views", step))
                for name, view in self.wanted.items()
                if view.is_labeled == is_labeled
            }
            if wanted:
                views |= self.inputs.shown(items, wanted)
        return Minibatch(items_B, self.pool.labels[items_B], items_U, views)

    @cached_property
    def _labeled(self) -> Tensor:
        items = self.pool.labeled
        if self.schedule.balances_classes:
            return oversample(items, self.pool.labels[items])
        return items

    def _items(self, items: Tensor, ratio: int, purpose: str, step: int) -> Tensor:
        size = ratio * self.schedule.minibatch_size
        return self.group.share(draw_items(items, size, self.key, purpose, step))


def draw_items(items: Tensor, size: int, key: int, purpose: str, step: int) -> Tensor:
    """Return the items of one step of endless shuffled passes, cut into minibatches.

    Few labels simply repeat inside a minibatch, and no item is ever more than one pass
    ahead of another. The items depend on the step alone, so that a training can be
    resumed at any step.

    Args:
        items: Of which to draw, shape (n,), at least one.
        size: How many, in a step.
        key: What distinguishes this training from every other.
        purpose: What distinguishes these passes from others of the same training.
        step: Number of the step.

    Returns:
        Items, shape (size,).
    """
    first, last = step * size, (step + 1) * size - 1
    passes = range(first // len(items), last // len(items) + 1)
    order = torch.cat([_shuffled(len(items), key, purpose, n) for n in passes])
    start = first - passes[0] * len(items)
    return items[order[start : start + size]]


def oversample(indices: Tensor, labels: Tensor) -> Tensor:
    """Return the indices, repeated so that all classes have equally many.

    Example:
        >>> oversample(torch.tensor([4, 6, 7]), torch.tensor([0, 1, 1])).tolist()
        [4, 4, 6, 7]
    """
    members = [indices[labels == number] for number in sorted(set(labels.tolist()))]
    most = max(map(len, members))
    return torch.cat([m.repeat(math.ceil(most / len(m)))[:most] for m in members])


@lru_cache(maxsize=4)
def _shuffled(num_items: int, key: int, purpose: str, number: int) -> Tensor:
    """Return the order of one pass."""
    return torch.randperm(num_items, generator=rng.stream(key, purpose, number))


def prefetch_minibatches(
    make: Callable[[int], Minibatch], start: int, stop: int, depth: int
) -> Generator[Minibatch]:
    """Yield the minibatches of some steps, up to ``depth`` of them prepared ahead.

    A minibatch depends on its step alone, so that the depth changes nothing but time.
    """
    if depth == 0:
        yield from map(make, range(start, stop))
        return
    # A thread begins with as many threads of its own as there are cores.
    threads = (torch.get_num_threads(),)
    worker = ThreadPoolExecutor(1, "minibatches", torch.set_num_threads, threads)
    waiting: deque[Future[Minibatch]] = deque()
    try:
        for step in range(start, stop):
            waiting.append(worker.submit(make, step))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        worker.shutdown(cancel_futures=True)
