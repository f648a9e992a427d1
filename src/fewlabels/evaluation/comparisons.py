"""Whether strategies differ: tests over seeds, and from printed means.

Shapes: S seeds, n tests.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.evaluation.differences import (
    can_be_tested,
    paired_differences,
    signed_rank_p,
    t_p_values,
)
from fewlabels.evaluation.numbers import check_level, finite
from fewlabels.integers import whole_number

Reading = Literal["sample", "population"]
"""What a printed deviation divides by: n - 1, or n."""


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """One strategy against another on the same seeds.

    Where they differ by the same on every seed, and not by zero, there is nothing to
    judge the difference by: interval, effect size and p values are NaN.
    """

    name: str
    against: str
    num_pairs: int
    difference: float
    """Mean of the differences; above zero where ``name`` is higher."""
    low: float
    """Lower end of Student's interval of the mean difference."""
    high: float
    """Upper end of it."""
    effect_size: float
    """Cohen's d of the differences (dz): their mean over their sample deviation."""
    t_p: float
    """Two-sided p value of the paired t-test."""
    wilcoxon_p: float
    """Two-sided p value of Wilcoxon's signed rank test."""
    t_holm: float
    """``t_p`` after Holm's correction for all comparisons made together."""
    wilcoxon_holm: float
    """``wilcoxon_p`` after the same correction."""
    wins: int
    """Seeds on which ``name`` is higher."""
    losses: int
    """Seeds on which it is lower."""

    @property
    def is_made(self) -> bool:
        """Whether the differences could be tested."""
        return not np.isnan(self.t_p)


@dataclass(frozen=True)
class Welch:
    """Welch's test of two means."""

    t: float
    degrees: float
    """Degrees of freedom by Welch and Satterthwaite."""
    p: float
    """Two-sided p value."""


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Return p values after Holm's step-down correction (Holm, 1979).

    To reject where the result is below 5 % is wrong in any of the tests in at most 5 %
    of all cases, whichever hypotheses are true and however the tests depend.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]

    Args:
        p_values: Shape (n,). NaN stands for a test that was not made.

    Returns:
        The corrected values in the same order, at most 1; NaN stays NaN and does not
        count as a test.

    Raises:
        ShapeError: If it is not a list of numbers.
        UsageError: If a value is outside 0 to 1.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if given.ndim != 1:
        msg = f"p_values has shape {given.shape}; give numbers of shape (tests,)."
        raise ShapeError(msg)
    is_made = ~np.isnan(given)
    made = given[is_made]
    if ((made < 0) | (made > 1)).any():
        msg = f"p_values is {given.tolist()}; give values from 0 to 1, or NaN."
        raise UsageError(msg)
    order = np.argsort(made, kind="stable")
    weighted = made[order] * np.arange(len(made), 0, -1)
    corrected = given.copy()
    steps = np.empty_like(made)
    steps[order] = np.minimum(np.maximum.accumulate(weighted), 1)
    corrected[is_made] = steps
    return corrected


def paired_tests(
    values: Mapping[str, ArrayLike], *, against: str, level: float = 0.95
) -> tuple[PairedTest, ...]:
    """Compare each strategy with one of them, seed by seed.

    Two strategies with the same seed share starting set and training stream, so their
    difference is freed of the seed's luck. Differences are rounded to twelve digits of
    the largest value first, so that 0.9 - 0.8 and 0.8 - 0.7 tie. Where all are zero,
    both p values are 1; where all are equal and not zero, there is no spread to judge
    them by, and no test is made (:attr:`PairedTest.is_made`). Few seeds cannot show
    much: with five of them, Wilcoxon's test never gets below 0.0625.

    Example:
        >>> values = {"npc": [0.95, 0.93, 0.96], "random": [0.91, 0.92, 0.93]}
        >>> (test,) = paired_tests(values, against="random")
        >>> f"{test.difference:.3f} ({test.low:.3f} to {test.high:.3f})"
        '0.027 (-0.011 to 0.065)'
        >>> f"p = {test.t_p:.3f}, by ranks {test.wilcoxon_p:.2f}"
        'p = 0.094, by ranks 0.25'

    Args:
        values: What each strategy reached with each seed, shape (S,), seeds in one
            order; at least two.
        against: The strategy that the others are compared with.
        level: How often the interval covers the true mean difference.

    Returns:
        A test for each other strategy, in the order given; Holm's correction is over
        these.

    Raises:
        UnknownNameError: If there are no values under the name ``against``.
    """
    if against not in values:
        raise UnknownNameError("strategy", against, values)
    check_level(level)
    arrays = {name: finite(f"'{name}'", values[name], "(seeds,)") for name in values}
    _check_paired(arrays)
    names = [name for name in arrays if name != against]
    return corrected(
        [_tested(name, against, arrays[name], arrays[against], level) for name in names]
    )


