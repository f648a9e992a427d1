"""What the owner of a project knows about how frequent the classes are."""

from collections.abc import Sequence
from typing import Any, Literal

from fewlabels import training
from fewlabels.errors import UsageError
from fewlabels.experiments.settings import Choice

Shares = Literal["unknown", "even"] | tuple[float, ...]
"""Known shares of the classes, or what stands for them."""

UNKNOWN: Shares = "unknown"
EVEN: Shares = "even"


def read_shares(given: str | Sequence[float], num_classes: int) -> Shares:
    """Return shares from what a person wrote, scaled so that they add up to one.

    Example:
        >>> read_shares("50,30,20", 3), read_shares("even", 3)
        ((0.5, 0.3, 0.2), 'even')
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
        raise UsageError(
            f"The shares are '{shown}'. Give a number above zero for each of the "
            f"{num_classes} classes, in their order, such as "
            f"{','.join(['2'] + ['1'] * (num_classes - 1))}; or 'even', or 'unknown'."
        )
    return tuple(one / total for one in numbers)


def informed(trainer: Choice, shares: Shares) -> Choice:
    """Return a trainer that is told the shares."""
    if shares == UNKNOWN:
        return trainer
    option = training.share_option(trainer.name)
    if option is None:
        able = [
            name
            for name in training.names()
            if training.share_option(name) and training.variant(name, inputs="") == name
        ]
        raise UsageError(
            f"The trainer '{trainer.name}' has no use for class shares; leave them "
            f"out, or choose one that has: {', '.join(able)}; or one of these with "
            "'frozen-'."
        )
    return _with(trainer, option.as_option(shares))


def outgrown(trainer: Choice, num_classes: int) -> Choice:
    """Return a trainer that is told no shares if those it has are of other classes.

    A class that is added later has no share, and nobody knows what it takes from the
    others: the shares are unknown again.
    """
    option = training.share_option(trainer.name)
    shares = assumed(trainer, num_classes)
    if option is None or shares is None or len(shares) == num_classes:
        return trainer
    return _with(trainer, option.as_option(UNKNOWN))


def assumed(trainer: Choice, num_classes: int) -> tuple[float, ...] | None:
    """Return the shares that a training is aligned to; None: to none."""
    option = training.share_option(trainer.name)
    return None if option is None else option.assumed(trainer.options, num_classes)


def _with(trainer: Choice, told: dict[str, Any]) -> Choice:
    return Choice(name=trainer.name, options=dict(trainer.options) | told)
