"""Training on the labeled items alone: what semi-supervised learning must beat."""

from dataclasses import dataclass

import torch.nn.functional as F

from fewlabels.training.learner import Learner, Loss, Step


@dataclass(frozen=True, kw_only=True)
class Supervised(Learner):
    """Cross-entropy on weakly varied labeled items.

    It is FixMatch without the consistency term: from one generator, both start from the
    same weights and see the same labeled minibatches.
    """

    def loss(self, step: Step) -> Loss:
        """Return the mean cross-entropy."""
        [labeled] = step.outputs("labeled")
        return Loss(F.cross_entropy(labeled.logits, step.minibatch.labels))
