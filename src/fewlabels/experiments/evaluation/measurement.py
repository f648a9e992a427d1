"""How good a classifier is, on data that no decision used, and how sure that is.

The interval of the accuracy is that of Clopper and Pearson (Biometrika, 1934): each end
is the accuracy at which a result as extreme as the one seen has probability
(1 - level) / 2. It covers the truth at least as often as it says, for every accuracy
and every size of the slice.
Blaker's interval is a little shorter and keeps the same promise, but may grow when
items are added and jumps with the level; the mid-P interval is shorter and promises
nothing. For an audit of some dozens of images a promise that holds is worth more than a
point or two of width.

Tails of distributions are computed in plain Python, since importing SciPy takes a
second.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from statistics import median
from typing import TYPE_CHECKING

from fewlabels.errors import UsageError, check_range, whole_number

if TYPE_CHECKING:
    from fewlabels.pool import Split
    from fewlabels.protocols import Classifier

_MOST_LATE = 20
_HALVINGS = 60


def accuracy(classifier: "Classifier", split: "Split") -> float:
    """Share of the split's images that are classified rightly."""
    import torch

    everything = torch.arange(len(split))
    predicted = classifier.outputs(split.images, everything).logits.argmax(dim=1)
    return float((predicted == split.labels).double().mean())


def late_median(evaluations: Mapping[int, float]) -> float:
    """Return the median of the last evaluations of a training.

    Those count that fall into the last fifth of its steps, at most 20 of them, as in
    the code of FixMatch, which reports the median of the last 20 checkpoints. A single
    evaluation may be a lucky one.

    Example:
        >>> late_median({200: 0.5, 850: 0.7, 900: 0.9, 1000: 0.8})
        0.8

    Args:
        evaluations: Accuracy by step; the last one was made at the end.

    Returns:
        The median; between the middle two of an even number.

    Raises:
        UsageError: If there is no evaluation.
    """
    if not evaluations:
        raise UsageError("There are 0 evaluations to take the median of; give one.")
    last = max(evaluations)
    late = [step for step in sorted(evaluations) if step == last or 5 * step > 4 * last]
    return median(evaluations[step] for step in late[-_MOST_LATE:])


@dataclass(frozen=True, kw_only=True)
class AuditedAccuracy:
    """The accuracy seen on a random slice, and where the true one may be."""

    num_right: int
    """Audited items that were classified rightly."""
    num_audited: int
    """Audited items; 0 where nothing is known."""
    low: float
    """Lower end of the interval, a share from 0 to 1."""
    high: float
    """Upper end of the interval."""
    level: float
    """How often such an interval covers the truth, at least."""

    @property
    def accuracy(self) -> float | None:
        """Share of the slice that was classified rightly; None without a slice."""
        return self.num_right / self.num_audited if self.num_audited else None

    def __str__(self) -> str:
        """Return accuracy and interval in a few words, in percent."""
        if self.accuracy is None:
            return "not measured: no image was audited, so anything is possible"
        items = "image" if self.num_audited == 1 else "images"
        return (
            f"{100 * self.accuracy:.1f} % ({100 * self.low:.1f} to "
            f"{100 * self.high:.1f} at the {100 * self.level:g} % level, from "
            f"{self.num_audited} random {items})"
        )


def accuracy_interval(
    num_right: int, num_audited: int, level: float = 0.95
) -> AuditedAccuracy:
    """Return the exact interval for the accuracy behind a random slice.

    Example:
        >>> print(accuracy_interval(27, 30))
        90.0 % (73.5 to 97.9 at the 95 % level, from 30 random images)

    Args:
        num_right: Items of the slice that were classified rightly (k).
        num_audited: Items of the slice (n). With 0 of them nothing is known, and the
            interval reaches from 0 to 1.
        level: How often the interval shall cover the truth, at least.

    Returns:
        The accuracy seen and the interval.
    """
    right = whole_number("num_right", num_right)
    audited = whole_number("num_audited", num_audited)
    check_range("level", level, above=0, below=1)
    check_range("num_right", right, at_least=0, at_most=audited)
    low, high, tail, wrong = 0.0, 1.0, (1 - level) / 2, audited - right
    if right:  # to be so often right is rare, or to be so often wrong
        low = chance_of(right, audited, tail)
    if wrong:
        high = 1 - chance_of(wrong, audited, tail)
    return AuditedAccuracy(
        num_right=right, num_audited=audited, low=low, high=high, level=level
    )


def chance_of(least: int, trials: int, tail: float) -> float:
    """Return the chance of success at which many successes are rare.

    The larger the chance, the likelier they are, so it is found by halving.

    Args:
        least: The successes that are many, at least one.
        trials: How often it is tried.
        tail: How rare: the probability of at least so many, below one half.

    Returns:
        The chance, below the share of successes.
    """
    low, high = 0.0, least / trials
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_rare = _at_least(least, trials, middle) < tail
        low, high = (middle, high) if is_rare else (low, middle)
    return (low + high) / 2


def _at_least(least: int, trials: int, chance: float) -> float:
    """Return how probable so many successes are; they are more than are expected."""
    ways = lgamma(trials + 1) - lgamma(least + 1) - lgamma(trials - least + 1)
    term = exp(ways + least * log(chance) + (trials - least) * log1p(-chance))
    total, number, odds = 0.0, least, chance / (1 - chance)
    while total + term != total:
        total += term
        term *= odds * (trials - number) / (number + 1)
        number += 1
    return total
