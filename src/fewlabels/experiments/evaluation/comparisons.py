"""Whether strategies differ: tests over seeds, from printed means, and who beats whom.

One rule for both tests of paired differences: if they are all zero, there is no
difference (p is 1), and those that are all the same and not zero are not tested (p is
NaN), since there is no spread to judge them by.

Seeds that label the same images do not repeat a comparison independently. With the
correlation ρ between the differences of two seeds, the variance of the mean of S of
them is (1/S + ρ/(1 - ρ)) s², where s² is their sample variance: the corrected resampled
t-test of Nadeau and Bengio (2003), whose ρ is the share of data held out. Here ρ is
:func:`fewlabels.experiments.evaluation.overlap_of_differences`.

Shapes: A strategies, S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from fewlabels.errors import (
    ShapeError,
    UnknownNameError,
    UsageError,
    check_count,
    check_range,
    whole_number,
)
from fewlabels.names import check_known

Array = NDArray[np.float64]

Reading = Literal["sample", "population"]
"""What a printed deviation divides by: n - 1, or n."""

LEVEL = 0.05
"""Two-sided level at which one strategy counts as better than another."""

NEARLY_FINAL = 0.99
"""Share of random's final accuracy past which measurements count no more."""

_DIGITS = 12
_MOST_EXACT = 50
"""Differences up to which ranks are counted exactly; as many as SciPy counts."""


def finite(name: str, values: ArrayLike, shape: str) -> Array:
    """Return values as an array of finite numbers with the given axes.

    Args:
        name: Name of the argument, for the message.
        values: The values.
        shape: Names of the axes, such as ``"(seeds, measurements)"``;
            ``"(..., measurements)"`` allows any axes before the last one.

    Returns:
        The array, with at least one entry along each axis.

    Raises:
        ShapeError: If the array is empty or has other axes.
        UsageError: If a value is not a finite number.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        text = f"{name} cannot be read as numbers of shape {shape}: {error}"
        raise ShapeError(text) from error
    num_axes = shape.count(",") + (not shape.endswith(",)"))
    fits = array.ndim >= 1 if "..." in shape else array.ndim == num_axes
    if not fits or array.size == 0:
        raise ShapeError(f"{name} has shape {array.shape}; give shape {shape}.")
    num_bad = int((~np.isfinite(array)).sum())
    if num_bad:
        raise UsageError(f"{num_bad} of {array.size} numbers in {name} are not finite.")
    return array


def curves(
    num_labels: ArrayLike, name: str, values: ArrayLike, axes: str, of: str = "num"
) -> tuple[Array, Array]:
    """Return rising numbers of labels (T,), and what was measured there (..., T)."""
    labels_T = finite(f"{of}_labels", num_labels, "(measurements,)")
    if (np.diff(labels_T) <= 0).any() or labels_T[0] < 0 or (labels_T % 1).any():
        raise UsageError(
            f"{of}_labels is {labels_T.tolist()}; give rising whole numbers from 0."
        )
    array = finite(name, values, axes)
    check_count(name, array.shape[-1], len(labels_T), f"entry of {of}_labels")
    return labels_T, array


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
    t_holm: float = np.nan
    """``t_p`` after Holm's correction for all comparisons of one call."""
    wilcoxon_p: float
    """Two-sided p value of Wilcoxon's signed rank test."""
    wilcoxon_holm: float = np.nan
    """``wilcoxon_p`` after the same correction."""
    wins: int
    """Seeds on which ``name`` is higher."""
    losses: int
    """Seeds on which it is lower."""
    overlap: float = 0.0
    """Correlation between seeds that interval and p values are corrected for."""

    @property
    def is_made(self) -> bool:
        """Whether the differences could be tested."""
        return not np.isnan(self.t_p)


class Welch(NamedTuple):
    """Welch's test of two means."""

    t: float
    p: float
    """Two-sided p value."""


