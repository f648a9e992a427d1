"""How alike the choices of two strategies are: intersection over union (IoU).

The paper (Fig. 1) takes the union of each strategy's label sets over all trials, with
the starting sets in it, and compares the unions. Two things inflate that: what both
began with, and the number of trials, since unions of many trials meet by chance. The
fair comparison is per trial, of what was *acquired*; and any overlap is to be read
beside the one that random choices would have, :func:`chance_overlap`.
"""

from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from fewlabels.errors import ShapeError, UsageError
from fewlabels.evaluation.numbers import positions
from fewlabels.integers import whole_number


def overlap_of_unions(
    one: Sequence[Iterable[int]], other: Sequence[Iterable[int]]
) -> float:
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
        set[int]().union(*(positions(name, items) for items in sets))
        for name, sets in (("one", one), ("other", other))
    ]
    return _overlap(unions[0], unions[1], "all trials together")


def overlap_per_trial(
    one: Sequence[Iterable[int]],
    other: Sequence[Iterable[int]],
    *,
    starts: Sequence[Iterable[int]],
) -> NDArray[np.float64]:
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
    trials = _trials(one, other, starts)
    return np.array(
        [
            _overlap(first - start, second - start, f"trial {number}")
            for number, (first, second, start) in enumerate(trials)
        ]
    )


def overlap_across_trials(
    one: Sequence[Iterable[int]],
    other: Sequence[Iterable[int]],
    *,
    starts: Sequence[Iterable[int]],
) -> float:
    """Return the mean IoU over pairs of different trials of two strategies.

    Two strategies with the same start and the same network may agree because of these.
    Different trials share neither, so what is left is a taste for the same images. A
    strategy against itself tells how far its choices depend on the trial. Both trials'
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
        msg = "There is 1 trial; give at least two, to compare different ones."
        raise UsageError(msg)
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
            f"The sets have {sizes[0]} and {sizes[1]} of {size} items, and {common} "
            "besides; give sizes from 0 to that of the pool, not all of them 0."
        )
    both = np.arange(max(0, sum(sizes) - size), min(sizes) + 1)
    chances = stats.hypergeom.pmf(both, size, sizes[0], sizes[1])
    return float(chances @ ((common + both) / (common + sum(sizes) - both)))


def _overlap(one: set[int], other: set[int], where: str) -> float:
    if not one | other:
        raise UsageError(
            f"Both sets of {where} are empty without the starting set, so they have no "
            "overlap; compare where something was acquired."
        )
    return len(one & other) / len(one | other)


def _trials(
    one: Sequence[Iterable[int]],
    other: Sequence[Iterable[int]],
    starts: Sequence[Iterable[int]],
) -> list[tuple[set[int], set[int], set[int]]]:
    """Return both label sets and the starting set of each trial."""
    if not len(one) == len(other) == len(starts) or not len(one):
        raise ShapeError(
            f"There are {len(one)} and {len(other)} label sets and {len(starts)} "
            "starting sets; give one of each per trial, and at least one trial."
        )
    trials = [
        (
            positions("one", first),
            positions("other", second),
            positions("starts", start),
        )
        for first, second, start in zip(one, other, starts, strict=True)
    ]
    for number, (first, second, start) in enumerate(trials):
        num_missing = len(start - (first & second))
        if num_missing:
            raise UsageError(
                f"{num_missing} of {len(start)} items in the starting set of trial "
                f"{number} are not in both label sets; give the sets of one trial in "
                "the same place, or empty starting sets where they are left out."
            )
    return trials
