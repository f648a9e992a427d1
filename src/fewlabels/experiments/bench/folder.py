"""The folder of a benchmark: runs by content, experiments by name, their results.

::

    bench.json               what kind of folder this is
    experiments/NAME.json    what was asked for, all strategies and seeds so far
    cells/ADDRESS/           a run (see :mod:`fewlabels.experiments`), with notes.jsonl
    failures/ADDRESS.json    why a run failed the last time
    reports/NAME/            what `fewlabels bench report` writes
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels import errors, files
from fewlabels.experiments.acquisition import readable
from fewlabels.experiments.bench.experiment import (
    Cell,
    Condition,
    Experiment,
    cell_of,
    checked,
    noise_cells,
    plan,
)
from fewlabels.experiments.runs import (
    MEASURES,
    RoundLine,
    RunFolder,
    has_ended,
    read_json,
)
from fewlabels.experiments.settings import FrozenModel, validated
from fewlabels.names import check_installed

_LOCK = ".fewlabels-lock"
_TIMEOUT = 30.0  # seconds
_COLUMNS = (
    *("condition", "strategy", "seed", "round", "num_labeled"),
    *(*MEASURES, "num_asked", "train_seconds", "query_seconds"),
)
_DESCRIPTION = {"kind": "fewlabels bench", "schema_version": 1}


class Failure(FrozenModel):
    """Why a run failed the last time it was tried."""

    label: str
    """Name of the run in messages."""
    error: str
    """What went wrong, in a sentence."""
    traceback: str = ""
    """Where; empty where the sentence says all, or the process was killed."""


@dataclass(frozen=True, eq=False)
class CellResult:
    """The result of one run, as far as it is."""

    cell: Cell
    description: dict[str, Any] = field(default_factory=dict)
    """Content of ``run.json``; empty if the run has not begun."""
    start: tuple[str, ...] = ()
    """Ids that the run began with."""
    lines: tuple[RoundLine, ...] = ()
    """Its finished rounds."""
    timings: tuple[dict[str, Any], ...] = ()
    """What was measured of each besides its result; nothing where that is damaged."""
    notes: tuple[str, ...] = ()
    """Warnings of the run; none where they are damaged."""
    failure: Failure | None = None
    """Why it failed the last time, or cannot be read."""

    @property
    def is_finished(self) -> bool:
        """Whether the run is finished."""
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
        lines = [line for line in self.lines if line.num_labeled < num_labels]
        return tuple(name for line in lines for name in line.ids)


@dataclass(frozen=True)
class BenchFolder:
    """Paths of a benchmark's files, and how they are read and written."""

    path: Path

    @classmethod
    def of(cls, folder: "BenchFolder | Path | str") -> "BenchFolder":
        """Return the folder at a path; a folder comes back as it is."""
        return folder if isinstance(folder, cls) else cls(Path(str(folder)))

    @property
    def description_file(self) -> Path:
        """``bench.json``: what kind of folder this is."""
        return self.path / "bench.json"

    def run_folder(self, cell: Cell) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(self.path / "cells" / cell.address)

    def notes_file(self, cell: Cell) -> Path:
        """Return the file with what was noted while a run went on."""
        return self.run_folder(cell).path / "notes.jsonl"

    def report_folder(self, name: str) -> Path:
        """Return where the report of an experiment stands."""
        return self.path / "reports" / name

    def open(self) -> None:
        """Make the folder, or check that it is one of a benchmark."""
        self.check_usable()
        if not self.description_file.exists():
            files.make_folder(self.path)
            text = json.dumps(_DESCRIPTION, indent=2) + "\n"
            files.replace_text(self.description_file, text)

    def check_usable(self) -> None:
        """Raise unless the folder is one of a benchmark or can become one."""
        if self.description_file.exists():
            self.check()
        else:
            files.check_empty_folder(self.path, "benchmark")

    def check(self) -> None:
        """Raise unless the folder is one of a benchmark, of this version."""
        content = None
        with suppress(OSError, ValueError):
            content = read_json(self.description_file)
        if content != _DESCRIPTION:
            raise errors.ForeignFolderError(
                f"'{self.path}' does not contain a benchmark of this version: its "
                f"bench.json is missing or not {json.dumps(_DESCRIPTION)}. Give "
                "another folder, one that 'fewlabels bench run' made."
            )

    def experiments(self) -> dict[str, Experiment]:
        """Return the experiments that the folder has, by name."""
        self.check()
        stored = sorted((self.path / "experiments").glob("*.json"))
        return {experiment.name: experiment for experiment in map(_experiment, stored)}

    def asked(self, name: str) -> Experiment | None:
        """Return what was asked for so far under a name; None if nothing was."""
        file = self._experiment_file(name)
        return _experiment(file) if file.exists() else None

    def ask_for(self, experiment: Experiment) -> Experiment:
        """Return what is asked for, stored together with what was asked for earlier.

        The result has all strategies and seeds that were ever asked for; those of now
        alone, if the conditions have changed.
        """
        # As it will be read: a tuple among the options of a trainer is a list there.
        asked = Experiment.model_validate_json(experiment.model_dump_json())
        folder = self.path / "experiments"
        files.make_folder(folder)
        in_use = errors.RunInUseError(
            f"Another process has been writing into '{folder}' for {_TIMEOUT:g} "
            "seconds. Wait for it, then run the same command again."
        )
        with files.hold_lock(folder / _LOCK, in_use, timeout=_TIMEOUT):
            before = self.asked(asked.name)
            if before is not None and asked.continues(before):
                every = (*before.strategies, *asked.strategies)
                asked = asked.copy_with(
                    strategies=(*{choice.label: choice for choice in every}.values(),),
                    seeds=tuple(sorted({*before.seeds, *asked.seeds})),
                    retrainings=max(before.retrainings, asked.retrainings),
                )
            text = files.add_checksum(asked.model_dump_json(indent=2) + "\n")
            files.replace_text(self._experiment_file(asked.name), text)
        return asked

    def result(self, cell: Cell) -> CellResult:
        """Return the result of a run, as far as it is.

        A run whose files are damaged has failed. Two commands may do the same runs: one
        that is finished has not failed, whatever the other one wrote down.
        """
        own, file, result = self.run_folder(cell), self._failure(cell), CellResult(cell)
        with suppress(OSError, ValueError, KeyError, TypeError):
            entries = files.read_entries(self.notes_file(cell))
            result = replace(result, notes=tuple(str(e["note"]) for e in entries))
        with suppress(errors.RunError):
            result = replace(result, timings=tuple(own.timings()))
        try:
            if own.settings_file.exists() or own.rounds_file.exists():
                result = replace(
                    result,
                    description=own.description(),
                    start=tuple(own.start() or ()),
                    lines=tuple(own.lines()),
                )
        except errors.RunError as error:
            return replace(result, failure=self.damage(cell, error))
        if result.is_finished or not file.exists():
            return result
        unknown = f"The reason in '{file}' could not be read; do the run again."
        failure = Failure(label=cell.label, error=unknown)
        with suppress(OSError, ValueError):
            failure = Failure.model_validate_json(file.read_text("utf-8"))
        return replace(result, failure=failure)

    def damage(self, cell: Cell, error: errors.RunError) -> Failure:
        """Return the failure of a run whose files cannot be used."""
        place = self.run_folder(cell).path
        text = f"{error} Or remove '{place}': this run alone is then done again."
        return Failure(label=cell.label, error=text)

    def is_finished(self, cell: Cell) -> bool:
        """Return whether a run is finished, and its files are not damaged."""
        return self.result(cell).is_finished

    def missing(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        """Return the runs that are still to do."""
        return tuple(cell for cell in cells if not self.is_finished(cell))

    def write_failure(self, cell: Cell, failure: Failure) -> None:
        """Write down why a run failed, unless the disk is full too."""
        file = self._failure(cell)
        with suppress(errors.StorageError):
            files.make_folder(file.parent)
            files.replace_text(file, failure.model_dump_json(indent=2) + "\n")

    def clear_failure(self, cell: Cell) -> None:
        """Forget why a run failed, before it is tried again."""
        self._failure(cell).unlink(missing_ok=True)

    def _experiment_file(self, name: str) -> Path:
        return self.path / "experiments" / f"{name}.json"

    def _failure(self, cell: Cell) -> Path:
        return self.path / "failures" / f"{cell.address}.json"


def _experiment(file: Path) -> Experiment:
    with readable(file, "Remove it and run the experiment again"):
        return validated(Experiment, read_json(file))


def outdated(experiment: Experiment, folder: BenchFolder) -> tuple[str, ...]:
    """Return a sentence for each change that left runs of an experiment uncounted.

    A default may change in a later version, and people edit their own strategies and
    trainers. Runs from before have another address: they are kept and never mixed with
    others.
    """
    wanted = {Cell(c.settings.bare).address: c for c in plan(experiment).all}
    changes: Counter[str] = Counter()
    for file in sorted((folder.path / "cells").glob("*/run.json")):
        own = RunFolder(file.parent)
        with suppress(errors.RunError):  # reported when the run is done
            settings = own.settings()
            cell = wanted.get(Cell(settings.bare).address)
            if cell is not None and folder.run_folder(cell).path != own.path:
                for change in settings.changes(cell.settings):
                    part, _, reason = change.partition(": ")
                    name = getattr(cell.settings, part).name
                    changes[f"{part} '{name}': {reason}"] += 1
    return tuple(
        f"{errors.count(number, 'run')} with these settings had another {change}. "
        "Such runs are kept, and not counted here."
        for change, number in changes.items()
    )


# ------------------------------------------------------------------------------ results


@dataclass(frozen=True, eq=False)
class ConditionResults:
    """The results of all strategies and seeds under one condition."""

    condition: Condition
    cells: tuple[CellResult, ...]
    strategies: tuple[str, ...]
    """Labels, in the order of the tables."""
    seeds: tuple[int, ...]

    def of(self, strategy: str, seed: int) -> CellResult:
        """Return the run of one strategy with one seed."""
        return self._by_strategy[strategy, seed]

    @cached_property
    def _by_strategy(self) -> dict[tuple[str, int], CellResult]:
        settings = [(result.cell.settings, result) for result in self.cells]
        return {(s.strategy.label, s.seed): result for s, result in settings}

    def runs(self, strategy: str) -> tuple[CellResult, ...]:
        """Return the runs of one strategy, in the order of the seeds."""
        return tuple(self.of(strategy, seed) for seed in self.seeds)

    @cached_property
    def num_labels(self) -> tuple[int, ...]:
        """Numbers of labels at which accuracy was measured, ascending."""
        return tuple(sorted({n for cell in self.cells for n in cell.accuracies}))

    def accuracies(
        self, strategy: str, seeds: Sequence[int] | None = None
    ) -> NDArray[np.float64]:
        """Return accuracies (S, T) as shares; NaN where a run is not so far."""
        chosen = self.seeds if seeds is None else seeds
        rows = [self.of(strategy, seed).accuracies for seed in chosen]
        cells = [row.get(n, np.nan) for row in rows for n in self.num_labels]
        return np.array(cells, np.float64).reshape(len(rows), len(self.num_labels))

    @cached_property
    def complete_seeds(self) -> tuple[int, ...]:
        """Seeds with which every strategy has finished: those that can be paired."""
        return tuple(
            seed
            for seed in self.seeds
            if all(self.of(name, seed).is_finished for name in self.strategies)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Results:
    """The results of an experiment so far."""

    experiment: Experiment
    conditions: tuple[ConditionResults, ...]
    noise: tuple[float, ...]
    """Accuracies of trainings on one label set."""

    @property
    def cells(self) -> tuple[CellResult, ...]:
        """Every run of the comparison."""
        return tuple(cell for results in self.conditions for cell in results.cells)

    @property
    def num_finished(self) -> int:
        """How many of them are finished."""
        return sum(cell.is_finished for cell in self.cells)

    def __repr__(self) -> str:
        facts = (f"{name}={value}" for name, value in self._facts().items())
        return f"Results({', '.join(facts)})"

    def _repr_html_(self) -> str:
        facts = ((escape(name), escape(v)) for name, v in self._facts().items())
        rows = (f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in facts)
        return f"<table>{''.join(rows)}</table>"

    def _facts(self) -> dict[str, str]:
        finished = f"{self.num_finished} of {len(self.cells)} runs"
        facts = {"experiment": self.experiment.name, "finished": finished}
        for each in self.conditions:
            for name in each.strategies:
                ends = each.accuracies(name, each.complete_seeds)[:, -1:]
                if ends.size:
                    label = f"{each.condition.name} {name}".strip()
                    mean = f"{100 * ends.mean():.1f} %"
                    facts[label] = f"{mean} with {each.num_labels[-1]} labels"
        return facts

    @property
    def rows(self) -> list[dict[str, Any]]:
        """A row of plain values for each condition, strategy, seed and round."""
        rows = []
        for each in self.conditions:
            for result in each.cells:
                times = {timing["step"]: timing for timing in result.timings}
                s, name = result.cell.settings, each.condition.name
                run = {"condition": name, "strategy": s.strategy.label, "seed": s.seed}
                for line in result.lines:
                    row = times.get(line.step, {}) | vars(line) | run
                    row |= {"round": line.step, "num_asked": len(line.ids)}
                    rows.append({key: row.get(key) for key in _COLUMNS})
        return rows

    def to_frame(self) -> Any:
        """Return the rows as a ``pandas.DataFrame``; pandas has to be installed."""
        check_installed("A frame", "pandas", install="pandas")
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(_COLUMNS))

    def write(self, file: Path | str) -> None:
        """Write the rows as a table, ``.parquet`` or ``.csv``."""
        import pyarrow as pa
        from pyarrow import csv, parquet

        file, rows = Path(file), self.rows
        writers = {".csv": csv.write_csv, ".parquet": parquet.write_table}
        if file.suffix not in writers:
            raise errors.UsageError(f"Give '{file}' the ending .csv or .parquet.")
        table = pa.table({name: [row[name] for row in rows] for name in _COLUMNS})
        with files.replace_file(file) as partial:
            writers[file.suffix](table, partial)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Why runs failed."""
        return tuple(cell.failure for cell in self.cells if cell.failure is not None)


def read_results(
    folder: BenchFolder | Path | str, experiment: Experiment | str | None = None
) -> Results:
    """Read the results of an experiment; of unfinished runs as far as they are.

    A run whose files are damaged counts as failed.

    Args:
        folder: The benchmark.
        experiment: One that was asked for in it, or its name; None: the only one, with
            all strategies and seeds that it had so far.

    Returns:
        The results.
    """
    folder = BenchFolder.of(folder)
    if isinstance(experiment, Experiment):
        asked = folder.asked(experiment.name)
        is_known = bool(experiment.conditions[0].settings.made)
        if asked is not None and asked.conditions[0].settings.made and not is_known:
            experiment = checked(experiment)
    else:
        known = folder.experiments()
        if experiment is None and len(known) != 1:
            raise errors.UsageError(
                f"'{folder.path}' has {errors.count(len(known), 'experiment')}: "
                f"{', '.join(known) or 'none'}. Run one, or name the one to read."
            )
        name = experiment or next(iter(known))
        if name not in known:
            raise errors.UnknownNameError(f"experiment in '{folder.path}'", name, known)
        experiment = known[name]
    conditions = []
    for condition in experiment.conditions:
        seeds, compared = experiment.seeds_of(condition), experiment.strategies
        cells = [cell_of(condition, who, seed) for who in compared for seed in seeds]
        labels = tuple(strategy.label for strategy in compared)
        found = tuple(map(folder.result, cells))
        conditions.append(ConditionResults(condition, found, labels, seeds))
    noise = [
        accuracy
        for result in map(folder.result, noise_cells(experiment))
        if result.is_finished
        for accuracy in list(result.accuracies.values())[-1:]
    ]
    return Results(experiment, tuple(conditions), tuple(noise))
