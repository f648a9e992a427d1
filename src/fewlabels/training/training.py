"""A training is a value: inputs, a learner, an alignment and a schedule.

Equal trainings have equal results; their execution changes none. A finished training is
loaded from its workspace, and an unfinished one is resumed.

Of an unfinished training, weights, averaged weights, momentum and the learner's memory
(for DARP: the stored pseudo-labels, the refined ones and the dual variables) are
written whole or not at all. Generators and the position in the data need no place: all
randomness is named by the step. A training that goes on from here ends with the same
bits as one that was never interrupted, on the same build of PyTorch with the same
number of threads.
"""

import copy
import json
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Generator, Tensor

from fewlabels import errors, files, models, progress, rng
from fewlabels.models import Head, Network, checkpoint, moments
from fewlabels.names import Identity, composite_identity, identity
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import devices, loop
from fewlabels.training.devices import OnCheckpoint, ProcessGroup
from fewlabels.training.learner import DirectLearner, Learner
from fewlabels.training.loop import Execution, Schedule
from fewlabels.training.views import PoolInputs, Views

if TYPE_CHECKING:  # it imports darp
    from fewlabels.training.alignment import Alignment

_MODEL = "model.safetensors"
_STATE = "state.safetensors"
_LOCK = ".fewlabels-training-lock"


def hold_workspace(folder: Path | None) -> AbstractContextManager[None]:
    """Keep other processes out of a workspace while a block runs."""
    if folder is None or not devices.is_first():
        return nullcontext()
    files.make_folder(folder)
    in_use = errors.RunInUseError(
        f"Another process trains in '{folder}'. Wait for it, or give this training a "
        "folder of its own."
    )
    return files.hold_lock(folder / _LOCK, in_use)


@dataclass
class SavedState:
    """An unfinished training on disk, so that a killed process loses seconds."""

    path: Path
    """The file."""
    task: "TrainingTask"
    """The training it belongs to."""
    tensors: Callable[[], Mapping[str, Tensor]]
    """Returns all that a step changes, by name; themselves and not copies."""
    taken: tuple[int, dict[str, Tensor]] | None = None
    """A copy after some steps that waits to be written."""
    _step: int = 0
    _at: float = field(default_factory=time.monotonic)

    def is_due(self) -> bool:
        """Whether it is time to save again, or the training is being stopped."""
        every = self.task.training.execution.save_every
        return progress.is_stopped() or time.monotonic() - self._at >= every

    def take(self, step: int) -> None:
        """Copy the state after ``step`` steps; it counts once it is written.

        Only the loss of the next step shows whether these weights are any good.
        """
        copies = {name: t.detach().clone() for name, t in self.tensors().items()}
        self.taken = step, copies

    def write(self) -> None:
        """Write the state that was taken last, unless it has infinite numbers."""
        assert self.taken is not None
        (step, tensors), self.taken = self.taken, None
        if all(torch.isfinite(t).all() for t in tensors.values()):
            words = {"fingerprint": self.task.fingerprint, "step": str(step)}
            checkpoint.write(tensors, self.path, words)
            self._step = step
        self._at = time.monotonic()

    def fill(self) -> int:
        """Fill a fresh training with the saved one, if there is one."""
        otherwise = "This training begins with its first step."
        words = self.task.read(self.path, self.tensors(), otherwise)
        if words and words.get("fingerprint") != self.task.fingerprint:
            msg = (
                f"{self.path} holds {words.get('step', '?')} steps of a training "
                "with other settings, items, labels or seed; it will be replaced. "
                "Use another folder to keep both."
            )
            warnings.warn(msg, errors.DataChangedWarning, stacklevel=2)
            return 0
        self._step = int(words.get("step", 0))
        return self._step

    def last_good(self) -> str:
        """Return a sentence for a message about where the last good state is."""
        text = f" The state after {self._step} steps, before that, is in {self.path}."
        return text if self._step else ""


