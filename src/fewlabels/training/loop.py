"""The loop that every trainer of networks shares.

Shapes: B labeled items in a minibatch, U unlabeled ones, C classes.
"""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Generator, Tensor

from fewlabels import models, progress, rng
from fewlabels.errors import TrainingError
from fewlabels.features import NetworkClassifier
from fewlabels.models import Network, dropout
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier
from fewlabels.training import workspace as workspaces
from fewlabels.training.optimization import AveragedNetwork, cosine_factor, sgd
from fewlabels.training.settings import TrainingSettings

_REPORT_EVERY = 10


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss of one minibatch, and what is worth telling about it."""

    total: Tensor
    """What is minimized, a scalar."""
    kept: Tensor | None = None
    """Share of the unlabeled items whose pseudo-label counts, a scalar."""

    @property
    def figures(self) -> dict[str, float]:
        """What is told to whoever watches."""
        loss = {"loss": float(self.total.detach())}
        return loss if self.kept is None else loss | {"kept": float(self.kept)}


class Objective(Protocol):
    """The loss of a network on the minibatch of one step."""

    def __call__(self, network: Network, step: int) -> Loss:
        """Read the minibatch of ``step``, vary it, and return the loss."""
        ...


@dataclass(frozen=True, eq=False)
class Training:
    """A training under way: all that one step reads and changes."""

    settings: TrainingSettings
    objective: Objective
    network: Network
    average: AveragedNetwork
    optimizer: torch.optim.Optimizer
    key: int

    def advance(self, step: int) -> Loss:
        """Do one optimizer step and update the average.

        Args:
            step: Its number, from zero. All randomness of the step is named by it.

        Returns:
            The loss before the step.
        """
        settings = self.settings
        self.network.train()
        dropout.draw_from(self.network, rng.stream(self.key, "dropout", step))
        factor = cosine_factor(step, settings.steps)
        for group in self.optimizer.param_groups:
            group["lr"] = settings.learning_rate * factor
        loss = self.objective(self.network, step)
        self.optimizer.zero_grad()
        loss.total.backward()  # type: ignore[no-untyped-call]  # torch has no type here
        self.optimizer.step()
        self.average.update()
        return loss


def fit(
    settings: TrainingSettings,
    objective: Callable[[Pool, int], Objective],
    pool: Pool,
    generator: Generator,
    *,
    workspace: Path | None,
    on_checkpoint: Callable[[int, Classifier], None],
) -> NetworkClassifier:
    """Train a network from scratch and return its average over the last steps.

    One number is taken from ``generator``; every stream of the training is named from
    it. Two objectives that name their streams alike therefore start from the same
    weights and see the same labeled minibatches.

    Args:
        settings: Network, schedule and optimizer.
        objective: Makes the loss from the pool and the key of the streams.
        pool: Labeled and unlabeled images.
        generator: The only source of randomness.
        workspace: A folder that belongs to this training, or None.
        on_checkpoint: Called with the step and a copy of the classifier.

    Returns:
        The classifier; untrained, if nothing is labeled.
    """
    with torch.inference_mode(mode=False), torch.enable_grad():
        return _fit(settings, objective, pool, generator, workspace, on_checkpoint)


def _fit(
    settings: TrainingSettings,
    objective: Callable[[Pool, int], Objective],
    pool: Pool,
    generator: Generator,
    workspace: Path | None,
    on_checkpoint: Callable[[int, Classifier], None],
) -> NetworkClassifier:
    """Restore a finished training or do it."""
    key = rng.fork(generator)
    network = _untrained(settings, pool, key)
    classifier = NetworkClassifier(network.eval(), pool.num_classes)
    if not len(pool.labeled):
        on_checkpoint(0, classifier)
        return classifier
    mark = workspaces.fingerprint(settings, pool, key)
    if workspace is not None and workspaces.restore(network, workspace, mark):
        on_checkpoint(settings.steps, classifier)
        return classifier
    average = AveragedNetwork(network, settings.ema_decay)
    optimizer = sgd(
        network, settings.learning_rate, settings.momentum, settings.weight_decay
    )
    training = Training(
        settings, objective(pool, key), network, average, optimizer, key
    )
    trained = NetworkClassifier(average.network, pool.num_classes)
    _run(training, trained, on_checkpoint)
    if workspace is not None:
        workspaces.keep(average.network, workspace, mark, settings)
    return trained


def restored(
    settings: TrainingSettings, pool: Pool, generator: Generator, workspace: Path
) -> NetworkClassifier | None:
    """Return what :func:`fit` finished earlier, without ever training.

    Args:
        settings: Network, schedule and optimizer.
        pool: The pool that was trained on.
        generator: The generator in the state in which :func:`fit` got it.
        workspace: The folder of that training.

    Returns:
        The classifier; None if the folder holds no finished training of this pool.
    """
    key = rng.fork(generator)
    network = _untrained(settings, pool, key)
    if len(pool.labeled):
        mark = workspaces.fingerprint(settings, pool, key)
        if not workspaces.restore(network, workspace, mark):
            return None
    return NetworkClassifier(network.eval(), pool.num_classes)


def _untrained(settings: TrainingSettings, pool: Pool, key: int) -> Network:
    return models.build(
        settings.network,
        pool.images.shape,
        pool.num_classes,
        rng.stream(key, "initialize"),
        dropout=settings.dropout,
        bn_momentum=settings.bn_momentum,
    )


def _run(
    training: Training,
    trained: NetworkClassifier,
    on_checkpoint: Callable[[int, Classifier], None],
) -> None:
    """Do all steps, telling of progress, checkpoints and breakdown."""
    num_steps = training.settings.steps
    unreported = 0
    with progress.track("Training", num_steps) as advance:
        for step in range(num_steps):
            loss = training.advance(step)
            done = step + 1
            unreported += 1
            if done % _REPORT_EVERY == 0 or done == num_steps:
                _check_finite(loss, step, training.settings)
                advance(unreported)
                progress.tell(done, loss.figures)
                unreported = 0
            if done % training.settings.checkpoint_every == 0 or done == num_steps:
                on_checkpoint(done, copy.deepcopy(trained))


def _check_finite(loss: Loss, step: int, settings: TrainingSettings) -> None:
    """Raise if training broke down; NaN stays, so an occasional look is enough."""
    value = float(loss.total.detach())
    if not math.isfinite(value):
        msg = (
            f"The loss is {value} at step {step} of {settings.steps}, so the network "
            f"is lost. Lower learning_rate (now {settings.learning_rate}), and check "
            "that the images hold finite numbers."
        )
        raise TrainingError(msg)
