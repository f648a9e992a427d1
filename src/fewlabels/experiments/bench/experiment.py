"""Experiments as plain data, and cells: the runs that an experiment consists of.

A cell is named by its content. Two experiments that need the same run share it, and a
run that is asked for again is not repeated.
"""

import json
import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from pydantic import Field, field_validator, model_validator

from fewlabels import data, strategies, training
from fewlabels.errors import UnknownNameError, UsageError, check_distinct
from fewlabels.experiments.acquisition import query_size
from fewlabels.experiments.bench.published import PublishedTable
from fewlabels.experiments.settings import (
    Choice,
    FrozenModel,
    RunSettings,
    SeedOptions,
    read_mapping,
    settled,
    validated,
)
from fewlabels.names import AllowCode, check_code, identity

Scale = Literal["paper", "cpu"]
"""``"paper"``: the settings of the paper, for GPUs; ``"cpu"``: for two cores."""

Figure = Literal["accuracy", "overlap", "redundancy", "savings"]
"""What the report of an experiment is about."""

MOST_RUNS = 100_000
"""Runs that an experiment consists of at most; each is planned one by one."""

_LONGEST_NAME = 100  # bytes; file systems allow 255, with what is put behind it
_VERSION = 2  # of addresses; to be raised when the same settings mean something else
_ADDRESS_LENGTH = 16
_LIKE = "Give a YAML file with the fields of an experiment; begin with 'name: mine'."


class Footprint(FrozenModel):
    """What one training costs, measured once, to say beforehand what all will cost."""

    seconds_per_step: float = Field(ge=0, allow_inf_nan=False)
    """Seconds of one core for one optimizer step, all else of a round included."""
    megabytes: float = Field(ge=0, allow_inf_nan=False)
    """What a finished training keeps on the disk."""


class Condition(FrozenModel):
    """The settings of some runs, but for strategy and seed."""

    name: str = ""
    """What tells it from the other conditions; empty where there is one only."""
    settings: RunSettings
    """Settings of its runs; strategy and seed are put in for each."""
    is_other_reading: bool = False
    """Whether it stands for a second way to understand what a paper left open, so that
    its runs are not among those that the paper did."""
    num_seeds: int | None = Field(default=None, ge=1)
    """With how many of the experiment's seeds, the first ones; None: with all."""
    own_pools: bool = False
    """Whether each seed draws a pool of its own from the data, as their ``counts`` say;
    else it draws the starting labels and all random numbers alone."""

    def over(self, encoder: str) -> "Condition":
        """Return the condition with features of another encoder."""
        return self.copy_with(settings=self.settings.over(encoder))


class Experiment(FrozenModel):
    """Strategies compared under some conditions, with the same seeds for all."""

    name: str
    """A word that can name a file."""
    title: str = ""
    """Heading of its report."""
    about: str = ""
    """What it shows, and how it departs from what it stands for, in a few sentences."""
    scale: Scale = "cpu"
    conditions: tuple[Condition, ...]
    strategies: tuple[Choice, ...]
    """What is compared, in the order of the tables."""
    seeds: tuple[int, ...]
    """One run of each strategy under each condition for each of these, unless a
    condition takes fewer; a number means the first so many, from 0."""
    subject: str = ""
    """Name of the strategy that the headline is about; empty: all of them."""
    retrainings: int = Field(default=0, ge=0, le=MOST_RUNS)
    """Trainings on one label set of the budget's size, random and even over the
    classes, to see how much of the spread is the chance of training; 0: none."""
    figures: tuple[Figure, ...] = ("accuracy",)
    published: tuple[PublishedTable, ...] = ()
    """What the paper printed for it."""
    footprint: Footprint = Footprint(seconds_per_step=0.025, megabytes=1)
    """What a training costs; by default what the preset ``small`` takes."""

    def seeds_of(self, condition: Condition) -> tuple[int, ...]:
        """Return the seeds of one condition."""
        return self.seeds[: condition.num_seeds]

    def continues(self, before: "Experiment") -> bool:
        """Return whether the runs of an earlier experiment belong to this one.

        They do if the conditions are the same, and trainers have the same identity
        where that was written down.
        """
        return len(before.conditions) == len(self.conditions) and all(
            then.copy_with(settings=now.settings) == now
            and not then.settings.changes(now.settings)
            for then, now in zip(before.conditions, self.conditions, strict=True)
        )

    @field_validator("name")
    @classmethod
    def _can_name_files(cls, name: str) -> str:
        if not re.fullmatch(r"\w[\w.-]*", name) or len(name.encode()) > _LONGEST_NAME:
            allowed = f"digits, '_', '-' and '.', at most {_LONGEST_NAME} bytes"
            raise ValueError(f"files are named by it; give letters, {allowed}")
        return name

    @field_validator("seeds", mode="before")
    @classmethod
    def _first_seeds(cls, given: Any) -> Any:
        return range(min(given, MOST_RUNS + 1)) if isinstance(given, int) else given

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return [("name", self.name), ("strategies", [c.label for c in self.strategies])]

    @model_validator(mode="after")
    def _tells_runs_apart(self) -> Self:
        """Refuse what would put two runs into one place of a table, or none."""
        parts = {
            "condition": [condition.name for condition in self.conditions],
            "strategy": [strategy.label for strategy in self.strategies],
            "seed": list(map(str, self.seeds)),
        }
        for part, values in parts.items():
            if not values:
                raise ValueError(f"an experiment needs a {part}; give at least one")
            check_distinct(part, values)
        num_runs = math.prod(map(len, parts.values()))
        if num_runs > MOST_RUNS:
            raise ValueError(f"it has {num_runs:,} runs; plan {MOST_RUNS:,} at most")
        return self


