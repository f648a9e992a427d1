"""Accuracy from a small random slice, with an interval that keeps its promise.

The interval is that of Clopper and Pearson (Biometrika, 1934): each end is the accuracy
at which a result as extreme as the one seen has probability (1 - level) / 2. It covers
the truth at least as often as it says, for every accuracy and every size of the slice.
Blaker's interval is a little shorter and keeps the same promise, but may grow when
items are added and jumps with the level; the mid-P interval is shorter and promises
nothing. For an audit of some dozens of images a promise that holds is worth more than a
point or two of width.

Where the slice is drawn without replacement and the question is about these very
images, the same two tails of the hypergeometric distribution give the ends: shorter,
and still exact.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass

from fewlabels.errors import UsageError
from fewlabels.evaluation.tails import chance_of
from fewlabels.integers import whole_number


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
        """Say accuracy and interval in a few words, in percent."""
        if self.accuracy is None:
            return "not measured: no image was audited, so anything is possible"
        items = "image" if self.num_audited == 1 else "images"
        return (
            f"{100 * self.accuracy:.1f} % ({100 * self.low:.1f} to "
            f"{100 * self.high:.1f} at the {100 * self.level:g} % level, from "
            f"{self.num_audited} random {items})"
        )


def accuracy_interval(
    num_right: int,
    num_audited: int,
    level: float = 0.95,
    *,
    num_items: int | None = None,
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
        num_items: Size of the set (N) that the slice was drawn from without
            replacement, if the accuracy on this very set is wanted; None: the accuracy
            on images like these, of which there is no end.

    Returns:
        The accuracy seen and the interval.
    """
    right = whole_number("num_right", num_right)
    audited = whole_number("num_audited", num_audited)
    _check(right, audited, level, num_items)
    low, high = 0.0, 1.0
    if audited and num_items is None:
        low, high = _endless(right, audited, (1 - level) / 2)
    elif audited and num_items is not None:
        low, high = _finite(right, audited, (1 - level) / 2, num_items)
    return AuditedAccuracy(
        num_right=right, num_audited=audited, low=low, high=high, level=level
    )


def _endless(right: int, audited: int, tail: float) -> tuple[float, float]:
    """Return the ends: to be so often right is rare, or to be so often wrong."""
    wrong = audited - right
    low = chance_of(right, audited, tail) if right else 0.0
    high = 1 - chance_of(wrong, audited, tail) if wrong else 1.0
    return low, high


def _finite(right: int, audited: int, tail: float, size: int) -> tuple[float, float]:
    """Return the first and last number of right items that the slice speaks for."""
    from scipy import stats

    possible = range(right, size - (audited - right) + 1)

    def as_many(total: int) -> float:
        return float(stats.hypergeom.sf(right - 1, size, total, audited))

    def as_few(total: int) -> float:
        return float(stats.hypergeom.cdf(right, size, total, audited))

    # The first grows with the total and the second falls, so both are bisected.
    first = bisect_right(possible, tail, key=as_many)
    behind = bisect_left(possible, -tail, key=lambda total: -as_few(total))
    return possible[first] / size, possible[behind - 1] / size


def _check(right: int, audited: int, level: float, num_items: int | None) -> None:
    if not 0 <= right <= audited:
        raise UsageError(
            f"num_right is {right} and num_audited {audited}; the right ones are "
            "among the audited ones, so give a number from 0 to that."
        )
    if not 0 < level < 1:
        msg = f"level is {level}; give a share above 0 and below 1, such as 0.95."
        raise UsageError(msg)
    if num_items is not None and whole_number("num_items", num_items) < audited:
        raise UsageError(
            f"num_audited is {audited} and num_items {num_items}; a slice is no "
            "larger than what it was drawn from."
        )
