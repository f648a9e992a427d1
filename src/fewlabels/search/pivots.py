"""Compiled: factorize each draw row by row and stop at the first bad pivot.

Shapes: N items, A members of the set so far, M draws, Q members of each.

In a draw of twenty items the eighth pivot or so tells that it cannot win; batched
library calls would finish all twenty. Rows are taken in the order of their margins,
smallest first, since those items fail first.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.protocols import InnerProduct
from fewlabels.search.compiled import compiled

_FEWEST, _MOST = 4, 16  # rows of a block; the first ones decide most draws


def definite(
    form: InnerProduct,
    projections_NA: NDArray[np.float64],
    weights_A: NDArray[np.float64],
    margins_N: NDArray[np.float64],
    members_MQ: NDArray[np.int64],
    positions_MQ: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Tell which draws have a positive definite shifted Schur complement.

    Args:
        form: The kernel as an inner product of rows that are in memory.
        projections_NA: Rows of Y, by position.
        weights_A: 1 / (λ − t).
        margins_N: Diagonal of the shifted Schur complement, by position.
        members_MQ: Members of each draw, by their rows in the form.
        positions_MQ: The same by position.

    Returns:
        True where all pivots are positive, shape (M,).
    """
    kept = np.empty(len(members_MQ), dtype=np.bool_)
    _factorize(
        form.features,
        form.scales,
        form.offset,
        projections_NA,
        weights_A,
        margins_N,
        members_MQ,
        positions_MQ,
        kept,
    )
    return kept


@partial(compiled, fastmath=("reassoc", "contract", "nsz"))
def _factorize(
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
    """Write into ``kept`` whether each draw's factorization goes through.

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
