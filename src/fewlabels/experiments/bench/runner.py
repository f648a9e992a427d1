"""Do the missing runs of an experiment, repeat a finished one, estimate the cost.

Every engine calls :func:`work`, so that where a run is done changes nothing in it.
"""

import reprlib
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import torch

from fewlabels import data, files, progress, training
from fewlabels.errors import FewlabelsError, RunError, RunInUseError, UsageError
from fewlabels.experiments.acquisition import hidden, starting_answers
from fewlabels.experiments.bench.experiment import Cell, Experiment, checked, plan
from fewlabels.experiments.bench.folder import BenchFolder, Failure
from fewlabels.experiments.conformance.problems import describe_error
from fewlabels.experiments.runs import RunFolder, are_same_data, environment, execute
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.jobs import Executor, LocalExecutor, startable
from fewlabels.names import AllowCode, check_code, identity
from fewlabels.pool import Pool
from fewlabels.protocols import Trainer
from fewlabels.rng import stream

PUBLISHED_STEPS = {
    "A100 in mixed precision": (6 / 2**20, "kekmodel/FixMatch-pytorch, issue 45"),
    "V100": (4 * 16 / 2**20, "LeeDoYup/FixMatch-pytorch, issue 1: 16 hours on four"),
    "RTX 2080 Ti": (5.5 / 60 / 1000, "LeeDoYup/FixMatch-pytorch, issue 8"),
}
"""Hours per step of FixMatch as published, WRN-28-2 and 64 + 2 x 448 images of 32 x 32,
by GPU, and where on github.com that is said."""

_PUBLISHED_IMAGES = 960


class Ended(NamedTuple):
    """A run that a worker has ended."""

    cell: Cell
    error: str | None = None
    """What went wrong; None if it is finished."""

    def __str__(self) -> str:
        return f"{self.cell.label}: {self.error or 'finished'}"


class Verification(NamedTuple):
    """The outcome of doing a run again."""

    cell: Cell
    differences: tuple[str, ...]
    """What is not the same, a sentence each; empty if all is."""
    changes: tuple[str, ...]
    """What differs between then and now around the run: versions, machine, data, the
    options and code of strategy and trainer."""


def run(
    experiment: Experiment,
    folder: BenchFolder | Path | str,
    executor: Executor | None = None,
    *,
    tensorboard: bool = False,
    predictions: bool = False,
) -> Iterator[Ended]:
    """Do every run of an experiment that is not finished.

    Runs that others begin like come first. If one of them fails, the others do its part
    themselves.

    Args:
        experiment: What to do; it is asked for in the folder.
        folder: Where.
        executor: Who does the runs; by default processes of this machine. A worker that
            is killed is replaced, and its run goes on where it was; one that is killed
            again and again has failed.
        tensorboard: Write the curves of all trainings for TensorBoard too.
        predictions: Write the probabilities of each round into its folder.

    Yields:
        Each run as it ends, finished or failed.
    """
    folder = BenchFolder.of(folder)
    folder.open()
    experiment = checked(experiment)
    folder.ask_for(experiment)
    executor = executor or LocalExecutor()
    todo, tried = plan(experiment), list[Cell]()
    extras = {"tensorboard": tensorboard, "predictions": predictions}
    done, total = len(todo.all) - len(folder.missing(todo.all)), len(todo.all)
    with ExitStack() as stack:
        with progress.shown():
            advance = stack.enter_context(progress.track("Runs", total, done=done))
        for group in (todo.beginnings, todo.all):
            cells = folder.missing(cell for cell in group if cell not in tried)
            tried += cells
            for ended in run_cells(cells, folder, executor, **extras):
                yield ended
                advance(1)  # below what the caller printed


def run_cells(
    cells: Sequence[Cell], folder: BenchFolder, executor: Executor, **extras: bool
) -> Iterator[Ended]:
    """Do runs side by side; see :func:`run`.

    Yields:
        Each run as it ends, finished or failed.
    """
    root = folder.path.absolute()
    common = {"root": str(root), **extras}
    orders = [common | {"settings": cell.settings.model_dump_json()} for cell in cells]
    with closing(executor.run(f"{__name__}:work", orders, root)) as running:
        for number, end in running:
            cell = cells[number]
            if end["event"] == "done":
                yield Ended(cell, end["result"])
            else:  # write down what the worker could not
                error, log = end["reason"], end.get("traceback") or end.get("printed")
                failure = Failure(label=cell.label, error=error, traceback=log or "")
                folder.write_failure(cell, failure)
                yield Ended(cell, error)


