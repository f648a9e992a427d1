"""FixMatch with DARP: pseudo-labels refined towards known class shares.

Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning" (NeurIPS 2020), as the NPC paper uses it (Sec. 5.1): with a
uniform target.

Shapes: N items in the pool, U unlabeled items in a minibatch, C classes.
"""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewlabels.errors import InfeasibleTargetError, TargetWarning, UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool
from fewlabels.training import darp
from fewlabels.training.darp import targets
from fewlabels.training.darp.refinement import Masking, Solver
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.fixmatch import (
    FixMatchObjective,
    FixMatchTrainer,
    PseudoLabels,
)
from fewlabels.training.objective import Objective
from fewlabels.training.settings import check_range
from fewlabels.training.views import Minibatcher, Views

MaskOn = Literal["refined", "raw", "both"]
Target = Literal["uniform", "labeled", "estimated"]

_PLAIN_MISFIT = 0.25


@dataclass(frozen=True, kw_only=True)
class FixMatchDarpTrainer(FixMatchTrainer):
    """FixMatch whose pseudo-labels are refined by DARP.

    Predictions for the whole pool are stored as they come. After a warm-up, every few
    steps, the stored matrix is moved as little as possible so that its class totals
    are those of the target; pseudo-labels are taken from the refined rows.
    """

    warmup: float = 0.4
    """Share of the steps without refinement; DARP's code takes 200 of 500 epochs."""
    refine_every: int = 10
    """Steps between two refinements; in between, refined rows are used as they are."""
    target: Target | tuple[float, ...] = "uniform"
    """Class shares of the pool: ``"uniform"`` as in the NPC paper, ``"labeled"`` (those
    of the labeled items), ``"estimated"`` (from the predictions, by expectation
    maximization), or the shares themselves."""
    mask_on: MaskOn = "refined"
    """Whose confidence counts: that of the refined row as in the papers, that of the
    network's own prediction, or both. Refined rows are often sure without reason."""
    capacity: float | None = 2.0
    """Rows that keep a class, as a multiple of its target (delta); None: all."""
    masking: Masking = "paper"
    """How the others lose it: as DARP's paper says, or as its code does."""
    solver: Solver = "newton"
    """Newton's method on the dual, or the alternating updates of DARP's code."""

    def __post_init__(self) -> None:
        """Check the words and the ranges."""
        super().__post_init__()
        check_range("warmup", self.warmup, at_least=0, below=1)
        check_range("refine_every", self.refine_every, at_least=1)
        check_known("mask_on", self.mask_on, MaskOn)
        check_known("masking", self.masking, Masking)
        check_known("solver", self.solver, Solver)
        if isinstance(self.target, str):
            check_known("target", self.target, Target)
        elif not all(0 < share < math.inf for share in self.target):
            msg = f"target is {self.target}; every share must be a number above zero."
            raise UsageError(msg)
        if self.capacity is not None and not self.capacity >= 1:
            msg = (
                f"capacity is {self.capacity}; below 1 a class could not reach its "
                "target. Give 1 or more, or None for no limit."
            )
            raise UsageError(msg)

    def check(self, pool: Pool) -> None:
        """Raise unless a target that was given has a share for each class."""
        super().check(pool)
        if not isinstance(self.target, str) and len(self.target) != pool.num_classes:
            msg = (
                f"target gives {len(self.target)} shares, and there are "
                f"{pool.num_classes} classes; give one share for each."
            )
            raise UsageError(msg)

    def objective(
        self, pool: Pool, views: Views, key: int, group: ProcessGroup
    ) -> Objective:
        """Return the loss of FixMatch on refined pseudo-labels."""
        return AlignedObjective(self, self._minibatcher(pool, views, key, group))

    def wanted(self, pool: Pool, probabilities_NC: Tensor) -> Tensor:
        """Return how many items of the pool each class shall get.

        Args:
            pool: The pool with its labels.
            probabilities_NC: The stored predictions.

        Returns:
            Positive numbers whose sum is N, shape (C,), float64.
        """
        if not isinstance(self.target, str):
            return targets.from_shares(torch.tensor(self.target), len(pool))
        if self.target == "labeled":
            labels = pool.labels[pool.labeled]
            return targets.from_labels(labels, pool.num_classes, len(pool))
        if self.target == "estimated":
            return targets.estimated(probabilities_NC)
        return targets.uniform(len(pool), pool.num_classes)


