"""From a recipe and a pool to a classifier: found finished, gone on with, or made."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
from fewlabels.training.objective import Recipe
from fewlabels.training.optimization import AveragedNetwork, rate_bound, sgd
from fewlabels.training.state import SavedState
from fewlabels.training.views import Views


def fit(
    recipe: Recipe,
    pool: Pool,
    generator: Generator,
    workspace: Path | None,
    on_checkpoint: Callable[[int, Classifier], None],
) -> Classifier:
    """Train a network from scratch and return its average over the last steps.

    One number is taken from ``generator``; every stream of the training is named from
    it. Two objectives that name their streams alike therefore start from the same
    weights and see the same labeled minibatches.

    Args:
        recipe: Network, schedule, optimizer and objective.
        pool: Labeled and unlabeled images.
        generator: The only source of randomness.
        workspace: A folder that belongs to this training, or None.
        on_checkpoint: Called with the step and a copy of the classifier.

    Returns:
        The classifier; untrained, if nothing is labeled.
    """
    with (
        torch.inference_mode(mode=False),
        torch.enable_grad(),
        workspaces.alone_in(workspace),
    ):
        key = rng.fork(generator)
        views = recipe.views(pool)
        task = Task(recipe, pool, views, key, workspace)

        def tell(step: int, network: Network) -> None:
            on_checkpoint(step, views.classifier(network, pool.num_classes))

        network = task.untrained()
        if not len(pool.labeled):
            tell(0, network)
        elif task.restores(network):
            tell(recipe.steps, network)
        else:
            views.prepare()
            with progress.heeding():
                network = devices.trained(task, network, tell)
                task.keep(network)
        return views.classifier(network, pool.num_classes)


def restored(
    recipe: Recipe, pool: Pool, generator: Generator, workspace: Path
) -> Classifier | None:
    """Return what :func:`fit` finished earlier, without ever training.

    Args:
        recipe: Network, schedule, optimizer and objective.
        pool: The pool that was trained on.
        generator: The generator in the state in which :func:`fit` got it.
        workspace: The folder of that training.

    Returns:
        The classifier; None if the folder holds no finished training of this pool.
    """
    key = rng.fork(generator)
    views = recipe.views(pool)
    task = Task(recipe, pool, views, key, workspace)
    network = task.untrained()
    if len(pool.labeled) and not task.restores(network):
        return None
    return views.classifier(network, pool.num_classes)


@dataclass(frozen=True, eq=False)
class Task:
    """One training: what to train on what, and where to keep it."""

    recipe: Recipe
    pool: Pool
    views: Views
    key: int
    workspace: Path | None

    @property
    def settings(self) -> Recipe:
        """The settings, as whoever trains on devices calls them."""
        return self.recipe

    def untrained(self) -> Network:
        """Return the network before the first step, in evaluation mode."""
        network = models.build(
            self.recipe.network,
            self.views.shape,
            self.pool.num_classes,
            rng.stream(self.key, "initialize"),
            dropout=self.recipe.dropout,
            bn_momentum=self.recipe.bn_momentum,
        )
        self.views.begin(network)
        return network.eval()

    def restores(self, network: Network) -> bool:
        """Fill ``network`` with the finished training, if there is one."""
        if self.workspace is None:
            return False
        return workspaces.restore(network, self.workspace, self._mark)

    def keep(self, network: Network) -> None:
        """Save the finished training; the unfinished one goes."""
        if self.workspace is not None:
            workspaces.keep(network, self.workspace, self._mark, self.recipe)
            SavedState(self.workspace, self._mark, 0).remove()

    def train(
        self,
        group: ProcessGroup,
        network: Network,
        on_checkpoint: Callable[[int, Network], None],
    ) -> Network:
        """Train, as one process of a group, and return the averaged network.

        Args:
            group: The processes that share the work.
            network: The untrained network; it is changed.
            on_checkpoint: Called with the step and a copy of the averaged network.

        Returns:
            The average.
        """
        training = self.begun(group, network)
        saved = None
        if self.workspace is not None:
            saved = SavedState(self.workspace, self._mark, self.recipe.save_every)
        loop.run(training, saved, on_checkpoint)
        return training.average.network

    def begun(self, group: ProcessGroup, network: Network) -> loop.Training:
        """Return the training of a network before its first step.

        Args:
            group: The processes that share the work.
            network: The untrained network; it is moved to the group's device.

        Returns:
            The training.
        """
        recipe = self.recipe
        rate = self._rate(network)
        network.to(group.device)
        average = AveragedNetwork(network, recipe.ema_decay)
        if recipe.compiles:
            network.compile()
        return loop.Training(
            recipe,
            recipe.objective(self.pool, self.views, self.key, group),
            network,
            group.wrapped(network),
            average,
            sgd(network, rate, recipe.momentum, recipe.weight_decay),
            self.key,
            group,
            rate,
        )

    @property
    def _mark(self) -> str:
        return workspaces.fingerprint(
            self.recipe, self.pool, self.views.identity, self.key
        )

    def _rate(self, network: Network) -> float:
        """Return the learning rate of the first step, bounded where that is asked."""
        recipe = self.recipe
        if recipe.rate_limit == "none":
            return recipe.learning_rate
        features = (
            self.views.classifier(network, self.pool.num_classes)
            .outputs(self.pool.images, self.pool.labeled)
            .features[:]
        )
        bound = rate_bound(features, self.pool.num_classes, recipe.rate_limit)
        if bound <= 0:
            msg = (
                f"The Gram matrix of the {len(features)} labeled items is singular: "
                "some look alike to the untrained network, or there are more of them "
                f"than features. rate_limit '{recipe.rate_limit}' leaves no learning "
                "rate; take 'linearized' or 'none'."
            )
            raise TrainingError(msg)
        return min(recipe.learning_rate, bound)
