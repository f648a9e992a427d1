"""Runs side by side on this machine, each in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from fewlabels.bench.cells import Cell
from fewlabels.bench.engines import Ended
from fewlabels.bench.folder import BenchFolder, Failure
from fewlabels.errors import UsageError

WORK = "fewlabels.bench.work:work"
"""Import path of what every worker calls."""

ONE_THREAD = dict.fromkeys(
    (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMBA_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    ),
    "1",
)
"""Environment of a worker; a run's own number of threads is set by the run."""

_PROGRAM = "fewlabels.bench.worker"
_MEANT = (signal.SIGINT, signal.SIGTERM)  # not for want of memory
_MOST_PRINTED = 10_000  # bytes
_REASONS = {
    "SIGKILL": "most often because memory ran out",
    "SIGINT": "somebody, or code of the run itself, stopped it as Ctrl-C does",
    "SIGTERM": "somebody, or a batch queue, stopped it",
    "SIGSEGV": "a compiled library crashed",
    "SIGABRT": "a compiled library gave up, perhaps because memory ran out",
    "SIGBUS": "most often because a disk or shared memory is full",
}


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
            msg = (
                f"num_workers is {num_workers} and retries {retries}; give at least "
                "one worker, and no fewer than 0 retries."
            )
            raise UsageError(msg)

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
        crew = _Crew(self, cells, BenchFolder(root.absolute()), tensorboard)
        with closing(crew):
            crew.begin()
            while crew.busy:
                for place in crew.ready():
                    ended = crew.hear(place)
                    if ended is not None:
                        yield ended


def num_cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def arguments(cell: Cell, root: Path, *, tensorboard: bool) -> dict[str, Any]:
    """Return what :func:`fewlabels.bench.work.work` is called with."""
    settings = cell.settings.model_dump_json()
    return {"root": str(root), "settings": settings, "tensorboard": tensorboard}


class _Crew:
    """The workers of one call, and what each of them does."""

    def __init__(
        self,
        engine: LocalEngine,
        cells: Sequence[Cell],
        folder: BenchFolder,
        tensorboard: bool,  # noqa: FBT001 - handed on
    ) -> None:
        self.busy: dict[int, tuple[_Worker, Cell]] = {}
        """Workers and their runs, by where their answers are read."""
        self._engine, self._folder, self._tensorboard = engine, folder, tensorboard
        self._todo = deque(cells)
        self._deaths: Counter[str] = Counter()

    def begin(self) -> None:
        """Start as many workers as there is work for."""
        while self._todo and len(self.busy) < self._engine.num_workers:
            self._give(_Worker(self._engine.work), self._todo.popleft())

    def ready(self) -> list[int]:
        """Wait until workers have something to say, or have died; return where."""
        found: list[Any] = wait(list(self.busy))
        return found

    def hear(self, place: int) -> Ended | None:
        """Hear a worker, and give it something else to do.

        Args:
            place: Where it answers.

        Returns:
            The run that has ended; None if its worker has died and it is tried again.
        """
        worker, cell = self.busy[place]
        answer = worker.answer()
        if answer is None:
            return self._after_death(place)
        del self.busy[place]
        if self._todo:
            self._give(worker, self._todo.popleft())
        else:
            worker.stop()
        return Ended(cell, error=json.loads(answer))

    def close(self) -> None:
        """End all workers, whatever they do."""
        for worker, _ in self.busy.values():
            worker.stop()

    def _give(self, worker: "_Worker", cell: Cell) -> None:
        self.busy[worker.place] = (worker, cell)
        worker.give(arguments(cell, self._folder.path, tensorboard=self._tensorboard))

    def _after_death(self, place: int) -> Ended | None:
        """Replace a dead worker; give its run up if that has happened too often."""
        worker, cell = self.busy.pop(place)
        code, printed = worker.mourned()
        self._deaths[cell.address] += 1
        times = self._deaths[cell.address]
        if times <= self._engine.retries:
            self._todo.appendleft(cell)
            self.begin()
            return None
        self.begin()
        error = told_death(code, times)
        failure = Failure(label=cell.label, error=error, traceback=printed)
        self._folder.write_failure(cell, failure)
        return Ended(cell, error=error)


class _Worker:
    """A process that does one run at a time."""

    def __init__(self, work: str) -> None:
        # Python finds modules there where this process does.
        places = [place or str(Path.cwd()) for place in sys.path]
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop
        self._process = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-P", "-X", "faulthandler", "-m", _PROGRAM, work],
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(places)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            start_new_session=True,  # Ctrl-C is ours to see, not theirs
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders, self._answers = self._process.stdin, self._process.stdout

    @property
    def place(self) -> int:
        """Where its answers are read."""
        return self._answers.fileno()

    def give(self, order: dict[str, Any]) -> None:
        """Give it a run to do."""
        with suppress(BrokenPipeError):  # a dead one is noticed when it is heard
            self._orders.write(json.dumps(order).encode() + b"\n")
            self._orders.flush()

    def answer(self) -> str | None:
        """Return a line of JSON; None if it has died, perhaps in the middle of it."""
        line = self._answers.readline().decode()
        return line if line.endswith("\n") else None

    def mourned(self) -> tuple[int, str]:
        """Return how a dead one ended, and the last that it printed."""
        code = self._process.wait()
        size = self._printed.seek(0, os.SEEK_END)
        self._printed.seek(max(0, size - _MOST_PRINTED))
        printed = self._printed.read().decode(errors="replace")
        self.stop()
        return code, printed

    def stop(self) -> None:
        """End it at once; the files of its run can bear that."""
        self._process.kill()
        self._process.wait()
        self._answers.close()
        self._printed.close()
        with suppress(BrokenPipeError):  # what it has not read
            self._orders.close()


def told_death(code: int, times: int) -> str:
    """Say how the process of a run ended, and what to do.

    Args:
        code: Its exit code; less than 0: minus the number of a signal.
        times: How often that happened to this run.

    Returns:
        Some sentences.
    """
    again = f"{times} times in a row" if times > 1 else "once"
    if code >= 0:
        return (
            f"The process of this run ended by itself with exit code {code}, {again}. "
            "Something in it leaves Python; the last that it printed is kept with "
            "this failure. Mend that and run the same command again."
        )
    name, reason = f"signal {-code}", "the system does not say why"
    with suppress(ValueError):
        found = signal.Signals(-code)
        name, reason = f"{name} ({found.name})", _REASONS.get(found.name, reason)
    room = (
        "" if -code in _MEANT else " with fewer workers, so that each has more memory"
    )
    return (
        f"The process of this run was ended by {name}, {again}: {reason}. Run the same "
        f"command again{room}; the run goes on at its last checkpoint."
    )