def corrected(tests: Sequence[PairedTest]) -> tuple[PairedTest, ...]:
    """Return tests after Holm's correction over all of them together."""
    t_holm = holm([one.t_p for one in tests]).tolist()
    wilcoxon_holm = holm([one.wilcoxon_p for one in tests]).tolist()
    return tuple(
        replace(one, t_holm=by_t, wilcoxon_holm=by_ranks)
        for one, by_t, by_ranks in zip(tests, t_holm, wilcoxon_holm, strict=True)
    )


def welch(
    mean: float,
    deviation: float,
    size: int,
    other_mean: float,
    other_deviation: float,
    other_size: int,
    *,
    reading: Reading = "sample",
) -> Welch:
    """Test whether two means differ, from what a table prints as mean ± deviation.

    It neither pairs the trials nor takes the two variances to be equal. A table that
    does not say how its deviation was computed has two readings: NumPy's default
    divides by n ("population"), most other programs by n - 1 ("sample"). The first is
    enlarged by sqrt(n / (n - 1)) before the test; with three trials, by 22 %.

    Example:
        >>> test = welch(55.76, 1.45, 3, 52.69, 1.16, 3)
        >>> f"t = {test.t:.2f} with {test.degrees:.1f} degrees, p = {test.p:.3f}"
        't = 2.86 with 3.8 degrees, p = 0.048'

    Args:
        mean: Mean of the first.
        deviation: Its printed deviation. Zero is possible, but not for both.
        size: Its number of trials, at least two.
        other_mean: Mean of the second.
        other_deviation: Its printed deviation.
        other_size: Its number of trials.
        reading: What the printed deviations divide by.

    Returns:
        The test; ``t`` is above zero where the first mean is higher.
    """
    sizes = np.array([whole_number("size", size), whole_number("size", other_size)])
    numbers = finite(
        "the means and deviations",
        [mean, other_mean, deviation, other_deviation],
        "(numbers,)",
    )
    _check_printed(numbers[2:], sizes, reading)
    divisors = sizes - 1 if reading == "population" else sizes
    errors = np.square(numbers[2:]) / divisors  # squared standard errors of the means
    t = (numbers[0] - numbers[1]) / np.sqrt(errors.sum())
    degrees = errors.sum() ** 2 / (np.square(errors) / (sizes - 1)).sum()
    return Welch(float(t), float(degrees), float(2 * stats.t.sf(abs(t), degrees)))


def _tested(
    name: str,
    against: str,
    one_S: NDArray[np.float64],
    other_S: NDArray[np.float64],
    level: float,
) -> PairedTest:
    """Compare one strategy with another; nothing is corrected yet."""
    difference_S = paired_differences(one_S, other_S)
    size = len(difference_S)
    mean = float(difference_S.mean())
    spread = difference_S.std(ddof=1) if can_be_tested(difference_S) else np.nan
    reach = float(stats.t.ppf((1 + level) / 2, size - 1) * spread / np.sqrt(size))
    return PairedTest(
        name=name,
        against=against,
        num_pairs=size,
        difference=mean,
        low=mean - reach,
        high=mean + reach,
        effect_size=float(mean / spread) if spread else 0.0,
        t_p=float(t_p_values(difference_S[:, None])[0]),
        wilcoxon_p=signed_rank_p(difference_S),
        t_holm=np.nan,
        wilcoxon_holm=np.nan,
        wins=int((difference_S > 0).sum()),
        losses=int((difference_S < 0).sum()),
    )


def _check_paired(arrays: Mapping[str, NDArray[np.float64]]) -> None:
    shapes = {name: array.shape for name, array in arrays.items()}
    sizes = {len(array) for array in arrays.values()}
    if len(sizes) != 1 or min(sizes) < 2:
        raise ShapeError(
            f"The values have shapes {shapes}; give each strategy one value per seed, "
            "the same seeds in one order, and at least two of them."
        )


def _check_printed(
    deviations: NDArray[np.float64], sizes: NDArray[np.int_], reading: str
) -> None:
    if reading not in {"sample", "population"}:
        raise UsageError(f"reading is {reading!r}; give 'sample' or 'population'.")
    if (sizes < 2).any():
        raise UsageError(
            f"The sizes are {sizes.tolist()}; a deviation needs at least two trials, "
            "so one trial cannot be tested."
        )
    if (deviations < 0).any() or not deviations.any():
        raise UsageError(
            f"The deviations are {deviations.tolist()}; none may be below zero, and "
            "two means without any spread cannot be tested."
        )
