"""How good a classifier is, how sure that is, its course, and a forecast.

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

Shapes: R rounds, n audited items, C classes, D draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, erfc, exp, lgamma, log, log1p, sqrt
from statistics import median
from typing import TYPE_CHECKING

from fewlabels.errors import (
    UsageError,
    check_count,
    check_range,
    count,
    whole_number,
)

if TYPE_CHECKING:
    from fewlabels.pool import Split
    from fewlabels.protocols import Classifier

Rights = Sequence[Sequence[bool]]
"""Whether each round's model was right about each audited item: R rows of n."""

LEAST_ROUNDS = 3
"""Rounds below which no forecast is made: two points fit every law."""

LEAST_AUDITED = 10
"""Audited items below which no forecast is made."""

FURTHEST = 2.0
"""How far ahead forecasts reach, as a multiple of the labels there are."""

PLAIN = 0.01
"""Level of the test of the assumed class shares."""

LEAST_LABELS = 20
"""Labels of random images below which the shares are not tested."""

CARRIED = 0.8
"""Share of the draws in which the error has to fall before a forecast is made."""

_DRAWS = 2000
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


# ------------------------------------------------------------- its course, a forecast


@dataclass(frozen=True)
class CurvePoint:
    """One round: the labels its model was trained on, and how good it was."""

    num_labeled: int
    audited: AuditedAccuracy


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The expected gain of more labels."""

    num_more: int
    """How many more labels."""
    gain: float | None
    """Expected rise of the accuracy, a share; None where no guess is honest."""
    low: float = 0.0
    """Lower end of where it may be."""
    high: float = 1.0
    """Upper end of where it may be."""
    level: float = 0.8
    """How often the rise shall be between the two, if the model of it holds."""
    reason: str = ""
    """Why there is no guess; empty where there is one."""

    def __str__(self) -> str:
        """Return it as a sentence, in percentage points."""
        if self.gain is None:
            return f"No forecast: {self.reason}"
        return (
            f"{self.num_more} more labels are expected to add "
            f"{100 * self.gain:z.1f} points ({100 * self.low:z.1f} to "
            f"{100 * self.high:z.1f} at the {100 * self.level:g} % level)."
        )


def learning_curve(
    num_labeled: Sequence[int], right: Rights, level: float = 0.95
) -> tuple[CurvePoint, ...]:
    """Return the accuracy of each round's model, with a band.

    The band holds for each round by itself. All rounds are measured on the same slice,
    so its luck moves them together, and differences between rounds are surer than the
    band looks.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item.
        level: How often the interval of a round covers the truth, at least.

    Returns:
        A point per round, in the order given.
    """
    _check_rights(num_labeled, right)
    return tuple(
        CurvePoint(labels, accuracy_interval(sum(row), len(row), level))
        for labels, row in zip(num_labeled, right, strict=True)
    )


def expected_gain(
    num_labeled: Sequence[int],
    right: Rights,
    num_more: int,
    seed: int,
    *,
    level: float = 0.8,
) -> Gain:
    """Return the expected gain of ``num_more`` labels after the last round.

    The share of wrong items is taken to fall as a power of the number of labels, never
    to rise: log error = a - b log labels with b at least 0. Two things are uncertain,
    and both are drawn: which items were audited (drawn anew with replacement, the same
    for all rounds) and how well the rounds follow the law (the slope, from Student's
    distribution with R - 2 degrees of freedom). With three rounds that leaves much
    open, as it should. Where the error does not fall in four of five draws, such as
    after a fall of the accuracy, the rounds do not carry a forecast and none is made. A
    law without a floor promises too much far ahead, so there is no forecast past twice
    the labels there are. Rounds without a label are left out.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item.
        num_more: How many labels more.
        seed: Of the draws; the same number gives the same forecast.
        level: How often the rise shall be inside the interval, if the law holds.

    Returns:
        The expected rise with an interval; or the reason why there is none.
    """
    _check_rights(num_labeled, right)
    more = whole_number("num_more", num_more)
    check_range("num_more", more, at_least=1)
    check_range("level", level, above=0, below=1)
    trained = [number for number, labels in enumerate(num_labeled) if labels > 0]
    num_labeled = [num_labeled[number] for number in trained]
    right = [right[number] for number in trained]
    reason = _why_not(num_labeled, right, more)
    if not reason:
        forecast = _forecast(num_labeled, right, more, seed, level)
        if forecast is not None:
            gain, low, high = forecast
            return Gain(num_more=more, gain=gain, low=low, high=high, level=level)
        seen = ", ".join(f"{100 * sum(row) / len(row):.0f}" for row in right)
        reason = (
            f"the accuracy ({seen} %) does not rise clearly with the labels so far."
        )
    return Gain(num_more=more, gain=None, level=level, reason=reason)


def _forecast(
    num_labeled: Sequence[int], right: Rights, num_more: int, seed: int, level: float
) -> tuple[float, float, float] | None:
    """Return the fall of the error and its interval; None without a clear fall."""
    import numpy as np

    generator = np.random.default_rng(seed % 2**64)
    wrong_Rn = ~np.array(right, dtype=bool)
    x_R, num_audited = np.log(num_labeled), wrong_Rn.shape[1]
    ahead = float(np.log(max(num_labeled) + num_more) - x_R.max())
    # The first column is the slice as it was audited; the others are drawn anew.
    drawn_Dn = generator.integers(num_audited, size=(_DRAWS, num_audited))
    chosen_Dn = np.vstack([np.arange(num_audited), drawn_Dn])
    # Half a wrong item is added to all, so that there is a logarithm.
    y_RD = np.log((wrong_Rn[:, chosen_Dn].sum(axis=-1) + 0.5) / (num_audited + 1))
    centered_R = x_R - x_R.mean()
    spread, freedom = np.square(centered_R).sum(), len(x_R) - 2
    slope_D = (centered_R @ y_RD) / spread
    fitted_RD = y_RD.mean(axis=0) + centered_R[:, None] * slope_D
    variance_D = np.square(y_RD - fitted_RD).sum(axis=0) / freedom / spread
    student_D = np.append(0, generator.standard_t(freedom, size=_DRAWS))
    slope_D = (slope_D + np.sqrt(variance_D) * student_D).clip(max=0)
    last_D = y_RD.mean(axis=0) + centered_R.max() * slope_D
    falls_D = np.exp(last_D.clip(max=0)) * -np.expm1(slope_D * ahead)
    fall, drawn_D = float(falls_D[0]), falls_D[1:]
    if fall <= 0 or (drawn_D > 0).mean() < CARRIED:
        return None
    low, high = np.quantile(drawn_D, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return fall, min(low, fall), max(high, fall)


def fall_note(right: Rights) -> str | None:
    """Return a note when the last round's model is worse than the one before.

    Example:
        >>> right = [[item < known for item in range(60)] for known in (37, 43, 34)]
        >>> print(fall_note(right)[:64])
        The accuracy fell from 72 % to 57 %: of 60 audited images, 9 cha

    Args:
        right: Whether each round's model was right about each audited item.

    Returns:
        The note; None where the accuracy did not fall, or nothing was measured.
    """
    if len(right) < 2:
        return None
    before, now = right[-2], right[-1]
    moved = [then - since for then, since in zip(before, now, strict=True)]
    num_lost, num_won = moved.count(1), moved.count(-1)
    if num_lost <= num_won:
        return None
    num_moved = num_lost + num_won
    tail = sum(comb(num_moved, lost) for lost in range(num_lost, num_moved + 1))
    chance = 100 * (tail / 2**num_moved)
    shares = [100 * sum(row) / len(row) for row in (before, now)]
    return (
        f"The accuracy fell from {shares[0]:.0f} % to {shares[1]:.0f} %: of {len(now)} "
        f"audited images, {num_lost} changed from right to wrong and {num_won} from "
        "wrong to right. Chance alone would do as much in "
        f"{f'{chance:.2g}' if chance >= 0.1 else 'less than 0.1'} % of cases."
    )


def balance_note(
    classes: Sequence[str], assumed: Sequence[float], counts: Sequence[int]
) -> str | None:
    """Return a note when labels contradict the class shares that a training assumes.

    Only labels of images that were drawn at random count: a strategy chooses classes
    as it likes, and the predictions of a classifier that was trained towards some
    shares have them whatever the truth is.

    Example:
        >>> print(balance_note(["cat", "dog"], [0.5, 0.5], [38, 2]))
        Of 40 images drawn at random, 38 are 'cat', but training assumes 50.0 %.

    Args:
        classes: Names of the classes (C).
        assumed: The shares that the training assumes, C numbers that add up to one.
        counts: Labels of each class among images drawn at random, C numbers.

    Returns:
        The class that fits worst; None where the shares may well be right (Pearson's
        chi-squared test), or where there are too few labels.
    """
    check_count("assumed", len(assumed), len(classes), "class")
    check_count("counts", len(counts), len(classes), "class")
    total = sum(counts)
    if total < LEAST_LABELS:
        return None
    expected = [total * share for share in assumed]
    misfits = [
        (count - wanted) ** 2 / wanted
        for count, wanted in zip(counts, expected, strict=True)
    ]
    if chi_squared_tail(sum(misfits), len(classes) - 1) >= PLAIN:
        return None
    worst = misfits.index(max(misfits))
    return (
        f"Of {total:,} images drawn at random, {counts[worst]:,} are "
        f"'{classes[worst]}', but training assumes {100 * assumed[worst]:.1f} %."
    )


def _why_not(num_labeled: Sequence[int], right: Rights, more: int) -> str:
    """Return why there is no forecast; nothing if there is one."""
    num_audited, distinct = len(right[0]) if right else 0, len(set(num_labeled))
    if distinct < LEAST_ROUNDS:
        seen = count(distinct, "different number", "different numbers")
        needed = f"at least {LEAST_ROUNDS} are needed to see where the curve goes."
        return f"the models so far were trained on {seen} of labels; {needed}"
    if num_audited < LEAST_AUDITED:
        return f"{num_audited} audited images; at least {LEAST_AUDITED} are needed."
    if more > (FURTHEST - 1) * max(num_labeled):
        reach = f"{FURTHEST:g} times the current {max(num_labeled)}"
        return f"{more} more labels would exceed {reach}; ask for fewer."
    return ""


def _check_rights(num_labeled: Sequence[int], right: Rights) -> None:
    check_count("right", len(right), len(num_labeled), "round")
    for row in right:
        check_count("A row of right", len(row), len(right[0]), "audited item")


def chi_squared_tail(value: float, freedom: int) -> float:
    """Return how probable a value as large is, with so many degrees of freedom.

    Example:
        >>> round(chi_squared_tail(3.841459, 1), 6), round(chi_squared_tail(2.0, 2), 6)
        (0.05, 0.367879)
    """
    half = value / 2
    if half == 0:
        return 1.0
    total, first = (erfc(sqrt(half)), 0.5) if freedom % 2 else (0.0, 0.0)
    for number in range(freedom // 2):
        power = first + number
        total += exp(power * log(half) - half - lgamma(power + 1))
    return total
