"""CEAL's pseudo-labels: those of low entropy, by a threshold that falls.

Wang et al., "Cost-Effective Active Learning for Deep Image Classification" (IEEE
Transactions on Circuits and Systems for Video Technology, 2017), Sec. III.

Shapes: U unlabeled items in a minibatch, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.errors import Count, Weight
from fewlabels.training.learner import PseudoLabels, Step
from fewlabels.training.pseudo_label import PseudoLabel


@dataclass(frozen=True, kw_only=True)
class Ceal(PseudoLabel):
    """Supervised loss plus that of the pseudo-labels whose entropy is low.

    Predictions get surer as a network learns. The threshold falls as they do, so that
    pseudo-labels stay few and right.
    """

    threshold: Weight = 0.05
    """Entropy, in nats, below which a pseudo-label counts at first (delta_0)."""
    threshold_decay: Weight = 0.0033
    """By how much the threshold falls after the first phase (dr); after the second by
    twice as much, and so on."""
    phases: Count = 6
    """Equal parts of the training, each with a threshold of its own."""
    ramp_up: Weight = 0.0
    """Share of the steps in which the weight of the unlabeled loss grows from zero."""

    def threshold_at(self, number: int, num_steps: int) -> float:
        """Return the entropy below which a pseudo-label counts in a step."""
        phase = number * self.phases // num_steps
        fallen = self.threshold_decay * phase * (phase + 1) / 2
        return max(0.0, self.threshold - fallen)

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item; it counts at low entropy."""
        threshold = self.threshold_at(step.number, step.task.settings.steps)
        pseudo = step.pseudo_labels(
            probabilities_UC,
            lambda rows: torch.special.entr(rows).sum(dim=1) < threshold,
        )
        return pseudo.with_figure("threshold", torch.tensor(threshold))
