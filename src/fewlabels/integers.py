"""Numbers, whichever library they come from, and nothing that looks like one."""

from numbers import Real
from operator import index

from fewlabels.errors import UsageError


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


def count(amount: int, noun: str = "", plural: str | None = None) -> str:
    """Return an amount with its noun.

    Example:
        >>> count(1, "label"), count(1797, "image"), count(2, "class", "classes")
        ('1 label', '1,797 images', '2 classes')
    """
    word = noun if amount == 1 else plural or f"{noun}s"
    return f"{amount:,} {word}" if noun else f"{amount:,}"
