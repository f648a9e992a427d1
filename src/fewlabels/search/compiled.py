"""Compiled loops. The one file that imports Numba.

Shapes: N items, A members of the set so far, M draws, Q members of each.
"""

from collections.abc import Callable
from typing import Any

import numba
import numpy as np

_REORDERED = {"reassoc", "contract", "nsz"}
_FEWEST, _MOST = 4, 16  # rows of a block; the first ones decide most draws


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled loop, kept on disk where there is a place for it.

    Other threads go on while it runs.
    """
    # What the compiler may do to sums, by the names of LLVM.
    options: dict[str, Any] = {"nogil": True, "fastmath": _REORDERED}
    loop: Callable[..., Any]
    try:
        loop = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor a cache can be written
        loop = numba.njit(**options)(function)
    return loop


@compiled
def factorize(
    features: Any,
    scales: Any,
    offset: float,
    projections: Any,
    weights: Any,
    margins: Any,
    subsets: Any,
    positions: Any,
    kept: Any,
) -> None:
    """Write into ``kept`` whether each draw's factorization goes through, shape (M,).

    It does where the shifted Schur complement is positive definite. In a draw of twenty
    items the eighth pivot or so tells that it is not; batched library calls would
    finish all twenty. Rows are taken in the order of their margins, smallest first,
    since those items fail first.

    The kernel is ``scales[i] scales[j] (features[i] . features[j] + offset)`` by the
    members of ``subsets``. By ``positions`` are the rows of Y (``projections``), to be
    weighted by 1 / (λ − t), and the diagonal of the complement (``margins``).

    Products of rows come a block at a time, from the library: it is several times as
    fast as a loop, and most draws end within a few blocks.
    """
    num_draws, size = subsets.shape
    width, num_members = features.shape[1], projections.shape[1]
    rows = np.empty((size, width))
    own = np.empty((size, num_members))
    weighted = np.empty((size, num_members))
    scale = np.empty(size)
    factor = np.empty((size, size))
    for draw in range(num_draws):
        order = np.argsort(margins[positions[draw]])
        kept[draw] = True
        stop = 0
        while stop < size and kept[draw]:
            start = stop
            stop = min(start + min(max(_FEWEST, start), _MOST), size)
            for j in range(start, stop):
                item, place = subsets[draw, order[j]], positions[draw, order[j]]
                scale[j] = scales[item]
                for f in range(width):
                    rows[j, f] = features[item, f]
                for a in range(num_members):
                    own[j, a] = projections[place, a]
                    weighted[j, a] = own[j, a] * weights[a]
            products = np.dot(rows[start:stop], rows[:stop].T)
            known = np.dot(weighted[start:stop], own[:stop].T)
            for j in range(start, stop):
                pivot = margins[positions[draw, order[j]]]
                for k in range(j):
                    dot = (products[j - start, k] + offset) * (scale[j] * scale[k])
                    dot -= known[j - start, k]
                    for m in range(k):
                        dot -= factor[j, m] * factor[k, m]
                    factor[j, k] = dot / factor[k, k]
                    pivot -= factor[j, k] * factor[j, k]
                if pivot <= 0.0:
                    kept[draw] = False
                    break
                factor[j, j] = np.sqrt(pivot)
