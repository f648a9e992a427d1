"""Do what is missing of an experiment."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from fewlabels import progress
from fewlabels.bench.cells import Cell, plan
from fewlabels.bench.cost import steps_of
from fewlabels.bench.engines import Ended, Engine
from fewlabels.bench.experiment import Experiment
from fewlabels.bench.folder import BenchFolder
from fewlabels.loop import round_folder
from fewlabels.runs import RunFolder

_LOOK_EVERY = 2.0  # seconds
_TAIL = 4096  # bytes of a journal that hold its last line


def run(
    experiment: Experiment,
    folder: BenchFolder,
    engine: Engine,
    *,
    tensorboard: bool = False,
) -> Iterator[Ended]:
    """Do every run of an experiment that is not finished.

    Runs that others begin like come first. If one of them fails, the others do its part
    themselves.

    Args:
        experiment: What to do.
        folder: Where; opened already.
        engine: Who does the runs.
        tensorboard: Write the curves of all trainings for TensorBoard too.

    Yields:
        Each run as it ends, finished or failed.
    """
    todo = plan(experiment)
    first = folder.missing(todo.beginnings)
    with _watched(folder, todo.all):
        if first:
            yield from engine.run(first, folder.path, tensorboard=tensorboard)
        later = folder.missing(cell for cell in todo.all if cell not in first)
        if later:
            yield from engine.run(later, folder.path, tensorboard=tensorboard)


@dataclass(frozen=True)
class _Watch:
    """Looks at the files of all runs to see how far they are."""

    folder: BenchFolder
    cells: Sequence[Cell]
    steps: Mapping[str, int]
    """Steps of a training, by label of the trainer."""
    finished: set[str] = field(default_factory=set)
    """Addresses of runs that need no second look."""

    @property
    def total(self) -> int:
        """Steps of all trainings together."""
        return sum(self._steps(cell) * cell.num_trainings for cell in self.cells)

    def done(self) -> int:
        """Return how many steps are done."""
        return sum(self._done(cell) for cell in self.cells)

    def _steps(self, cell: Cell) -> int:
        return self.steps[cell.settings.trainer.label]

    def _done(self, cell: Cell) -> int:
        steps = self._steps(cell)
        everything = steps * cell.num_trainings
        if cell.address in self.finished:
            return everything
        lines = self.folder.lines(cell)
        if lines and not lines[-1].ids:
            self.finished.add(cell.address)
            return everything
        if cell.is_asking and not lines:
            return 0  # the first training is another run's, even where it is not copied
        step = _last_step(self.folder.run_folder(cell), len(lines))
        return steps * cell.num_trained(len(lines)) + min(steps, step)


def _last_step(folder: RunFolder, round_number: int) -> int:
    """Return the step that was told last of the training of a round."""
    try:
        with folder.training_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL))
            *lines, _ = file.read().split(b"\n")
        last = json.loads(lines[-1])
        is_going_on = last["part"] == round_folder(folder.path, round_number).name
        return int(last["step"]) if is_going_on else 0
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return 0  # nothing told yet


@contextmanager
def _watched(folder: BenchFolder, cells: Sequence[Cell]) -> Iterator[None]:
    """Report the steps of all runs while the block runs, wherever they are done."""
    trained = {cell.settings.trainer.label: cell.settings for cell in cells}
    steps = {label: steps_of(one) or 1 for label, one in trained.items()}
    watch = _Watch(folder, cells, steps)
    done = watch.done()
    with progress.track("Steps", watch.total, done=done) as advance:
        ends = threading.Event()

        def look(before: int) -> None:
            while not ends.wait(_LOOK_EVERY):
                now = watch.done()
                if now > before:
                    advance(now - before)
                    before = now

        looking = threading.Thread(target=look, args=(done,), daemon=True)
        looking.start()
        try:
            yield
        finally:
            ends.set()
            looking.join()
