"""Runs that were done with something else under the same names.

A default may change in a later version, and people edit their own strategies and
trainers. Such runs have another address: they are kept, and never mixed with others.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from pydantic import ValidationError

from fewlabels.bench.cells import Cell, plan
from fewlabels.bench.experiment import Experiment
from fewlabels.bench.folder import BenchFolder
from fewlabels.errors import RunError
from fewlabels.runs import RunFolder, RunSettings


def outdated(experiment: Experiment, folder: BenchFolder) -> tuple[str, ...]:
    """Say of which runs a benchmark holds others that are not counted, and why.

    Args:
        experiment: What is asked for.
        folder: The benchmark.

    Returns:
        A sentence for each difference.
    """
    wanted = {cell.bare.address: cell for cell in plan(experiment).all}
    found = Counter(
        change
        for one in folder.run_folders()
        for change in _changes(one, wanted, folder)
    )
    return tuple(
        f"{number} {'run' if number == 1 else 'runs'} with these settings "
        f"{'was' if number == 1 else 'were'} made by something else: {change}. Such "
        "runs are kept, and not counted here."
        for change, number in found.items()
    )


def _changes(
    one: RunFolder, wanted: dict[str, Cell], folder: BenchFolder
) -> Iterator[str]:
    """Yield in what a run differs from that of now, if it is not counted."""
    with suppress(RunError, ValidationError):  # who does the run is told
        settings = RunSettings.model_validate(one.description()["settings"])
        cell = wanted.get(Cell(settings.bare).address)
        if cell is not None and folder.run_folder(cell).path != one.path:
            chosen = {
                "strategy": cell.settings.strategy,
                "trainer": cell.settings.trainer,
            }
            for change in one.changes(cell.settings):
                part, _, told = change.partition(": ")
                yield f"{part} '{chosen[part].name}', {told}"
