"""Measures of what was chosen: classes with labels, copies, overlap of choices.

The overlap of choices is their intersection over union (IoU). The paper (Fig. 1) takes
the union of each strategy's label sets over all trials, with the starting sets in it,
and compares the unions. Two things inflate that: what both began with, and the number
of trials, since unions of many trials meet by chance. The fair comparison is per trial,
of what was *acquired*. Compare any overlap with that of random choices,
:func:`chance_overlap`.

Shapes: C classes, N items of the pool.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fewlabels.errors import ShapeError, UsageError, check_count, whole_number
from fewlabels.experiments.evaluation.comparisons import Array, finite

LabelSets = Sequence[Iterable[int]]
"""Positions of labeled items, one set per trial."""


def class_coverage(counts: ArrayLike) -> float:
    """Return the share of classes that have a label at all.

    Example:
        >>> class_coverage([3, 0, 1, 0])
        0.5

    Args:
        counts: Labels of each class, shape (C,).

    Returns:
        A share from 0 to 1.
    """
    counts_C = finite("counts", counts, "(classes,)")
    if (counts_C < 0).any():
        raise UsageError(f"counts is {counts_C.tolist()}; none can be below 0.")
    return float((counts_C > 0).mean())


def redundant_share(
    picks: Collection[int], labeled: Collection[int], groups: ArrayLike
) -> float:
    """Return the share of redundant picks in one query.

    A pick is redundant if a copy of it is labeled already, or was picked earlier in the
    same query. The first of a group of copies is not redundant, so the share does not
    depend on the order.

    Example:
        >>> groups = [0, 0, 0, 1, 1, 2]  # items 0 to 2 are copies, and 3 and 4
        >>> redundant_share([0, 1, 3, 5], labeled=[4], groups=groups)
        0.5

    Args:
        picks: Positions of the items of one query, each once, at least one.
        labeled: Positions of the items labeled before it.
        groups: Number of the group of copies that each item of the pool is in, whole
            numbers of shape (N,); an item without a copy has a number of its own.

    Returns:
        A share from 0 to 1.

    Raises:
        UsageError: If there is no pick, a position is not in the pool, or an item was
            picked twice or is labeled already.
    """
    groups_N = np.asarray(groups)
    if groups_N.ndim != 1 or groups_N.dtype.kind not in "iu":
        raise ShapeError(f"groups is {groups_N.dtype} {groups_N.shape}; give int (N,).")
    picked, before = _positions("picks", picks), _positions("labeled", labeled)
    is_inside = (picked | before) <= set(range(len(groups_N)))
    if not picked or len(picked) != len(picks) or picked & before or not is_inside:
        raise UsageError(
            f"picks are {sorted(picked)[:5]}, labeled {sorted(before)[:5]}; give new "
            f"items, each once, and positions below {len(groups_N)}."
        )
    known = set(groups_N[list(before)].tolist()) if before else set()
    return 1 - len(set(groups_N[list(picked)].tolist()) - known) / len(picked)


def overlap_of_unions(one: LabelSets, other: LabelSets) -> float:
    """Return the IoU of two strategies as in the paper: of unions over the trials.

    Example:
        >>> overlap_of_unions([{0, 1}, {0, 2}], [{0, 3}, {0, 2}])
        0.5

    Args:
        one: Label set of each trial of the first strategy.
        other: The same of the second; the number of trials may differ.

    Returns:
        A share from 0 to 1.
    """
    unions = [
        set[int]().union(*(_positions(name, items) for items in sets))
        for name, sets in (("one", one), ("other", other))
    ]
    return _overlap(unions[0], unions[1], "all trials together")


def overlap_per_trial(one: LabelSets, other: LabelSets, *, starts: LabelSets) -> Array:
    """Return the IoU of what two strategies acquired, trial by trial.

    Its chance level is ``chance_overlap(N - s, a, b)``, where s of the N items of the
    pool are the start and a and b were acquired.

    Example:
        >>> overlap_per_trial([{0, 1, 2}], [{0, 2, 3}], starts=[{0}]).round(3).tolist()
        [0.333]

    Args:
        one: Label set of each trial of the first strategy, with its starting set.
        other: The same of the second.
        starts: Starting set of each trial, which both hold; empty sets where there was
            none or where it is left out already.

    Returns:
        An IoU per trial.
    """
    overlaps = [
        _overlap(first - start, second - start, f"trial {number}")
        for number, (first, second, start) in enumerate(_trials(one, other, starts))
    ]
    return np.array(overlaps)


def overlap_across_trials(
    one: LabelSets, other: LabelSets, *, starts: LabelSets
) -> float:
    """Return the mean IoU over pairs of different trials of two strategies.

    Two strategies with the same start and the same network may agree because of these.
    Different trials share neither, so what is left is a taste for the same images. A
    strategy against itself shows how far its choices depend on the trial. Both trials'
    starting sets are left out of both sides.

    Example:
        >>> runs = [{0, 1, 2}, {5, 1, 3}]
        >>> round(overlap_across_trials(runs, runs, starts=[{0}, {5}]), 3)
        0.333

    Args:
        one: Label set of each trial of the first strategy, with its starting set; at
            least two trials.
        other: The same of the second.
        starts: Starting set of each trial, as for :func:`overlap_per_trial`.

    Returns:
        A share from 0 to 1.

    Raises:
        UsageError: If there are fewer than two trials.
    """
    trials = _trials(one, other, starts)
    if len(trials) < 2:
        raise UsageError("There is 1 trial; give at least two to compare.")
    overlaps = []
    for i, j in permutations(range(len(trials)), 2):
        both_starts = trials[i][2] | trials[j][2]
        first, second = trials[i][0] - both_starts, trials[j][1] - both_starts
        overlaps.append(_overlap(first, second, f"trials {i} and {j}"))
    return float(np.mean(overlaps))


def chance_overlap(
    pool_size: int, one_size: int, other_size: int, *, shared: int = 0
) -> float:
    """Return the expected IoU of two sets chosen independently and uniformly.

    The size of their intersection has the hypergeometric distribution, so the
    expectation is exact.

    Example:
        >>> round(chance_overlap(49_900, 200, 200), 4)
        0.002
        >>> round(chance_overlap(49_900, 200, 200, shared=100), 4)  # start left in
        0.2019

    Args:
        pool_size: Items to choose from. Where a starting set is left out, the rest.
        one_size: Items in the first set.
        other_size: Items in the second.
        shared: Items outside of those to choose from that both sets hold besides, such
            as a starting set that was not left out.

    Returns:
        A share from 0 to 1.

    Raises:
        UsageError: If a set is larger than the pool, a size below zero, or both sets
            empty.
    """
    size = whole_number("pool_size", pool_size)
    sizes = whole_number("one_size", one_size), whole_number("other_size", other_size)
    common = whole_number("shared", shared)
    if min(*sizes, common) < 0 or max(sizes) > size or not (max(sizes) or common):
        raise UsageError(
            f"sizes are {sizes}, shared {common}; give 0 to {size}, not all of them 0."
        )
    both = np.arange(max(0, sum(sizes) - size), min(sizes) + 1)
    chances = stats.hypergeom.pmf(both, size, sizes[0], sizes[1])
    return float(chances @ ((common + both) / (common + sum(sizes) - both)))


def overlap_of_differences(
    one: Sequence[Iterable[Hashable]], other: Sequence[Iterable[Hashable]]
) -> float:
    """Return how much of what tells two strategies apart recurs in other trials.

    If each labeled item adds its own amount to accuracy, whichever the trial, this is
    the correlation between the trials' differences of accuracy. Amounts that depend on
    several items at once recur less often (Hoeffding, 1948). It is zero for disjoint
    pools, and one for strategies that choose the same sets in every trial. What both
    strategies label in a trial, such as a starting set, cancels.

    Example:
        >>> overlap_of_differences([{0, 1}, {0, 2}], [{5, 6}, {7, 8}])
        0.25

    Args:
        one: Names of the labeled items of each trial of the first strategy; one that is
            given several times counts as often.
        other: The same of the second.

    Returns:
        With x the counts of the first strategy less those of the second in a trial, the
        mean of x.x' over pairs of different trials, as a share of the mean of x.x; from
        0 to 1, and 0 where there is one trial only or both label the same.
    """
    check_count("other", len(other), len(one), "trial")
    total, squares = Counter[Hashable](), 0
    for first, second in zip(one, other, strict=True):
        difference = Counter(first)
        difference.subtract(Counter(second))
        squares += sum(number**2 for number in difference.values())
        total.update(difference)
    if len(one) < 2 or not squares:
        return 0.0
    common = sum(number**2 for number in total.values()) - squares
    return min(1.0, max(0.0, common / squares / (len(one) - 1)))


def _overlap(one: set[int], other: set[int], where: str) -> float:
    if not one | other:
        raise UsageError(f"Both sets of {where} are empty without the starting set.")
    return len(one & other) / len(one | other)


def _positions(name: str, items: Iterable[int]) -> set[int]:
    """Return positions as plain numbers: elements of tensors are never equal."""
    return {whole_number(f"An item of {name}", item) for item in items}


def _trials(
    one: LabelSets, other: LabelSets, starts: LabelSets
) -> list[tuple[set[int], set[int], set[int]]]:
    """Return both label sets and the starting set of each trial."""
    check_count("one", len(one), len(starts) or 1, "trial")
    check_count("other", len(other), len(starts), "trial")
    trials = []
    for number, sets in enumerate(zip(one, other, starts, strict=True)):
        first, second, start = (_positions("a trial", items) for items in sets)
        if not start <= first & second:
            raise UsageError(
                f"Trial {number}: {len(start - (first & second))} of {len(start)} "
                "starts are not in both."
            )
        trials.append((first, second, start))
    return trials
