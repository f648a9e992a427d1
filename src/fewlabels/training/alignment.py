"""Pseudo-labels of any learner, aligned to how frequent the classes are.

DARP (Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning", NeurIPS 2020), as the NPC paper uses it (Sec. 5.1): with a
uniform target. And its cheap cousin, distribution alignment: a running mean of the
predictions instead of a stored matrix (Berthelot et al., "ReMixMatch: Semi-Supervised
Learning with Distribution Matching and Augmentation Anchoring", ICLR 2020, Sec. 3.1).

Shapes: N items in the pool, U unlabeled items in a minibatch, C classes.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from fewlabels.errors import (
    Count,
    InfeasibleTargetError,
    Limits,
    Settings,
    Share,
    TargetWarning,
    check_count,
)
from fewlabels.pool import Pool
from fewlabels.training import darp, targets
from fewlabels.training.darp import Masking, Solver
from fewlabels.training.learner import IsSure, PseudoLabels, Step

_TINY = 1e-6
_PLAIN_MISFIT = 0.25


@dataclass(frozen=True, kw_only=True)
class Alignment(Settings):
    """Refines the pseudo-labels of any learner to class shares, known or estimated."""

    target: Annotated[
        Literal["uniform", "labeled", "estimated"] | tuple[float, ...], Limits(above=0)
    ] = "uniform"
    """Class shares of the pool: ``"uniform"`` as in the NPC paper, ``"labeled"`` (those
    of the labeled items), ``"estimated"`` (from the predictions, by expectation
    maximization), or the shares themselves."""

    def check(self, pool: Pool) -> None:
        """Raise unless a target that was given has a share for each class."""
        if not isinstance(self.target, str):
            check_count("target", len(self.target), pool.num_classes, "class")

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the tensors that outlive a step, as they are before the first."""
        raise NotImplementedError

    def pseudo_labels(
        self, step: Step, probabilities_UC: Tensor, is_sure: IsSure
    ) -> PseudoLabels:
        """Return refined pseudo-labels of the unlabeled items of a step."""
        raise NotImplementedError

    def known(self, pool: Pool, num_rows: int) -> Tensor | None:
        """Return how many of some rows each class shall get; None: to be estimated."""
        if self.target == "estimated":
            return None
        if self.target == "uniform":
            return targets.uniform(num_rows, pool.num_classes)
        if self.target == "labeled":
            labels = pool.labels[pool.labeled]
            return targets.from_labels(labels, pool.num_classes, num_rows)
        return targets.from_shares(torch.tensor(self.target), num_rows)


@dataclass(frozen=True, kw_only=True)
class DistributionAlignment(Alignment):
    """Scales the pseudo-labels of any learner by target over running mean."""

    official: ClassVar[Mapping[str, Any]] = {"share_decay": 0.999}

    share_decay: Share = 0.99
    """Weight of the past in the running mean of predictions."""

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
        """Update the running means; return predictions scaled to the class shares."""
        mean_C, shares_C = step.memory["mean-prediction"], step.memory["class-shares"]
        rows = step.group.gather(probabilities_UC.float()).cpu()
        mean_C.lerp_(rows.mean(dim=0), 1 - self.share_decay)
        if self.target == "estimated":
            # One round of what targets.estimated does with all predictions at once.
            likely = rows * shares_C
            likely /= likely.sum(dim=1, keepdim=True)
            shares_C.lerp_(likely.mean(dim=0), 1 - self.share_decay)
            shares_C.clamp_(min=1 / len(step.task.pool))  # no less than one item
        aligned_UC = align(probabilities_UC, shares_C, mean_C)
        rates = {"kept-raw": is_sure(probabilities_UC).float().mean()}
        return PseudoLabels(aligned_UC, is_sure(aligned_UC), rates)


def align(rows_UC: Tensor, target_C: Tensor | float, mean_C: Tensor) -> Tensor:
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