@startable
def work(
    root: str, settings: str, *, allow_code: AllowCode = True, **extras: bool
) -> str | None:
    """Do one run of a benchmark, or go on with it; never raise for what fails in it.

    Arguments and result are text, so that they can be sent anywhere.

    Args:
        root: The folder of the benchmark.
        settings: The settings of the run, as JSON.
        allow_code: Which import paths the settings may name; a job always says so.
        **extras: What to write besides; see :func:`run`.

    Returns:
        None if the run is finished, else what went wrong in a sentence; it is also
        written down in the folder, unless another process is at work on the run.
    """
    cell = Cell(RunSettings.model_validate_json(settings))
    check_code("job", cell.settings.code, allow_code)
    folder = BenchFolder(Path(root))
    folder.clear_failure(cell)
    try:
        do(cell, folder, **extras)
    except RunInUseError as error:
        return str(error)
    except RunError as error:
        failure = folder.damage(cell, error)
    except FewlabelsError as error:
        failure = Failure(label=cell.label, error=str(error))
    except Exception as error:  # noqa: BLE001 - one run must not stop the others
        text, trace = describe_error(error), "".join(traceback.format_exception(error))
        failure = Failure(label=cell.label, error=text, traceback=trace)
    else:
        return None
    folder.write_failure(cell, failure)
    return failure.error


def do(
    cell: Cell,
    folder: BenchFolder,
    *,
    tensorboard: bool = False,
    predictions: bool = False,
) -> None:
    """Do one run in its place of a benchmark's folder.

    Args:
        cell: The run.
        folder: The benchmark. Where the run that it begins like is there, its first
            training is taken from it.
        tensorboard: Write curves for TensorBoard too.
        predictions: Write the probabilities of each round too.
    """
    settings, first, beginning = cell.settings, cell.beginning, None
    # One that is not finished is damaged, has failed or is being done by another.
    if first is not None and folder.is_finished(first):
        beginning = folder.run_folder(first).path
    torch.set_num_threads(settings.threads)
    own, pool = folder.run_folder(cell), pool_of(settings.data.model_dump_json())
    with own.listening(tensorboard=tensorboard), _noted(folder, cell):
        for _ in execute(
            settings, own.path, pool, beginning=beginning, predictions=predictions
        ):
            pass


@lru_cache(maxsize=1)
def pool_of(choice: str) -> Pool:
    """Return the data of a choice in JSON, loaded once for all runs on them."""
    chosen = Choice.model_validate_json(choice)
    return data.load(chosen.name, **chosen.options)


@contextmanager
def _noted(folder: BenchFolder, cell: Cell) -> Iterator[None]:
    """Write the warnings of this package in the block into a file, each once.

    Nothing is written for a run that has not begun: it would not know its own folder.
    """
    texts: dict[str, None] = {}
    try:
        ignored = warnings.catch_warnings(action="ignore")
        with ignored, progress.redirect_warnings(texts.setdefault):
            yield
    finally:
        known = folder.result(cell).notes
        if folder.run_folder(cell).settings_file.exists():
            for text in [text for text in texts if text not in known]:
                files.append_entry(folder.notes_file(cell), {"note": text})


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
    runs = map(plan, folder.experiments().values())
    cells = {cell.address: cell for planned in runs for cell in planned.all}
    finished = [cell for cell in cells.values() if folder.is_finished(cell)]
    if not finished:
        raise UsageError(
            f"No run in '{folder.path}' is finished; do 'fewlabels bench run' first."
        )
    draw = torch.randint(len(finished), (1,), generator=stream(seed, "verify"))
    cell = finished[int(draw)]
    anew = Cell(cell.settings.bare)  # with the strategy and trainer of now
    check_code(folder.path, anew.settings.code, allow_code)
    with tempfile.TemporaryDirectory(prefix="fewlabels-verify-") as place:
        again = BenchFolder(Path(place))
        do(anew, again)
        then, now = folder.run_folder(cell), again.run_folder(anew)
        changes = tuple(_changes(then, now))
        return Verification(cell, tuple(differences(then, now)), changes)


def differences(first: RunFolder, second: RunFolder) -> Iterator[str]:
    """Yield a sentence for each difference between two runs of the same settings."""
    if first.start() != second.start():
        yield "They begin with different labels."
    lines, again = first.lines(), second.lines()
    if len(lines) != len(again):
        yield f"They have {len(lines)} and {len(again)} rounds."
    for line, repeated in zip(lines, again, strict=False):
        now = repeated.model_dump(mode="json")
        before = line.model_dump(mode="json", exclude_unset=True)  # of an older version
        for name in before:
            if before[name] != now[name]:
                was, is_now = reprlib.repr(before[name]), reprlib.repr(now[name])
                yield f"Round {line.step}: {name} was {was} and is now {is_now}."


def _changes(then: RunFolder, again: RunFolder) -> Iterator[str]:
    before, now = then.description(), again.description()
    for name in environment():
        if before.get(name) != now[name]:
            yield f"{name} was {before.get(name)} and is now {now[name]}."
    for change in then.settings().changes(again.settings()):
        yield f"{change[0].upper()}{change[1:]}."
    if not are_same_data(before["data"], now["data"]):
        yield "The data are not those that the run was done on."


# --------------------------------------------------------------------------------- cost


