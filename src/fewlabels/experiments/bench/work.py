"""What a worker does: one run, from its settings to its last round.

Every engine calls :func:`work`, so that where a run is done changes nothing in it.
"""

import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import torch

from fewlabels import data, files
from fewlabels.errors import FewlabelsError, FewlabelsWarning, RunError, RunInUseError
from fewlabels.experiments.bench.cells import Cell
from fewlabels.experiments.bench.folder import BenchFolder, Failure
from fewlabels.experiments.execution import execute
from fewlabels.experiments.settings import Choice, RunSettings
from fewlabels.jobs import startable
from fewlabels.names import AllowCode, check_code
from fewlabels.pool import Pool


@startable
def work(
    root: str,
    settings: str,
    *,
    tensorboard: bool = False,
    allow_code: AllowCode = True,
) -> str | None:
    """Do one run of a benchmark, or go on with it; never raise for what fails in it.

    Arguments and result are text, so that they can be sent anywhere.

    Args:
        root: The folder of the benchmark.
        settings: The settings of the run, as JSON.
        tensorboard: Write the curves of its trainings for TensorBoard too.
        allow_code: Which import paths the settings may name; a job always says so.

    Returns:
        None if the run is finished, else what went wrong in a sentence; it is also
        written down in the folder, unless another process is at work on the run.
    """
    cell = Cell(RunSettings.model_validate_json(settings))
    chosen = [cell.settings.strategy.code, cell.settings.trainer.code]
    check_code("job", chosen, allow_code)
    folder = BenchFolder(Path(root))
    folder.clear_failure(cell)
    try:
        do(cell, folder, tensorboard=tensorboard)
    except RunInUseError as error:
        return str(error)
    except Exception as error:  # noqa: BLE001 - one run must not stop the others
        failure = _failure(cell, folder, error)
        folder.write_failure(cell, failure)
        return failure.error
    return None


def do(cell: Cell, folder: BenchFolder, *, tensorboard: bool = False) -> None:
    """Do one run in its place of a benchmark's folder.

    Args:
        cell: The run.
        folder: The benchmark. Where the run that it begins like is there, its first
            training is taken from it.
        tensorboard: Write curves for TensorBoard too.
    """
    settings = cell.settings
    torch.set_num_threads(settings.threads)
    own = folder.run_folder(cell)
    begins_like = cell.beginning
    beginning = None
    # One that is not finished is damaged, has failed or is being done by another.
    if begins_like is not None and folder.is_finished(begins_like):
        beginning = folder.run_folder(begins_like).path
    pool = pool_of(settings)
    with own.listening(tensorboard=tensorboard), _noted(folder, cell):
        for _ in execute(settings, own.path, pool, beginning=beginning):
            pass


def pool_of(settings: RunSettings) -> Pool:
    """Return the data of a run, loaded once for all runs of a process on them."""
    return _pool(settings.data.model_dump_json())


@lru_cache(maxsize=1)
def _pool(choice: str) -> Pool:
    found = Choice.model_validate_json(choice)
    return data.load(found.name, **found.options)


@contextmanager
def _noted(folder: BenchFolder, cell: Cell) -> Iterator[None]:
    """Write the warnings of this package in the block into a file, each once.

    Nothing is written for a run that has not begun: it would not know its own folder.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        finally:
            file, known = folder.notes_file(cell), set(folder.notes(cell))
            has_begun = folder.run_folder(cell).settings_file.exists()
            for warning in caught if has_begun else ():
                text = str(warning.message)
                if issubclass(warning.category, FewlabelsWarning) and text not in known:
                    known.add(text)
                    files.append_entry(file, {"note": text})


def _failure(cell: Cell, folder: BenchFolder, error: Exception) -> Failure:
    """Say what went wrong; where, only if it is nothing that a user can cause."""
    if isinstance(error, RunError):
        return folder.damage(cell, error)
    if isinstance(error, FewlabelsError):
        return Failure(label=cell.label, error=str(error))
    text = " ".join(str(error).split())
    where = "".join(traceback.format_exception(error))
    name = type(error).__name__
    return Failure(label=cell.label, error=f"{name}: {text}", traceback=where)
