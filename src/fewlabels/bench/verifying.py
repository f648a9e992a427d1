"""Does a finished run come out the same if it is done again?"""

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from fewlabels.bench.cells import Cell, plan
from fewlabels.bench.folder import BenchFolder
from fewlabels.bench.work import do
from fewlabels.errors import UsageError
from fewlabels.naming import AllowCode, check_code
from fewlabels.rng import stream
from fewlabels.runs import (
    RoundLine,
    RunFolder,
    are_same_data,
    environment,
    made_changes,
    made_of,
)


@dataclass(frozen=True)
class Verification:
    """What came of doing a run again."""

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
            cell,
            differences=tuple(compared(then, now)),
            changes=tuple(_changes(then.description(), now.description())),
        )


def compared(one: RunFolder, other: RunFolder) -> Iterable[str]:
    """Return a sentence for each thing that two runs of the same settings differ in."""
    found = []
    if one.start() != other.start():
        found.append("They begin with different labels.")
    lines, again = one.lines(), other.lines()
    if len(lines) != len(again):
        found.append(f"They have {len(lines)} and {len(again)} rounds.")
    for left, right in zip(lines, again, strict=False):
        found += [
            f"Round {left.step}: {name} was {_short(a)} and is now {_short(b)}."
            for name, a, b in _fields(left, right)
            if a != b
        ]
    return found


def _fields(one: RoundLine, other: RoundLine) -> Iterable[tuple[str, Any, Any]]:
    left, right = one.model_dump(mode="json"), other.model_dump(mode="json")
    return [(name, left[name], right[name]) for name in left]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterable[str]:
    for name in environment():
        if before.get(name) != now[name]:
            yield f"{name} was {before.get(name)} and is now {now[name]}."
    made = made_of(now, {})
    for change in made_changes(made_of(before, made), made):
        yield f"{change[0].upper()}{change[1:]}."
    if not are_same_data(before["data"], now["data"]):
        yield "The data are not those that the run was done on."
