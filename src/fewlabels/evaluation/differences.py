"""Paired differences, and the two tests of whether they are zero on average.

One rule for both: differences that are all zero speak for no difference (p is 1), and
differences that are all the same and not zero are not tested (p is NaN), since there is
no spread to judge them by.

Shapes: S seeds, T measurements.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

_DIGITS = 12
_MOST_EXACT = 50
"""Differences up to which ranks are counted exactly; as many as SciPy counts."""


def paired_differences(
    one: NDArray[np.float64], other: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return differences to twelve digits of the largest value.

    So 0.9 - 0.8 and 0.8 - 0.7 are the same, as they are on paper.
    """
    largest = max(np.abs(one).max(), np.abs(other).max())
    digits = _DIGITS - int(np.ceil(np.log10(largest))) if largest else _DIGITS
    differences: NDArray[np.float64] = np.round(one - other, digits)
    return differences


def can_be_tested(differences: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return whether differences (S, ...) have a spread, or are all zero: (...)."""
    is_same = (differences == differences[0]).all(axis=0)
    found: NDArray[np.bool_] = ~is_same | (differences[0] == 0)
    return found


def t_p_values(differences_ST: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return two-sided p values of the paired t-test at each measurement, (T,)."""
    num_seeds, num_measured = differences_ST.shape
    means_T = differences_ST.mean(axis=0)
    errors_T = differences_ST.std(axis=0, ddof=1) / np.sqrt(num_seeds)
    t_T = np.divide(means_T, errors_T, out=np.zeros(num_measured), where=errors_T > 0)
    p_T = 2 * stats.t.sf(np.abs(t_T), num_seeds - 1)
    return np.where(can_be_tested(differences_ST), p_T, np.nan)


def signed_rank_p(differences_S: NDArray[np.float64]) -> float:
    """Return the two-sided p value of Wilcoxon's signed rank test.

    Zeros are left out, and equal sizes share the mean of their ranks. Up to 50
    differences the p value is exact, ties or not: under the hypothesis each of the 2^S
    ways to give signs to the ranks is as likely, and how many of them reach a sum is
    counted rank by rank. Beyond, it is that of the normal distribution.
    """
    if not can_be_tested(differences_S):
        return np.nan
    moved = differences_S[differences_S != 0]
    if not len(moved):
        return 1.0
    if len(moved) > _MOST_EXACT:
        return float(stats.wilcoxon(moved, method="asymptotic").pvalue)
    # Mean ranks are whole or half numbers, so that twice of them are whole.
    ranks = (2 * stats.rankdata(np.abs(moved))).astype(np.intp)
    chances = np.zeros(ranks.sum() + 1)  # of each sum of the ranks above zero
    chances[0] = 1
    for rank in ranks:
        chances[rank:] = (chances[rank:] + chances[:-rank]) / 2
        chances[:rank] /= 2
    reached = ranks[moved > 0].sum()
    rarer = min(chances[: reached + 1].sum(), chances[reached:].sum())
    return float(min(1, 2 * rarer))
