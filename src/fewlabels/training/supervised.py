"""Training on the labeled items alone: what semi-supervised learning must beat."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels import rng
from fewlabels.augment import weak
from fewlabels.models import Network, as_input
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import loop
from fewlabels.training.minibatches import Minibatches, balanced
from fewlabels.training.settings import TrainingSettings


@dataclass(frozen=True, kw_only=True)
class SupervisedTrainer(TrainingSettings):
    """Cross-entropy on weakly varied labeled items.

    It is :class:`FixMatchTrainer` without the consistency term: from one generator,
    both start from the same weights and see the same labeled minibatches.
    """

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train from scratch; see :class:`fewlabels.protocols.Trainer`.

        Args:
            pool: Labeled and unlabeled images; the unlabeled ones are not used.
            generator: The only source of randomness.
            workspace: Where the finished network is kept and found again.
            on_checkpoint: Called with the step and the averaged network.

        Returns:
            The averaged network as a classifier; untrained, if nothing is labeled.
        """
        return loop.fit(
            self,
            self._objective,
            pool,
            generator,
            workspace=workspace,
            on_checkpoint=on_checkpoint,
        )

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
