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

from pydantic import ValidationError

from fewlabels import files
from fewlabels.errors import (
    ForeignFolderError,
    RunError,
    RunInUseError,
    StorageError,
    count,
)
from fewlabels.experiments.bench.experiment import Cell, Experiment, plan
from fewlabels.experiments.run_folder import RoundLine, RunFolder, has_ended
from fewlabels.experiments.settings import FrozenModel, faults

SCHEMA = 1
"""Version of the files of a benchmark."""

_KIND = "fewlabels bench"
_LOCK = ".fewlabels-lock"
_MOST_BYTES = 2**26
_TIMEOUT = 30.0  # seconds
_DESCRIPTION = {"kind": _KIND, "schema_version": SCHEMA}


class Failure(FrozenModel):
    """Why a run failed the last time it was tried."""

    label: str
    """Name of the run in messages."""
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
        described = sorted((self.path / "cells").glob("*/run.json"))
        return tuple(RunFolder(file.parent) for file in described)

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
        content: Any = None
        try:
            content = files.parse_json(
                files.read_regular(self.description_file, _MOST_BYTES)
            )
        except OSError:
            pass
        except ValueError as error:
            raise ForeignFolderError(
                f"'{self.description_file}' could not be read: {error}. If this is a "
                f"benchmark, replace its content by {json.dumps(_DESCRIPTION)}"
            ) from error
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise ForeignFolderError(
                f"'{self.path}' does not contain a benchmark. Give the folder that a "
                "benchmark was written to."
            )
        if content != _DESCRIPTION:
            raise ForeignFolderError(
                f"'{self.path}' has version {content.get('schema_version')} of a "
                f"benchmark's files, this program knows version {SCHEMA}. Update it."
            )

    def experiments(self) -> dict[str, Experiment]:
        """Return what was asked for so far, by name."""
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
        in_use = RunInUseError(
            f"Another process has been writing into '{folder}' for {_TIMEOUT:g} "
            "seconds. Wait for it, then run the same command again."
        )
        with files.hold_lock(folder / _LOCK, in_use, timeout=_TIMEOUT):
            before = self.asked(asked.name)
            if before is not None and asked.continues(before):
                every = (*before.strategies, *asked.strategies)
                changes = {
                    "strategies": tuple(
                        {choice.label: choice for choice in every}.values()
                    ),
                    "seeds": tuple(sorted({*before.seeds, *asked.seeds})),
                    "retrainings": max(before.retrainings, asked.retrainings),
                }
                asked = asked.model_copy(update=changes)
            text = files.add_checksum(asked.model_dump_json(indent=2) + "\n")
            files.replace_text(self._experiment_file(asked.name), text)
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
        """Return the failure of a run whose files cannot be used."""
        place = self.run_folder(cell).path
        text = f"{error} Or remove '{place}': this run alone is then done again."
        return Failure(label=cell.label, error=text)

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
            files.make_folder(file.parent)
            files.replace_text(file, failure.model_dump_json(indent=2) + "\n")

    def clear_failure(self, cell: Cell) -> None:
        """Forget why a run failed, before it is tried again."""
        self._failure_file(cell).unlink(missing_ok=True)

    def _experiment_file(self, name: str) -> Path:
        return self.path / "experiments" / f"{name}.json"

    def _failure_file(self, cell: Cell) -> Path:
        return self.path / "failures" / f"{cell.address}.json"


def _experiment(file: Path) -> Experiment:
    try:
        content = files.read_regular(file, _MOST_BYTES)
        return Experiment.model_validate_json(files.verify_checksum(content))
    except (OSError, ValueError) as error:
        reason = faults(error) if isinstance(error, ValidationError) else str(error)
        raise RunError(
            f"'{file}' could not be read: {reason.rstrip('.')}. Remove it and run the "
            "experiment again; its finished runs are kept."
        ) from error


def outdated(experiment: Experiment, folder: BenchFolder) -> tuple[str, ...]:
    """Return a sentence for each change that left runs of an experiment uncounted.

    A default may change in a later version, and people edit their own strategies and
    trainers. Runs from before have another address: they are kept and never mixed with
    others.
    """
    wanted = {cell.bare.address: cell for cell in plan(experiment).all}
    changes: Counter[str] = Counter()
    for own in folder.run_folders():
        with suppress(RunError):  # who does the run is told
            cell = wanted.get(Cell(own.settings()).address)
            if cell is None or folder.run_folder(cell).path == own.path:
                continue
            s = cell.settings
            names = {"strategy": s.strategy.name, "trainer": s.trainer.name}
            for change in own.changes(s):
                part, _, reason = change.partition(": ")
                changes[f"{part} '{names[part]}', {reason}"] += 1
    return tuple(
        f"{count(number, 'run')} with these settings {'was' if number == 1 else 'were'}"
        f" made by something else: {change}. Such runs are kept, and not counted here."
        for change, number in changes.items()
    )
