"""The processes that train one network together; usually there is one.

Each process has a copy of the network and an equal share of every minibatch. Gradients
are averaged by DistributedDataParallel, set up by Lightning Fabric; what else has to
agree goes through :class:`ProcessGroup`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor, nn

from fewlabels import rng

if TYPE_CHECKING:  # it takes seconds to import, and only a training needs it
    from lightning_fabric import Fabric


@dataclass(frozen=True, eq=False)
class ProcessGroup:
    """This process among those that train the same network."""

    fabric: "Fabric"
    """Device, precision and communication."""

    @property
    def rank(self) -> int:
        """Number of this process, from zero."""
        return self.fabric.global_rank

    @property
    def size(self) -> int:
        """Number of processes."""
        return self.fabric.world_size

    @property
    def device(self) -> torch.device:
        """Where this process computes."""
        return self.fabric.device

    def wrapped(self, module: nn.Module) -> nn.Module:
        """Return a module whose gradients are averaged over all processes."""
        return self.fabric.setup_module(module, move_to_device=False)

    def stream(self, key: int, purpose: str, step: int) -> Generator:
        """Return this process's generator; the first draws as a single one would."""
        return rng.stream(key, purpose, step, *([self.rank] if self.rank else []))

    def share(self, items: Tensor) -> Tensor:
        """Return this process's part of the items of a minibatch."""
        return items.tensor_split(self.size)[self.rank]

    def gathered(self, rows: Tensor) -> Tensor:
        """Return the rows of all processes, in the order of their items."""
        if self.size == 1:
            return rows
        every = self.fabric.all_gather(rows)
        assert isinstance(every, Tensor)
        return every.flatten(0, 1)

    def average_(self, tensors: Iterable[Tensor]) -> None:
        """Replace floating-point tensors by their mean over all processes, in place."""
        if self.size == 1:
            return
        for tensor in tensors:
            if tensor.is_floating_point():
                mean = self.fabric.all_reduce(tensor.clone(), reduce_op="mean")
                assert isinstance(mean, Tensor)
                tensor.copy_(mean)
