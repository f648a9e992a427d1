"""Distribution alignment: predictions scaled so that classes are as frequent as known.

The cheap cousin of DARP: a running mean of the predictions, one number for each class,
instead of a stored matrix. Berthelot et al., "ReMixMatch: Semi-Supervised Learning with
Distribution Matching and Augmentation Anchoring" (ICLR 2020), Sec. 3.1.

Shapes: U unlabeled items in a minibatch, C classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool
from fewlabels.training.darp import targets
from fewlabels.training.learner import IsSure, PseudoLabels, Step
from fewlabels.training.schedule import check_range

Target = Literal["uniform", "labeled", "estimated"]

_TINY = 1e-6


@dataclass(frozen=True, kw_only=True)
class Targeted:
    """What knows, or estimates, how frequent the classes are."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    target: Target | tuple[float, ...] = "uniform"
    """Class shares of the pool: ``"uniform"`` as in the NPC paper, ``"labeled"`` (those
    of the labeled items), ``"estimated"`` (from the predictions, by expectation
    maximization), or the shares themselves."""

    def __post_init__(self) -> None:
        """Check the word or the shares."""
        if isinstance(self.target, str):
            check_known("target", self.target, Target)
        elif not all(0 < share < math.inf for share in self.target):
            msg = f"target is {self.target}; every share must be a number above zero."
            raise UsageError(msg)

    def check(self, pool: Pool) -> None:
        """Raise unless a target that was given has a share for each class."""
        if not isinstance(self.target, str) and len(self.target) != pool.num_classes:
            raise UsageError(
                f"target gives {len(self.target)} shares, and there are "
                f"{pool.num_classes} classes; give one share for each."
            )

    def known(self, pool: Pool, num_rows: int) -> Tensor | None:
        """Return how many of some rows each class shall get; None: to be estimated."""
        if not isinstance(self.target, str):
            return targets.from_shares(torch.tensor(self.target), num_rows)
        if self.target == "labeled":
            labels = pool.labels[pool.labeled]
            return targets.from_labels(labels, pool.num_classes, num_rows)
        if self.target == "uniform":
            return targets.uniform(num_rows, pool.num_classes)
        return None


@dataclass(frozen=True, kw_only=True)
class DistributionAlignment(Targeted):
    """Scales the pseudo-labels of any learner by target over running mean."""

    official: ClassVar[Mapping[str, Any]] = {"share_decay": 0.999}

    share_decay: float = 0.99
    """Weight of the past in the running mean of predictions."""

    def __post_init__(self) -> None:
        """Check the words and the ranges."""
        super().__post_init__()
        check_range("share_decay", self.share_decay, at_least=0, below=1)

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the mean prediction and the class shares: equal before the first step.

        ``mean-prediction``: running mean of the predictions. ``class-shares``: those of
        the target, which change only where they are estimated. Both of shape (C,).
        """
        even_C = torch.full((pool.num_classes,), 1 / pool.num_classes)
        known_C = self.known(pool, 1)
        shares_C = even_C.clone() if known_C is None else known_C.to(even_C)
        return {"mean-prediction": even_C, "class-shares": shares_C}

    def pseudo_labels(
        self, step: Step, probabilities_UC: Tensor, is_sure: IsSure
    ) -> PseudoLabels:
        """Let the running mean follow the predictions, and scale them."""
        mean_C, shares_C = step.memory["mean-prediction"], step.memory["class-shares"]
        rows = step.group.gathered(probabilities_UC.float()).cpu()
        mean_C.lerp_(rows.mean(dim=0), 1 - self.share_decay)
        if self.target == "estimated":
            # One round of what targets.estimated does with all predictions at once.
            likely = rows * shares_C
            likely /= likely.sum(dim=1, keepdim=True)
            shares_C.lerp_(likely.mean(dim=0), 1 - self.share_decay)
            shares_C.clamp_(min=1 / len(step.pool))  # no class gets less than one item
        aligned_UC = aligned(probabilities_UC, shares_C, mean_C)
        rates = {"kept-raw": is_sure(probabilities_UC).float().mean()}
        return PseudoLabels(aligned_UC, is_sure(aligned_UC), rates)

    def rehearse(self, num_items: int, num_classes: int, steps: int) -> float:
        """Do nothing: it takes no time."""
        del num_items, num_classes, steps
        return 0.0


def aligned(rows_UC: Tensor, target_C: Tensor | float, mean_C: Tensor) -> Tensor:
    """Scale each class by target over mean, and let each row sum to one again.

    Args:
        rows_UC: Probabilities.
        target_C: How frequent the classes are; a number: all alike.
        mean_C: The mean of many such rows.

    Returns:
        Probabilities, shape (U, C).
    """
    scaled_UC = rows_UC * ((target_C + _TINY) / (mean_C + _TINY)).to(rows_UC)
    return scaled_UC / scaled_UC.sum(dim=1, keepdim=True)
