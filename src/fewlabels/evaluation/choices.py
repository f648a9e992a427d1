"""What was chosen: classes that have labels, and picks that copy others.

Shapes: C classes, N items of the pool.
"""

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewlabels.errors import ShapeError, UsageError
from fewlabels.evaluation.numbers import finite, positions


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
    return float((_counts(counts) > 0).mean())


def class_balance(counts: ArrayLike) -> float:
    """Return how even labels are over the classes: entropy over its largest value.

    Example:
        >>> class_balance([5, 5, 0, 0])
        0.5

    Args:
        counts: Labels of each class, shape (C,); at least one label in all.

    Returns:
        1 where all classes have equally many, 0 where one has all. A single class is
        even.

    Raises:
        UsageError: If there is no label.
    """
    counts_C = _counts(counts)
    total = counts_C.sum()
    if total == 0:
        raise UsageError(
            f"There are 0 labels in {len(counts_C)} classes, which are neither even "
            "nor uneven; give the counts of at least one label."
        )
    if len(counts_C) == 1:
        return 1.0
    shares = counts_C[counts_C > 0] / total
    return float(-(shares * np.log(shares)).sum() / np.log(len(counts_C))) + 0.0


def redundant_share(
    picks: Collection[int], labeled: Collection[int], groups: ArrayLike
) -> float:
    """Return the share of one query's picks that tell nothing new.

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
        raise ShapeError(
            f"groups is {groups_N.dtype} of shape {groups_N.shape}; give whole numbers "
            "of shape (items,)."
        )
    picked, before = positions("picks", picks), positions("labeled", labeled)
    if not picked or len(picked) != len(picks) or picked & before:
        raise UsageError(
            f"There are {len(picks)} picks, {len(picked)} of them different and "
            f"{len(picked & before)} labeled already; a query asks for new items, each "
            "once, and at least one."
        )
    outside = sorted(i for i in picked | before if not 0 <= i < len(groups_N))
    if outside:
        raise UsageError(
            f"Positions {outside[:5]} are not in a pool of {len(groups_N)} items; give "
            "picks and labeled as positions in groups."
        )
    known = set(groups_N[list(before)].tolist()) if before else set()
    new = set(groups_N[list(picked)].tolist()) - known
    return 1 - len(new) / len(picked)


def _counts(counts: ArrayLike) -> NDArray[np.float64]:
    counts_C = finite("counts", counts, "(classes,)")
    if (counts_C < 0).any():
        msg = f"counts is {counts_C.tolist()}; no class has fewer than 0 labels."
        raise UsageError(msg)
    return counts_C
