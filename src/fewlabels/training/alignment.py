"""DARP in a training: pseudo-labels refined towards known class shares.

Kim et al., "Distribution Aligning Refinery of Pseudo-label for Imbalanced
Semi-supervised Learning" (NeurIPS 2020), as the NPC paper uses it (Sec. 5.1): with a
uniform target.

Shapes: N items in the pool, U unlabeled items in a minibatch, C classes.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fewlabels import rng
from fewlabels.errors import InfeasibleTargetError, TargetWarning, UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool
from fewlabels.training import darp
from fewlabels.training.darp import targets
from fewlabels.training.darp.refinement import Masking, Solver
from fewlabels.training.distribution import Targeted
from fewlabels.training.learner import IsSure, PseudoLabels, Step
from fewlabels.training.schedule import check_range

MaskOn = Literal["refined", "raw", "both"]

_PLAIN_MISFIT = 0.25
_REHEARSED_ROWS = 5000


@dataclass(frozen=True, kw_only=True)
class Darp(Targeted):
    """Refines the pseudo-labels of any learner by DARP.

    Predictions for the whole pool are stored as they come. After a warm-up, every few
    steps, the stored matrix is moved as little as possible so that its class totals
    are those of the target; pseudo-labels are taken from the refined rows.
    """

    warmup: float = 0.4
    """Share of the steps without refinement; DARP's code takes 200 of 500 epochs."""
    refine_every: int = 10
    """Steps between two refinements; in between, refined rows are used as they are."""
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
        if self.capacity is not None and not self.capacity >= 1:
            raise UsageError(
                f"capacity is {self.capacity}; below 1 a class could not reach its "
                "target. Give 1 or more, or None for no limit."
            )

    def memory(self, pool: Pool) -> dict[str, Tensor]:
        """Return what is known of the pool's items: nothing yet.

        Args:
            pool: The pool.

        Returns:
            ``stored``: the last prediction for each item's weak view, uniform before
            the first. ``refined``: the stored matrix as it was refined last. ``dual``:
            dual variables of that, where the next one starts. ``counts``: refinements
            that were done, and that were impossible and skipped.
        """
        num_classes = pool.num_classes
        shape = (len(pool), num_classes)
        even = torch.full(shape, 1 / num_classes, dtype=torch.float32)
        return {
            "stored": even,
            "refined": even.clone(),
            "dual": torch.zeros(num_classes, dtype=torch.float64),
            "counts": torch.zeros(2, dtype=torch.int64),
        }

    def wanted(self, pool: Pool, probabilities_NC: Tensor) -> Tensor:
        """Return how many items of the pool each class shall get."""
        known_C = self.known(pool, len(pool))
        return targets.estimated(probabilities_NC) if known_C is None else known_C

    def pseudo_labels(
        self, step: Step, probabilities_UC: Tensor, is_sure: IsSure
    ) -> PseudoLabels:
        """Store the predictions, refine if it is time, and read the refined rows."""
        memory, items_U = step.memory, step.minibatch.items
        items = step.group.gathered(items_U).cpu()
        rows = step.group.gathered(probabilities_UC.float()).cpu()
        if bool(rows.isfinite().all()):  # if not, the loss will tell
            # By NumPy: of an item that occurs twice, the last row stays.
            memory["stored"].numpy()[items.numpy()] = rows.numpy()
        begun = step.number >= self.warmup * step.schedule.steps
        if begun and step.number % self.refine_every == 0:
            self._refine(step)
        raw_U = is_sure(probabilities_UC)
        rates = {"kept-raw": raw_U.float().mean()}
        num_refined, num_skipped = memory["counts"]
        if num_skipped:
            rates["skipped-refinements"] = num_skipped
        if not num_refined:
            return PseudoLabels(probabilities_UC, raw_U, rates)
        refined_UC = memory["refined"][items_U.cpu()].to(probabilities_UC)
        refined_U = is_sure(refined_UC)
        rates["kept-refined"] = refined_U.float().mean()
        keeps_U = {"refined": refined_U, "raw": raw_U, "both": refined_U * raw_U}
        return PseudoLabels(refined_UC, keeps_U[self.mask_on], rates)

    def rehearse(self, num_items: int, num_classes: int, steps: int) -> float:
        """Refine random rows; return how many times longer all refinements take."""
        rows = min(num_items, _REHEARSED_ROWS)
        logits = torch.randn(
            rows, num_classes, generator=rng.stream(0, "probe of refinement")
        )
        target = targets.uniform(rows, num_classes)
        darp.solve(torch.softmax(logits, dim=1), target, capacity=None)
        often = math.ceil(steps * (1 - self.warmup) / self.refine_every)
        return num_items / rows * often

    def _refine(self, step: Step) -> None:
        """Refine the whole stored matrix; if that is impossible, say so and go on."""
        memory, counts = step.memory, step.memory["counts"]
        target_C = self.wanted(step.pool, memory["stored"])
        if not counts.any():
            _check_target(step, target_C)
        try:
            found = darp.solve(
                memory["stored"],
                target_C,
                capacity=self.capacity,
                masking=self.masking,
                solver=self.solver,
                start=memory["dual"],
            )
        except InfeasibleTargetError as error:
            if not counts[1]:
                _say(
                    step,
                    f"The refinement of step {step.number} was skipped, and what was "
                    f"refined before stays in use: {error} Further ones are only "
                    "counted.",
                )
            counts[1] += 1
            return
        memory["refined"].copy_(found.refined)
        memory["dual"].copy_(found.dual)
        counts[0] += 1


def _check_target(step: Step, target_C: Tensor) -> None:
    """Warn if the predictions speak plainly against the target."""
    stored_NC, classes = step.memory["stored"], step.pool.classes
    if targets.misfit(stored_NC, target_C) <= _PLAIN_MISFIT:
        return
    shares_C = target_C / target_C.sum()
    found_C = stored_NC.double().mean(dim=0)
    most, least = int(found_C.argmax()), int(found_C.argmin())
    _say(
        step,
        "DARP pulls the predictions towards class shares that do not fit them: "
        f"{found_C[most]:.0%} as '{classes[most]}' and {found_C[least]:.0%} as "
        f"'{classes[least]}' against {shares_C[most]:.0%} and {shares_C[least]:.0%} "
        "of the target. If the classes really are that uneven, set target to their "
        "shares; if they are not, this is what DARP is for.",
    )


def _say(step: Step, message: str) -> None:
    """Warn, once for all processes."""
    if step.group.rank == 0:
        warnings.warn(message, TargetWarning, stacklevel=2)
