"""The folder of a benchmark: runs by content, experiments by name, failures.

::

    bench.json               what kind of folder this is
    experiments/NAME.json    what was asked for, all strategies and seeds so far
    cells/ADDRESS/           a run (see :mod:`fewlabels.experiments`), with notes.jsonl
    failures/ADDRESS.json    why a run failed the last time
    reports/NAME/            what `fewlabels bench report` writes
"""

import json
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from fewlabels import files
from fewlabels.errors import (
    ForeignFolderError,
    RunError,
    RunInUseError,
    StorageError,
    count,
)
from fewlabels.experiments.bench.cells import Cell, plan
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.lines import RoundLine, has_ended
from fewlabels.experiments.run_folder import RunFolder
from fewlabels.experiments.settings import faults
from fewlabels.files import (
    add_checksum,
    check_empty_folder,
    hold_lock,
    make_folder,
    parse_json,
    read_regular,
    replace_text,
    verify_checksum,
)

SCHEMA = 1
"""Version of the files of a benchmark."""

_KIND = "fewlabels bench"
_LOCK = ".fewlabels-lock"
_MOST_BYTES = 2**26
_TIMEOUT = 30.0  # seconds


class Failure(BaseModel):
    """Why a run failed the last time it was tried."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    label: str
    """What people call the run."""
    error: str
    """What went wrong, in a sentence."""
    traceback: str = ""
    """Where; empty where the sentence says all, or the process was killed."""


@dataclass(frozen=True)
class BenchFolder:
    """Paths of a benchmark's files, and how they are read and written."""

    path: Path

    @property
    def description_file(self) -> Path:
        """``bench.json``: what kind of folder this is."""
        return self.path / "bench.json"

    def run_folder(self, cell: Cell) -> RunFolder:
        """Return the folder of a run."""
        return RunFolder(self.path / "cells" / cell.address)

    def run_folders(self) -> tuple[RunFolder, ...]:
        """Return the folders of all runs that have begun, in a fixed order."""
        files = sorted((self.path / "cells").glob("*/run.json"))
        return tuple(RunFolder(file.parent) for file in files)

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
            make_folder(self.path)
            content = {"kind": _KIND, "schema_version": SCHEMA}
            replace_text(self.description_file, json.dumps(content, indent=2) + "\n")

    def check_usable(self) -> None:
        """Raise unless the folder is one of a benchmark or can become one."""
        if self.description_file.exists():
            self.check()
        else:
            check_empty_folder(self.path, "benchmark")

    def check(self) -> None:
        """Raise unless the folder is one of a benchmark, of this version."""
        found: Any = None
        content = {"kind": _KIND, "schema_version": SCHEMA}
        try:
            found = parse_json(read_regular(self.description_file, _MOST_BYTES))
        except OSError:
            pass
        except ValueError as error:
            raise ForeignFolderError(
                f"'{self.description_file}' could not be read: {error}. If this is the "
                f"folder of a benchmark, replace what is in that file by "
                f"{json.dumps(content)}"
            ) from error
        if not isinstance(found, dict) or found.get("kind") != _KIND:
            raise ForeignFolderError(
                f"'{self.path}' does not contain a benchmark. Give the folder that a "
                "benchmark was written to."
            )
        if found != content:
            raise ForeignFolderError(
                f"'{self.path}' has version {found.get('schema_version')} of a "
                f"benchmark's files, this program knows version {SCHEMA}. Update it."
            )

    def experiments(self) -> dict[str, Experiment]:
        """Return what was asked for so far, by name."""
        self.check()
        files = sorted((self.path / "experiments").glob("*.json"))
        return {one.name: one for one in map(_experiment, files)}

    def asked(self, name: str) -> Experiment | None:
        """Return what was asked for so far under a name; None if nothing was."""
        file = self._experiment_file(name)
        return _experiment(file) if file.exists() else None

    def ask_for(self, experiment: Experiment) -> Experiment:
        """Return what is asked for, written down beside what was asked for earlier.

        It has all strategies and seeds that were ever asked for; those of now alone, if
        its conditions have changed.
        """
        # As it will be read: a tuple among the options of a trainer is a list there.
        asked = Experiment.model_validate_json(experiment.model_dump_json())
        folder = self.path / "experiments"
        make_folder(folder)
        in_use = RunInUseError(
            f"Another process has been writing into '{folder}' for {_TIMEOUT:g} "
            "seconds. Wait for it, then run the same command again."
        )
        with hold_lock(folder / _LOCK, in_use, timeout=_TIMEOUT):
            before = self.asked(asked.name)
            if before is not None and asked.continues(before):
                every = (*before.strategies, *asked.strategies)
                changes = {
                    "strategies": tuple({one.label: one for one in every}.values()),
                    "seeds": tuple(sorted({*before.seeds, *asked.seeds})),
                    "retrainings": max(before.retrainings, asked.retrainings),
                }
                asked = asked.model_copy(update=changes)
            text = add_checksum(asked.model_dump_json(indent=2) + "\n")
            replace_text(self._experiment_file(asked.name), text)
        return asked

    def is_finished(self, cell: Cell) -> bool:
        """Return whether a run has come to its end."""
        return has_ended(self.lines(cell))

    def lines(self, cell: Cell) -> list[RoundLine]:
        """Return the finished rounds of a run; none where its files are damaged.

        Who does the run, or reads its results, is told what is wrong with them.
        """
        own = self.run_folder(cell)
        with suppress(RunError):
            if own.rounds_file.exists():
                own.description()
                own.start()
                return own.lines()
        return []

    def timings(self, cell: Cell) -> list[dict[str, Any]]:
        """Return what was measured of rounds; nothing where that is damaged."""
        with suppress(RunError):
            return self.run_folder(cell).timings()
        return []

    def notes(self, cell: Cell) -> tuple[str, ...]:
        """Return what was noted while a run went on; nothing where that is damaged."""
        with suppress(OSError, ValueError, KeyError, TypeError):
            lines = files.read_entries(self.notes_file(cell))
            return tuple(str(line["note"]) for line in lines)
        return ()

    def damage(self, cell: Cell, error: RunError) -> Failure:
        """Say that the files of a run cannot be used, and what to do about it."""
        place = self.run_folder(cell).path
        told = f"{error} Or remove '{place}': this run alone is then done again."
        return Failure(label=cell.label, error=told)

    def missing(self, cells: Iterable[Cell]) -> tuple[Cell, ...]:
        """Return the runs that are still to do."""
        return tuple(cell for cell in cells if not self.is_finished(cell))

    def failure(self, cell: Cell) -> Failure | None:
        """Return why a run failed the last time; None if it did not.

        Two commands may do the same runs: one that is finished has not failed, whatever
        the other one wrote down.
        """
        file = self._failure_file(cell)
        if not file.exists() or self.is_finished(cell):
            return None
        with suppress(ValidationError, OSError, ValueError):
            return Failure.model_validate_json(file.read_text("utf-8"))
        return Failure(label=cell.label, error=f"'{file}' could not be read.")

    def write_failure(self, cell: Cell, failure: Failure) -> None:
        """Write down why a run failed, unless the disk is full too."""
        file = self._failure_file(cell)
        with suppress(StorageError):
            make_folder(file.parent)
            replace_text(file, failure.model_dump_json(indent=2) + "\n")

    def clear_failure(self, cell: Cell) -> None:
        """Forget why a run failed, before it is tried again."""
        self._failure_file(cell).unlink(missing_ok=True)

    def _experiment_file(self, name: str) -> Path:
        return self.path / "experiments" / f"{name}.json"

    def _failure_file(self, cell: Cell) -> Path:
        return self.path / "failures" / f"{cell.address}.json"


