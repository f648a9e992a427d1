"""The steps of a training, which every objective shares."""

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
from fewlabels.training.objective import Loss, Objective
from fewlabels.training.optimization import AveragedNetwork, cosine_factor
from fewlabels.training.prefetch import prepared
from fewlabels.training.settings import TrainingSettings
from fewlabels.training.state import SavedState
from fewlabels.training.views import Minibatch

_REPORT_EVERY = 10
_PREFETCH_ON_GPU = 2
_LOST = 1e4  # guessing costs log C, about 10 for ten thousand classes


@dataclass(frozen=True, eq=False)
class Training:
    """A training under way: all that one step reads and changes."""

    settings: TrainingSettings
    objective: Objective
    network: Network
    """The network whose weights change."""
    module: nn.Module
    """The same network as the group calls it, so that gradients are averaged."""
    average: AveragedNetwork
    optimizer: torch.optim.Optimizer
    key: int
    group: ProcessGroup
    learning_rate: float
    """Learning rate of the first step."""

    def advance(self, step: int, minibatch: Minibatch) -> Loss:
        """Do one optimizer step and update the average.

        Args:
            step: Its number, from zero. All randomness of the step is named by it.
            minibatch: What the objective made for this step.

        Returns:
            The loss before the step.
        """
        self.network.train()
        draws = self.group.stream(self.key, "dropout", step)
        dropout.draw_from(self.network, draws)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate_at(step)
        loss = self.objective.loss(self.module, minibatch.to(self.group.device), step)
        self.optimizer.zero_grad()
        self.group.fabric.backward(loss.total)
        self.optimizer.step()
        self.group.average_(self.network.buffers())
        self.average.update()
        return loss

    def rate_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        return self.learning_rate * cosine_factor(step, self.settings.steps)

    def tensors(self) -> dict[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        momenta = {
            name: self.optimizer.state[parameter]["momentum_buffer"]
            for name, parameter in self.network.named_parameters()
            if self.settings.momentum > 0
        }
        parts: Mapping[str, Mapping[str, Tensor]] = {
            "network": self.network.state_dict(),
            "average": self.average.network.state_dict(),
            "momentum": momenta,
            "memory": self.objective.memory(),
        }
        return {
            f"{part}.{name}": tensor
            for part, tensors in parts.items()
            for name, tensor in tensors.items()
        }


def run(
    training: Training,
    saved: SavedState | None,
    on_checkpoint: Callable[[int, Network], None],
) -> None:
    """Do all steps that are left, telling of progress, checkpoints and breakdown.

    Args:
        training: What to train; filled from ``saved`` where there is something.
        saved: Where the unfinished training is kept.
        on_checkpoint: Called with the step and a copy of the averaged network.
    """
    start = 0 if saved is None else saved.fill(training)
    total = training.settings.steps
    is_first = training.group.rank == 0
    since, at = start, time.perf_counter()
    with (
        closing(
            prepared(training.objective.minibatch, start, total, _depth(training))
        ) as minibatches,
        progress.track("Training", total, done=start) as advance,
    ):
        for step, minibatch in enumerate(minibatches, start):
            loss = training.advance(step, minibatch)
            done = step + 1
            if saved is not None and saved.is_taken:
                check_finite(loss, step, training.settings, saved)
                saved.write()
                if progress.is_stopped():
                    raise progress.Canceled
            if done % _REPORT_EVERY == 0 or done == total:
                check_finite(loss, step, training.settings, saved)
                advance(done - since)
                now = time.perf_counter()
                pace = (done - since) * training.objective.num_views / (now - at)
                progress.tell(done, _figures(training, loss, step, pace))
                since, at = done, now
            if is_first and _is_checkpoint(done, training.settings):
                paused = time.perf_counter()
                on_checkpoint(done, copy.deepcopy(training.average.network))
                at += time.perf_counter() - paused  # measuring is not training
            if is_first and progress.is_stopped() and saved is None:
                raise progress.Canceled
            if is_first and saved is not None and saved.is_due():
                saved.take(training, done)


def check_finite(
    loss: Loss, step: int, settings: TrainingSettings, saved: SavedState | None
) -> None:
    """Raise if training broke down; NaN stays, so an occasional look is enough.

    Args:
        loss: The loss of a step.
        step: Its number.
        settings: The settings of the training.
        saved: Where the unfinished training is kept.

    Raises:
        TrainingError: If the loss is no number, or far worse than guessing.
    """
    value = float(loss.total.detach())
    if math.isfinite(value) and value < _LOST:
        return
    kept = "" if saved is None else saved.last_good()
    msg = (
        f"The loss is {value:.6g} by step {step} of {settings.steps}, so the network "
        f"is lost. Lower learning_rate (now {settings.learning_rate}), and check that "
        f"the images hold finite numbers.{kept}"
    )
    raise TrainingError(msg)


def _is_checkpoint(done: int, settings: TrainingSettings) -> bool:
    return done % settings.checkpoint_every == 0 or done == settings.steps


def _depth(training: Training) -> int:
    """Return how many minibatches to prepare ahead."""
    if training.settings.prefetch is not None:
        return training.settings.prefetch
    return 0 if training.group.device.type == "cpu" else _PREFETCH_ON_GPU


def _figures(
    training: Training, loss: Loss, step: int, pace: float
) -> dict[str, float]:
    named = {name: float(figure.detach()) for name, figure in loss.figures.items()}
    return {
        "loss": float(loss.total.detach()),
        **named,
        "learning-rate": training.rate_at(step),
        "images-per-second": pace,
    }
