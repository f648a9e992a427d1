"""The steps of a training, which every learner shares."""

import copy
import math
import time
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from torch import Tensor

from fewlabels import progress
from fewlabels.errors import TrainingError
from fewlabels.models.network import Network, draw_from
from fewlabels.training.devices import OnCheckpoint, ProcessGroup
from fewlabels.training.learner import Learner, LearningNetwork, Loss, Step
from fewlabels.training.minibatches import Minibatch, Minibatcher, prefetch_minibatches
from fewlabels.training.optimization import AveragedNetwork, cyclic_factor, sgd
from fewlabels.training.schedule import Schedule
from fewlabels.training.workspace import SavedState

if TYPE_CHECKING:  # it trains by this module
    from fewlabels.training.training import TrainingTask

_REPORT_EVERY = 10
_PREFETCH_ON_GPU = 2
_LOST = 1e4  # guessing costs log C, about 10 for ten thousand classes


class Stepper:
    """A running training: all that one step reads and changes.

    Attributes:
        memory: The tensors of learner and alignment that outlive a step.
        learning: The network whose weights change.
        module: The same network as the group calls it, so that gradients are averaged.
        average: Its exponential average.
        even: Its plain average over cycles; the same object where there are none.
        learning_rate: That of the first step.
    """

    def __init__(
        self, task: "TrainingTask", group: ProcessGroup, network: Network
    ) -> None:
        """Begin with an untrained network."""
        learner, self.alignment = task.training.learner, task.training.alignment
        assert isinstance(learner, Learner)
        self.learner, self.group, self.schedule = learner, group, task.settings
        schedule = self.schedule
        self.learning_rate = task.learning_rate(network)
        self.learning = LearningNetwork(network, learner.heads, task.key)
        self.learning.to(group.device)
        self.average = AveragedNetwork(self.learning, schedule.ema_decay)
        self.even = self.average
        if schedule.cycles:
            self.even = AveragedNetwork(self.learning, schedule.ema_decay)
        if schedule.compiles:
            self.learning.compile()
        self.memory = learner.memory(task.pool)
        if self.alignment is not None:
            self.memory |= self.alignment.memory(task.pool)
        self.minibatcher = Minibatcher(
            task.views, learner.views, learner.mu, task.pool, schedule, task.key, group
        )
        self.module = group.wrap(self.learning)
        self.optimizer = sgd(
            self.learning, self.learning_rate, schedule.momentum, schedule.weight_decay
        )
        self.prefetch = task.training.execution.prefetch

    def advance(self, number: int, minibatch: Minibatch) -> Loss:
        """Do one optimizer step and update the average."""
        self.learning.train()
        draws = self.group.stream(self.minibatcher.key, "dropout", number)
        draw_from(self.learning.network, draws)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(number)
        loss = self.learner.loss(self.step(number, minibatch.to(self.group.device)))
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
        """Return the result of the training if it ends after some steps."""
        is_even = done > self.schedule.averages_from
        average = (self.even if is_even else self.average).module
        return self.learner.result(copy.deepcopy(average), self.minibatcher.inputs)

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
        both = ("", now.network, mean.network), ("-heads", now.heads, mean.heads)
        for end, own, averaged in both:
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


def run_steps(
    stepper: Stepper, saved: SavedState | None, on_checkpoint: OnCheckpoint
) -> None:
    """Do all steps that are left; report progress, checkpoints and breakdown."""
    start = 0 if saved is None else saved.fill()
    schedule, group = stepper.schedule, stepper.group
    total, depth = schedule.steps, stepper.prefetch
    if depth is None:
        depth = 0 if group.device.type == "cpu" else _PREFETCH_ON_GPU
    since, at = start, time.perf_counter()
    with (
        closing(
            prefetch_minibatches(stepper.minibatcher.at, start, total, depth)
        ) as minibatches,
        progress.track("Training", total, done=start) as advance,
    ):
        for step, minibatch in enumerate(minibatches, start):
            loss = stepper.advance(step, minibatch)
            done = step + 1
            advance(1)
            if saved is not None and saved.taken:
                check_loss(loss, step, schedule, saved)
                saved.write()
                if progress.is_stopped():
                    raise progress.Canceled
            if done % _REPORT_EVERY == 0 or done == total:
                check_loss(loss, step, schedule, saved)
                now = time.perf_counter()
                pace = (done - since) * stepper.minibatcher.num_views / (now - at)
                terms = {"loss": loss.total, **loss.figures}
                figures = {name: float(f.detach()) for name, f in terms.items()}
                figures["learning-rate"] = stepper.rate_at(step)
                progress.tell(done, {**figures, "images-per-second": pace})
                since, at = done, now
            if group.rank:
                continue
            if done % schedule.checkpoint_every == 0 or done == total:
                paused = time.perf_counter()
                on_checkpoint(done, stepper.result(done))
                at += time.perf_counter() - paused  # measuring is not training
            if saved is None and progress.is_stopped():
                raise progress.Canceled
            if saved is not None and saved.is_due():
                saved.take(done)


def check_loss(
    loss: Loss, step: int, schedule: Schedule, saved: SavedState | None
) -> None:
    """Raise if training broke down; NaN stays, so an occasional check is enough."""
    value = float(loss.total.detach())
    if not math.isfinite(value) or value >= _LOST:
        kept = "" if saved is None else saved.last_good()
        raise TrainingError(
            f"The loss is {value:.6g} by step {step} of {schedule.steps}. Lower "
            f"learning_rate (now {schedule.learning_rate}), and check that the images "
            f"hold finite numbers.{kept}"
        )
