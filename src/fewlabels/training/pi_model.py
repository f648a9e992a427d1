"""The Pi-Model: two views of an item shall get the same prediction.

Laine and Aila, "Temporal Ensembling for Semi-Supervised Learning" (ICLR 2017).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Count, Weight
from fewlabels.training.learner import Learner, Loss, Step
from fewlabels.training.views import View


@dataclass(frozen=True, kw_only=True)
class PiModel(Learner):
    """Supervised loss plus squared difference of two predictions (Algorithm 1).

    Gradients go through one of the two, as in the code of Berthelot et al. (2019),
    whose settings these are.
    """

    defaults: ClassVar[Mapping[str, Any]] = {"weak_views": 2}
    official: ClassVar[Mapping[str, Any]] = {"mu": 1}

    mu: Count = 2
    """Unlabeled items for each labeled one in a step."""
    consistency_weight: Weight = 10.0
    """Weight of the unlabeled loss once it is ramped up."""
    ramp_up: Weight = 0.4
    """Share of the steps in which that weight grows from zero."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of labeled items, and two of unlabeled ones."""
        return {**super().views, "student": View("weak"), "teacher": View("weak")}

    def loss(self, step: Step) -> Loss:
        """Return the sum of both terms."""
        labeled, student = step.outputs("labeled", "student")
        with torch.no_grad():
            taught_UC = self.taught(step).softmax(dim=1)
        supervised = F.cross_entropy(labeled.logits, step.minibatch.labels)
        consistency = F.mse_loss(student.logits.softmax(dim=1), taught_UC)
        weight = self.consistency_weight * step.ramp_factor(self.ramp_up)
        return Loss.of(supervised, consistency, weight)

    def taught(self, step: Step) -> Tensor:
        """Return logits that the others shall resemble, shape (U, C)."""
        [teacher] = step.outputs("teacher")
        return teacher.logits
