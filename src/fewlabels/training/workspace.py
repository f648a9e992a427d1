"""The folder of a training: a finished one is loaded, an unfinished one resumed.

Of an unfinished training, weights, averaged weights, momentum and the learner's memory
(for DARP: the stored pseudo-labels, the refined ones and the dual variables) are
written whole or not at all. Generators and the position in the data need no place: all
randomness is named by the step. A training that goes on from here ends with the same
bits as one that was never interrupted, on the same build of PyTorch with the same
number of threads.
"""

import json
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor, nn

from fewlabels import files, progress
from fewlabels.errors import (
    DamagedWarning,
    DataChangedWarning,
    DataError,
    RunInUseError,
)
from fewlabels.models import checkpoint
from fewlabels.names import Identity
from fewlabels.pool import Pool

_MODEL = "model.safetensors"
_STATE = "state.safetensors"
_LOCK = ".fewlabels-training-lock"


def hold_workspace(folder: Path | None) -> AbstractContextManager[None]:
    """Keep other processes out of a workspace while a block runs."""
    if folder is None:
        return nullcontext()
    files.make_folder(folder)
    in_use = RunInUseError(
        f"Another process trains in '{folder}'. Wait for it, or give this training a "
        "folder of its own."
    )
    return files.hold_lock(folder / _LOCK, in_use)


def training_fingerprint(
    identity: Identity, pool: Pool, inputs: str, contents: str, key: int
) -> str:
    """Return a hash of all that decides the outcome of a training.

    Args:
        identity: Of the trainer.
        pool: What it is trained on.
        inputs: Identifies what turns images into inputs, such as an encoder.
        contents: A digest of the items, where their ids do not identify them.
        key: Seed of the training.

    Returns:
        The hash.
    """
    decisive = {
        "trainer": identity.type,
        "settings": identity.options,
        "image_shape": pool.images.shape,
        "classes": pool.num_classes,
        "ids": sha256("\0".join(pool.ids).encode()).hexdigest(),
        "labeled": pool.labeled.tolist(),
        "labels": pool.labels[pool.labeled].tolist(),
        "inputs": inputs,
        "key": key,
    }
    if identity.source:
        decisive["source"] = identity.source
    if contents:
        decisive["contents"] = contents
    return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def restore(module: nn.Module, folder: Path, mark: str) -> bool:
    """Fill ``module`` with a finished training of this fingerprint, if there is one."""
    path = folder / _MODEL
    try:
        if not path.exists() or checkpoint.metadata(path).get("fingerprint") != mark:
            return False
        checkpoint.read_into(module.state_dict(), path)
    except DataError as error:
        warnings.warn(f"{error} It counts as none.", DamagedWarning, stacklevel=2)
        return False
    return True


def save(module: nn.Module, folder: Path, mark: str, identity: Identity) -> None:
    """Save a finished training, and delete its unfinished state."""
    files.make_folder(folder)
    words = {
        "fingerprint": mark,
        "trainer": identity.type,
        "settings": json.dumps(identity.options),
    }
    checkpoint.write(module.state_dict(), folder / _MODEL, words)
    files.remove_leftovers([folder / _STATE])
    (folder / _STATE).unlink(missing_ok=True)


@dataclass
class SavedState:
    """An unfinished training on disk, so that a killed process loses seconds."""

    folder: Path
    """The workspace."""
    mark: str
    """Fingerprint of the training it belongs to."""
    every: float
    """Seconds between two savings."""
    tensors: Callable[[], Mapping[str, Tensor]]
    """Returns all that a step changes, by name; themselves and not copies."""
    taken: tuple[int, dict[str, Tensor]] | None = None
    """A copy after some steps that waits to be written."""
    _step: int = 0
    _at: float = field(default_factory=time.monotonic)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / _STATE

    def is_due(self) -> bool:
        """Whether it is time to save again, or the training is being stopped."""
        return progress.is_stopped() or time.monotonic() - self._at >= self.every

    def take(self, step: int) -> None:
        """Copy the state after ``step`` steps; it counts once it is written.

        Only the loss of the next step shows whether these weights are any good.
        """
        copies = {name: t.detach().clone() for name, t in self.tensors().items()}
        self.taken = step, copies
        self._at = time.monotonic()

    def write(self) -> None:
        """Write the state that was taken last, unless it has infinite numbers."""
        assert self.taken is not None
        (step, tensors), self.taken = self.taken, None
        if not all(torch.isfinite(t).all() for t in tensors.values()):
            return
        files.make_folder(self.folder)
        words = {"fingerprint": self.mark, "step": str(step)}
        checkpoint.write(tensors, self.path, words)
        self._step = step
        self._at = time.monotonic()

    def fill(self) -> int:
        """Fill a fresh training with the saved one, if there is one."""
        if not self.path.exists():
            return 0
        try:
            words = checkpoint.metadata(self.path)
            if words.get("fingerprint") != self.mark:
                msg = (
                    f"{self.path} holds {words.get('step', '?')} steps of a training "
                    "with other settings, items, labels or seed; it will be replaced. "
                    "Use another folder to keep both."
                )
                warnings.warn(msg, DataChangedWarning, stacklevel=2)
                return 0
            checkpoint.read_into(self.tensors(), self.path)
        except DataError as error:
            msg = f"{error} This training begins with its first step."
            warnings.warn(msg, DamagedWarning, stacklevel=2)
            return 0
        self._step = int(words["step"])
        self._at = time.monotonic()
        return self._step

    def last_good(self) -> str:
        """Return a sentence for a message about where the last good state is."""
        text = f" The state after {self._step} steps, before that, is in {self.path}."
        return text if self._step else ""