_NO_QUERY: dict[str, Any] = {"strategy": Choice(name="random"), "query": 1}


@dataclass(frozen=True)
class Cell:
    """One run."""

    settings: RunSettings

    @cached_property
    def address(self) -> str:
        """Name of its folder: a hash of everything that decides its outcome."""
        decisive = [_VERSION, self.settings.model_dump(mode="json")]
        text = json.dumps(decisive, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:_ADDRESS_LENGTH]

    @property
    def is_asking(self) -> bool:
        """Whether it asks for labels; else it trains on the starting set alone."""
        return self.settings.budget > self.settings.start

    @property
    def label(self) -> str:
        """Its name in messages."""
        s = self.settings
        name = s.strategy.label if self.is_asking else "one training"
        return f"{name}, {s.budget} labels, seed {s.seed}"

    @property
    def num_rounds(self) -> int:
        """How many rounds it has."""
        num_labels, number = self.settings.start, 1
        while num_labels < self.settings.budget:
            num_labels += query_size(self.settings.query, number - 1)
            number += 1
        return number

    @property
    def beginning(self) -> "Cell | None":
        """The run that does the first training for all that begin alike.

        None where there is none to share: an untrained network makes the first query,
        or nothing is asked.
        """
        s = self.settings
        if s.zero_shot or not s.start or not self.is_asking:
            return None
        seeds = s.all_seeds
        first = None if seeds.first == seeds.start else seeds.first
        own = {"seed": seeds.start, "seeds": SeedOptions(first=first)}
        return Cell(s.copy_with(budget=s.start, **own, **_NO_QUERY))

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


class ExperimentRuns(NamedTuple):
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
    """Return the runs of an experiment, seed by seed: whole comparisons come early."""
    cells = [
        cell_of(condition, strategy, seed)
        for seed in experiment.seeds
        for condition in experiment.conditions
        if seed in experiment.seeds_of(condition)
        for strategy in experiment.strategies
    ]
    beginnings = _distinct(first for cell in cells if (first := cell.beginning))
    return ExperimentRuns(beginnings, _distinct(cells), noise_cells(experiment))


def cell_of(condition: Condition, strategy: Choice, seed: int) -> Cell:
    """Return the run of one strategy with one seed under one condition."""
    pool = condition.settings.data
    if condition.own_pools:
        pool = pool.copy_with(options=pool.options | {"seed": seed})
    return Cell(condition.settings.copy_with(data=pool, strategy=strategy, seed=seed))


def noise_cells(experiment: Experiment) -> tuple[Cell, ...]:
    """Return trainings on one label set, as large as the first condition's budget.

    The set does not depend on the seeds of the experiment, so that more seeds add none.
    """
    first = experiment.conditions[0].settings
    base = first.copy_with(start=first.budget, seeds=SeedOptions(start=0), **_NO_QUERY)
    base = base.copy_with(initial_models=1, zero_shot=False)
    numbers = range(experiment.retrainings)
    return tuple(Cell(base.copy_with(seed=seed)) for seed in numbers)


def _distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple({cell.address: cell for cell in cells}.values())


def read_experiment(file: Path, *, allow_code: AllowCode = False) -> Experiment:
    """Return the experiment that a YAML file describes.

    Args:
        file: One with the fields of :class:`Experiment`.
        allow_code: Which import paths it may name.

    Returns:
        The experiment with its strategies and trainers resolved. A :class:`UsageError`
        says that the file cannot be read, names code that is not allowed, or has a
        wrong field.
    """
    content = read_mapping(file, kind="experiment", like=_LIKE)
    try:
        experiment = validated(Experiment, content)
        code = [condition.settings.code for condition in experiment.conditions]
        code += [strategy.code for strategy in experiment.strategies]
        check_code(file, code, allow_code)
        return checked(experiment)
    except UsageError as error:
        raise UsageError(f"The experiment '{file}' cannot be done. {error}") from error


def checked(experiment: Experiment) -> Experiment:
    """Return an experiment if all its parts fit; quick, before anything is loaded.

    Args:
        experiment: One that may have been changed.

    Returns:
        The same, with the identities of its strategies and trainers: results are kept
        apart if a default changes in a later version, or if somebody edits a strategy
        or trainer. Identities that are known already stay. A :class:`UsageError` says
        what does not fit.
    """

    def known(choice: Choice, resolve: Callable[..., object]) -> Choice:
        made = identity(resolve(choice.name, choice.options))
        return choice if choice.made else choice.copy_with(made=made)

    experiment, conditions = validated(Experiment, experiment.model_dump()), []
    for condition in experiment.conditions:
        settings, name = settled(condition.settings), condition.settings.data.name
        is_known = name in data.names() or settings.data_code
        if not is_known and not os.path.exists(name):  # noqa: PTH110
            raise UnknownNameError("data set, file or folder", name, data.names())
        trainer = known(settings.trainer, training.resolve)
        settings = settings.copy_with(trainer=trainer)
        conditions.append(condition.copy_with(settings=settings))
    compared = [known(choice, strategies.resolve) for choice in experiment.strategies]
    return experiment.copy_with(conditions=(*conditions,), strategies=(*compared,))
