"""A training is a value: inputs, a learner, an alignment and a schedule.

Equal trainings have equal results; their execution changes none. A finished training is
loaded from its workspace, and an unfinished one is resumed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Generator

from fewlabels import models, progress, rng
from fewlabels.errors import TrainingError, UnknownNameError, UsageError
from fewlabels.models import Network
from fewlabels.names import Identity, composite_identity, identity, omitted_defaults
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import devices, loop
from fewlabels.training import workspace as workspaces
from fewlabels.training.devices import OnCheckpoint, ProcessGroup
from fewlabels.training.learner import Alignment, DirectLearner, Learner
from fewlabels.training.loop import rate_bound
from fewlabels.training.schedule import Execution, Schedule
from fewlabels.training.views import Inputs, Views
from fewlabels.training.workspace import SavedState


@dataclass(frozen=True, kw_only=True)
class Training:
    """Parts and settings of a training; implements ``protocols.Trainer``."""

    inputs: Inputs
    """What the network sees."""
    learner: Learner | DirectLearner
    """What it learns."""
    alignment: Alignment | None = None
    """What refines pseudo-labels, if anything does."""
    schedule: Schedule | None = None
    """The steps; None for a learner that takes none."""
    execution: Execution = field(default=Execution(), compare=False)
    """How it is done; no result depends on it."""

    def __post_init__(self) -> None:
        """Check that network and inputs fit together."""
        network = "" if self.schedule is None else self.schedule.network
        if self.inputs.has_features and network.startswith("wrn"):
            raise UsageError(
                f"The network '{network}' takes images, and features are frozen here; "
                "choose a head, 'linear' or 'mlp-256'."
            )

    @property
    def options(self) -> dict[str, Any]:
        """All options that change the result, by name; some only if they are set."""
        return {
            name: getattr(part, name)
            for part in (self.schedule, self.learner, self.alignment, self.inputs)
            if part is not None
            for name in relevant_options(part, self.inputs, self.learner)
            if name not in omitted_defaults(part)
        }

    @property
    def identity(self) -> Identity:
        """Types and options of its parts, which determine the result."""
        parts: list[Any] = [self.inputs, self.learner]
        parts += [] if self.alignment is None else [self.alignment]
        names = (type(part).__name__ for part in parts[1:])
        words = [self.inputs.word, *names, "Trainer"]
        return composite_identity("".join(words), self.options, parts)

    @property
    def num_steps(self) -> int | None:
        """How many steps it takes; None: none at all."""
        return None if self.schedule is None else self.schedule.steps

    def changed(self, **options: Any) -> "Training":
        """Return the training with other values of some options."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        for name, own in options_by_part(options, parts).items():
            parts[name] = replace(parts[name], **own)
        return Training(**parts)

    def check(self, pool: Pool) -> None:
        """Raise if it does not suit a pool; a quick check."""
        for part in (self.inputs, self.learner, self.alignment or self.inputs):
            part.check(pool)

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Solve a small random problem; return how many times longer this takes."""
        if isinstance(self.learner, Learner):  # its steps are what takes time
            return 0.0
        return self.learner.rehearse(num_items, num_classes, width)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train from scratch; see :class:`fewlabels.protocols.Trainer`.

        One number is taken from the generator; every stream of the training is named
        from it. Two learners that name their views alike therefore start from the same
        weights and see the same labeled minibatches.

        Args:
            pool: Labeled and unlabeled images.
            generator: The only source of randomness.
            workspace: Folder from which the training is loaded or resumed, if any.
            on_checkpoint: Called with the step and the averaged network. A learner that
                takes no steps calls once, with step 1, or 0 where nothing is labeled.

        Returns:
            The averaged network as a classifier; untrained, if nothing is labeled.
        """
        self.check(pool)
        folder = None if workspace is None else Path(workspace)
        with (
            torch.inference_mode(mode=False),
            torch.enable_grad(),
            workspaces.hold_workspace(folder if devices.is_first() else None),
        ):
            task = TrainingTask.of(self, pool, generator, folder)

            def notify(step: int, network: Network) -> None:
                on_checkpoint(step, task.classifier(network))

            network = task.build_network()
            if not len(pool.labeled):
                notify(0, network)
            elif task.restore(network):
                notify(self.num_steps or 1, network)
            else:
                network = task.run(network, notify)
            return task.classifier(network)

    def restored(
        self, pool: Pool, generator: Generator, workspace: Path
    ) -> Classifier | None:
        """Return what :meth:`fit` finished earlier, without ever training."""
        task = TrainingTask.of(self, pool, generator, workspace)
        network = task.build_network()
        if len(pool.labeled) and not task.restore(network):
            return None
        return task.classifier(network)


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """One training on one pool, with its seed and workspace."""

    training: Training
    pool: Pool
    views: Views
    key: int
    workspace: Path | None

    @classmethod
    def of(
        cls,
        training: Training,
        pool: Pool,
        generator: Generator,
        workspace: Path | None = None,
    ) -> "TrainingTask":
        """Return the task of a training; one number is taken from the generator."""
        views = training.inputs.of(pool, training.execution.cache)
        return cls(training, pool, views, rng.fork(generator), workspace)

    @property
    def settings(self) -> Schedule:
        """The schedule of a learner that takes steps."""
        assert self.training.schedule is not None
        return self.training.schedule

    @property
    def _mark(self) -> str:
        views = self.views
        return workspaces.training_fingerprint(
            self.training.identity, self.pool, views.identity, views.contents, self.key
        )

    def classifier(self, network: Network) -> Classifier:
        """Return a network as a classifier of the pool's images."""
        return self.views.classifier(network, self.pool.num_classes)

    def build_network(self) -> Network:
        """Return the network before the first step, in evaluation mode."""
        learner = self.training.learner
        if not isinstance(learner, Learner):
            return learner.begin(self.views, self.pool, self.key).eval()
        name = self.settings.network
        if name.startswith("wrn") and len(self.views.shape) == 1:
            name = "linear"  # over rows, a head takes the place of a Wide ResNet
        network = models.build(
            name,
            self.views.shape,
            self.pool.num_classes,
            rng.stream(self.key, "initialize"),
            dropout=self.settings.dropout,
            bn_momentum=self.settings.bn_momentum,
        )
        self.views.begin(network)
        return network.eval()

    def run(self, network: Network, on_checkpoint: OnCheckpoint) -> Network:
        """Train an untrained network, in steps or at once, and save it."""
        learner = self.training.learner
        if isinstance(learner, Learner):
            self.views.prepare({view.kind for view in learner.views.values()})
            with progress.handle_cancellation():
                network = devices.train_on_devices(self, network, on_checkpoint)
                self._save(network)
        else:
            learner.solve(network, self.views, self.pool, self.key)
            self._save(network)
            on_checkpoint(1, network)
        return network

    def restore(self, network: Network) -> bool:
        """Fill ``network`` with the finished training, if there is one."""
        folder = self.workspace
        return folder is not None and workspaces.restore(network, folder, self._mark)

    def _save(self, network: Network) -> None:
        if self.workspace is not None and devices.is_first():
            identity = self.training.identity
            workspaces.save(network, self.workspace, self._mark, identity)

    def train(
        self, group: ProcessGroup, network: Network, on_checkpoint: OnCheckpoint
    ) -> Network:
        """Train, as one process of a group, and return the averaged network."""
        stepper = loop.Stepper(self, group, network)
        saved = None
        if self.workspace is not None:
            every = self.training.execution.save_every
            saved = SavedState(self.workspace, self._mark, every, stepper.tensors)
        loop.run_steps(stepper, saved, on_checkpoint)
        return stepper.result(self.settings.steps)

    def learning_rate(self, network: Network) -> float:
        """Return the learning rate of the first step, within ``rate_limit``."""
        schedule = self.settings
        if schedule.rate_limit == "none":
            return schedule.learning_rate
        pool, labeled = self.pool, self.pool.labeled
        outputs = self.classifier(network).outputs(pool.images, labeled)
        bound = rate_bound(outputs.features[:], pool.num_classes, schedule.rate_limit)
        if bound <= 0:
            raise TrainingError(
                f"The Gram matrix of the {len(labeled)} labeled items is singular, so "
                f"rate_limit '{schedule.rate_limit}' leaves no learning rate; take "
                "'linearized' or 'none'."
            )
        return min(schedule.learning_rate, bound)


