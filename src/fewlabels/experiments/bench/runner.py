"""Do what is missing of an experiment, or a finished run of it once more."""

import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fewlabels import progress
from fewlabels.errors import UsageError
from fewlabels.experiments.acquisition import round_folder
from fewlabels.experiments.bench.cells import Cell, plan
from fewlabels.experiments.bench.cost import steps_of
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.bench.folder import BenchFolder, Failure
from fewlabels.experiments.bench.work import do
from fewlabels.experiments.execution import are_same_data, environment
from fewlabels.experiments.lines import has_ended
from fewlabels.experiments.run_folder import RunFolder
from fewlabels.experiments.settings import made_changes
from fewlabels.jobs import Executor
from fewlabels.names import AllowCode, check_code
from fewlabels.rng import stream

_WORK = "fewlabels.experiments.bench.work:work"
_LOOK_EVERY = 2.0  # seconds
_TAIL = 4096  # bytes of a journal that hold its last line


@dataclass(frozen=True)
class Ended:
    """A run that a worker is through with."""

    cell: Cell
    error: str | None = None
    """What went wrong; None if it is finished."""


@dataclass(frozen=True)
class Verification:
    """The outcome of doing a run again."""

    cell: Cell
    differences: tuple[str, ...]
    """What is not the same, a sentence each; empty if all is."""
    changes: tuple[str, ...]
    """What differs between then and now around the run: versions, machine, data, the
    options and code of strategy and trainer."""

    @property
    def is_same(self) -> bool:
        """Whether the run came out the same."""
        return not self.differences


def run(
    experiment: Experiment,
    folder: BenchFolder,
    executor: Executor,
    *,
    tensorboard: bool = False,
) -> Iterator[Ended]:
    """Do every run of an experiment that is not finished.

    Runs that others begin like come first. If one of them fails, the others do its part
    themselves.

    Args:
        experiment: What to do.
        folder: Where; opened already.
        executor: Who does the runs. A worker that is killed is replaced, and its run
            goes on where it was; one that is killed again and again has failed.
        tensorboard: Write the curves of all trainings for TensorBoard too.

    Yields:
        Each run as it ends, finished or failed.
    """
    todo = plan(experiment)
    first = folder.missing(todo.beginnings)
    with _watched(folder, todo.all):
        yield from run_cells(first, folder, executor, tensorboard=tensorboard)
        later = folder.missing(cell for cell in todo.all if cell not in first)
        yield from run_cells(later, folder, executor, tensorboard=tensorboard)


def run_cells(
    cells: Sequence[Cell],
    folder: BenchFolder,
    executor: Executor,
    *,
    tensorboard: bool = False,
) -> Iterator[Ended]:
    """Do runs side by side; see :func:`run`.

    Yields:
        Each run as it ends, finished or failed.
    """
    root = folder.path.absolute()
    common = {"root": str(root), "tensorboard": tensorboard}
    orders = [common | {"settings": cell.settings.model_dump_json()} for cell in cells]
    with closing(executor.run(_WORK, orders, root)) as running:
        for number, end in running:
            cell = cells[number]
            if end["event"] == "done":
                yield Ended(cell, end["result"])
            else:  # write down what the worker could not
                error = end["reason"]
                trace = end.get("traceback") or end.get("printed", "")
                failure = Failure(label=cell.label, error=error, traceback=trace)
                folder.write_failure(cell, failure)
                yield Ended(cell, error)


