"""How good a classifier is, how sure that is, its course, and a forecast.

Two intervals tell where the true accuracy is. :func:`lasting_interval` holds however
often one looks while labels come in. :func:`accuracy_interval`, that of Clopper and
Pearson (Biometrika, 1934), is shorter and holds for a single look at a moment that was
chosen beforehand: each end is the accuracy at which a result as extreme as the one seen
has probability (1 - level) / 2. It covers the truth at least as often as it says, for
every accuracy and every size of the slice. :func:`sharpened_interval` makes it shorter
still by the confidences of the model.
Blaker's interval is a little shorter and keeps the same promise, but may grow when
items are added and jumps with the level; the mid-P interval is shorter and promises
nothing. For an audit of some dozens of images a promise that holds is worth more than a
point or two of width.

Tails of distributions are computed in plain Python, since importing SciPy takes a
second.

Shapes: R rounds, n audited items, C classes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, comb, erfc, exp, floor, lgamma, log, log1p, sqrt
from statistics import covariance, fmean, median, variance
from typing import TYPE_CHECKING, Literal, NamedTuple

from fewlabels.errors import check_count, check_range, count, whole_number

if TYPE_CHECKING:
    from fewlabels.pool import Split
    from fewlabels.protocols import Classifier

Rights = Sequence[Sequence[bool]]
"""Whether each round's model was right about each audited item: R rows of n."""

SPENT = 0.6
"""Share of the allowed misses that :func:`lasting_interval` uses for one model; the
rest is kept for models that change between looks."""

LEAST_SHARPENED = 20
"""Audited items below which confidences do not sharpen an interval."""

MOST_LABELED = 0.1
"""Share of images with labels to train on above which confidences do not sharpen: what
a strategy chose is hard, and the rest is easier than the whole."""

GAINED = 0.12
"""What the accuracy typically gains for each prediction that changes."""

SPREAD = (-0.13, 0.18)
"""Where 90 % of the gains lie around that, as multiples of a power of the share of the
predictions that change: with few of them chance counts for more."""

SPREAD_POWER = 0.75
"""The power: 1/2 if predictions changed independently of each other, 1 if together."""

LATEST = 3
"""Rounds that say how many predictions change."""

LITTLE = 0.003
"""Expected gain of 20 more labels below which it is advised to stop."""

MOST_CHECKS = 200
"""Largest number of further checks that is advised."""

FURTHEST = 2.0
"""How far ahead forecasts reach, as a multiple of the labels there are."""

PLAIN = 0.01
"""Level of the test of the assumed class shares."""

LEAST_LABELS = 20
"""Labels of random images below which the shares are not tested."""

_BINS = 15
_MOST_LATE = 20
_HALVINGS = 60


def accuracy(classifier: "Classifier", split: "Split") -> float:
    """Share of the split's images that are classified rightly."""
    import torch

    everything = torch.arange(len(split))
    predicted = classifier.outputs(split.images, everything).logits.argmax(dim=1)
    return float((predicted == split.labels).double().mean())


def calibration(classifier: "Classifier", split: "Split") -> tuple[float, float]:
    """Return calibration error and Brier score on a split.

    The calibration error (Guo et al., ICML 2017) is how far the share of right answers
    is from the mean confidence, over 15 bins of equal width. The score of Brier (1950)
    is the mean squared distance of probabilities to the truth, summed over classes.
    """
    import torch

    outputs = classifier.outputs(split.images, torch.arange(len(split)))
    rows = outputs.logits.double().softmax(dim=1).cpu()
    confidence, predicted = rows.max(dim=1)
    gaps = (predicted == split.labels).double() - confidence
    bins = (confidence * _BINS).ceil().long().clamp(1, _BINS) - 1
    error = torch.zeros(_BINS).double().index_add(0, bins, gaps).abs().sum()
    rows[torch.arange(len(split)), split.labels] -= 1
    return float(error) / len(split), float(rows.square().sum(dim=1).mean())