@dataclass(frozen=True, kw_only=True)
class ExperimentCost:
    """Runs, trainings, time and disk of an experiment, and what of it is left."""

    num_cells: int
    """Runs of the comparison, with those that others begin like and retrainings."""
    num_finished: int
    num_trainings: int
    num_trainings_left: int
    num_other: int
    """Trainings that only another reading of the paper needs, of all."""
    steps: int | None
    """Optimizer steps of one training; None for a trainer that has none."""
    seconds_per_step: float
    """Of one worker; of a whole training where it has no steps."""
    source: str
    """Where that figure comes from."""
    num_workers: int
    disk: float
    """Bytes that what is left will take."""
    gpu_hours: Mapping[str, float] = field(default_factory=dict)
    """Hours of one GPU for what is left, by its name, see :data:`PUBLISHED_STEPS`; none
    for a network whose steps nobody published."""

    @property
    def core_days(self) -> float:
        """Days of one core for what is left."""
        return self.num_trainings_left * self.seconds_per_training / 86400

    @property
    def seconds_per_training(self) -> float:
        """Seconds of one worker for one training."""
        return self.seconds_per_step * (self.steps or 1)

    @property
    def hours(self) -> float:
        """Hours that what is left will take, all workers busy."""
        busy = min(self.num_workers, max(1, self.num_cells - self.num_finished))
        return self.num_trainings_left * self.seconds_per_training / busy / 3600


def estimate(
    experiment: Experiment,
    folder: BenchFolder,
    *,
    num_workers: int,
    seconds_per_step: float | None = None,
) -> ExperimentCost:
    """Return what an experiment will cost.

    Args:
        experiment: What to do.
        folder: Where; what is finished there costs nothing, and tells how long the rest
            will take.
        num_workers: How many runs are done at a time.
        seconds_per_step: What was measured on this machine; by default what finished
            runs took, or what the experiment says.

    Returns:
        The cost.
    """
    chosen = experiment.conditions[0].settings.trainer
    trainer = training.resolve(chosen.name, chosen.options)
    runs, steps = plan(experiment).all, trainer.num_steps
    results, source = [folder.result(cell) for cell in runs], "measured now"
    left = sum(
        result.cell.num_trainings - result.cell.num_trained(len(result.lines))
        for result in results
        if not result.is_finished
    )
    if seconds_per_step is None:
        taken = [  # by rounds after the first, which may not have been trained
            sum(v for k, v in entry.items() if k.endswith("_seconds"))
            for result in results
            for entry in result.timings[1:]
        ]
        seconds_per_step = experiment.footprint.seconds_per_step
        source = "expected on one core"
        if taken:
            seconds_per_step = fmean(taken) / (steps or 1)
            source = "measured in runs that are finished"
    trainings = num_trainings([experiment])
    return ExperimentCost(
        num_cells=len(runs),
        num_finished=sum(result.is_finished for result in results),
        num_trainings=trainings,
        num_trainings_left=left,
        num_other=trainings - num_trainings([experiment], other_readings=False),
        steps=steps,
        seconds_per_step=seconds_per_step,
        source=source,
        num_workers=num_workers,
        disk=left * experiment.footprint.megabytes * 1e6,
        gpu_hours=_gpu_hours(trainer, left),
    )


def _gpu_hours(trainer: Trainer, num_trainings: int) -> dict[str, float]:
    """Return the hours of some trainings by GPU, if the network is a published one."""
    options = identity(trainer).options
    if options.get("network") != "wrn-28-2":
        return {}
    images = options["minibatch_size"] * (1 + 2 * options.get("mu", 0))
    steps = num_trainings * options["steps"] * images / _PUBLISHED_IMAGES
    return {gpu: steps * hours for gpu, (hours, _) in PUBLISHED_STEPS.items()}


def num_trainings(
    experiments: Iterable[Experiment], *, other_readings: bool = True
) -> int:
    """Return how many networks some experiments train together.

    Args:
        experiments: What to do; runs that several of them need count once.
        other_readings: Whether second readings of the paper count.

    Returns:
        The number.
    """
    numbers: dict[str, int] = {}
    for each in experiments:
        kept = [c for c in each.conditions if other_readings or not c.is_other_reading]
        planned = plan(each.copy_with(conditions=tuple(kept)))
        numbers |= {cell.address: cell.num_trainings for cell in planned.all}
    return sum(numbers.values())


def measure(experiment: Experiment, num_steps: int) -> float:
    """Train a few steps, as the last round of the experiment's first run would.

    Args:
        experiment: What to measure; its data are loaded.
        num_steps: How many steps.

    Returns:
        Seconds per step on this machine.

    Raises:
        UsageError: If the trainer has no steps, or none are asked for.
    """
    settings = experiment.conditions[0].settings
    name, options = settings.trainer.name, settings.trainer.options
    if training.resolve(name, options).num_steps is None or num_steps < 1:
        raise UsageError(
            f"{name!r} cannot train {num_steps} steps; measure 1 or "
            "more, with a trainer that takes steps."
        )
    few = training.resolve(name, {**options, "steps": num_steps})
    torch.set_num_threads(settings.threads)  # as a worker does
    pool = pool_of(settings.data.model_dump_json())
    answers = starting_answers(pool, settings.budget, settings.seed, trainer=few)
    known = hidden(pool, settings.budget).with_answers(answers)
    began = time.perf_counter()
    few.fit(known, stream(settings.seed, "train", 0))
    return (time.perf_counter() - began) / num_steps