def _experiment(file: Path) -> Experiment:
    try:
        content = read_regular(file, _MOST_BYTES)
        return Experiment.model_validate_json(verify_checksum(content))
    except (OSError, ValueError) as error:
        found = faults(error) if isinstance(error, ValidationError) else str(error)
        raise RunError(
            f"'{file}' could not be read: {found.rstrip('.')}. Remove it and run the "
            "experiment again; its finished runs are found."
        ) from error


def outdated(experiment: Experiment, folder: BenchFolder) -> tuple[str, ...]:
    """Say of which runs a benchmark holds others that are not counted, and why.

    A default may change in a later version, and people edit their own strategies and
    trainers. Such runs have another address: they are kept, and never mixed with
    others.

    Args:
        experiment: What is asked for.
        folder: The benchmark.

    Returns:
        A sentence for each difference.
    """
    wanted = {cell.bare.address: cell for cell in plan(experiment).all}
    found: Counter[str] = Counter()
    for own in folder.run_folders():
        with suppress(RunError):  # who does the run is told
            cell = wanted.get(Cell(own.settings()).address)
            if cell is None or folder.run_folder(cell).path == own.path:
                continue
            s = cell.settings
            names = {"strategy": s.strategy.name, "trainer": s.trainer.name}
            for change in own.changes(s):
                part, _, reason = change.partition(": ")
                found[f"{part} '{names[part]}', {reason}"] += 1
    return tuple(
        f"{count(number, 'run')} with these settings {'was' if number == 1 else 'were'}"
        f" made by something else: {change}. Such runs are kept, and not counted here."
        for change, number in found.items()
    )
