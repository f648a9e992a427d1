"""Checks of numbers and of options, declared by their types."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from numbers import Real
from operator import index
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from fewlabels.errors import UnknownNameError, UsageError


def whole_number(name: str, value: object) -> int:
    """Return a whole number of any library as a plain one.

    A float or a truth value that equals a whole number is refused: streams of random
    numbers are named by their seed as it is written, and a size of 4.5 has no meaning.

    Args:
        name: What to call it in the message.
        value: What was given.

    Returns:
        The number.

    Raises:
        UsageError: If it is something else: a float, a word, a truth value.
    """
    try:
        if not isinstance(value, bool):
            return index(value)  # type: ignore[arg-type]  # it raises TypeError
    except TypeError:
        pass
    raise UsageError(
        f"{name} is {value!r}, of type {type(value).__name__}; give a whole number, "
        "such as 4."
    )


def check_number(name: str, value: object) -> None:
    """Raise unless a value is a number: no truth value, no text."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise UsageError(
            f"{name} is {value!r}, of type {type(value).__name__}; give a number, such "
            "as 0.5."
        )


def check_range(
    name: str,
    value: float,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> None:
    """Raise unless a value is a finite number within the limits given."""
    check_number(name, value)
    within = at_least <= value <= at_most and above < value < below
    if within and math.isfinite(value):
        return
    limits = {"at least": at_least, "above": above, "at most": at_most, "below": below}
    words = [
        f"{word} {limit}" for word, limit in limits.items() if abs(limit) < math.inf
    ]
    if min(at_most, below) == math.inf:
        words.append("finite")
    raise UsageError(f"{name} is {value}; it must be {' and '.join(words)}.")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a number may be, in its type: ``Annotated[float, Limits(at_least=1)]``."""

    at_least: float = -math.inf
    above: float = -math.inf
    at_most: float = math.inf
    below: float = math.inf


Count = Annotated[int, Limits(at_least=1)]
"""A whole number, at least 1."""
Weight = Annotated[float, Limits(at_least=0)]
"""A number, at least 0."""
Share = Annotated[float, Limits(at_least=0, below=1)]
"""A number from 0 to below 1."""


class Settings:
    """What a frozen dataclass of options inherits: values are checked by their types.

    A text must be one of the words of a ``Literal``, a number within the ``Limits`` of
    an ``Annotated``; of a tuple, each of its entries.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    def __post_init__(self) -> None:
        """Check all fields."""
        kind: Any = type(self)
        for name, parts in _declared(kind).items():
            value = getattr(self, name)
            words = [part for part in parts if isinstance(part, str)]
            limits = next((part for part in parts if isinstance(part, Limits)), None)
            for entry in value if isinstance(value, tuple | list) else (value,):
                if words and (isinstance(entry, str) or len(words) == len(parts)):
                    if entry not in words:
                        raise UnknownNameError(name, str(entry), words)
                elif limits and not (entry is None and type(None) in parts):
                    check_range(name, entry, **vars(limits))


@cache
def _declared(kind: Any) -> dict[str, list[Any]]:
    """Return the types, words and limits that the type of each field is made of."""
    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:  # a type that is known only where somebody's class is written
        return {}
    return {f.name: list(_parts(hints[f.name])) for f in fields(kind)}


def _parts(hint: Any) -> Iterator[Any]:
    inner = get_args(hint)
    yield from (part for i in inner for part in _parts(i)) if inner else (hint,)


def count(amount: int, noun: str = "", plural: str | None = None) -> str:
    """Return an amount with its noun.

    Example:
        >>> count(1, "label"), count(1797, "image"), count(2, "class", "classes")
        ('1 label', '1,797 images', '2 classes')
    """
    word = noun if amount == 1 else plural or f"{noun}s"
    return f"{amount:,} {word}" if noun else f"{amount:,}"
