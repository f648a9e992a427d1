"""What the owner of a project knows about how frequent the classes are."""

from collections.abc import Sequence
from typing import Any, Literal

from fewlabels.errors import UsageError
from fewlabels.runs import Choice

Shares = Literal["unknown", "even"] | tuple[float, ...]
"""Known shares of the classes, or what stands for them."""

UNKNOWN: Shares = "unknown"
EVEN: Shares = "even"

_LINEAR = "frozen-linear"
_ALIGNED = "-darp"


def read_shares(given: str | Sequence[float], num_classes: int) -> Shares:
    """Return shares from what a person wrote.

    Example:
        >>> read_shares("50,30,20", 3), read_shares("even", 3)
        ((0.5, 0.3, 0.2), 'even')

    Args:
        given: ``"unknown"``, ``"even"``, or a number above zero for each class; they
            are scaled so that they add up to one.
        num_classes: Number of classes.

    Returns:
        The shares.

    Raises:
        UsageError: If they cannot be meant.
    """
    if given == UNKNOWN:
        return UNKNOWN
    if given == EVEN:
        return EVEN
    words = given.split(",") if isinstance(given, str) else given
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    total = sum(numbers)
    if len(numbers) != num_classes or not all(0 < one < total for one in numbers):
        shown = given if isinstance(given, str) else ",".join(map(str, given))
        msg = (
            f"The shares are '{shown}'. Give a number above zero for each of the "
            f"{num_classes} classes, in their order, such as --shares "
            f"{','.join(['2'] + ['1'] * (num_classes - 1))}; or 'even', or 'unknown'."
        )
        raise UsageError(msg)
    return tuple(one / total for one in numbers)


def informed(trainer: Choice, shares: Shares) -> Choice:
    """Return a trainer that is told the shares.

    Args:
        trainer: The trainer.
        shares: The shares; unknown ones change nothing.

    Returns:
        The trainer with one more option.

    Raises:
        UsageError: If it has no use for shares.
    """
    if shares == UNKNOWN:
        return trainer
    told: dict[str, Any]
    if trainer.name == _LINEAR:
        told = {"shares": shares if isinstance(shares, str) else list(shares)}
    elif trainer.name.endswith(_ALIGNED):
        told = {"target": "uniform" if isinstance(shares, str) else list(shares)}
    else:
        msg = (
            f"The trainer '{trainer.name}' has no use for class shares; leave out "
            "--shares, or choose 'frozen-linear' or 'fixmatch-darp'."
        )
        raise UsageError(msg)
    return Choice(name=trainer.name, options=dict(trainer.options) | told)


def outgrown(trainer: Choice, num_classes: int) -> Choice:
    """Return a trainer that is told no shares if those it has are of other classes.

    A class that is added later has no share, and nobody knows what it takes from the
    others: the shares are unknown again.

    Args:
        trainer: The trainer of a project.
        num_classes: Number of classes by now.

    Returns:
        The trainer, as it was where a share is there for each class.
    """
    shares = assumed(trainer, num_classes)
    if shares is None or len(shares) == num_classes:
        return trainer
    options = dict(trainer.options)
    options.pop("shares", None)
    if "target" in options:
        options["target"] = "estimated"
    return Choice(name=trainer.name, options=options)


def assumed(trainer: Choice, num_classes: int) -> tuple[float, ...] | None:
    """Return the shares that a training is aligned to; None: to none."""
    told: Any = UNKNOWN
    if trainer.name == _LINEAR:
        told = trainer.options.get("shares", UNKNOWN)
    elif trainer.name.endswith(_ALIGNED):
        told = trainer.options.get("target", "uniform")
    if isinstance(told, str):
        is_even = told in {EVEN, "uniform"}
        return (1 / num_classes,) * num_classes if is_even else None
    return tuple(one / sum(told) for one in told)
