"""Listeners that keep the figures of a training in files.

Example:
    >>> import tempfile
    >>> from fewlabels.files import read_entries
    >>> from fewlabels.progress import reporting, tell, track
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     lines = JsonLines(Path(folder) / "training.jsonl")
    ...     with reporting(lines), track("Training", 2):
    ...         tell(1, {"loss": 0.5})
    ...     print(*(line["loss"] for line in read_entries(lines.path)))
    0.5
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fewlabels import progress
from fewlabels.errors import UsageError
from fewlabels.files import append_entry


@dataclass
class _Tasks:
    """Knows which of the tasks that are going on was started last."""

    _names: dict[int, str] = field(default_factory=dict, init=False, repr=False)
    _num_started: int = field(default=0, init=False, repr=False)

    def start(self, task: str, total: int, done: int) -> int:
        """Remember the name of a task."""
        del total, done
        self._num_started += 1
        self._names[self._num_started] = task
        return self._num_started

    def advance(self, handle: int, amount: int) -> None:
        """Do nothing: figures say how far a task is."""

    def finish(self, handle: int) -> None:
        """Forget a task."""
        del self._names[handle]

    @property
    def _last(self) -> str | None:
        return next(reversed(self._names.values()), None)


@dataclass
class JsonLines(_Tasks):
    """A listener that writes figures into a file, a line of JSON at a time."""

    path: Path
    """The file; what it holds already stays."""
    common: Mapping[str, Any] = field(default_factory=dict)
    """What every line says first."""

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Write a line: time, part, task, step and the figures."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        place = {"part": progress.current_part() or None, "task": self._last}
        entry = {**self.common, "time": now, **place, "step": step}
        append_entry(self.path, entry | _numbers(figures))


class TensorBoard(_Tasks):
    """A listener that writes figures for TensorBoard: ``tensorboard --logdir FOLDER``.

    Every part has a folder of its own, which TensorBoard shows as a curve.
    """

    def __init__(self, folder: Path) -> None:
        """Check that TensorBoard is installed; nothing is written before a figure.

        Args:
            folder: Where the folders of the parts shall stand.
        """
        super().__init__()
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise UsageError(
                f"TensorBoard is absent ({error}): pip install 'fewlabels[tensorboard]'"
            ) from error
        self.folder, self._new_writer = folder, SummaryWriter
        self._writer: Any = None
        self._part = ""

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Add a point to the curve of each figure."""
        part = progress.current_part()
        if self._writer is None or part != self._part:
            self.close()
            # What a killed process wrote of later steps is not shown twice.
            self._writer = self._new_writer(self.folder / part, purge_step=step)
            self._part = part
        section = f"{self._last}/" if self._last else ""
        for name, value in _numbers(figures).items():
            self._writer.add_scalar(section + name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the files; another figure would begin new ones."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _numbers(figures: Mapping[str, float]) -> dict[str, float]:
    """Return plain numbers, whichever library the figures come from."""
    return {name: float(value) for name, value in figures.items()}
