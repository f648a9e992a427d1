"""Runs that were done with other code than there is now.

An address is a hash of settings, and a strategy from outside is only named there.
"""

from contextlib import suppress

from fewlabels import strategies
from fewlabels.bench.cells import Cell, plan
from fewlabels.bench.experiment import Experiment
from fewlabels.bench.folder import BenchFolder
from fewlabels.errors import RunError
from fewlabels.runs import source_of


def outdated(experiment: Experiment, folder: BenchFolder) -> tuple[Cell, ...]:
    """Return runs that began with other code of their strategy.

    Args:
        experiment: What to do.
        folder: The benchmark that holds some of it.

    Returns:
        Those of strategies from outside whose module has changed since.
    """
    return tuple(cell for cell in plan(experiment).cells if _is_other(cell, folder))


def _is_other(cell: Cell, folder: BenchFolder) -> bool:
    strategy, own = cell.settings.strategy, folder.run_folder(cell)
    if ":" not in strategy.name or not own.settings_file.exists():
        return False
    now = source_of(strategy.name, strategies.resolve(strategy.name, strategy.options))
    with suppress(RunError):  # damaged: who does the run is told
        return bool(own.description().get("strategy_source") != now)
    return False
