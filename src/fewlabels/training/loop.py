"""The steps of a training, which every learner shares."""

import copy
import math
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fewlabels import progress
from fewlabels.errors import TrainingError
from fewlabels.models import Network, dropout
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.learner import (
    Alignment,
    Learner,
    LearningNetwork,
    Loss,
    Step,
)
from fewlabels.training.minibatches import Minibatch, Minibatcher
from fewlabels.training.optimization import AveragedNetwork, cyclic_factor
from fewlabels.training.prefetch import prepared
from fewlabels.training.schedule import Schedule
from fewlabels.training.state import SavedState

_REPORT_EVERY = 10
_PREFETCH_ON_GPU = 2
_LOST = 1e4  # guessing costs log C, about 10 for ten thousand classes


@dataclass(frozen=True, eq=False)
class Stepper:
    """A training under way: all that one step reads and changes."""

    learner: Learner
    alignment: Alignment | None
    schedule: Schedule
    minibatcher: Minibatcher
    memory: Mapping[str, Tensor]
    """The tensors of learner and alignment that outlive a step."""
    learning: LearningNetwork
    """The network whose weights change."""
    module: nn.Module
    """The same network as the group calls it, so that gradients are averaged."""
    average: AveragedNetwork[LearningNetwork]
    """Its exponential average."""
    even: AveragedNetwork[LearningNetwork]
    """Its plain average over cycles; the same object as the other where there are none.
    """
    optimizer: torch.optim.Optimizer
    learning_rate: float
    """Learning rate of the first step."""
    prefetch: int | None = None
    """Minibatches prepared ahead."""

    @property
    def group(self) -> ProcessGroup:
        """The processes that share the work."""
        return self.minibatcher.group

    def advance(self, number: int, minibatch: Minibatch) -> Loss:
        """Do one optimizer step and update the average."""
        self.learning.train()
        draws = self.group.stream(self.minibatcher.key, "dropout", number)
        dropout.draw_from(self.learning.network, draws)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(number)
        step = self.step(number, minibatch.to(self.group.device))
        loss = self.learner.loss(step)
        self.optimizer.zero_grad()
        self.group.fabric.backward(loss.total)
        self.optimizer.step()
        self.group.average_(self.learning.buffers())
        self.average.update()
        already = number - self.schedule.averages_from
        if self.even is not self.average and already >= 0:
            self.even.include(already)
        return loss

    def step(self, number: int, minibatch: Minibatch) -> Step:
        """Return what a learner is given in a step."""
        return Step(
            number,
            self.schedule,
            self.minibatcher.pool,
            minibatch,
            self.memory,
            self.alignment,
            self.minibatcher.inputs.as_input,
            self.module,
            self.average.module,
            self.minibatcher.key,
            self.group,
        )

    def result(self, done: int) -> Network:
        """Return what the training would give if it ended after some steps."""
        average = copy.deepcopy(self._average_of(done))
        return self.learner.result(average, self.minibatcher.inputs)

    def end(self) -> Network:
        """Return what the training gives; nothing may be done with this any more."""
        average = self._average_of(self.schedule.steps)
        return self.learner.result(average, self.minibatcher.inputs)

    def _average_of(self, done: int) -> LearningNetwork:
        has_begun = done > self.schedule.averages_from
        return (self.even if has_begun else self.average).module

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        schedule = self.schedule
        return self.learning_rate * cyclic_factor(
            step, schedule.steps, schedule.cycles, schedule.cycle_length
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        now, mean = self.learning, self.average.module
        parts: dict[str, Mapping[str, Tensor]] = {"memory": self.memory}
        if self.even is not self.average:
            parts["even-average"] = self.even.module.state_dict()
        for end, own, averaged in (
            ("", now.network, mean.network),
            ("-heads", now.heads, mean.heads),
        ):
            parts[f"network{end}"] = own.state_dict()
            parts[f"average{end}"] = averaged.state_dict()
            parts[f"momentum{end}"] = {
                name: self.optimizer.state[parameter]["momentum_buffer"]
                for name, parameter in own.named_parameters()
                if self.schedule.momentum > 0
            }
        return {
            f"{part}.{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }


def run(
    stepper: Stepper,
    saved: SavedState | None,
    on_checkpoint: Callable[[int, Network], None],
) -> None:
    """Do all steps that are left, telling of progress, checkpoints and breakdown."""
    start = 0 if saved is None else saved.fill(stepper)
    total = stepper.schedule.steps
    is_first = stepper.group.rank == 0
    since, at = start, time.perf_counter()
    with (
        closing(
            prepared(stepper.minibatcher.at, start, total, _depth(stepper))
        ) as minibatches,
        progress.track("Training", total, done=start) as advance,
    ):
        for step, minibatch in enumerate(minibatches, start):
            loss = stepper.advance(step, minibatch)
            done = step + 1
            advance(1)
            if saved is not None and saved.is_taken:
                check_finite(loss, step, stepper.schedule, saved)
                saved.write()
                if progress.is_stopped():
                    raise progress.Canceled
            if done % _REPORT_EVERY == 0 or done == total:
                check_finite(loss, step, stepper.schedule, saved)
                now = time.perf_counter()
                pace = (done - since) * stepper.minibatcher.num_views / (now - at)
                progress.tell(done, _figures(stepper, loss, step, pace))
                since, at = done, now
            if is_first and _is_checkpoint(done, stepper.schedule):
                paused = time.perf_counter()
                on_checkpoint(done, stepper.result(done))
                at += time.perf_counter() - paused  # measuring is not training
            if is_first and progress.is_stopped() and saved is None:
                raise progress.Canceled
            if is_first and saved is not None and saved.is_due():
                saved.take(stepper, done)


def check_finite(
    loss: Loss, step: int, schedule: Schedule, saved: SavedState | None
) -> None:
    """Raise if training broke down; NaN stays, so an occasional look is enough."""
    value = float(loss.total.detach())
    if math.isfinite(value) and value < _LOST:
        return
    kept = "" if saved is None else saved.last_good()
    raise TrainingError(
        f"The loss is {value:.6g} by step {step} of {schedule.steps}, so the network "
        f"is lost. Lower learning_rate (now {schedule.learning_rate}), and check that "
        f"the images hold finite numbers.{kept}"
    )


def _is_checkpoint(done: int, schedule: Schedule) -> bool:
    return done % schedule.checkpoint_every == 0 or done == schedule.steps


def _depth(stepper: Stepper) -> int:
    """Return how many minibatches to prepare ahead."""
    if stepper.prefetch is not None:
        return stepper.prefetch
    return 0 if stepper.group.device.type == "cpu" else _PREFETCH_ON_GPU


def _figures(stepper: Stepper, loss: Loss, step: int, pace: float) -> dict[str, float]:
    named = {name: float(figure.detach()) for name, figure in loss.figures.items()}
    return {
        "loss": float(loss.total.detach()),
        **named,
        "learning-rate": stepper.rate_at(step),
        "images-per-second": pace,
    }
