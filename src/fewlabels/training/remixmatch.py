"""ReMixMatch: MixMatch with aligned guesses, strong views and turned images.

Berthelot et al., "ReMixMatch: Semi-Supervised Learning with Distribution Matching and
Augmentation Anchoring" (ICLR 2020).

Shapes: U unlabeled items in a minibatch, C classes, M minibatches remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.errors import Count, UsageError, Weight
from fewlabels.pool import Pool
from fewlabels.training import targets
from fewlabels.training.alignment import align
from fewlabels.training.learner import Loss, PseudoLabels, Step
from fewlabels.training.mixmatch import MixMatch, keep_all, predict_mixture, sharpen
from fewlabels.training.views import View

_REMEMBERED = 128
_QUARTERS = 4


@dataclass(frozen=True, kw_only=True)
class ReMixMatch(MixMatch):
    """Cross-entropy on mixtures, on a strong view and on quarter turns (Eqs. 3, 4).

    The guess for the weak view is aligned to the class shares of the labels; where an
    alignment is chosen, it takes that place.
    """

    defaults: ClassVar[Mapping[str, Any]] = {}

    mu: Count = 1
    """Unlabeled items for each labeled one in a step."""
    consistency_weight: Weight = 1.5
    """Weight of the mixed unlabeled items once ramped up (lambda_u)."""
    anchor_weight: Weight = 0.5
    """Weight of a strong view that is not mixed, once ramped up (lambda_u1)."""
    rotation_weight: Weight = 0.5
    """Weight of telling by how much a strong view is turned (lambda_r)."""

    @property
    def views(self) -> Mapping[str, View]:
        """Weak views of all items, and two strong ones of unlabeled items."""
        return {
            "labeled": View("weak", is_labeled=True),
            "weak": View("weak"),
            "strong_0": View("strong"),
            "strong_1": View("strong"),
        }

    @property
    def heads(self) -> Mapping[str, int]:
        """A layer that predicts by how many quarters an image is turned."""
        return {"rotation": _QUARTERS}

    def check(self, pool: Pool) -> None:
        """Raise unless the items are square images."""
        shape = pool.images.shape
        if len(shape) != 3 or shape[1] != shape[2]:
            raise UsageError(f"The images are {shape}; take square ones or 'mixmatch'.")

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the mean prediction of each of the last steps: even, shape (M, C)."""
        num_classes = pool.num_classes
        return {"predictions": torch.full((_REMEMBERED, num_classes), 1 / num_classes)}

    def loss(self, step: Step) -> Loss:
        """Return the sum of all four terms."""
        strong = step.minibatch.views["strong_0"]
        draws = step.stream("quarter turns")
        turns_U = torch.randint(_QUARTERS, (len(strong),), generator=draws)
        turns_U = turns_U.to(strong.device)
        weak, anchored, turned = step.outputs(
            "weak", strong, rotate_quarters(strong, turns_U)
        )
        pseudo = self.pseudo_labels(step, weak.logits.detach().softmax(dim=1))
        target_UC = sharpen(pseudo.probabilities, self.temperature)
        names = ["strong_0", "strong_1", "weak"]
        labeled, others = predict_mixture(step, names, target_UC, self.mixup)
        figures = {
            "supervised": F.cross_entropy(*labeled),
            "consistency": F.cross_entropy(*others),
            "anchored": F.cross_entropy(anchored.logits, target_UC),
            "rotation": F.cross_entropy(turned.heads["rotation"], turns_U),
        }
        unlabeled = self.consistency_weight * figures["consistency"]
        unlabeled = unlabeled + self.anchor_weight * figures["anchored"]
        return Loss(
            figures["supervised"]
            + step.ramp_factor(self.ramp_up) * unlabeled
            + self.rotation_weight * figures["rotation"],
            {**figures, **pseudo.figures},
        )

    def pseudo_labels(self, step: Step, probabilities_UC: Tensor) -> PseudoLabels:
        """Return guesses, aligned to the shares of the labels or as is chosen."""
        past_MC = step.memory["predictions"]
        pseudo = step.pseudo_labels(probabilities_UC, keep_all)
        if step.task.training.alignment is None:
            pool, settings = step.task.pool, step.task.settings
            shares_C: Tensor | float = 1 / pool.num_classes
            if not settings.balances_classes:  # as frequent as among the labels
                labels = pool.labels[pool.labeled]
                shares_C = targets.from_labels(labels, pool.num_classes, 1)
            guess_UC = align(probabilities_UC, shares_C, past_MC.mean(dim=0))
            pseudo = PseudoLabels(guess_UC, pseudo.keeps)
        now_C = step.group.gather(probabilities_UC).cpu().mean(dim=0)
        past_MC[step.number % _REMEMBERED] = now_C
        return pseudo


def rotate_quarters(images_n: Tensor, turns_n: Tensor) -> Tensor:
    """Return each image turned by its number of quarters, counterclockwise."""
    turned_n = images_n.clone()
    for turns in range(1, _QUARTERS):
        chosen_n = turns_n == turns
        turned_n[chosen_n] = torch.rot90(images_n[chosen_n], turns, dims=(-2, -1))
    return turned_n
