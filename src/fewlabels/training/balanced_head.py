"""ABC: a second classifier that sees every class equally often.

Lee, Shin and Kim, "ABC: Auxiliary Balanced Classifier for Class-imbalanced
Semi-supervised Learning" (NeurIPS 2021).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Weight
from fewlabels.models import Network
from fewlabels.pool import Pool
from fewlabels.training.fixmatch import FixMatch, Outputs
from fewlabels.training.learner import LearningNetwork, PseudoLabels, Step
from fewlabels.training.views import Views

_HEAD = "balanced"


@dataclass(frozen=True, kw_only=True)
class FixMatchAbc(FixMatch):
    """FixMatch with another layer over its features, trained on balanced items.

    Items of frequent classes are left out of that layer's losses at random, so that all
    classes count alike; the features still learn from all items. The layer is what
    predicts in the end.
    """

    balanced_weight: Weight = 1.0
    """Weight of the losses of the balanced layer."""

    @property
    def heads(self) -> Mapping[str, int | None]:
        """The balanced layer."""
        return {_HEAD: None}

    def other_terms(
        self, step: Step, outputs: Outputs, pseudo: PseudoLabels
    ) -> Mapping[str, Tensor]:
        """Return the losses of the balanced layer, by its own pseudo-labels."""
        del pseudo
        labels_B, settings = step.minibatch.labels, step.task.settings
        labeled_BC, weak_UC, strong_UC = (o.heads[_HEAD] for o in outputs)
        believed_UC = weak_UC.detach().softmax(dim=1)
        confidence_U, classes_U = believed_UC.max(dim=1)
        rarity_C = rarity(step.task.pool).to(labeled_BC)
        shown_B = rarity_C[labels_B]
        if settings.balances_classes:  # each class is shown equally often already
            shown_B = torch.ones_like(shown_B)
        shown_U = 1 - step.number / settings.steps * (1 - rarity_C[classes_U])
        draws = step.stream("balanced items")
        drawn = torch.rand(len(shown_B) + len(shown_U), generator=draws).to(shown_B)
        is_shown = drawn < torch.cat([shown_B, shown_U])
        is_shown_B, is_shown_U = is_shown[: len(shown_B)], is_shown[len(shown_B) :]
        taught_U = is_shown_U & (confidence_U >= self.threshold)
        labeled_B = F.cross_entropy(labeled_BC, labels_B, reduction="none")
        unlabeled_U = F.cross_entropy(strong_UC, believed_UC, reduction="none")
        loss = (is_shown_B * labeled_B).mean() + (taught_U * unlabeled_U).mean()
        return {_HEAD: self.balanced_weight * loss}

    def result(self, average: LearningNetwork, inputs: Views) -> Network:
        """Return the network with the balanced layer as its last."""
        del inputs
        average.network.head.load_state_dict(average.heads[_HEAD].state_dict())
        return average.network


def rarity(pool: Pool) -> Tensor:
    """Return the labels of the rarest class over those of each class, shape (C,).

    A class without labels counts as having one.
    """
    labels = pool.labels[pool.labeled]
    counts_C = torch.bincount(labels, minlength=pool.num_classes).clamp(min=1)
    return counts_C.min() / counts_C