@dataclass(frozen=True, kw_only=True)
class Training:
    """Parts and settings of a training; implements ``protocols.Trainer``."""

    inputs: PoolInputs
    """What the network sees."""
    learner: Learner | DirectLearner
    """What it learns."""
    alignment: "Alignment | None" = None
    """What refines pseudo-labels, if anything does."""
    schedule: Schedule | None = None
    """The steps; None for a learner that takes none."""
    execution: Execution = field(default=Execution(), compare=False)
    """How it is done; no result depends on it."""

    def __post_init__(self) -> None:
        """Check that network and inputs fit together."""
        network = "" if self.schedule is None else self.schedule.network
        if self.inputs.has_features and network.startswith("wrn"):
            raise errors.UsageError(
                f"'{network}' takes images; choose 'linear' or 'mlp-256'."
            )

    @property
    def options(self) -> dict[str, Any]:
        """All options that change the result, by name."""
        return {
            name: getattr(part, name)
            for part in (self.schedule, self.learner, self.alignment, self.inputs)
            if part is not None
            for name in relevant_options(part, self.inputs, self.learner)
            if not is_omitted(part, name)
        }

    @property
    def identity(self) -> Identity:
        """Types and options of its parts, which determine the result."""
        parts = [p for p in (self.learner, self.alignment) if p is not None]
        words = [self.inputs.word, *(type(p).__name__ for p in parts), "Trainer"]
        name, every = "".join(words), [self.inputs, *parts]
        return composite_identity(name, self.options, every)

    @property
    def num_steps(self) -> int | None:
        """How many steps it takes; None: none at all."""
        return None if self.schedule is None else self.schedule.steps

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
            hold_workspace(folder),
        ):
            task = self._task(pool, generator, folder)
            network = task.build_network()
            if not len(pool.labeled):
                on_checkpoint(0, task.views.classifier(network))
            elif task.restore(network):
                on_checkpoint(self.num_steps or 1, task.views.classifier(network))
            else:
                network = task.run(network, on_checkpoint)
            return task.views.classifier(network)

    def restored(
        self, pool: Pool, generator: Generator, workspace: Path
    ) -> Classifier | None:
        """Return what :meth:`fit` finished earlier, without ever training."""
        task = self._task(pool, generator, workspace)
        network = task.build_network()
        if len(pool.labeled) and not task.restore(network):
            return None
        return task.views.classifier(network)

    def _task(
        self, pool: Pool, generator: Generator, workspace: Path | None
    ) -> "TrainingTask":
        """Return one training on a pool; one number is taken from the generator."""
        views = self.inputs.of(pool, self.execution.cache)
        return TrainingTask(self, pool, views, rng.fork(generator), workspace)


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """One training on one pool, with its seed and workspace."""

    training: Training
    pool: Pool
    views: Views
    key: int
    workspace: Path | None

    @property
    def settings(self) -> Schedule:
        """The schedule of a learner that takes steps."""
        assert self.training.schedule is not None
        return self.training.schedule

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all that decides the outcome."""
        identity, pool, views = self.training.identity, self.pool, self.views
        decisive = {
            "trainer": identity.type,
            "settings": identity.options,
            "image_shape": pool.images.shape,
            "classes": pool.num_classes,
            "ids": sha256("\0".join(pool.ids).encode()).hexdigest(),
            "labeled": pool.labeled.tolist(),
            "labels": pool.labels[pool.labeled].tolist(),
            "inputs": views.identity,
            "key": self.key,
        }
        optional = {"source": identity.source, "contents": views.contents}
        decisive |= {name: value for name, value in optional.items() if value}
        return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()

    def build_network(self) -> Network:
        """Return the network before the first step, in evaluation mode."""
        learner = self.training.learner
        if not isinstance(learner, Learner):
            return learner.begin(self).eval()
        name, settings = self.settings.network, self.settings
        if name.startswith("wrn") and len(self.views.shape) == 1:
            name = "linear"  # over rows, a head takes the place of a Wide ResNet
        options = {
            "dropout": settings.dropout,
            # Statistics decay as fast as averaged weights, so that both describe the
            # same steps. The paper has .999 for both.
            "bn_momentum": min(0.1, 1.0 - settings.ema_decay),
        }
        shape, draws = self.views.shape, rng.stream(self.key, "initialize")
        network = models.build(name, shape, self.pool.num_classes, draws, **options)
        if isinstance(network, Head):
            network.standardize_by(*moments(self.views.rows))
        return network.eval()

    def run(
        self, network: Network, on_checkpoint: Callable[[int, Classifier], None]
    ) -> Network:
        """Train an untrained network, in steps or at once, and save it."""
        learner = self.training.learner

        def notify(step: int, network: Network) -> None:
            on_checkpoint(step, self.views.classifier(network))

        if isinstance(learner, Learner):
            self.views.prepare({view.kind for view in learner.views.values()})
            with progress.handle_cancellation():
                network = devices.train_on_devices(self, network, notify)
                self._save(network)
        else:
            learner.solve(network, self)
            self._save(network)
            notify(1, network)
        return network

    def restore(self, network: Network) -> bool:
        """Fill ``network`` with the finished training, if there is one."""
        if self.workspace is None:
            return False
        path, otherwise = self.workspace / _MODEL, "It counts as none."
        words = self.read(path, network.state_dict(), otherwise)
        return words.get("fingerprint") == self.fingerprint

    def read(
        self, path: Path, tensors: Mapping[str, Tensor], otherwise: str
    ) -> dict[str, str]:
        """Fill tensors from a file of this training, and return its metadata.

        Args:
            path: The file. One of another training fills nothing.
            tensors: What to fill, all or none.
            otherwise: How a warning about a damaged file ends.

        Returns:
            The metadata; empty if there is no file, or a damaged one.
        """
        if not path.exists():
            return {}
        try:
            words = checkpoint.metadata(path)
            if words.get("fingerprint") == self.fingerprint:
                checkpoint.read_into(tensors, path)
        except errors.DataError as error:
            warnings.warn(f"{error} {otherwise}", errors.DamagedWarning, stacklevel=3)
            return {}
        return words

    def _save(self, network: Network) -> None:
        """Save the finished training, and delete its unfinished state."""
        folder, identity = self.workspace, self.training.identity
        if folder is None or not devices.is_first():
            return
        words = {
            "fingerprint": self.fingerprint,
            "trainer": identity.type,
            "settings": json.dumps(identity.options),
        }
        checkpoint.write(network.state_dict(), folder / _MODEL, words)
        files.remove_leftovers([folder / _STATE])
        (folder / _STATE).unlink(missing_ok=True)

    def train(
        self, group: ProcessGroup, network: Network, on_checkpoint: OnCheckpoint
    ) -> Network:
        """Train, as one process of a group, and return the averaged network."""
        stepper, saved = loop.Stepper(self, group, network), None
        if self.workspace is not None:
            saved = SavedState(self.workspace / _STATE, self, stepper.tensors)
        loop.run_steps(stepper, saved, on_checkpoint)
        return stepper.result()


def relevant_options(
    part: Any, inputs: PoolInputs | type[PoolInputs], learner: Learner | DirectLearner
) -> list[str]:
    """Return the options of a part, or of its type, that matter beside these others."""
    known = {"", *(view.kind for view in learner.views.values())}
    known |= {"features"} if inputs.has_features else set()
    return [f.name for f in fields(part) if f.metadata.get("needs", "") in known]


def is_omitted(part: Any, name: str) -> bool:
    """Return whether an option came later and has its default."""
    kept = {f.name: f.default for f in fields(part) if f.metadata.get("omit_default")}
    return name in kept and bool(getattr(part, name) == kept[name])


def training_of(learner: Learner) -> Training:
    """Return the training of a learner on what the pool holds, in the usual steps."""
    return Training(inputs=PoolInputs(), learner=learner, schedule=Schedule())


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

    def fit(self, *arguments: Any, **options: Any) -> Classifier:
        """Train; see :class:`fewlabels.protocols.Trainer`."""
        classifier: Classifier = self.trainer.fit(*arguments, **options)
        return classifier


def shortened(trainer: Any, num_steps: int) -> Any:
    """Return a trainer that takes few small steps, if it says how many it takes."""
    if isinstance(trainer, Training) and trainer.schedule is not None:
        size = 2 * trainer.schedule.devices
        few = replace(trainer.schedule, steps=num_steps, minibatch_size=size)
        return replace(trainer, schedule=few)
    if isinstance(trainer, ExternalTrainer) and isinstance(trainer.num_steps, int):
        own = copy.copy(trainer.trainer)
        object.__setattr__(own, "steps", num_steps)
        return ExternalTrainer(own)
    return trainer
