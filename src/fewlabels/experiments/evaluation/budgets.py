"""Accuracy over seeds and labels: bands, noise, areas, and labels saved.

Shapes: S seeds, T numbers of labels at which accuracy was measured, U those of random
labels, B resamples, K trainings.
"""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats
from scipy.optimize import isotonic_regression

from fewlabels.errors import UsageError, check_count, check_range
from fewlabels.experiments.evaluation.comparisons import Array, curves, finite

Reach = Literal["from the start", "within the budget", "never"]

_RESAMPLES = 2000
_DIGITS = 12  # of accuracies that count as equal


class Band(NamedTuple):
    """Mean accuracy over seeds at each number of labels, all of shape (T,)."""

    mean: Array
    deviation: Array
    """Sample standard deviation (it divides by S - 1); NaN with a single seed."""
    low: Array
    """Lower end of the interval of the mean; NaN with a single seed."""
    high: Array
    """Upper end of it."""


class Noise(NamedTuple):
    """How much accuracy differs between trainings on one and the same label set."""

    mean: float
    deviation: float
    """Sample standard deviation (it divides by K - 1)."""
    low: float
    """Lower end of the interval of the *deviation*."""
    high: float
    """Upper end of it."""
    num_trainings: int


def curve_band(
    accuracies: ArrayLike, *, level: float = 0.95, highest: float = 1.0
) -> Band:
    """Return mean and spread over seeds, with Student's interval of the mean.

    The interval ends where accuracies do, at 0 and at ``highest``. It holds at each
    number of labels by itself. It says how well the mean is known; whether two
    strategies differ is a question for the paired differences, which
    :func:`paired_tests` answers: bands that overlap do not.

    Example:
        >>> band = curve_band([[0.5, 0.8], [0.7, 0.9]])
        >>> band.mean.round(2).tolist()
        [0.6, 0.85]
        >>> band.deviation.round(3).tolist()
        [0.141, 0.071]

    Args:
        accuracies: Shape (S, T).
        level: How often the interval covers the true mean, if accuracies are normal.
        highest: What accuracies can be at most; 100 for percent.

    Returns:
        The band; with one seed, its mean alone.

    Raises:
        UsageError: If an accuracy is below 0 or above ``highest``.
    """
    array_ST = finite("accuracies", accuracies, "(seeds, measurements)")
    check_range("level", level, above=0, below=1)
    if array_ST.min() < 0 or array_ST.max() > highest:
        raise UsageError(
            f"accuracies are {array_ST.min():g} to {array_ST.max():g}; give 0 to "
            f"{highest:g}, or what they can be at most as highest."
        )
    num_seeds = len(array_ST)
    mean_T = array_ST.mean(axis=0)
    if num_seeds == 1:
        unknown_T = np.full_like(mean_T, np.nan)
        return Band(mean=mean_T, deviation=unknown_T, low=unknown_T, high=unknown_T)
    deviation_T = array_ST.std(axis=0, ddof=1)
    factor = stats.t.ppf((1 + level) / 2, num_seeds - 1) / np.sqrt(num_seeds)
    return Band(
        mean=mean_T,
        deviation=deviation_T,
        low=np.maximum(mean_T - factor * deviation_T, 0),
        high=np.minimum(mean_T + factor * deviation_T, highest),
    )