@dataclass(frozen=True, kw_only=True)
class Darp(Alignment):
    """Refines the pseudo-labels of any learner by DARP.

    Predictions for the whole pool are stored as they come. After a warm-up, every few
    steps, the stored matrix is moved as little as possible so that its class totals
    are those of the target; pseudo-labels are taken from the refined rows.
    """

    on_device: ClassVar[tuple[str, ...]] = ("stored", "refined")
    """Memory that is kept where the network is, so that no step waits for it."""

    warmup: Share = 0.4
    """Share of the steps without refinement; DARP's code takes 200 of 500 epochs."""
    refine_every: Count = 10
    """Steps between two refinements; in between, refined rows are used as they are."""
    mask_on: Literal["refined", "raw", "both"] = "refined"
    """Whose confidence counts: that of the refined row as in the papers, that of the
    network's own prediction, or both. Refined rows are often sure without reason."""
    capacity: Annotated[float | None, Limits(at_least=1)] = 2.0
    """Rows that keep a class, as a multiple of its target (delta); None: all."""
    masking: Masking = "paper"
    """How the others lose it: as DARP's paper says, or as its code does."""
    solver: Solver = "newton"
    """Newton's method on the dual, or the alternating updates of DARP's code."""

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return the state of all refinements, as it is before the first step.

        ``stored``: the last prediction for each item's weak view, uniform before the
        first. ``refined``: the stored matrix as it was refined last. ``dual``: its dual
        variables, where the next refinement starts. ``counts``: refinements that were
        done, and that were impossible and skipped.
        """
        num_classes = pool.num_classes
        even = torch.full((len(pool), num_classes), 1 / num_classes)
        return {
            "stored": even,
            "refined": even.clone(),
            "dual": torch.zeros(num_classes, dtype=torch.float64),
            "counts": torch.zeros(2, dtype=torch.int64),
        }

    def pseudo_labels(
        self, step: Step, probabilities_UC: Tensor, is_sure: IsSure
    ) -> PseudoLabels:
        """Store the predictions, refine if it is time, and read the refined rows."""
        memory, items_U = step.memory, step.minibatch.items
        items, stored_NC = step.group.gather(items_U).cpu(), memory["stored"]
        rows = step.group.gather(probabilities_UC.float()).detach().to(stored_NC.device)
        is_finite = rows.isfinite().all()
        # Of an item that occurs twice, the last row stays.
        once, back = np.unique(items.numpy()[::-1], return_index=True)
        items, rows = torch.from_numpy(once), rows.flip(0)[torch.from_numpy(back)]
        # If one is infinite, so is the loss; to ask a GPU for that would wait for it.
        stored_NC[items] = torch.where(is_finite, rows, stored_NC[items])
        has_begun = step.number >= self.warmup * step.task.settings.steps
        if has_begun and step.number % self.refine_every == 0:
            self._refine(step)
        raw_U = is_sure(probabilities_UC)
        rates = {"kept-raw": raw_U.float().mean()}
        num_refined, num_skipped = memory["counts"]
        if num_skipped:
            rates["skipped-refinements"] = num_skipped
        if not num_refined:
            return PseudoLabels(probabilities_UC, raw_U, rates)
        refined_UC = memory["refined"][items_U].to(probabilities_UC)
        refined_U = is_sure(refined_UC)
        rates["kept-refined"] = refined_U.float().mean()
        keeps_U = {"refined": refined_U, "raw": raw_U, "both": refined_U * raw_U}
        return PseudoLabels(refined_UC, keeps_U[self.mask_on], rates)

    def _refine(self, step: Step) -> None:
        """Refine the whole stored matrix; warn the first time that is impossible."""
        pool, memory = step.task.pool, step.memory
        stored_NC, dual_C = memory["stored"].cpu(), memory["dual"]
        counts = memory["counts"]
        target_C = self.known(pool, len(pool))
        if target_C is None:
            target_C = targets.estimated(stored_NC)
        message = ""
        if not counts.any() and targets.misfit(stored_NC, target_C) > _PLAIN_MISFIT:
            means_C = stored_NC.double().mean(dim=0)
            often = int(means_C.argmax())
            message = (
                "DARP pulls the predictions towards class shares that do not fit them: "
                f"{means_C[often]:.0%} as '{pool.classes[often]}' against "
                f"{target_C[often] / len(stored_NC):.0%} of the target. If the classes "
                "are that uneven, set target to their shares."
            )
        try:
            solution = darp.solve(
                stored_NC,
                target_C,
                capacity=self.capacity,
                masking=self.masking,
                solver=self.solver,
                start=dual_C,
            )
            memory["refined"].copy_(solution.refined)
            dual_C.copy_(solution.dual)
            counts[0] += 1
        except InfeasibleTargetError as error:
            if not counts[1]:
                message = (
                    f"The refinement of step {step.number} was skipped, and the last "
                    f"one stays in use: {error} Further ones are only counted."
                )
            counts[1] += 1
        if message and step.group.rank == 0:
            warnings.warn(message, TargetWarning, stacklevel=2)
