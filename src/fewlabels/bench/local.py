"""Runs side by side on this machine, each worker a process of its own."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from fewlabels.bench.cells import Cell
from fewlabels.bench.engines import Ended
from fewlabels.bench.folder import BenchFolder, Failure
from fewlabels.errors import UsageError
from fewlabels.jobs import Event, words_for_death
from fewlabels.jobs.several import side_by_side
from fewlabels.jobs.surroundings import num_cores

WORK = "fewlabels.bench.work:work"
"""Import path of what every worker calls."""

_MEANT = (signal.SIGINT, signal.SIGTERM)  # not for want of memory


class LocalEngine:
    """Does runs in processes of this machine.

    Args:
        num_workers: How many at a time; by default one for each core.
        retries: How often a run is tried again whose process was killed.
        work: Import path of what does a run; only tests have reason to change it.
    """

    def __init__(
        self, num_workers: int | None = None, retries: int = 3, work: str = WORK
    ) -> None:
        self.num_workers = num_cores() if num_workers is None else num_workers
        self.retries = retries
        self.work = work
        if self.num_workers < 1 or retries < 0:
            raise UsageError(
                f"num_workers is {num_workers} and retries {retries}; give at least "
                "one worker, and no fewer than 0 retries."
            )

    def run(
        self, cells: Sequence[Cell], root: Path, *, tensorboard: bool = False
    ) -> Iterator[Ended]:
        """Do runs in the folder of a benchmark; yield each as it ends.

        Args:
            cells: The runs.
            root: The folder of the benchmark.
            tensorboard: Write the curves of trainings for TensorBoard too.

        Yields:
            Each run, finished or failed.
        """
        folder = BenchFolder(root.absolute())
        orders = [arguments(c, folder.path, tensorboard=tensorboard) for c in cells]
        # What the runs import was allowed when they were planned.
        ended = side_by_side(self.work, orders, self.num_workers, retries=self.retries)
        with closing(ended):
            for number, end, times in ended:
                yield _written_down(folder, cells[number], end, times)


def _written_down(folder: BenchFolder, cell: Cell, end: Event, times: int) -> Ended:
    """Return how a run ended; write down what its process could not."""
    if end["event"] == "done":
        return Ended(cell, error=end["result"])
    if end["event"] == "failed":
        error, printed = end["reason"], end["traceback"]
    else:
        error = told_death(end.get("code", -signal.SIGINT), times)
        printed = end.get("printed", "")
    failure = Failure(label=cell.label, error=error, traceback=printed)
    folder.write_failure(cell, failure)
    return Ended(cell, error=error)


def arguments(cell: Cell, root: Path, *, tensorboard: bool) -> dict[str, Any]:
    """Return what :func:`fewlabels.bench.work.work` is called with."""
    settings = cell.settings.model_dump_json()
    return {"root": str(root), "settings": settings, "tensorboard": tensorboard}


def told_death(code: int, times: int) -> str:
    """Say how the process of a run ended, and what to do.

    Args:
        code: Its exit code; less than 0: minus the number of a signal.
        times: How often that happened to this run.

    Returns:
        Some sentences.
    """
    again = f"{times} times in a row" if times > 1 else "once"
    name, reason = words_for_death(code)
    if code >= 0:
        return (
            f"The process of this run ended by itself with {name}, {again}: {reason}; "
            "the last that it printed is kept with this failure. Mend that and run the "
            "same command again."
        )
    room = (
        "" if -code in _MEANT else " with fewer workers, so that each has more memory"
    )
    return (
        f"The process of this run was ended by {name}, {again}: {reason}. Run the same "
        f"command again{room}; the run goes on at its last checkpoint."
    )
