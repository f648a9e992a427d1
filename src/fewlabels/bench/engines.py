"""Where runs are done: the seam between the runner and processes or machines."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fewlabels.bench.cells import Cell


@dataclass(frozen=True)
class Ended:
    """A run that a worker is through with."""

    cell: Cell
    error: str | None = None
    """What went wrong; None if it is finished."""


class Engine(Protocol):
    """Does runs side by side.

    Each is done by :func:`fewlabels.bench.work.work` in a process with as many threads
    as its settings say. A worker that is killed is replaced, and its run goes on where
    it was; a run whose worker is killed again and again is written down as failed.
    """

    @property
    def num_workers(self) -> int:
        """How many runs are done at a time."""
        ...

    def run(
        self, cells: Sequence[Cell], root: Path, *, tensorboard: bool = False
    ) -> Iterator[Ended]:
        """Do runs in the folder of a benchmark; yield each as it ends."""
        ...
