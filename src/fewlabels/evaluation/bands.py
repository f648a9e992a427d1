"""How much accuracies vary, over seeds and over trainings on one label set.

Shapes: S seeds, T numbers of labels at which accuracy was measured, K trainings.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fewlabels.errors import UsageError
from fewlabels.evaluation.numbers import check_level, finite


@dataclass(frozen=True, eq=False, kw_only=True)
class Band:
    """Mean accuracy over seeds at each number of labels, all of shape (T,)."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]
    """Sample standard deviation (it divides by S - 1); NaN with a single seed."""
    low: NDArray[np.float64]
    """Lower end of the interval of the mean; NaN with a single seed."""
    high: NDArray[np.float64]
    """Upper end of it."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """How much accuracy differs between trainings on one and the same label set."""

    mean: float
    deviation: float
    """Sample standard deviation (it divides by K - 1)."""
    low: float
    """Lower end of the interval of the *deviation*."""
    high: float
    """Upper end of it."""
    num_trainings: int


def curve_band(accuracies: ArrayLike, *, level: float = 0.95) -> Band:
    """Return mean and spread over seeds, with Student's interval of the mean.

    The interval holds at each number of labels by itself. It says how well the mean is
    known; whether two strategies differ is a question for the paired differences, which
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

    Returns:
        The band; with one seed, its mean alone.
    """
    array_ST = finite("accuracies", accuracies, "(seeds, measurements)")
    check_level(level)
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
        low=mean_T - factor * deviation_T,
        high=mean_T + factor * deviation_T,
    )


def retraining_noise(accuracies: ArrayLike, *, level: float = 0.95) -> Noise:
    """Return how much trainings on one label set differ, with an interval of that.

    A difference between strategies that is smaller than this may come from training
    alone. Few trainings tell little: with five of them, the true deviation may be
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
    check_level(level)
    freedom = len(array_K) - 1
    if freedom < 1:
        raise UsageError(
            "There is 1 training, and noise is what trainings differ by; give the "
            "accuracies of at least two on the same label set."
        )
    squares = float(np.square(array_K - array_K.mean()).sum())
    tails = stats.chi2.ppf([(1 + level) / 2, (1 - level) / 2], freedom)
    low, high = np.sqrt(squares / tails).tolist()
    return Noise(
        mean=float(array_K.mean()),
        deviation=float(np.sqrt(squares / freedom)),
        low=low,
        high=high,
        num_trainings=len(array_K),
    )
