"""YAML that a person wrote, or a stranger: read within bounds."""

from pathlib import Path
from typing import Any

import yaml

from fewlabels.errors import UsageError
from fewlabels.files import read_regular

_MOST_BYTES = 2**20
_MOST_VALUES = 100_000
_DEEPEST = 50


def read_mapping(file: Path, *, kind: str, like: str) -> dict[str, Any]:
    """Return what a YAML file says, a mapping of names and values.

    Args:
        file: The file.
        kind: What it is, for messages, such as ``"settings file"``.
        like: What to write into it, for messages.

    Returns:
        Names and values; none where the file is empty.

    Raises:
        UsageError: If it cannot be read, or holds something else, or too much.
    """
    try:
        content = yaml.safe_load(read_regular(file, _MOST_BYTES).decode("utf-8"))
        check_size(content)
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        msg = f"The {kind} '{file}' could not be read: {_told(error)}. {like}"
        raise UsageError(msg) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        msg = f"The {kind} '{file}' holds a {type(content).__name__}. {like}"
        raise UsageError(msg)
    return content


def check_size(content: Any) -> None:
    """Raise unless values are few and not deep, each counted as often as it is used.

    A few lines of YAML with references stand for more than any memory holds.

    Args:
        content: What was read.

    Raises:
        ValueError: If there are too many, or they lie too deep.
    """
    waiting, seen = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_VALUES:
            msg = (
                f"it holds more than {_MOST_VALUES:,} values, or some that lie deeper "
                f"than {_DEEPEST} levels"
            )
            raise ValueError(msg)
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list | tuple | set):
            waiting += [(inner, depth + 1) for inner in value]


def _told(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "its values lie too deep"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error).rstrip(".")
