"""FreeMatch: thresholds that follow the network's own confidence.

Wang et al., "FreeMatch: Self-adaptive Thresholding for Semi-supervised Learning"
(ICLR 2023).

Shapes: U unlabeled items in a minibatch, C classes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Share, Weight
from fewlabels.pool import Pool
from fewlabels.training.fixmatch import Consistency, Outputs, sure_by_class
from fewlabels.training.learner import PseudoLabels, Step

_TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class FreeMatch(Consistency):
    """FixMatch whose thresholds are running means, one for each class.

    The threshold of all classes is the mean confidence of the network; that of a class
    is lower the less often the class is predicted. A term for fairness keeps the
    predictions of strong views from settling on few classes.
    """

    official: ClassVar[Mapping[str, Any]] = {"memory_decay": 0.999}

    memory_decay: Share = 0.99
    """Weight of the past in the running means (lambda)."""
    fairness_weight: Weight = 0.01
    """Weight of the fairness term (w_f)."""

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return running means over weak views, which start at 1 / C.

        ``confidence``: the highest probability, shape (1,). ``predictions``: the
        probability of each class, ``histogram``: how often it is the most probable,
        shape (C,).
        """
        num_classes = pool.num_classes
        sizes = {"confidence": 1, "predictions": num_classes, "histogram": num_classes}
        return {name: torch.full((n,), 1 / num_classes) for name, n in sizes.items()}

    def remember(self, memory: Mapping[str, Tensor], rows_UC: Tensor) -> None:
        """Let the running means follow new predictions (Eqs. 5, 6 and 11)."""
        confidence_U, classes_U = rows_UC.max(dim=1)
        counts_C = torch.bincount(classes_U, minlength=rows_UC.shape[1])
        now = {
            "confidence": confidence_U.mean(),
            "predictions": rows_UC.mean(dim=0),
            "histogram": counts_C / len(rows_UC),
        }
        for name, mean in now.items():
            memory[name].lerp_(mean.to(memory[name]), 1 - self.memory_decay)

    def thresholds(self, memory: Mapping[str, Tensor]) -> Tensor:
        """Return the least probability for a pseudo-label of each class (Eq. 7)."""
        often_C = memory["predictions"]
        return memory["confidence"] * often_C / often_C.max()

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item, if it is sure enough for it."""
        self.remember(step.memory, step.group.gather(probabilities_UC).cpu())
        thresholds_C = self.thresholds(step.memory)
        pseudo = step.pseudo_labels(probabilities_UC, sure_by_class(thresholds_C))
        return pseudo.with_figure("mean-threshold", thresholds_C.mean())

    def other_terms(
        self, step: Step, outputs: Outputs, pseudo: PseudoLabels
    ) -> Mapping[str, Tensor]:
        """Return the fairness term."""
        strong_UC = outputs[2].logits
        means = (step.memory[name] for name in ("predictions", "histogram"))
        fairness = fairness_loss(strong_UC, pseudo.keeps, *means)
        return {"fairness": self.fairness_weight * fairness}


def fairness_loss(
    strong_UC: Tensor, keeps_U: Tensor, predictions_C: Tensor, histogram_C: Tensor
) -> Tensor:
    """Return the self-adaptive fairness of FreeMatch (Eqs. 9, 10 and 12).

    Mean predictions of strong views, of all that count and over time, are each divided
    by how often a class is the most probable; the loss is the negative cross-entropy
    between the two.

    Args:
        strong_UC: Logits of strong views.
        keeps_U: Whether each counts.
        predictions_C: Running mean of the predictions of weak views.
        histogram_C: Running share of weak views whose most probable class it is.

    Returns:
        A scalar; zero if none counts.
    """
    kept_UC = strong_UC[keeps_U.bool()].softmax(dim=1)
    if not len(kept_UC):
        return strong_UC.new_zeros(())
    counts_C = F.one_hot(kept_UC.argmax(dim=1), strong_UC.shape[1]).to(kept_UC).sum(0)
    wanted_C = _normalized(predictions_C.to(strong_UC), histogram_C.to(strong_UC))
    present_C = _normalized(kept_UC.mean(dim=0), counts_C)
    return (wanted_C * (present_C + _TINY).log()).sum()


def _normalized(means_C: Tensor, counts_C: Tensor) -> Tensor:
    """Divide by counts, where there are any, and let the sum be one."""
    ratios_C = torch.where(counts_C > 0, means_C / counts_C.clamp(min=_TINY), 0)
    return ratios_C / ratios_C.sum()
