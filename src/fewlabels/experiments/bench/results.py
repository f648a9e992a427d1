"""What the runs of an experiment came to, read from the folder of a benchmark.

Shapes: S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import RunError
from fewlabels.experiments.bench.experiment import (
    Cell,
    Condition,
    Experiment,
    cell_of,
    noise_cells,
)
from fewlabels.experiments.bench.folder import BenchFolder, Failure
from fewlabels.experiments.run_folder import RoundLine, has_ended


@dataclass(frozen=True, eq=False)
class CellResult:
    """What one run came to."""

    strategy: str
    """Label of the strategy."""
    seed: int
    cell: Cell
    notes: tuple[str, ...]
    """What the run had to say."""
    failure: Failure | None
    description: dict[str, Any] = field(default_factory=dict)
    """Content of ``run.json``; empty if the run has not begun."""
    start: tuple[str, ...] = ()
    """Ids that the run began with."""
    lines: tuple[RoundLine, ...] = ()
    """Its finished rounds."""
    timings: tuple[dict[str, Any], ...] = ()
    """What was measured of each besides its result."""

    @property
    def is_finished(self) -> bool:
        """Whether the run has come to its end."""
        return has_ended(self.lines)

    @property
    def accuracies(self) -> dict[int, float]:
        """Accuracy by number of labels, of the rounds that were measured."""
        return {
            line.num_labeled: line.accuracy
            for line in self.lines
            if line.accuracy is not None
        }

    def acquired(self, num_labels: int) -> tuple[str, ...]:
        """Return ids that were asked for until there were so many labels.

        The starting set is not among them.
        """
        return tuple(
            name for line in self.lines if line.num_labeled < num_labels
            for name in line.ids
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """What all strategies and seeds came to under one condition."""

    condition: Condition
    cells: tuple[CellResult, ...]
    strategies: tuple[str, ...]
    """Labels, in the order of the tables."""
    seeds: tuple[int, ...]

    def of(self, strategy: str, seed: int) -> CellResult:
        """Return the run of one strategy with one seed."""
        return next(
            one for one in self.cells if (one.strategy, one.seed) == (strategy, seed)
        )

    def runs(self, strategy: str) -> tuple[CellResult, ...]:
        """Return the runs of one strategy, in the order of the seeds."""
        return tuple(self.of(strategy, seed) for seed in self.seeds)

    @cached_property
    def num_labels(self) -> tuple[int, ...]:
        """Numbers of labels at which accuracy was measured, ascending."""
        return tuple(sorted({n for one in self.cells for n in one.accuracies}))

    def accuracies(
        self, strategy: str, seeds: Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Return accuracies (S, T) as shares; NaN where a run is not so far."""
        chosen = self.seeds if seeds is None else seeds
        rows = [self.of(strategy, seed).accuracies for seed in chosen]
        nothing = float("nan")
        return np.array(
            [[row.get(n, nothing) for n in self.num_labels] for row in rows],
            dtype=np.float64,
        ).reshape(len(rows), len(self.num_labels))

    @cached_property
    def complete_seeds(self) -> tuple[int, ...]:
        """Seeds with which every strategy has finished: those that can be paired."""
        return tuple(
            seed
            for seed in self.seeds
            if all(self.of(name, seed).is_finished for name in self.strategies)
        )


@dataclass(frozen=True, eq=False)
class Results:
    """What an experiment came to so far."""

    experiment: Experiment
    conditions: tuple[ConditionResults, ...]
    noise: tuple[float, ...]
    """Accuracies of trainings on one label set."""

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """Every run of the comparison."""
        return tuple(cell for one in self.conditions for cell in one.cells)

    @property
    def num_finished(self) -> int:
        """How many of them are finished."""
        return sum(cell.is_finished for cell in self.cells)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why runs failed."""
        return tuple(cell.failure for cell in self.cells if cell.failure is not None)


def read_results(folder: BenchFolder, experiment: Experiment) -> Results:
    """Read what the runs of an experiment came to; unfinished ones as far as they are.

    A run whose files are damaged counts as failed.

    Args:
        folder: The benchmark.
        experiment: One that was asked for in it.

    Returns:
        The results.
    """
    strategies = tuple(strategy.label for strategy in experiment.strategies)
    conditions = [
        ConditionResults(
            condition=condition,
            cells=tuple(
                _result(
                    folder, strategy.label, seed, cell_of(condition, strategy, seed)
                )
                for strategy in experiment.strategies
                for seed in experiment.seeds_of(condition)
            ),
            strategies=strategies,
            seeds=experiment.seeds_of(condition),
        )
        for condition in experiment.conditions
    ]
    retrained = [
        line.accuracy
        for cell in noise_cells(experiment)
        if folder.is_finished(cell)
        for line in folder.lines(cell)[-1:]
    ]
    return Results(
        experiment=experiment,
        conditions=tuple(conditions),
        noise=tuple(one for one in retrained if one is not None),
    )


def _result(folder: BenchFolder, strategy: str, seed: int, cell: Cell) -> CellResult:
    own = folder.run_folder(cell)
    result = CellResult(
        strategy, seed, cell, folder.notes(cell), failure=folder.failure(cell)
    )
    try:
        return replace(
            result,
            description=own.description() if own.settings_file.exists() else {},
            start=tuple(own.start() or ()),
            lines=tuple(own.lines()),
            timings=tuple(folder.timings(cell)),
        )
    except RunError as error:
        return replace(result, failure=folder.damage(cell, error))
