"""What an experiment will cost, said before it begins."""

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch

from fewlabels import training
from fewlabels.errors import UsageError
from fewlabels.experiments.acquisition import hidden, starting_answers
from fewlabels.experiments.bench.experiment import Cell, Experiment, plan, steps_of
from fewlabels.experiments.bench.folder import BenchFolder
from fewlabels.experiments.bench.runner import pool_of
from fewlabels.rng import stream

_HOUR = 3600.0
_MEGABYTE = 1e6


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

    @property
    def seconds_per_training(self) -> float:
        """Seconds of one worker for one training."""
        return self.seconds_per_step * (self.steps or 1)

    @property
    def hours(self) -> float:
        """Hours that what is left will take, all workers busy."""
        busy = min(self.num_workers, max(1, self.num_cells - self.num_finished))
        return self.num_trainings_left * self.seconds_per_training / busy / _HOUR


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
    todo = plan(experiment)
    missing = folder.missing(todo.all)
    left = sum(
        cell.num_trainings - cell.num_trained(len(folder.lines(cell)))
        for cell in missing
    )
    steps = steps_of(experiment.conditions[0].settings)
    source = "measured now"
    if seconds_per_step is None:
        taken = [  # by rounds after the first, which may not have been trained
            sum(v for k, v in entry.items() if k.endswith("_seconds"))
            for cell in todo.cells
            for entry in folder.timings(cell)[1:]
        ]
        source = "measured in runs that are finished"
        if taken:
            seconds_per_step = sum(taken) / len(taken) / (steps or 1)
        else:
            source = "expected on one core"
            seconds_per_step = experiment.footprint.seconds_per_step
    trainings = num_trainings([experiment])
    return ExperimentCost(
        num_cells=len(todo.all),
        num_finished=len(todo.all) - len(missing),
        num_trainings=trainings,
        num_trainings_left=left,
        num_other=trainings - num_trainings([experiment], other_readings=False),
        steps=steps,
        seconds_per_step=seconds_per_step,
        source=source,
        num_workers=num_workers,
        disk=left * experiment.footprint.megabytes * _MEGABYTE,
    )


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
    cells: dict[str, Cell] = {}
    for experiment in experiments:
        kept = tuple(
            one
            for one in experiment.conditions
            if other_readings or not one.is_other_reading
        )
        todo = plan(experiment.model_copy(update={"conditions": kept}))
        cells |= {cell.address: cell for cell in todo.all}
    return sum(cell.num_trainings for cell in cells.values())


def free_space(path: Path) -> float:
    """Return the free bytes of the disk on which a folder is, or will be."""
    there = path.resolve()
    while not there.exists():
        there = there.parent
    return float(shutil.disk_usage(there).free)


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
    if steps_of(settings) is None or num_steps < 1:
        raise UsageError(
            f"{num_steps} steps of '{settings.trainer.name}' cannot be measured; give "
            "at least one step, and a trainer that trains in steps."
        )
    few = training.resolve(
        settings.trainer.name, {**settings.trainer.options, "steps": num_steps}
    )
    torch.set_num_threads(settings.threads)  # as a worker does
    pool = pool_of(settings)
    answers = starting_answers(pool, settings.budget, settings.seed, trainer=few)
    known = hidden(pool, settings.budget).with_answers(answers)
    began = time.perf_counter()
    few.fit(known, stream(settings.seed, "train", 0))
    return (time.perf_counter() - began) / num_steps
