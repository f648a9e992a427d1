"""CDMAD: the prediction for an image that shows nothing is the network's bias.

Lee and Kim, "CDMAD: Class-Distribution-Mismatch-Aware Debiasing for Class-Imbalanced
Semi-Supervised Learning" (CVPR 2024).

Shapes: U unlabeled items in a minibatch, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.errors import Weight
from fewlabels.models import Head, Network
from fewlabels.training.fixmatch import FixMatch, Outputs
from fewlabels.training.learner import LearningNetwork, Step
from fewlabels.training.views import Views


@dataclass(frozen=True, kw_only=True)
class FixMatchCdmad(FixMatch):
    """FixMatch whose logits are compared with those of a neutral image.

    The difference decides pseudo-labels, and what is predicted in the end.
    """

    correct_from: Weight = 0.2
    """Share of the steps before pseudo-labels are corrected; CDMAD's code takes 100 of
    500 epochs."""

    def outputs(self, step: Step, *others: Tensor) -> Outputs:
        """Return outputs, those of weak views less those of the neutral image."""
        sample = step.minibatch.views["weak"]
        nothing = neutral(step.average.network, sample.shape[1:]).to(sample.device)
        labeled, weak, strong, bias, *rest = super().outputs(step, nothing, *others)
        if step.number >= self.correct_from * step.task.settings.steps:
            weak = weak._replace(logits=weak.logits - bias.logits)
        return labeled, weak, strong, *rest

    def result(self, average: LearningNetwork, inputs: Views) -> Network:
        """Return the network with the bias taken from that of its last layer."""
        network = average.network
        nothing = neutral(network, inputs.shape).to(network.head.bias.device)
        with torch.no_grad():
            network.head.bias.sub_(network(nothing)[0])
        return network


def neutral(network: Network, shape: tuple[int, ...]) -> Tensor:
    """Return an input without information: white, or the mean of all rows.

    Args:
        network: The network that it is for.
        shape: Shape of an input.

    Returns:
        One input, of shape (1, *shape).
    """
    return network.mean[None] if isinstance(network, Head) else torch.ones(1, *shape)