class AlignedObjective(FixMatchObjective):
    """FixMatch's loss with a memory of all predictions, refined now and then."""

    settings: FixMatchDarpTrainer

    def __init__(self, settings: FixMatchDarpTrainer, minibatcher: Minibatcher) -> None:
        """Begin without any knowledge of the unlabeled items.

        Args:
            settings: When and how to refine.
            minibatcher: Makes the minibatches of this process.
        """
        super().__init__(settings, minibatcher)
        pool = minibatcher.pool
        num_classes = pool.num_classes
        self.stored_NC = torch.full(
            (len(pool), num_classes), 1 / num_classes, dtype=torch.float32
        )
        """The last prediction for each item's weak view; uniform before the first."""
        self.refined_NC = self.stored_NC.clone()
        """The stored matrix as it was refined last."""
        self.dual_C = torch.zeros(num_classes, dtype=torch.float64)
        """Dual variables of the last refinement, where the next one starts."""
        self.counts = torch.zeros(2, dtype=torch.int64)
        """Refinements that were done, and that were impossible and skipped."""

    def memory(self) -> Mapping[str, Tensor]:
        """Return the stored and the refined predictions and the dual variables."""
        return {
            "stored": self.stored_NC,
            "refined": self.refined_NC,
            "dual": self.dual_C,
            "counts": self.counts,
        }

    def pseudo_labels(
        self, probabilities_UC: Tensor, items_U: Tensor, step: int
    ) -> PseudoLabels:
        """Store the predictions, refine if it is time, and read the refined rows."""
        settings, group = self.settings, self.minibatcher.group
        self._store(
            group.gathered(items_U).cpu(),
            group.gathered(probabilities_UC.float()).cpu(),
        )
        if self._is_time(step):
            self._refine(step)
        raw_U = probabilities_UC.amax(dim=1) >= settings.threshold
        rates = {"kept-raw": raw_U.float().mean()}
        if self.counts[1]:
            rates["skipped-refinements"] = self.counts[1]
        if not self._is_refined:
            return PseudoLabels(probabilities_UC.argmax(dim=1), raw_U, rates)
        rows_UC = self.refined_NC[items_U.cpu()].to(probabilities_UC)
        confidence_U, classes_U = rows_UC.max(dim=1)
        refined_U = confidence_U >= settings.threshold
        keeps_U = {"refined": refined_U, "raw": raw_U, "both": refined_U & raw_U}
        rates["kept-refined"] = refined_U.float().mean()
        return PseudoLabels(classes_U, keeps_U[settings.mask_on], rates)

    def _store(self, items: Tensor, rows: Tensor) -> None:
        """Replace rows; of an item that occurs twice, the last one stays.

        Predictions that are no numbers are left out: the loss will tell.
        """
        if bool(rows.isfinite().all()):
            # By NumPy, since torch leaves open which of two rows wins.
            self.stored_NC.numpy()[items.numpy()] = rows.numpy()

    @property
    def _is_refined(self) -> bool:
        """Whether there is a refined matrix yet."""
        return bool(self.counts[0])

    def _is_time(self, step: int) -> bool:
        begun = step >= self.settings.warmup * self.settings.steps
        return begun and step % self.settings.refine_every == 0

    def _refine(self, step: int) -> None:
        """Refine the whole stored matrix; if that is impossible, say so and go on."""
        settings, pool = self.settings, self.minibatcher.pool
        target_C = settings.wanted(pool, self.stored_NC)
        if not self.counts.any():
            self._check_target(target_C)
        try:
            found = darp.solve(
                self.stored_NC,
                target_C,
                capacity=settings.capacity,
                masking=settings.masking,
                solver=settings.solver,
                start=self.dual_C,
            )
        except InfeasibleTargetError as error:
            if not self.counts[1]:
                self._say(
                    f"The refinement of step {step} was skipped, and what was refined "
                    f"before stays in use: {error} Further ones are only counted."
                )
            self.counts[1] += 1
            return
        self.refined_NC.copy_(found.refined)
        self.dual_C.copy_(found.dual)
        self.counts[0] += 1

    def _check_target(self, target_C: Tensor) -> None:
        """Warn if the predictions speak plainly against the target."""
        misfit = targets.misfit(self.stored_NC, target_C)
        if misfit <= _PLAIN_MISFIT:
            return
        classes = self.minibatcher.pool.classes
        shares_C = target_C / target_C.sum()
        found_C = self.stored_NC.double().mean(dim=0)
        most, least = int(found_C.argmax()), int(found_C.argmin())
        seen = f"{found_C[most]:.0%} as '{classes[most]}'"
        rare = f"{found_C[least]:.0%} as '{classes[least]}'"
        msg = (
            f"DARP pulls the predictions towards class shares that do not fit them: "
            f"{seen} and {rare} against {shares_C[most]:.0%} and {shares_C[least]:.0%} "
            "of the target. If the classes really are that uneven, set target to their "
            "shares; if they are not, this is what DARP is for."
        )
        self._say(msg)

    def _say(self, message: str) -> None:
        """Warn, once for all processes."""
        if self.minibatcher.group.rank == 0:
            warnings.warn(message, TargetWarning, stacklevel=2)