def late_median(evaluations: Mapping[int, float]) -> float:
    """Return the median of the last evaluations of a training.

    Those count that fall into the last fifth of its steps, at most 20 of them, as in
    the code of FixMatch, which reports the median of the last 20 checkpoints. A single
    evaluation may be a lucky one.

    Example:
        >>> late_median({200: 0.5, 850: 0.7, 900: 0.9, 1000: 0.8})
        0.8

    Args:
        evaluations: Accuracy by step, at least one; the last was made at the end.

    Returns:
        The median; between the middle two of an even number.
    """
    last = max(evaluations)
    late = [step for step in sorted(evaluations) if step == last or 5 * step > 4 * last]
    return median(evaluations[step] for step in late[-_MOST_LATE:])


class Confidences(NamedTuple):
    """How sure a model is: the probability of the class that it predicts."""

    checks: Sequence[float]
    """Of each audited item."""
    mean: float
    """Of the images that have no label and are not audited, on average."""
    num_images: int
    """How many those are."""


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
    kind: Literal["exact", "lasting", "sharpened"] = "exact"
    """Whether it holds for one look, however often one looks, or for one look with the
    help of confidences."""

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
            f"{100 * self.high:.1f} at the {100 * self.level:g} % level"
            f"{', however often one looks' * (self.kind == 'lasting')}, from "
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
    tail, wrong = (1 - level) / 2, audited - right
    # To be so often right is rare, or to be so often wrong.
    low = chance_of(right, audited, tail) if right else 0.0
    high = 1 - chance_of(wrong, audited, tail) if wrong else 1.0
    return AuditedAccuracy(
        num_right=right, num_audited=audited, low=low, high=high, level=level
    )


def lasting_interval(
    num_right: int, num_audited: int, level: float = 0.95
) -> AuditedAccuracy:
    """Return an interval that holds however often one looks while labels come in.

    Whoever looks after each label, and stops when the interval of
    :func:`accuracy_interval` pleases, is wrong more often than it says. This one is a
    confidence sequence: an accuracy p is outside if a mixture of all accuracies, by
    Jeffreys' prior, explains the answers much better than p does (Robbins, "Statistical
    Methods Related to the Law of the Iterated Logarithm", 1970). For one model Ville's
    inequality proves that the truth is outside at any look in at most 3 % of projects,
    at the level of 95 %. The other 2 % are for models that change between looks, about
    which it proves nothing; ``benchmarks/stopping.py`` measures them.

    Example:
        >>> found = lasting_interval(27, 30)
        >>> round(found.low, 3), round(found.high, 3)
        (0.637, 0.993)

    Args:
        num_right: Items of the slice that are classified rightly now.
        num_audited: Items of the slice that have a label now.
        level: How often the true accuracy shall be inside at all looks.

    Returns:
        The accuracy seen and the interval.
    """
    exact = accuracy_interval(num_right, num_audited, level)
    right, wrong = exact.num_right, exact.num_audited - exact.num_right
    mixture = lgamma(right + 0.5) + lgamma(wrong + 0.5) - lgamma(right + wrong + 1)
    least = mixture - 2 * lgamma(0.5) + log(SPENT * (1 - level))

    def is_inside(p: float) -> bool:
        explained = right * log(p) if right else 0.0
        return explained + (wrong * log1p(-p) if wrong else 0.0) > least

    seen = exact.accuracy or 0.0
    low = _halved(seen, 0.0, is_inside)[1] if right else 0.0
    high = _halved(seen, 1.0, is_inside)[1] if wrong else 1.0
    return replace(exact, low=low, high=high, kind="lasting")