@contextmanager
def _watched(folder: BenchFolder, cells: Sequence[Cell]) -> Iterator[None]:
    """Report the steps of all runs while the block runs, wherever they are done."""
    trained = {cell.settings.trainer.label: cell.settings for cell in cells}
    steps = {label: steps_of(one) or 1 for label, one in trained.items()}
    totals = {
        cell.address: steps[cell.settings.trainer.label] * cell.num_trainings
        for cell in cells
    }
    done = dict.fromkeys(totals, 0)

    def looked() -> int:
        for cell in cells:
            if done[cell.address] < totals[cell.address]:
                own = steps[cell.settings.trainer.label]
                done[cell.address] = _steps_done(folder, cell, own)
        return sum(done.values())

    before, ends = looked(), threading.Event()
    with progress.track("Steps", sum(totals.values()), done=before) as advance:

        def look(before: int) -> None:
            while not ends.wait(_LOOK_EVERY):
                now = looked()
                if now > before:
                    advance(now - before)
                    before = now

        looking = threading.Thread(target=look, args=(before,), daemon=True)
        looking.start()
        try:
            yield
        finally:
            ends.set()
            looking.join()


def _steps_done(folder: BenchFolder, cell: Cell, steps: int) -> int:
    """Return how many steps of a run's own trainings its files say are done."""
    lines, own = folder.lines(cell), folder.run_folder(cell)
    if has_ended(lines):
        return steps * cell.num_trainings
    if cell.is_asking and not lines:
        return 0  # the first training is another run's, even where it is not copied
    last = 0
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError):  # none yet
        with own.training_file.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL))
            entry = json.loads(file.read().split(b"\n")[-2])
        if entry["part"] == round_folder(own.path, len(lines)).name:
            last = int(entry["step"])
    return steps * cell.num_trained(len(lines)) + min(steps, last)


def verify(
    folder: BenchFolder, *, seed: int = 0, allow_code: AllowCode = False
) -> Verification:
    """Do a random finished run once more, from nothing, and compare.

    Args:
        folder: The benchmark; nothing in it is changed.
        seed: Decides which run.
        allow_code: Which import paths its strategy and trainer may be.

    Returns:
        What is the same and what is not.

    Raises:
        UsageError: If no run is finished, or if this one needs code that is not
            allowed.
    """
    experiments = folder.experiments().values()
    cells = {cell.address: cell for one in experiments for cell in plan(one).all}
    finished = [cell for cell in cells.values() if folder.is_finished(cell)]
    if not finished:
        msg = f"No run in '{folder.path}' is finished, so none can be verified."
        raise UsageError(msg)
    draw = torch.randint(len(finished), (1,), generator=stream(seed, "verify"))
    cell = finished[int(draw)]
    anew = cell.bare  # whatever strategy and trainer come to now
    s = anew.settings
    check_code(folder.path, [s.strategy.code, s.trainer.code], allow_code)
    with tempfile.TemporaryDirectory(prefix="fewlabels-verify-") as place:
        again = BenchFolder(Path(place))
        do(anew, again)
        then, now = folder.run_folder(cell), again.run_folder(anew)
        return Verification(
            cell, tuple(differences(then, now)), tuple(_changes(then, now))
        )


def differences(one: RunFolder, other: RunFolder) -> Iterator[str]:
    """Yield a sentence for each thing that two runs of the same settings differ in."""

    def short(value: Any) -> str:
        text = repr(value)
        return text if len(text) <= 80 else text[:77] + "..."

    if one.start() != other.start():
        yield "They begin with different labels."
    lines, again = one.lines(), other.lines()
    if len(lines) != len(again):
        yield f"They have {len(lines)} and {len(again)} rounds."
    for line, repeated in zip(lines, again, strict=False):
        before, now = line.model_dump(mode="json"), repeated.model_dump(mode="json")
        for name in before:
            if before[name] != now[name]:
                was, is_now = short(before[name]), short(now[name])
                yield f"Round {line.step}: {name} was {was} and is now {is_now}."


def _changes(then: RunFolder, again: RunFolder) -> Iterator[str]:
    before, now = then.description(), again.description()
    for name in environment():
        if before.get(name) != now[name]:
            yield f"{name} was {before.get(name)} and is now {now[name]}."
    for change in made_changes(then.made(), again.made()):
        yield f"{change[0].upper()}{change[1:]}."
    if not are_same_data(before["data"], now["data"]):
        yield "The data are not those that the run was done on."
