"""Cells: the runs that an experiment consists of, each named by its content.

Two experiments that need the same run share it, and a run that is asked for again is
found and not repeated.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from fewlabels.bench.experiment import Condition, Experiment
from fewlabels.loop import Seeds, query_size
from fewlabels.runs import Choice, RunSettings, SeedOptions

_VERSION = 2  # to be raised when the same settings come to mean something else
_LENGTH = 16


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
        """The same run, whatever its strategy and trainer came to.

        Its address is where earlier versions, which did not look at that, put it.
        """
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
        shared = s.model_copy(
            update={
                "strategy": Choice(name="random"),
                "query": 1,
                "budget": s.start,
                "seed": s.all_seeds.start,
                "seeds": _first_only(s.all_seeds),
            }
        )
        return Cell(shared)

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


def _first_only(seeds: Seeds) -> SeedOptions:
    """Name the seed of the first training where it is not that of the start."""
    return SeedOptions(first=None if seeds.first == seeds.start else seeds.first)


def _distinct(cells: Iterable[Cell]) -> tuple[Cell, ...]:
    return tuple({cell.address: cell for cell in cells}.values())
