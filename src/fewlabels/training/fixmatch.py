"""FixMatch: confident pseudo-labels of weak views teach strong views.

Sohn et al., "FixMatch: Simplifying Semi-Supervised Learning with Consistency and
Confidence" (NeurIPS 2020).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Count, Share, Weight
from fewlabels.training.learner import (
    IsSure,
    Learned,
    Learner,
    Loss,
    PseudoLabels,
    Step,
)
from fewlabels.training.views import View

Outputs = Sequence[Learned]
"""Outputs of the network for labeled, weak and strong views."""


@dataclass(frozen=True, kw_only=True)
class Consistency(Learner):
    """Supervised plus consistency loss (FixMatch paper, Eqs. 3 and 4).

    Which pseudo-labels count is left to those that inherit. Labeled items are among the
    unlabeled ones too, as in the official code.
    """

    mu: Count = 2
    """Unlabeled items for each labeled one in a step."""
    consistency_weight: Weight = 1.0
    """Weight of the unlabeled loss (lambda_u)."""
    forward: Literal["joint", "split"] = "joint"
    """``"joint"``: labeled, weak and strong views in one pass, as the official code.
    ``"split"``: weak views in a pass of their own without gradients, which is faster;
    batch normalization then sees them apart."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of labeled items, weak and strong ones of unlabeled items."""
        return {**super().views, "weak": View("weak"), "strong": View("strong")}

    def loss(self, step: Step) -> Loss:
        """Return the sum of all terms."""
        outputs = self.outputs(step)
        labeled, weak, strong, *_ = outputs
        pseudo = self.pseudo_labels(step, weak.logits.detach().softmax(dim=1))
        supervised = F.cross_entropy(labeled.logits, step.minibatch.labels)
        consistency = consistency_loss(strong.logits, pseudo.classes, pseudo.keeps)
        others = self.other_terms(step, outputs, pseudo)
        weight = self.consistency_weight
        loss = Loss.of(supervised, consistency, weight, **others, **pseudo.rates)
        return Loss(sum(others.values(), loss.total), loss.figures)

    def outputs(self, step: Step, *others: Tensor) -> Outputs:
        """Return outputs for labeled, weak and strong views, then for other inputs."""
        if self.forward == "joint":
            return step.outputs("labeled", "weak", "strong", *others)
        with torch.no_grad():
            weak, *rest = step.outputs("weak", *others)
        labeled, strong = step.outputs("labeled", "strong")
        return labeled, weak, strong, *rest

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return pseudo-labels from weak views, and which of them count."""
        raise NotImplementedError

    def other_terms(
        self, step: Step, outputs: Outputs, pseudo: PseudoLabels
    ) -> Mapping[str, Tensor]:
        """Return other terms of the loss, weighted, by name."""
        del step, outputs, pseudo
        return {}


@dataclass(frozen=True, kw_only=True)
class FixMatch(Consistency):
    """Pseudo-labels count where the network is sure: one threshold for all."""

    threshold: Share = 0.95
    """Least probability at which a pseudo-label counts (tau)."""

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item; it counts where it is sure."""
        return step.pseudo_labels(
            probabilities_UC, lambda rows: rows.amax(dim=1) >= self.threshold
        )


def sure_by_class(least_C: Tensor) -> IsSure:
    """Return whether rows are sure, by a least probability for each class."""

    def is_sure(rows_UC: Tensor) -> Tensor:
        confidence_U, classes_U = rows_UC.max(dim=1)
        return confidence_U >= least_C.to(rows_UC)[classes_U]

    return is_sure


def consistency_loss(strong_UC: Tensor, classes_U: Tensor, keeps_U: Tensor) -> Tensor:
    """Return the unlabeled loss of FixMatch (Eq. 4).

    The mean runs over all U items, kept or not, so that the term grows with confidence.

    Args:
        strong_UC: Logits of strong views.
        classes_U: Pseudo-labels of the same items.
        keeps_U: Whether each counts.

    Returns:
        A scalar.
    """
    losses_U = F.cross_entropy(strong_UC, classes_U, reduction="none")
    return (keeps_U.to(losses_U.dtype) * losses_U).mean()
