"""Experiments that people ask for: from a file, or a recipe with changes."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fewlabels import data
from fewlabels.bench.cells import plan
from fewlabels.bench.experiment import Experiment, resolved
from fewlabels.errors import UsageError
from fewlabels.naming import AllowCode, check_code
from fewlabels.runs import check_choices, settled
from fewlabels.runs.settings import validated
from fewlabels.runs.yaml_files import read_mapping

_LIKE = "Give a YAML file with the fields of an experiment; begin with 'name: mine'."


def read_experiment(file: Path, *, allow_code: AllowCode = False) -> Experiment:
    """Return the experiment that a YAML file describes.

    Args:
        file: One with the fields of :class:`Experiment`.
        allow_code: Which import paths it may name.

    Returns:
        The experiment, its strategies and trainers found. A :class:`UsageError` tells
        that the file cannot be read, names code that is not allowed, or has a wrong
        field.
    """
    content = read_mapping(file, kind="experiment", like=_LIKE)
    with _about(file):
        found = validated(Experiment, content)
    check_code(file, _code(found), allow_code)
    with _about(file):
        return _fitting(found)


@contextmanager
def _about(file: Path) -> Iterator[None]:
    """Name the file in what the block finds wrong with it."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"The experiment '{file}' cannot be done. {error}") from error


def _code(experiment: Experiment) -> list[Any]:
    """Return all of an experiment that may be import paths."""
    settings = [one.settings for one in experiment.conditions]
    chosen = [one for s in settings for one in (s.strategy, s.trainer)]
    return [one.code for one in (*chosen, *experiment.strategies)]


def checked(experiment: Experiment) -> Experiment:
    """Return an experiment if all its parts fit; quick, before anything is loaded.

    Args:
        experiment: One that was changed.

    Returns:
        The same, with what its strategies and trainers come to. A
        :class:`UsageError` tells what does not fit.
    """
    return _fitting(validated(Experiment, experiment.model_dump()))


def _fitting(found: Experiment) -> Experiment:
    conditions = tuple(
        one.model_copy(update={"settings": settled(one.settings)})
        for one in found.conditions
    )
    found = found.model_copy(update={"conditions": conditions})
    for one in conditions:
        _check_data_there(one.settings.data.name)
    for cell in plan(found).all:
        check_choices(cell.settings)
    return resolved(found)


def _check_data_there(name: str) -> None:
    """Raise once for data that are gone, and not in every run."""
    is_there = name in data.names()
    with suppress(OSError, ValueError):  # a name that no file can have
        is_there = is_there or Path(name).exists()
    if not is_there:
        raise UsageError(
            f"There is no data set, file or folder called '{name}', so no run could "
            f"begin. Known data sets: {', '.join(data.names())}."
        )
