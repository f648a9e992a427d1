"""An unfinished training on disk, so that a killed process loses seconds.

Weights, averaged weights, momentum and the learner's memory (for DARP: the stored
pseudo-labels, the refined ones and the dual variables) are written whole or not at all.
Generators and the position in the data need no place: all randomness is named by the
step. A training that goes on from here ends with the same bits as one that was never
interrupted, on the same build of PyTorch with the same number of threads.
"""

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from fewlabels import files, progress
from fewlabels.errors import DamagedWarning, DataChangedWarning, DataError
from fewlabels.models import checkpoint

FILE = "state.safetensors"
"""Name of the file in the workspace."""


class Resumable(Protocol):
    """A training whose tensors can be read and filled."""

    def tensors(self) -> Mapping[str, Tensor]:
        """Return all that a step changes, by name; themselves and not copies."""
        ...


@dataclass
class SavedState:
    """The place of one unfinished training."""

    folder: Path
    """The workspace."""
    mark: str
    """Fingerprint of the training it belongs to."""
    every: float
    """Seconds between two savings."""
    _step: int = 0
    _at: float = field(default_factory=time.monotonic)
    _taken: tuple[int, dict[str, Tensor]] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def is_due(self) -> bool:
        """Whether it is time to save again, or the last chance to."""
        return progress.is_stopped() or time.monotonic() - self._at >= self.every

    def take(self, training: Resumable, step: int) -> None:
        """Copy the state after ``step`` steps; it counts once it is written.

        Only the loss of the next step shows whether these weights are any good.
        """
        copies = {name: t.detach().clone() for name, t in training.tensors().items()}
        self._taken = step, copies
        self._at = time.monotonic()

    @property
    def is_taken(self) -> bool:
        """Whether a state waits to be written."""
        return self._taken is not None

    def write(self) -> None:
        """Write the state that was taken last, unless numbers in it are lost."""
        assert self._taken is not None
        (step, tensors), self._taken = self._taken, None
        if not all(torch.isfinite(t).all() for t in tensors.values()):
            return
        files.make_folder(self.folder)
        words = {"fingerprint": self.mark, "step": str(step)}
        checkpoint.write(tensors, self.path, words)
        self._step = step
        self._at = time.monotonic()

    def fill(self, training: Resumable) -> int:
        """Fill a fresh training with the saved one, if there is one."""
        if not self.path.exists():
            return 0
        try:
            found = checkpoint.metadata(self.path)
            if found.get("fingerprint") != self.mark:
                self._warn_of_other(found.get("step", "?"))
                return 0
            words = checkpoint.read_into(training.tensors(), self.path)
        except DataError as error:
            msg = f"{error} This training begins with its first step."
            warnings.warn(msg, DamagedWarning, stacklevel=2)
            return 0
        self._step = int(words["step"])
        self._at = time.monotonic()
        return self._step

    def _warn_of_other(self, step: str) -> None:
        msg = (
            f"{self.path} holds {step} steps of a training with other settings, items, "
            "labels or seed; it will be replaced. Use another folder to keep both."
        )
        warnings.warn(msg, DataChangedWarning, stacklevel=3)

    def last_good(self) -> str:
        """Say where the last good state is, in a sentence for a message."""
        if not self._step:
            return ""
        return f" The state after {self._step} steps, before that, is in {self.path}."

    def remove(self) -> None:
        """Remove the file: the training is finished."""
        files.sweep([self.path])
        self.path.unlink(missing_ok=True)