def holm(p_values: ArrayLike) -> Array:
    """Return p values after Holm's step-down correction (Holm, 1979).

    To reject where the result is below 5 % is wrong in any of the tests in at most 5 %
    of all cases, whichever hypotheses are true and however the tests depend.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
        [0.03, 0.06, 0.06]

    Args:
        p_values: Shape (tests,). NaN means that a test was not possible.

    Returns:
        The corrected values in the same order, at most 1; NaN stays NaN and does not
        count as a test.

    Raises:
        ShapeError: If it is not a list of numbers.
        UsageError: If a value is outside 0 to 1.
    """
    given = np.asarray(p_values, dtype=np.float64)
    if given.ndim != 1:
        raise ShapeError(f"p_values has shape {given.shape}; give shape (tests,).")
    if ((given < 0) | (given > 1)).any():
        raise UsageError(f"p_values is {given.tolist()}; give 0 to 1, or NaN.")
    order = np.argsort(given, kind="stable")[: np.isfinite(given).sum()]  # NaN is last
    weighted = given[order] * np.arange(len(order), 0, -1)
    corrected = given.copy()
    corrected[order] = np.minimum(np.maximum.accumulate(weighted), 1)
    return corrected


def paired_tests(
    values: Mapping[str, ArrayLike],
    *,
    against: str,
    level: float = 0.95,
    overlaps: Mapping[str, float] | None = None,
) -> tuple[PairedTest, ...]:
    """Compare each strategy with one of them, seed by seed.

    Two strategies with the same seed share starting set and training stream, so their
    difference is freed of the seed's luck. Differences are rounded to twelve digits of
    the largest value first, so that 0.9 - 0.8 and 0.8 - 0.7 tie. Where all are zero,
    both p values are 1; where all are equal and not zero, there is no spread to judge
    them by, and no test is made (:attr:`PairedTest.is_made`). Few seeds cannot show
    much: with five of them, Wilcoxon's test never gets below 0.0625.

    Where seeds label some of the same images, as on one pool or on pools that overlap,
    ``overlaps`` says so, and interval and t-test are those of Nadeau and Bengio (2003).
    There is no such form of Wilcoxon's test; its p value is turned into that of a
    normal deviate as many times smaller.

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
        overlaps: Correlation between the differences of two seeds, 0 to 1, by strategy;
            0 where it is not given, as for disjoint pools. See
            :func:`fewlabels.experiments.evaluation.overlap_of_differences`. With 1, all
            seeds are one and the same comparison, and nothing is significant.

    Returns:
        A test for each other strategy, in the order given; Holm's correction is over
        these.

    Raises:
        UnknownNameError: If there are no values under the name ``against``.
    """
    if against not in values:
        raise UnknownNameError("strategy", against, values)
    check_range("level", level, above=0, below=1)
    arrays = {name: finite(f"'{name}'", values[name], "(seeds,)") for name in values}
    sizes = {len(array_S) for array_S in arrays.values()}
    if len(sizes) != 1 or min(sizes) < 2:
        raise ShapeError(
            f"The strategies have {sorted(sizes)} seeds; give all the same, 2 or more."
        )
    tests, size, base_S = [], sizes.pop(), arrays.pop(against)
    factor = float(stats.t.ppf((1 + level) / 2, size - 1))
    for name, array_S in arrays.items():
        difference_S = paired_differences(array_S, base_S)
        mean = float(difference_S.mean())
        spread = difference_S.std(ddof=1) if can_be_tested(difference_S) else np.nan
        overlap = (overlaps or {}).get(name, 0.0)
        check_range(f"overlaps['{name}']", overlap, at_least=0, at_most=1)
        excess = 1 + size * overlap / (1 - overlap) if overlap < 1 else np.inf
        reach = float(factor * spread * np.sqrt(excess / size)) if spread else 0.0
        # By ranks too: the p value of a normal deviate as many times smaller.
        deviate = stats.norm.isf(signed_rank_p(difference_S) / 2) / np.sqrt(excess)
        tests.append(
            PairedTest(
                name=name,
                against=against,
                num_pairs=size,
                difference=mean,
                low=mean - reach,
                high=mean + reach,
                effect_size=float(mean / spread) if spread else 0.0,
                t_p=float(t_p_values(difference_S[:, None], excess)[0]),
                wilcoxon_p=float(2 * stats.norm.sf(deviate)),
                wins=int((difference_S > 0).sum()),
                losses=int((difference_S < 0).sum()),
                overlap=overlap,
            )
        )
    return corrected(tests)


def corrected(tests: Sequence[PairedTest]) -> tuple[PairedTest, ...]:
    """Return tests after Holm's correction over all of them together."""
    t_holm = holm([test.t_p for test in tests]).tolist()
    wilcoxon_holm = holm([test.wilcoxon_p for test in tests]).tolist()
    return tuple(
        replace(test, t_holm=by_t, wilcoxon_holm=by_ranks)
        for test, by_t, by_ranks in zip(tests, t_holm, wilcoxon_holm, strict=True)
    )