def retraining_noise(accuracies: ArrayLike, *, level: float = 0.95) -> Noise:
    """Return how much trainings on one label set differ, with an interval of that.

    A difference between strategies that is smaller than this may come from training
    alone. Few trainings are not enough: with five of them, the true deviation may be
    almost three times the one seen. The interval is that of the chi-square
    distribution, which holds for normal accuracies.

    Example:
        >>> noise = retraining_noise([0.90, 0.92, 0.91, 0.94, 0.88])
        >>> f"{noise.deviation:.3f} ({noise.low:.3f} to {noise.high:.3f})"
        '0.022 (0.013 to 0.064)'

    Args:
        accuracies: Accuracies of trainings that differ in their random numbers only,
            shape (K,), at least two.
        level: How often the interval covers the true deviation.

    Returns:
        Mean, deviation and the interval of the deviation.

    Raises:
        UsageError: If there are fewer than two trainings.
    """
    array_K = finite("accuracies", accuracies, "(trainings,)")
    check_range("level", level, above=0, below=1)
    freedom = len(array_K) - 1
    if freedom < 1:
        raise UsageError("There is 1 training; give the accuracies of at least two.")
    deviation = float(array_K.std(ddof=1))
    tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], freedom)
    low, high = (deviation * np.sqrt(freedom / tails)).tolist()
    return Noise(
        mean=float(array_K.mean()),
        deviation=deviation,
        low=low,
        high=high,
        num_trainings=len(array_K),
    )


class Saving(NamedTuple):
    """How many random labels reach the accuracy of one measurement."""

    num_labels: int
    """Labels that the strategy had."""
    accuracy: float
    """Mean accuracy that it reached with them."""
    needed_by_random: float | None
    """Labels at which random's curve reaches it; None where that is not known."""
    reached: Reach
    """Whether random reaches the accuracy between its measurements, or has it before
    the first one already ("from the start"), or does not within its budget ("never":
    it needs more than its last number of labels)."""
    low: float | None
    """Lower end of the interval of ``needed_by_random``: 0 if it is below random's
    first number of labels; None with a single seed."""
    high: float | None
    """Upper end of it; None if it is above random's last number of labels, or with a
    single seed."""
    random_range: tuple[int, int]
    """First and last number of random labels that were measured."""

    @property
    def amount(self) -> str:
        """The random labels needed, or the bound that is known, such as "over 100"."""
        if self.needed_by_random is not None:
            return f"{self.needed_by_random:,.0f}"
        first, last = self.random_range
        return f"over {last:,}" if self.reached == "never" else f"at most {first:,}"

    @property
    def interval(self) -> str:
        """The interval of it; empty where it is not known, or says no more."""
        first, last = self.random_range
        if self.low in (None, last) or self.high == first:
            return ""
        low = f"{self.low:,.0f}" if self.low else f"less than {first:,}"
        high = f"over {last:,}" if self.high is None else f"{self.high:,.0f}"
        return f"{low} to {high}"

    @property
    def worth(self) -> str:
        """Both, such as "210 (180 to 250)"."""
        return f"{self.amount} ({self.interval})" if self.interval else self.amount


def area_under_curve(num_labels: ArrayLike, accuracies: ArrayLike) -> Array:
    """Return the area under the budget curve (AUBC), by the trapezoid rule.

    The budget is scaled to [0, 1], so that the area is a mean accuracy over the whole
    range of labels (Zhan et al., 2021; Lüth et al., 2023).

    Example:
        >>> float(area_under_curve([10, 20, 40], [0.5, 0.7, 0.8]).round(3))
        0.7

    Args:
        num_labels: Labels at each measurement, rising, shape (T,).
        accuracies: Shape (..., T): one curve, or one per seed.

    Returns:
        The areas, shape (...). Of a single measurement, its accuracy.
    """
    axes = "(..., measurements)"
    labels_T, array_T = curves(num_labels, "accuracies", accuracies, axes)
    if len(labels_T) == 1:
        return array_T[..., 0].copy()
    return np.asarray(np.trapezoid(array_T, labels_T) / (labels_T[-1] - labels_T[0]))