def relevant_options(
    part: Any, inputs: Inputs | type[Inputs], learner: Learner | DirectLearner
) -> list[str]:
    """Return the options of a part, or of its type, that matter beside these others."""
    known = {"", *(view.kind for view in learner.views.values())}
    known |= {"features"} if inputs.has_features else set()
    return [f.name for f in fields(part) if f.metadata.get("needs", "") in known]


def options_by_part(
    options: Mapping[str, Any], parts: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return for each part those of some options that it has."""
    inputs, learner = parts["inputs"], parts["learner"]
    learner = learner() if isinstance(learner, type) else learner
    own = {
        field: relevant_options(part, inputs, learner)
        for field, part in parts.items()
        if part is not None
    }
    known = [name for names in own.values() for name in names]
    for name in options:
        if name not in known:
            raise UnknownNameError("option of this training", name, known)
    return {
        field: {name: options[name] for name in names if name in options}
        for field, names in own.items()
    }


@dataclass(frozen=True)
class ExternalTrainer:
    """A trainer of another package, with defaults for the methods it lacks."""

    trainer: Any

    @property
    def identity(self) -> Identity:
        """That of the trainer."""
        return identity(self.trainer)

    @property
    def num_steps(self) -> int | None:
        """Its ``steps``, if that is a number."""
        steps = getattr(self.trainer, "steps", None)
        return steps if isinstance(steps, int) else None

    def check(self, pool: Pool) -> None:
        """Ask the trainer, if it checks anything."""
        if hasattr(self.trainer, "check"):
            self.trainer.check(pool)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Train; see :class:`fewlabels.protocols.Trainer`."""
        classifier: Classifier = self.trainer.fit(
            pool, generator, workspace=workspace, on_checkpoint=on_checkpoint
        )
        return classifier
