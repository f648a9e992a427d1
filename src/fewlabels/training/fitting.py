"""From a training and a pool to a classifier: found finished, gone on with, or made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Generator

from fewlabels import models, progress, rng
from fewlabels.errors import TrainingError
from fewlabels.models import Network
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier
from fewlabels.training import devices, loop
from fewlabels.training import workspace as workspaces
from fewlabels.training.distributed import ProcessGroup
from fewlabels.training.learner import Learner, LearningNetwork
from fewlabels.training.minibatches import Minibatcher
from fewlabels.training.optimization import AveragedNetwork, rate_bound, sgd
from fewlabels.training.schedule import Schedule
from fewlabels.training.state import SavedState
from fewlabels.training.views import Views

if TYPE_CHECKING:  # it fits by this module
    from fewlabels.training.training import Training


def fit(
    training: "Training",
    pool: Pool,
    generator: Generator,
    workspace: Path | None,
    on_checkpoint: Callable[[int, Classifier], None],
) -> Classifier:
    """Return a network trained from scratch, averaged over its last steps.

    One number is taken from ``generator``; every stream of the training is named from
    it. Two learners that name their views alike therefore start from the same weights
    and see the same labeled minibatches.
    """
    with (
        torch.inference_mode(mode=False),
        torch.enable_grad(),
        workspaces.alone_in(workspace if devices.is_first() else None),
    ):
        task = Task.of(training, pool, generator, workspace)

        def tell(step: int, network: Network) -> None:
            on_checkpoint(step, task.classifier(network))

        network = task.untrained()
        if not len(pool.labeled):
            tell(0, network)
        elif task.restores(network):
            tell(training.num_steps or 1, network)
        else:
            network = task.trained(network, tell)
        return task.classifier(network)


def restored(
    training: "Training", pool: Pool, generator: Generator, workspace: Path
) -> Classifier | None:
    """Return what :func:`fit` finished earlier, without ever training."""
    task = Task.of(training, pool, generator, workspace)
    network = task.untrained()
    if len(pool.labeled) and not task.restores(network):
        return None
    return task.classifier(network)


@dataclass(frozen=True, eq=False)
class Task:
    """One training: what to train on what, and where to keep it."""

    training: "Training"
    pool: Pool
    views: Views
    key: int
    workspace: Path | None

    @classmethod
    def of(
        cls,
        training: "Training",
        pool: Pool,
        generator: Generator,
        workspace: Path | None = None,
    ) -> "Task":
        """Return the task of a training; one number is taken from the generator."""
        views = training.inputs.of(pool, training.execution.cache)
        return cls(training, pool, views, rng.fork(generator), workspace)

    @property
    def settings(self) -> Schedule:
        """What the steps are, for whoever trains on devices."""
        assert self.training.schedule is not None
        return self.training.schedule

    @property
    def _network(self) -> str:
        """Name of the network; over rows, a head takes the place of a Wide ResNet."""
        name = self.settings.network
        is_for_images = name.startswith("wrn")
        return "linear" if is_for_images and len(self.views.shape) == 1 else name

    def classifier(self, network: Network) -> Classifier:
        """Return a network as a classifier of the pool's images."""
        return self.views.classifier(network, self.pool.num_classes)

    def untrained(self) -> Network:
        """Return the network before the first step, in evaluation mode."""
        learner = self.training.learner
        if isinstance(learner, Learner):
            network = models.build(
                self._network,
                self.views.shape,
                self.pool.num_classes,
                rng.stream(self.key, "initialize"),
                dropout=self.settings.dropout,
                bn_momentum=self.settings.bn_momentum,
            )
            self.views.begin(network)
        else:
            network = learner.begin(self.views, self.pool, self.key)
        return network.eval()

    def trained(self, network: Network, tell: devices.OnCheckpoint) -> Network:
        """Train an untrained network, in steps or at once, and keep it."""
        learner = self.training.learner
        if isinstance(learner, Learner):
            self.views.prepare({view.kind for view in learner.views.values()})
            with progress.heeding():
                network = devices.trained(self, network, tell)
                self._keep(network)
            return network
        learner.solve(network, self.views, self.pool, self.key)
        self._keep(network)
        tell(1, network)
        return network

    def restores(self, network: Network) -> bool:
        """Fill ``network`` with the finished training, if there is one."""
        if self.workspace is None:
            return False
        return workspaces.restore(network, self.workspace, self._mark)

    def _keep(self, network: Network) -> None:
        """Save the finished training; the unfinished one goes."""
        if self.workspace is not None and devices.is_first():
            identity = self.training.identity
            workspaces.keep(network, self.workspace, self._mark, identity)
            SavedState(self.workspace, self._mark, 0).remove()

    def train(
        self,
        group: ProcessGroup,
        network: Network,
        on_checkpoint: devices.OnCheckpoint,
    ) -> Network:
        """Train, as one process of a group, and return the averaged network."""
        stepper = self.begun(group, network)
        saved = None
        if self.workspace is not None:
            every = self.training.execution.save_every
            saved = SavedState(self.workspace, self._mark, every)
        loop.run(stepper, saved, on_checkpoint)
        return stepper.end()

    def begun(self, group: ProcessGroup, network: Network) -> loop.Stepper:
        """Return the training of a network before its first step."""
        training, schedule, pool = self.training, self.settings, self.pool
        learner, alignment = training.learner, training.alignment
        assert isinstance(learner, Learner)
        rate = self._rate(network)
        learning = LearningNetwork(network, learner.heads, self.key).to(group.device)
        average = even = AveragedNetwork(learning, schedule.ema_decay)
        if schedule.cycles:
            even = AveragedNetwork(learning, schedule.ema_decay)
        if schedule.compiles:
            learning.compile()
        memory = learner.memory(pool)
        return loop.Stepper(
            learner,
            alignment,
            schedule,
            Minibatcher(
                self.views, learner.views, learner.mu, pool, schedule, self.key, group
            ),
            memory if alignment is None else memory | alignment.memory(pool),
            learning,
            group.wrapped(learning),
            average,
            even,
            sgd(learning, rate, schedule.momentum, schedule.weight_decay),
            rate,
            training.execution.prefetch,
        )

    @property
    def _mark(self) -> str:
        views = self.views
        return workspaces.fingerprint(
            self.training.identity, self.pool, views.identity, views.contents, self.key
        )

    def _rate(self, network: Network) -> float:
        """Return the learning rate of the first step, bounded where that is asked."""
        schedule = self.settings
        if schedule.rate_limit == "none":
            return schedule.learning_rate
        labeled = self.pool.labeled
        found = self.classifier(network).outputs(self.pool.images, labeled)
        bound = rate_bound(
            found.features[:], self.pool.num_classes, schedule.rate_limit
        )
        if bound <= 0:
            raise TrainingError(
                f"The Gram matrix of the {len(labeled)} labeled items is singular: "
                "some look alike to the untrained network, or there are more of them "
                f"than features. rate_limit '{schedule.rate_limit}' leaves no learning "
                "rate; take 'linearized' or 'none'."
            )
        return min(schedule.learning_rate, bound)