class LabelGain(NamedTuple):
    """What the labels of one query add to accuracy, by two ways of training."""

    num_before: int
    """Labels without those of the query."""
    num_after: int
    """Labels with them."""
    supervised: float
    """Mean gain of training on the labeled images alone (NPC paper, Eq. 1)."""
    semi_supervised: float
    """Mean gain of training on all images (Eq. 2): from the labels only."""
    test: PairedTest
    """The second gain less the first, seed by seed."""


def label_gains(
    num_labels: ArrayLike,
    supervised: ArrayLike,
    semi_supervised: ArrayLike,
    *,
    overlap: float = 0.0,
) -> tuple[LabelGain, ...]:
    """Return the gain of newly acquired labels by both ways of training (Eqs. 1 and 2).

    With each query, a supervised learner gets images and their labels; a
    semi-supervised one has seen the images before and gets the labels alone. The
    paper's equations are differences of errors; these are of accuracies, so that a gain
    is above zero.

    Example:
        >>> alone, with_all = [[0.6, 0.8], [0.5, 0.8]], [[0.7, 0.9], [0.7, 0.8]]
        >>> (gain,) = label_gains([10, 30], alone, with_all)
        >>> f"{gain.supervised:.2f}, {gain.semi_supervised:.2f}"
        '0.25, 0.15'
        >>> f"{gain.test.difference:.2f}"
        '-0.10'

    Args:
        num_labels: Sizes of the labeled sets, rising, shape (T,).
        supervised: Accuracy of training on the labeled images alone, shape (S, T).
        semi_supervised: Accuracy of training on all images with the same labeled sets,
            shape (S, T).
        overlap: Correlation between the differences of two seeds; see
            :func:`paired_tests`.

    Returns:
        The gain of each query; Holm's correction is over these.
    """
    shape = "(seeds, measurements)"
    labels_T, alone_ST = curves(num_labels, "supervised", supervised, shape)
    _, all_ST = curves(num_labels, "semi_supervised", semi_supervised, shape)
    gains = {"supervised": np.diff(alone_ST), "semi-supervised": np.diff(all_ST)}
    tests = [
        paired_tests(
            {name: array[:, step] for name, array in gains.items()},
            against="supervised",
            overlaps={"semi-supervised": overlap},
        )[0]
        for step in range(len(labels_T) - 1)
    ]
    return tuple(
        LabelGain(
            num_before=int(labels_T[step]),
            num_after=int(labels_T[step + 1]),
            supervised=float(gains["supervised"][:, step].mean()),
            semi_supervised=float(gains["semi-supervised"][:, step].mean()),
            test=test,
        )
        for step, test in enumerate(corrected(tests))
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
        >>> f"t = {test.t:.2f}, p = {test.p:.3f}"
        't = 2.86, p = 0.048'

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
    check_known("reading", reading, Reading)
    if not (deviation or other_deviation):
        raise UsageError("Both deviations are 0; means without spread are not tested.")
    samples: list[float] = []
    other = (other_mean, other_deviation, other_size)
    for center, spread, trials in ((mean, deviation, size), other):
        check_range("mean", center)
        check_range("deviation", spread, at_least=0)
        check_range("size", whole_number("size", trials), at_least=2)
        share = trials / (trials - 1) if reading == "population" else 1.0
        samples += [center, spread * share**0.5, trials]
    result = stats.ttest_ind_from_stats(*samples, equal_var=False)
    return Welch(float(result.statistic), float(result.pvalue))


class Penalties(NamedTuple):
    """The matrix, read by rows: the row's strategy beats the column's."""

    names: tuple[str, ...]
    shares: Array
    """Entry (i, j): share of the measurements at which i is better than j, (A, A)."""

    @property
    def penalty(self) -> dict[str, float]:
        """How often each strategy is beaten: the mean of its *column*.

        As in the authors' script, the mean is over all A strategies, itself included,
        so that it is at most 1 - 1 / A. Public implementations store the matrix as
        (loser, winner) and transpose it when they draw it: read as here, their rows
        would rank the worst strategy first.
        """
        return dict(zip(self.names, self.shares.mean(axis=0).tolist(), strict=True))


def penalty_matrix(accuracies: Mapping[str, ArrayLike]) -> Penalties:
    """Compare strategies pairwise, measurement by measurement.

    At each number of labels, the accuracies of two strategies with the same seeds are
    compared by a paired t-test; the better one gets 1 / T where it is significant at
    5 %, not corrected for the number of tests, as in the paper. Where two differ by
    the same with every seed, nothing is tested, as in :func:`paired_tests`, and neither
    gets anything; the authors' script would count it.

    Args:
        accuracies: Accuracies of each strategy, shape (S, T), seeds in one order.

    Returns:
        The matrix.
    """
    axes = "(seeds, measurements)"
    arrays = [finite(f"'{name}'", accuracies[name], axes) for name in accuracies]
    shapes = {array_ST.shape for array_ST in arrays}
    if len(shapes) != 1 or min(shapes)[0] < 2:
        raise ShapeError(
            f"The accuracies have shapes {sorted(shapes)}; give one, with 2 seeds."
        )
    shares = np.zeros((len(arrays), len(arrays)))
    for i, j in permutations(range(len(arrays)), 2):
        differences_ST = paired_differences(arrays[i], arrays[j])
        is_higher_T = differences_ST.mean(axis=0) > 0
        is_significant_T = t_p_values(differences_ST) < LEVEL  # NaN is not
        shares[i, j] = np.mean(is_significant_T & is_higher_T)
    return Penalties(tuple(accuracies), shares)


def penalty_checkpoints(
    num_labels: ArrayLike, random_accuracies: ArrayLike
) -> NDArray[np.intp]:
    """Return which measurements count for the penalty matrix, as in the paper.

    With n0 labels at the start and queries of Q, those at n0, n0 + Q, n0 + 2 Q,
    n0 + 4 Q and so on count, as long as random has at most 99 % of its final accuracy
    there; the start always counts. Later ones are all alike, and would drown the
    difference. So do the authors in their script; the last measurement never counts.

    Example:
        >>> labels = [10, 30, 50, 70, 90, 110]
        >>> penalty_checkpoints(labels, [0.3, 0.5, 0.7, 0.8, 0.9, 0.9]).tolist()
        [0, 1, 2]

    Args:
        num_labels: Labels at each measurement, rising, shape (T,).
        random_accuracies: Mean accuracies of random, shape (T,).

    Returns:
        Positions in ``num_labels``, rising. The columns of these are what to give to
        :func:`penalty_matrix`.

    Raises:
        UsageError: If no accuracy was measured at one of these numbers of labels.
    """
    name, axes = "random_accuracies", "(measurements,)"
    labels_T, random_T = curves(num_labels, name, random_accuracies, axes)
    counted = [0]
    step = labels_T[1] - labels_T[0] if len(labels_T) > 1 else np.inf
    while (wanted := labels_T[0] + step) <= labels_T[-1]:
        place = int(np.searchsorted(labels_T, wanted))
        if labels_T[place] != wanted:
            raise UsageError(
                f"{wanted:g} labels are not in {labels_T.tolist()}; use one query size."
            )
        if random_T[place] > NEARLY_FINAL * random_T[-1]:
            break
        counted.append(place)
        step *= 2
    return np.array(counted, dtype=np.intp)


def paired_differences(one: Array, other: Array) -> Array:
    """Return differences, rounded to twelve digits of the largest value.

    So 0.9 - 0.8 and 0.8 - 0.7 are equal, as they are on paper.
    """
    largest = max(np.abs(one).max(), np.abs(other).max())
    digits = _DIGITS - int(np.ceil(np.log10(largest))) if largest else _DIGITS
    return np.asarray(np.round(one - other, digits))


def can_be_tested(differences: Array) -> NDArray[np.bool_]:
    """Return whether differences (S, ...) have a spread, or are all zero: (...)."""
    is_same = (differences == differences[0]).all(axis=0)
    return np.asarray(~is_same | (differences[0] == 0))


def t_p_values(differences_ST: Array, excess: float = 1.0) -> Array:
    """Return two-sided p values of the paired t-test at each measurement, (T,).

    ``excess`` is how many times the variance of the mean is that of independent seeds.
    """
    num_seeds = len(differences_ST)
    means_T = differences_ST.mean(axis=0)
    spread_T = differences_ST.std(axis=0, ddof=1)
    sizes_T = means_T / np.where(spread_T > 0, spread_T, np.inf)
    t_T = sizes_T * np.sqrt(num_seeds / excess)
    p_T = 2 * stats.t.sf(np.abs(t_T), num_seeds - 1)
    return np.where(can_be_tested(differences_ST), p_T, np.nan)


def signed_rank_p(differences_S: Array) -> float:
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
