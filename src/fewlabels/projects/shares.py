"""Class shares that the owner of a project knows, as options of its trainer."""

from collections.abc import Sequence
from typing import Literal

from fewlabels import training
from fewlabels.errors import UsageError
from fewlabels.experiments.settings import Choice

Shares = Literal["unknown", "even"] | tuple[float, ...]
"""Known shares of the classes; or that they are equal, or unknown."""

UNKNOWN: Shares = "unknown"


def read_shares(given: str | Sequence[float], num_classes: int) -> Shares:
    """Return the shares that a person wrote, scaled so that they add up to one.

    Example:
        >>> read_shares("50,30,20", 3), read_shares("even", 3)
        ((0.5, 0.3, 0.2), 'even')
    """
    if given == UNKNOWN:
        return UNKNOWN
    if given == "even":
        return "even"
    words = given.split(",") if isinstance(given, str) else given
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        numbers = []
    total = sum(numbers)
    if len(numbers) != num_classes or not all(0 < share < total for share in numbers):
        shown = given if isinstance(given, str) else ",".join(map(str, given))
        example = ",".join(["2"] + ["1"] * (num_classes - 1))
        raise UsageError(
            f"The shares are '{shown}'; give 'even', 'unknown' or such as {example}."
        )
    return tuple(share / total for share in numbers)


def with_shares(trainer: Choice, shares: Shares) -> Choice:
    """Return a trainer with the option that passes the shares."""
    if shares == UNKNOWN:
        return trainer
    option = training.share_option(trainer.name)
    if option is None:
        names = [name for name in training.names() if training.share_option(name)]
        bare = [n for n in names if training.variant(n, inputs="") == n]
        raise UsageError(
            f"The trainer '{trainer.name}' has no use for class shares; leave them out,"
            f" or choose one of {', '.join(bare)}, or one of these with 'frozen-'."
        )
    options = dict(trainer.options) | option.as_option(shares)
    return Choice(name=trainer.name, options=options)


def without_stale_shares(trainer: Choice, num_classes: int) -> Choice:
    """Return a trainer without shares if those it has are of fewer classes.

    A class that is added later has no share, and nobody knows what it takes from the
    others: the shares are unknown again.
    """
    option = training.share_option(trainer.name)
    shares = assumed(trainer, num_classes)
    if option is None or shares is None or len(shares) == num_classes:
        return trainer
    options = dict(trainer.options) | option.as_option(UNKNOWN)
    return Choice(name=trainer.name, options=options)


def assumed(trainer: Choice, num_classes: int) -> tuple[float, ...] | None:
    """Return the shares that a training is aligned to; None for none."""
    option = training.share_option(trainer.name)
    return None if option is None else option.assumed(trainer.options, num_classes)
