"""What a trainer minimizes, step by step."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor, nn

from fewlabels.augment import Strong
from fewlabels.pool import Pool
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.settings import TrainingSettings
from fewlabels.training.views import ImageViews, Minibatch, VectorViews, Views


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss of one minibatch, and what is worth telling about it."""

    total: Tensor
    """What is minimized, a scalar."""
    figures: Mapping[str, Tensor] = field(default_factory=dict)
    """Named scalars for whoever watches."""


class Objective(Protocol):
    """The loss of a network on the minibatch of each step."""

    @property
    def num_views(self) -> int:
        """Views that go through the network in a step, over all processes."""
        ...

    def minibatch(self, step: int) -> Minibatch:
        """Read and vary the items of a step; may be called ahead, in a thread."""
        ...

    def loss(self, network: nn.Module, minibatch: Minibatch, step: int) -> Loss:
        """Return the loss; called once for each step, in order."""
        ...

    def memory(self) -> Mapping[str, Tensor]:
        """Return the tensors that outlive a step, themselves and not copies.

        They are saved with an unfinished training, and filled when it goes on.
        """
        ...


@dataclass(frozen=True, kw_only=True)
class Recipe(TrainingSettings):
    """Settings together with what they are for: inputs and an objective."""

    def views(self, pool: Pool) -> Views:
        """Return where the inputs of the network come from; here, the pool's images."""
        kind = VectorViews if len(pool.images.shape) == 1 else ImageViews
        return kind(pool.images, self.weak, self.strong_settings())

    def check(self, pool: Pool) -> None:
        """Raise if these settings cannot be right for a pool; quick, so ask early."""

    def strong_settings(self) -> Strong | None:
        """Return how strong views are made; None where none are asked for."""
        return None

    def objective(
        self, pool: Pool, views: Views, key: int, group: ProcessGroup
    ) -> Objective:
        """Return the loss of a network at each step.

        Args:
            pool: The pool; at least one item is labeled.
            views: What the network sees.
            key: The key of the training's streams.
            group: The processes that share the work.

        Returns:
            The objective of this process.
        """
        raise NotImplementedError
