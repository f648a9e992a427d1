"""SoftMatch: every pseudo-label counts, the more the surer it is.

Chen et al., "SoftMatch: Addressing the Quantity-Quality Trade-off in Semi-supervised
Learning" (ICLR 2023).

Shapes: U unlabeled items in a minibatch, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from fewlabels.errors import Share, Weight
from fewlabels.pool import Pool
from fewlabels.training.alignment import align
from fewlabels.training.fixmatch import Consistency
from fewlabels.training.learner import PseudoLabels, Step

_TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class SoftMatch(Consistency):
    """FixMatch with weights instead of a threshold.

    Confidences at or above their running mean count fully; below it, the weight falls
    as a Gaussian of their running variance. Confidences are those of predictions
    aligned to equal class shares; where an alignment is chosen, it takes that place.
    """

    official: ClassVar[Mapping[str, Any]] = {"memory_decay": 0.999}

    memory_decay: Share = 0.9
    """Weight of the past in the running means (m). The variance begins at 1, where all
    pseudo-labels count; a short training has to forget that soon."""
    narrowing: Weight = 2.0
    """What the deviation of the Gaussian is divided by."""

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return running means over weak views, as the paper begins them.

        ``predictions``: the probability of each class, shape (C,). ``confidence`` and
        ``variance`` of the highest probability, shape (1,).
        """
        even_C = torch.full((pool.num_classes,), 1 / pool.num_classes)
        return {
            "predictions": even_C,
            "confidence": even_C[:1].clone(),
            "variance": torch.ones(1),
        }

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item, and how much it counts."""
        memory = step.memory
        rows = step.group.gather(probabilities_UC).cpu()
        step.update_mean("predictions", rows.mean(dim=0), self.memory_decay)

        def confidence(rows_UC: Tensor) -> Tensor:
            mean_C = memory["predictions"]
            return align(rows_UC, 1 / len(mean_C), mean_C).amax(dim=1)

        sure = confidence(rows)
        step.update_mean("confidence", sure.mean(), self.memory_decay)
        if len(sure) > 1:
            step.update_mean("variance", sure.var(), self.memory_decay)
        pseudo = step.pseudo_labels(
            probabilities_UC, lambda rows: self.weights(memory, confidence(rows))
        )
        return pseudo.with_figure("mean-confidence", memory["confidence"].mean())

    def weights(self, memory: Mapping[str, Tensor], confidence_U: Tensor) -> Tensor:
        """Return the weight of each pseudo-label, from 0 to 1 (Eq. 7)."""
        mean = memory["confidence"].to(confidence_U)
        variance = memory["variance"].to(confidence_U)
        below_U = (confidence_U - mean).clamp(max=0) * self.narrowing
        return (-below_U.square() / (2 * variance).clamp(min=_TINY)).exp()
