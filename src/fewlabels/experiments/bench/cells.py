"""Cells: the runs that an experiment consists of, each named by its content.

Two experiments that need the same run share it, and a run that is asked for again is
found and not repeated.
"""

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from fewlabels import data
from fewlabels.errors import UsageError
from fewlabels.experiments.acquisition import query_size
from fewlabels.experiments.bench.experiment import Condition, Experiment, resolved
from fewlabels.experiments.execution import check_choices
from fewlabels.experiments.settings import (
    Choice,
    RunSettings,
    SeedOptions,
    read_mapping,
    settled,
    validated,
)
from fewlabels.names import AllowCode, check_code

_VERSION = 2  # to be raised when the same settings come to mean something else
_LENGTH = 16
_LIKE = "Give a YAML file with the fields of an experiment; begin with 'name: mine'."


@dataclass(frozen=True)
class Cell:
    """One run."""

    settings: RunSettings

    @cached_property
    def address(self) -> str:
        """Name of its folder: a hash of everything that decides its outcome."""
        decisive = [_VERSION, self.settings.model_dump(mode="json")]
        text = json.dumps(decisive, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:_LENGTH]

    @property
    def bare(self) -> "Cell":
        """The same run, whatever its strategy and trainer came to."""
        return Cell(self.settings.bare)

    @property
    def is_asking(self) -> bool:
        """Whether it asks for labels; else it trains on the starting set alone."""
        return self.settings.budget > self.settings.start

    @property
    def label(self) -> str:
        """What people call it."""
        s = self.settings
        name = s.strategy.label if self.is_asking else "one training"
        return f"{name}, {s.budget} labels, seed {s.seed}"

    @property
    def num_rounds(self) -> int:
        """How many rounds it has."""
        s = self.settings
        number, num_labels = 0, s.start
        while num_labels < s.budget:
            num_labels += query_size(s.query, number)
            number += 1
        return 1 + number

    @property
    def beginning(self) -> "Cell | None":
        """The run that does the first training for all that begin alike.

        None where there is none to share: an untrained network makes the first query.
        """
        s = self.settings
        if s.zero_shot or not s.start:
            return None
        seeds = s.all_seeds
        first = None if seeds.first == seeds.start else seeds.first
        changes = {
            "strategy": Choice(name="random"),
            "query": 1,
            "budget": s.start,
            "seed": seeds.start,
            "seeds": SeedOptions(first=first),
        }
        return Cell(s.model_copy(update=changes))

    @property
    def num_trainings(self) -> int:
        """How many networks it trains itself: not the one that it begins with.

        A run that is the beginning of others trains all that it can choose from.
        """
        return self.num_trained(self.num_rounds)

    def num_trained(self, num_rounds: int) -> int:
        """Return how many of these are trained after so many finished rounds."""
        if not self.is_asking:
            return num_rounds * self.settings.initial_models
        return max(0, num_rounds - 1)


@dataclass(frozen=True)
class ExperimentRuns:
    """All runs of an experiment, each once."""

    beginnings: tuple[Cell, ...]
    """Those that others begin like; done first."""
    cells: tuple[Cell, ...]
    """The comparison itself."""
    noise: tuple[Cell, ...]
    """Trainings on one label set."""

    @property
    def all(self) -> tuple[Cell, ...]:
        """Every run, each once, in the order in which they are done."""
        return _distinct([*self.beginnings, *self.cells, *self.noise])


def plan(experiment: Experiment) -> ExperimentRuns:
    """Return the runs that an experiment consists of.

    Args:
        experiment: What to do.

    Returns:
        The runs; seeds first, so that whole comparisons are there early.
    """
    cells = [
        cell_of(condition, strategy, seed)
        for seed in experiment.seeds
        for condition in experiment.conditions
        if seed in experiment.seeds_of(condition)
        for strategy in experiment.strategies
    ]
    begun = [cell.beginning for cell in cells]
    return ExperimentRuns(
        beginnings=_distinct(cell for cell in begun if cell is not None),
        cells=_distinct(cells),
        noise=noise_cells(experiment),
    )


def cell_of(condition: Condition, strategy: Choice, seed: int) -> Cell:
    """Return the run of one strategy with one seed under one condition."""
    return Cell(condition.of(strategy, seed))


def noise_cells(experiment: Experiment) -> tuple[Cell, ...]:
    """Return trainings on one label set, as large as the first condition's budget.

    The set does not depend on the seeds of the experiment, so that more seeds add none.
    """
    base = experiment.conditions[0].settings
    same_set = base.model_copy(
        update={
            "strategy": Choice(name="random"),
            "start": base.budget,
            "query": 1,
            "initial_models": 1,
            "zero_shot": False,
            "seeds": SeedOptions(start=0),
        }
    )
    return tuple(
        Cell(same_set.model_copy(update={"seed": seed}))
        for seed in range(experiment.retrainings)
    )


def _distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple({cell.address: cell for cell in cells}.values())


def read_experiment(file: Path, *, allow_code: AllowCode = False) -> Experiment:
    """Return the experiment that a YAML file describes.

    Args:
        file: One with the fields of :class:`Experiment`.
        allow_code: Which import paths it may name.

    Returns:
        The experiment, its strategies and trainers found. A :class:`UsageError` tells
        that the file cannot be read, names code that is not allowed, or has a wrong
        field.
    """
    content = read_mapping(file, kind="experiment", like=_LIKE)
    try:
        found = validated(Experiment, content)
        settings = [condition.settings for condition in found.conditions]
        chosen = [one for s in settings for one in (s.strategy, s.trainer)]
        code = [one.code for one in (*chosen, *found.strategies)]
    except UsageError as error:
        raise UsageError(f"The experiment '{file}' cannot be done. {error}") from error
    check_code(file, code, allow_code)
    try:
        return checked(found)
    except UsageError as error:
        raise UsageError(f"The experiment '{file}' cannot be done. {error}") from error


def checked(experiment: Experiment) -> Experiment:
    """Return an experiment if all its parts fit; quick, before anything is loaded.

    Args:
        experiment: One that may have been changed.

    Returns:
        The same, with the identities of its strategies and trainers. A
        :class:`UsageError` tells what does not fit.
    """
    found = validated(Experiment, experiment.model_dump())
    conditions = tuple(
        one.model_copy(update={"settings": settled(one.settings)})
        for one in found.conditions
    )
    for name in {one.settings.data.name: None for one in conditions}:
        is_there = name in data.names()  # said once, and not in every run
        with suppress(OSError, ValueError):  # a name that no file can have
            is_there = is_there or Path(name).exists()
        if not is_there:
            raise UsageError(
                f"There is no data set, file or folder called '{name}', so no run "
                f"could begin. Known data sets: {', '.join(data.names())}."
            )
    found = found.model_copy(update={"conditions": conditions})
    for cell in plan(found).all:
        check_choices(cell.settings)
    return resolved(found)
