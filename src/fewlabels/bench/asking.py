"""Experiments that people ask for: from a file, or a recipe with changes."""

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fewlabels import data
from fewlabels.bench.cells import plan
from fewlabels.bench.experiment import Experiment
from fewlabels.errors import UsageError
from fewlabels.runs import check_choices, faults, settled


def read_experiment(file: Path) -> Experiment:
    """Return the experiment that a YAML file describes.

    Args:
        file: One with the fields of :class:`Experiment`.

    Returns:
        The experiment, its strategies and trainers found.

    Raises:
        UsageError: If the file cannot be read, or a field is wrong.
    """
    try:
        content = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        msg = (
            f"The experiment '{file}' could not be read: {error}. Give a YAML file "
            "with the fields of an experiment."
        )
        raise UsageError(msg) from error
    if not isinstance(content, dict):
        msg = (
            f"The experiment '{file}' holds a {type(content).__name__} where fields "
            "and values are needed; begin with 'name: mine'."
        )
        raise UsageError(msg)
    try:
        return _experiment(content)
    except UsageError as error:
        raise UsageError(f"The experiment '{file}' cannot be done. {error}") from error


def checked(experiment: Experiment) -> Experiment:
    """Return an experiment if all its parts fit; quick, before anything is loaded.

    Args:
        experiment: One that was changed.

    Returns:
        The same. A :class:`UsageError` tells what does not fit.
    """
    return _experiment(experiment.model_dump())


def _experiment(content: Any) -> Experiment:
    try:
        found = Experiment.model_validate(content)
    except ValidationError as error:
        raise UsageError(faults(error)) from error
    conditions = tuple(
        one.model_copy(update={"settings": settled(one.settings)})
        for one in found.conditions
    )
    found = found.model_copy(update={"conditions": conditions})
    for one in conditions:
        _check_data_there(one.settings.data.name)
    for cell in plan(found).all:
        check_choices(cell.settings)
    return found


def _check_data_there(name: str) -> None:
    """Raise once for data that are gone, and not in every run."""
    if name not in data.names() and not Path(name).exists():
        msg = (
            f"There is no data set, file or folder called '{name}', so no run could "
            f"begin. Known data sets: {', '.join(data.names())}."
        )
        raise UsageError(msg)
