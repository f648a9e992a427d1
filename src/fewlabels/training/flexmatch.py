"""FlexMatch: FixMatch with a threshold for each class, by how well it is learned.

Zhang et al., "FlexMatch: Boosting Semi-Supervised Learning with Curriculum Pseudo
Labeling" (NeurIPS 2021).

Shapes: N items in the pool, U unlabeled items in a minibatch, C classes.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.pool import Pool
from fewlabels.training.fixmatch import FixMatch, sure_by_class
from fewlabels.training.learner import PseudoLabels, Step

_NONE = -1


@dataclass(frozen=True, kw_only=True)
class FlexMatch(FixMatch):
    """FixMatch whose thresholds are lower for classes that are learned less well.

    A class is learned well if there are many items of which the network was last sure,
    at the full threshold, that they are of that class.
    """

    threshold_warmup: bool = True
    """Raise all thresholds from zero, while most items were never sure (Eq. 11)."""

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the class that each item was last sure of: none yet, shape (N,)."""
        return {"selected": torch.full((len(pool),), _NONE)}

    def thresholds(self, selected_N: Tensor, num_classes: int) -> Tensor:
        """Return the least probability at which a pseudo-label of each class counts.

        Equations 5, 6 (or 11) and 12 of the paper, with the convex map x / (2 - x).

        Args:
            selected_N: The class that each item was last sure of; -1: none.
            num_classes: Number of classes (C).

        Returns:
            Numbers from 0 to the full threshold, shape (C,).
        """
        is_used_N = selected_N != _NONE
        counts_C = torch.bincount(selected_N[is_used_N], minlength=num_classes)
        most = counts_C.max()
        if self.threshold_warmup:
            most = torch.maximum(most, (~is_used_N).sum())
        learned_C = counts_C / most.clamp(min=1)
        return self.threshold * learned_C / (2 - learned_C)

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return the most probable class of each item, if it is sure enough for it."""
        selected_N = step.memory["selected"]
        thresholds_C = self.thresholds(selected_N, probabilities_UC.shape[1])
        pseudo = step.pseudo_labels(probabilities_UC, sure_by_class(thresholds_C))
        items = step.group.gather(step.minibatch.items).cpu()
        confidence, classes = step.group.gather(probabilities_UC).cpu().max(dim=1)
        sure = confidence >= self.threshold
        # By NumPy: of an item that occurs twice, the last class stays.
        selected_N.numpy()[items[sure].numpy()] = classes[sure].numpy()
        return pseudo.with_figure("mean-threshold", thresholds_C.mean())
