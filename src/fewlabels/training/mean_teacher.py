"""Mean Teacher: the averaged network teaches the network that it is an average of.

Tarvainen and Valpola, "Mean teachers are better role models: Weight-averaged
consistency targets improve semi-supervised deep learning results" (NeurIPS 2017).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from fewlabels.errors import Weight
from fewlabels.models import as_input
from fewlabels.training.learner import Learned, Step
from fewlabels.training.pi_model import PiModel


@dataclass(frozen=True, kw_only=True)
class MeanTeacher(PiModel):
    """The Pi-Model whose second prediction is that of the averaged network."""

    # An average that reaches far back is a poor teacher as long as the steps are few.
    defaults: ClassVar[Mapping[str, Any]] = {**PiModel.defaults, "ema_decay": 0.95}

    consistency_weight: Weight = 50.0
    """Weight of the unlabeled loss once it is ramped up."""

    def taught(self, step: Step) -> Tensor:
        """Return logits of the averaged network, shape (U, C)."""
        # Batch normalization goes by the minibatch, as in the other network: at the
        # beginning its running statistics are those of no network at all. They change
        # here, and are those of the other network again after the step.
        layers = [m for m in step.average.modules() if isinstance(m, nn.BatchNorm2d)]
        for layer in layers:
            layer.train()
        learned: Learned = step.average(as_input(step.minibatch.views["teacher"]))
        for layer in layers:
            layer.eval()
        return learned.logits
