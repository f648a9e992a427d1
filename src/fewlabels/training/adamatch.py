"""AdaMatch: alignment to the labeled items, and a threshold relative to theirs.

Berthelot et al., "AdaMatch: A Unified Approach to Semi-Supervised Learning and Domain
Adaptation" (ICLR 2022).

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Count, Share, Weight
from fewlabels.pool import Pool
from fewlabels.training.alignment import align
from fewlabels.training.fixmatch import consistency_loss
from fewlabels.training.learner import Learner, Loss, PseudoLabels, Step
from fewlabels.training.views import View

_LABELED = ("labeled", "labeled-strong")


@dataclass(frozen=True, kw_only=True)
class AdaMatch(Learner):
    """FixMatch whose threshold depends on predictions for labeled items.

    Labeled items have strong views too, and are seen both alone and together with the
    unlabeled ones; their loss is that of a random point between. Predictions are
    aligned to those for labeled items; where an alignment is chosen, it takes that
    place. The unlabeled loss comes in over the first half of the training.
    """

    official: ClassVar[Mapping[str, Any]] = {
        "mu": 3,
        "memory_decay": 0.999,
        "weight_decay": 0.001,
        "steps": 2**17,
    }

    mu: Count = 2
    """Unlabeled items for each labeled one in a step."""
    threshold: Weight = 0.9
    """Least probability at which a pseudo-label counts, as a multiple of the mean
    confidence about labeled items (tau)."""
    consistency_weight: Weight = 1.0
    """Weight of the unlabeled loss at its highest."""
    memory_decay: Share = 0.99
    """Weight of the past in the running means of predictions."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak and strong views of labeled and of unlabeled items."""
        return {
            **super().views,
            "labeled-strong": View("strong", is_labeled=True),
            "weak": View("weak"),
            "strong": View("strong"),
        }

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return running means of predictions for weak views, equal at first, (C,)."""
        even_C = torch.full((pool.num_classes,), 1 / pool.num_classes)
        return {"labeled": even_C, "unlabeled": even_C.clone()}

    def loss(self, step: Step) -> Loss:
        """Return the sum of both terms."""
        labels_B = step.minibatch.labels
        # Logits of labeled items lie between those of a pass over them alone and those
        # of a pass in which batch normalization sees the others too.
        alone = step.outputs(*_LABELED, moves_statistics=False)
        *together, weak, strong = step.outputs(*_LABELED, "weak", "strong")
        draws = step.stream("logit interpolation")
        labeled_BC, labeled_strong_BC = (
            torch.lerp(
                whole.logits,
                own.logits,
                torch.rand(whole.logits.shape, generator=draws).to(whole.logits),
            )
            for whole, own in zip(together, alone, strict=True)
        )
        both = weak.logits, labeled_BC
        seen = (logits.detach().softmax(dim=1) for logits in both)
        pseudo = self.pseudo_labels(step, *seen)
        supervised = F.cross_entropy(labeled_BC, labels_B) / 2
        supervised = supervised + F.cross_entropy(labeled_strong_BC, labels_B) / 2
        consistency = consistency_loss(strong.logits, pseudo.classes, pseudo.keeps)
        share = warmed_up(step.number, step.task.settings.steps)
        weight = self.consistency_weight * share
        return Loss.of(supervised, consistency, weight, **pseudo.rates)

    def pseudo_labels(
        self, step: Step, probabilities_UC: Tensor, labeled_BC: Tensor
    ) -> PseudoLabels:
        """Return pseudo-labels of weak views, given predictions for labeled items."""
        means = step.memory["labeled"], step.memory["unlabeled"]
        labeled, unlabeled = (
            step.group.gather(rows).cpu() for rows in (labeled_BC, probabilities_UC)
        )
        step.update_mean("labeled", labeled.mean(dim=0), self.memory_decay)
        step.update_mean("unlabeled", unlabeled.mean(dim=0), self.memory_decay)
        least = self.threshold * labeled.amax(dim=1).mean()
        if step.task.training.alignment is None:
            probabilities_UC = align(probabilities_UC, *means)
        pseudo = step.pseudo_labels(
            probabilities_UC, lambda rows: rows.amax(dim=1) >= least.to(rows)
        )
        return pseudo.with_figure("threshold", least)


def warmed_up(number: int, num_steps: int) -> float:
    """Return the share of the unlabeled loss in a step: 0 at first, 1 from half on.

    Example:
        >>> [round(warmed_up(number, 8), 3) for number in (0, 1, 2, 4, 8)]
        [0.0, 0.146, 0.5, 1.0, 1.0]
    """
    return (1 - math.cos(min(math.pi, 2 * math.pi * number / num_steps))) / 2
