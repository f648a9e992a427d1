"""Training on the labeled items alone: what semi-supervised learning must beat."""

from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor

from fewlabels import rng
from fewlabels.augment import weak
from fewlabels.models import Network, as_input
from fewlabels.pool import Pool
from fewlabels.training import loop
from fewlabels.training.minibatches import Minibatches, balanced
from fewlabels.training.settings import TrainingSettings
from fewlabels.training.trainer import NetworkTrainer


@dataclass(frozen=True, kw_only=True)
class SupervisedTrainer(NetworkTrainer):
    """Cross-entropy on weakly varied labeled items.

    It is :class:`FixMatchTrainer` without the consistency term: from one generator,
    both start from the same weights and see the same labeled minibatches.
    """

    def _objective(self, pool: Pool, key: int) -> loop.Objective:
        labeled = LabeledViews(self, pool, key)

        def loss(network: Network, step: int) -> loop.Loss:
            inputs, labels_B = labeled.at(step)
            return loop.Loss(F.cross_entropy(network(inputs), labels_B))

        return loss


class LabeledViews:
    """Weak views of the labeled minibatches, the same for every trainer."""

    def __init__(self, settings: TrainingSettings, pool: Pool, key: int) -> None:
        """Name the minibatches.

        Args:
            settings: How many items, and how to vary them.
            pool: The pool; at least one item is labeled.
            key: The key of the training's streams.
        """
        items = pool.labeled
        if settings.balances_classes:
            items = balanced(items, pool.labels[items])
        self._minibatches = Minibatches(
            items, settings.minibatch_size, key, "labeled items"
        )
        self._pool = pool
        self._weak = settings.weak
        self._key = key

    def at(self, step: int) -> tuple[Tensor, Tensor]:
        """Return varied images, ready as input, and labels of one step."""
        indices = self._minibatches.at(step)
        draws = rng.stream(self._key, "labeled views", step)
        images = weak(self._pool.images.read(indices), draws, self._weak)
        return as_input(images), self._pool.labels[indices]
