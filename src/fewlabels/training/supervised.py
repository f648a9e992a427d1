"""Training on the labeled items alone: what semi-supervised learning must beat."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from fewlabels.pool import Pool
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.objective import Loss, Objective
from fewlabels.training.trainer import NetworkTrainer
from fewlabels.training.views import Minibatch, Minibatcher, Views


@dataclass(frozen=True, kw_only=True)
class SupervisedTrainer(NetworkTrainer):
    """Cross-entropy on weakly varied labeled items.

    It is :class:`FixMatchTrainer` without the consistency term: from one generator,
    both start from the same weights and see the same labeled minibatches.
    """

    def objective(
        self, pool: Pool, views: Views, key: int, group: ProcessGroup
    ) -> Objective:
        """Return the cross-entropy of labeled items."""
        return SupervisedObjective(Minibatcher(views, pool, self, key, group))


@dataclass(frozen=True, eq=False)
class SupervisedObjective:
    """Cross-entropy of the labeled items of a minibatch."""

    minibatcher: Minibatcher

    @property
    def num_views(self) -> int:
        """Labeled items in a step."""
        return self.minibatcher.settings.minibatch_size

    def minibatch(self, step: int) -> Minibatch:
        """Return labeled items."""
        return self.minibatcher.at(step)

    def loss(self, network: nn.Module, minibatch: Minibatch, step: int) -> Loss:
        """Return the mean cross-entropy."""
        del step
        logits_BC = network(self.minibatcher.views.as_input(minibatch.labeled))
        return Loss(F.cross_entropy(logits_BC, minibatch.labels))

    def memory(self) -> Mapping[str, Tensor]:
        """Return nothing: steps do not depend on each other."""
        return {}
