"""Pseudo-labels: the network's own confident predictions count as labels.

Lee, "Pseudo-Label: The Simple and Efficient Semi-Supervised Learning Method for Deep
Neural Networks" (ICML workshop, 2013), with the threshold of Oliver et al. (NeurIPS
2018).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Count, Share, Weight
from fewlabels.training.fixmatch import consistency_loss
from fewlabels.training.learner import Learner, Loss, PseudoLabels, Step
from fewlabels.training.views import View


@dataclass(frozen=True, kw_only=True)
class PseudoLabel(Learner):
    """Supervised loss plus that of pseudo-labels for the same views (Lee, Eq. 15).

    It is FixMatch without strong views.
    """

    official: ClassVar[Mapping[str, Any]] = {"mu": 1}

    mu: Count = 2
    """Unlabeled items for each labeled one in a step."""
    threshold: Share = 0.95
    """Least probability at which a pseudo-label counts."""
    consistency_weight: Weight = 1.0
    """Weight of the unlabeled loss once it is ramped up."""
    ramp_up: Weight = 0.4
    """Share of the steps in which that weight grows from zero."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of all items."""
        return {**super().views, "weak": View("weak")}

    def loss(self, step: Step) -> Loss:
        """Return the sum of both terms."""
        labeled, weak = step.outputs("labeled", "weak")
        pseudo = self.pseudo_labels(step, weak.logits.detach().softmax(dim=1))
        supervised = F.cross_entropy(labeled.logits, step.minibatch.labels)
        consistency = consistency_loss(weak.logits, pseudo.classes, pseudo.keeps)
        weight = self.consistency_weight * step.ramp_factor(self.ramp_up)
        return Loss.of(supervised, consistency, weight, **pseudo.rates)

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item; it counts where it is sure."""
        return step.pseudo_labels(
            probabilities_UC, lambda rows: rows.amax(dim=1) >= self.threshold
        )
