"""YAML that a person wrote, or a stranger: read within bounds."""

from pathlib import Path
from typing import Any

from fewlabels.errors import UsageError
from fewlabels.files import read_regular

_MOST_BYTES = 2**20
_MOST_VALUES = 100_000
_DEEPEST = 50


def read_mapping(file: Path, *, kind: str, like: str) -> dict[str, Any]:
    """Return names and values of a YAML file; none where it is empty.

    One that cannot be read, or holds something else or too much, raises
    :class:`UsageError`, which calls it a ``kind`` and says what to write into it.
    """
    try:
        content = read_value(read_regular(file, _MOST_BYTES).decode("utf-8"))
    except (OSError, ValueError) as error:
        told = getattr(error, "strerror", None) or str(error).rstrip(".")
        msg = f"The {kind} '{file}' could not be read: {told}. {like}"
        raise UsageError(msg) from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        msg = f"The {kind} '{file}' holds a {type(content).__name__}. {like}"
        raise UsageError(msg)
    return content


def read_value(text: str) -> Any:
    """Return what YAML says; a ValueError where it is none, or far too much."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error
    _check_size(found)
    return found


def _check_size(content: Any) -> None:
    """Count each value as often as it is used: few lines can stand for too many."""
    waiting, seen = [(content, 0)], 0
    while waiting:
        value, depth = waiting.pop()
        seen += 1
        if depth > _DEEPEST or seen > _MOST_VALUES:
            raise ValueError(
                f"it holds more than {_MOST_VALUES:,} values, or is nested deeper "
                f"than {_DEEPEST} levels"
            )
        if isinstance(value, dict):
            waiting += [(inner, depth + 1) for pair in value.items() for inner in pair]
        elif isinstance(value, list | tuple | set):
            waiting += [(inner, depth + 1) for inner in value]