def labels_saved(
    num_labels: ArrayLike,
    accuracies: ArrayLike,
    random_accuracies: ArrayLike,
    *,
    random_labels: ArrayLike | None = None,
) -> tuple[Saving, ...]:
    """Return how many random labels reach what a strategy reached, with intervals.

    Random's mean curve is made monotone (isotonic regression), so that chance dips do
    not count, and joined by straight lines over the logarithm of the labels; lines over
    the labels themselves would run below a curve that bends, and make savings too
    large. The answer is where it first reaches the strategy's mean accuracy. Two cases
    have no number: random may be as good at its first measurement already, or not at
    its last one. The interval (95 %) is that of the percentile bootstrap over 2,000
    resamples of the seeds, drawn together for both (always the same draws), curves and
    all.

    Example:
        >>> own = [[0.70, 0.80], [0.72, 0.81], [0.71, 0.84]]
        >>> random = [[0.6, 0.7, 0.8], [0.62, 0.74, 0.8], [0.6, 0.72, 0.81]]
        >>> savings = labels_saved([20, 40], own, random, random_labels=[20, 40, 80])
        >>> print(*(f"{s.num_labels}: {s.worth}" for s in savings), sep="; ")
        20: 38 (36 to 40); 40: over 80

    Args:
        num_labels: Labels at each measurement of the strategy, rising, shape (T,).
        accuracies: Of the strategy, shape (S, T).
        random_accuracies: Of random labels with the same seeds, shape (S, U).
        random_labels: Labels at each measurement of random, rising, shape (U,); by
            default the same as the strategy's.

    Returns:
        A saving per measurement of the strategy.
    """
    axes = "(seeds, measurements)"
    labels_T, own_ST = curves(num_labels, "accuracies", accuracies, axes)
    given_U = num_labels if random_labels is None else random_labels
    random = "random_accuracies", random_accuracies
    labels_U, random_SU = curves(given_U, *random, axes, of="random")
    num_seeds = len(own_ST)
    check_count("random_accuracies", len(random_SU), num_seeds, "seed")
    means_T = own_ST.mean(axis=0)
    needed_T = _needed(means_T, labels_U, random_SU.mean(axis=0))
    generator = np.random.default_rng(0)
    picks_BS = generator.integers(num_seeds, size=(_RESAMPLES, num_seeds))
    drawn_BT = np.array(
        [
            _needed(own_ST[picks].mean(axis=0), labels_U, random_SU[picks].mean(axis=0))
            for picks in picks_BS
        ]
    )
    # The ends are draws themselves: between a number and infinity there is nothing.
    low_T = np.quantile(drawn_BT, 0.025, axis=0, method="lower")
    high_T = np.quantile(drawn_BT, 0.975, axis=0, method="higher")
    first, last = int(labels_U[0]), int(labels_U[-1])
    reached: dict[float, Reach] = {0: "from the start", np.inf: "never"}
    return tuple(
        Saving(
            num_labels=int(labels),
            accuracy=accuracy,
            needed_by_random=None if needed in reached else needed,
            reached=reached.get(needed, "within the budget"),
            low=None if num_seeds == 1 else min(low, last),
            high=None if num_seeds == 1 or high > last else max(high, first),
            random_range=(first, last),
        )
        for labels, accuracy, needed, low, high in np.array(
            [labels_T, means_T, needed_T, low_T, high_T]
        ).T.tolist()
    )


def _needed(accuracies_T: Array, labels_U: Array, random_U: Array) -> Array:
    """Return where random's curve first reaches accuracies: 0 before it, inf behind."""
    curve_U = isotonic_regression(random_U).x.round(_DIGITS)
    wanted_T = accuracies_T.round(_DIGITS)
    behind_T = np.searchsorted(curve_U, wanted_T)
    needed_T = np.where(behind_T == 0, 0.0, np.inf)
    is_inside_T = (behind_T > 0) & (behind_T < len(curve_U))
    after = behind_T[is_inside_T]
    before = after - 1  # below the accuracy, so that the step is not flat
    rise = curve_U[after] - curve_U[before]
    share = (wanted_T[is_inside_T] - curve_U[before]) / rise
    logs_U = np.log1p(labels_U)  # of one label more, for a start without any
    steps = logs_U[before] + share * (logs_U[after] - logs_U[before])
    needed_T[is_inside_T] = np.expm1(steps).round(_DIGITS - 3)
    return needed_T