def sharpened_interval(
    right: Sequence[bool], known: Confidences, level: float = 0.95
) -> AuditedAccuracy:
    """Return a shorter interval for one look, by the confidences of the model.

    If the model is surer about the audited items than about all others, the slice was
    an easy one, and the accuracy seen is corrected by a share of the difference. The
    share and the variance that is left are those of prediction-powered inference
    (Angelopoulos, Duchi and Zrnic, "PPI++", 2023). Its normal interval is too short for
    a few items and few mistakes. So the variance is expressed as a larger number of
    items, for which the exact interval is computed (Korn and Graubard, Survey
    Methodology, 1998).

    Args:
        right: Whether the model is right about each audited item.
        known: How sure it is about them and about the others.
        level: How often the interval shall cover the truth, at least.

    Returns:
        The accuracy seen and the interval; the exact one where there are fewer than 20
        items, all or none are right, or all confidences are equal.
    """
    check_count("known.checks", len(known.checks), len(right), "audited item")
    number, exact = len(right), accuracy_interval(sum(right), len(right), level)
    if number < LEAST_SHARPENED:
        return exact
    seen, sure = fmean(right), fmean(known.checks)
    is_right = list(map(float, right))
    variance_right, spread = variance(is_right), variance(known.checks)
    if not variance_right or not spread:
        return exact
    ratio = number / known.num_images if known.num_images else 1.0
    shared = covariance(is_right, known.checks)
    share = min(max(shared / spread / (1 + ratio), 0.0), 1.0)
    left = variance_right - 2 * share * shared + share**2 * spread
    left = left * (number - 1) / (number - 2) + share**2 * spread * ratio
    size = int(number / min(max(left / variance_right, 0.3), 1.0))
    middle = min(max(seen - share * (sure - known.mean), 0.0), 1.0) * size
    below = accuracy_interval(floor(middle), size, level)
    above = accuracy_interval(ceil(middle), size, level)
    rest = middle - floor(middle)
    return replace(
        exact,
        low=(1 - rest) * below.low + rest * above.low,
        high=(1 - rest) * below.high + rest * above.high,
        kind="sharpened",
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

    def are_rare(chance: float) -> bool:
        return _at_least(least, trials, chance) < tail

    return fmean(_halved(0.0, least / trials, are_rare))


def _halved(
    inside: float, outside: float, is_inside: Callable[[float], bool]
) -> tuple[float, float]:
    """Return both sides of where a condition ends between two numbers, nearly equal."""
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if is_inside(middle) else (inside, middle)
    return inside, outside


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
    """With the interval that holds however often one looks."""
    once: AuditedAccuracy
    """With the shorter interval for a single look, sharpened where that is possible."""


@dataclass(frozen=True)
class Change:
    """How much the predictions of two models differ, of which one has more labels."""

    num_before: int
    """Labels that the first model was trained on."""
    num_labeled: int
    """Labels that the second was trained on."""
    share: float
    """Share of the unlabeled images that they predict to be of different classes."""


@dataclass(frozen=True, kw_only=True)
class Gain:
    """The expected gain of more labels."""

    num_more: int
    """How many more labels."""
    gain: float | None
    """Expected rise of the accuracy, a share; None where no guess is honest."""
    low: float = -1.0
    """Lower end of where it may be."""
    high: float = 1.0
    """Upper end of where it may be."""
    level: float = 0.9
    """How often the rise was between the two in simulated projects, about."""
    reason: str = ""
    """Why there is no guess; empty where there is one."""

    @property
    def is_little(self) -> bool:
        """Whether it is advised to stop: under 0.3 points for 20 labels."""
        return self.gain is not None and 20 * self.gain < LITTLE * self.num_more

    def __str__(self) -> str:
        """Return it as a sentence, in percentage points."""
        if self.gain is None:
            return f"No forecast: {self.reason}"
        return (
            f"{count(self.num_more, 'more label')} are expected to bring "
            f"{100 * self.gain:z.1f} points ({100 * self.low:z.1f} to "
            f"{100 * self.high:z.1f} at the {100 * self.level:g} % level)."
        )


def learning_curve(
    num_labeled: Sequence[int],
    right: Rights,
    level: float = 0.95,
    *,
    confidences: Sequence[Confidences | None] = (),
) -> tuple[CurvePoint, ...]:
    """Return the accuracy of each round's model, with a band.

    All rounds are measured on the same slice, so its luck moves them together, and
    differences between rounds are surer than the band looks.

    Args:
        num_labeled: Labels that each round's model was trained on, R numbers.
        right: Whether each round's model was right about each audited item.
        level: How often the intervals cover the truth, at least.
        confidences: How sure each round's model is, or None; R of them or none.

    Returns:
        A point per round, in the order given.
    """
    check_count("right", len(right), len(num_labeled), "round")
    for row in right:
        check_count("A row of right", len(row), len(right[0]), "audited item")
    known = confidences or [None] * len(right)
    check_count("confidences", len(known), len(right), "round")
    return tuple(
        CurvePoint(
            labels,
            lasting_interval(sum(row), len(row), level),
            accuracy_interval(sum(row), len(row), level)
            if sure is None
            else sharpened_interval(row, sure, level),
        )
        for labels, row, sure in zip(num_labeled, right, known, strict=True)
    )


def expected_gain(changes: Sequence[Change], num_more: int) -> Gain:
    """Return the expected gain of ``num_more`` labels after the last round.

    A few dozen checks say little about the gain of a round, so it is estimated from the
    predictions that changed. They are taken to be as many for each doubling of the
    labels as in the last rounds, and a fixed share of them to be gained; that
    (:data:`GAINED`) and the interval (:data:`SPREAD`) were found in simulated projects,
    and ``benchmarks/stopping.py`` measures in others how often the interval holds.
    There is no forecast past twice the labels there are.

    Example:
        >>> print(expected_gain([Change(80, 100, 0.06), Change(100, 120, 0.05)], 20))
        20 more labels are expected to bring 0.5 points (-0.7 to 2.2 at the 90 % level).

    Args:
        changes: How the predictions changed from round to round, in their order.
        num_more: How many labels more.

    Returns:
        The expected rise with an interval; or the reason why there is none.
    """
    more = whole_number("num_more", num_more)
    check_range("num_more", more, at_least=1)
    used = [each for each in changes if 0 < each.num_before < each.num_labeled]
    used = used[-LATEST:]
    if not used:
        reason = (
            "it takes two models of one kind, the second trained on more labels, to "
            "see how many predictions still change."
        )
        return Gain(num_more=more, gain=None, reason=reason)
    now = used[-1].num_labeled
    if more > (FURTHEST - 1) * now:
        reason = f"{more} more labels are too many to look ahead from {now}."
        return Gain(num_more=more, gain=None, reason=reason)
    rate = fmean(each.share / log(each.num_labeled / each.num_before) for each in used)
    expected = min(1.0, rate * log1p(more / now))
    gain, spread = GAINED * expected, expected**SPREAD_POWER
    low, high = (gain + share * spread for share in SPREAD)
    return Gain(num_more=more, gain=gain, low=low, high=high)


def checks_to_confirm(
    audited: AuditedAccuracy, most: int = MOST_CHECKS
) -> tuple[int, float] | None:
    """Return how many more checks would confirm how high an accuracy.

    Args:
        audited: The accuracy seen so far; further checks are taken to be right as
            often.
        most: How many there may be; more than 200 are never advised.

    Returns:
        The number, rounded up to tens, and the highest multiple of five
        percent that would be below the lasting interval then; None if that would not be
        higher than now.
    """
    most = min(most, MOST_CHECKS)

    def low(more: int) -> float:
        total = audited.num_audited + more
        right = int((audited.accuracy or 0) * total + 1e-9)
        return lasting_interval(right, total, audited.level).low

    target = floor(20 * low(most)) / 20
    if target <= low(0):
        return None
    enough = (more for more in range(10, most, 10) if low(more) >= target)
    return next(enough, most), target


def stopping_advice(
    gain: Gain | None, audited: AuditedAccuracy | None, most: int = MOST_CHECKS
) -> str:
    """Return whether there are enough labels, in a few sentences.

    Example:
        >>> gain = expected_gain([Change(180, 200, 0.02)], 20)
        >>> print(stopping_advice(gain, lasting_interval(54, 60))[-57:])
        About 120 more random checks would confirm at least 80 %.

    Args:
        gain: What more labels are expected to bring; None: not known.
        audited: The accuracy seen; None: not measured.
        most: How many more checks there may be.

    Returns:
        The sentences; empty where nothing is known.
    """
    sentences = []
    if gain is not None:
        stop = f"You may stop labeling (under {100 * LITTLE:g} points for 20 labels): "
        words = stop if gain.is_little else "Go on labeling: "
        sentences.append(f"{'' if gain.gain is None else words}{gain}")
    if audited is not None and (confirmed := checks_to_confirm(audited, most)):
        number, share = confirmed
        checks = f"About {number} more random checks would confirm at least"
        sentences.append(f"{checks} {100 * share:.0f} %.")
    return " ".join(sentences)


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
