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
def _factorize(  # noqa: C901, PLR0912 - one loop nest, as compiled code likes it
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
    """Write into ``kept`` whether each draw's factorization goes through."""
    num_draws, size = subsets.shape
    width, num_members = features.shape[1], projections.shape[1]
    rows = np.empty((size, width))
    own = np.empty((size, num_members))
    factor = np.empty((size, size))
    weighted = np.empty(num_members)
    for draw in range(num_draws):
        order = np.argsort(margins[positions[draw]])
        kept[draw] = True
        for j in range(size):
            item, place = subsets[draw, order[j]], positions[draw, order[j]]
            for f in range(width):
                rows[j, f] = features[item, f]
            for a in range(num_members):
                own[j, a] = projections[place, a]
                weighted[a] = own[j, a] * weights[a]
            pivot = margins[place]
            for k in range(j):
                dot = offset
                for f in range(width):
                    dot += rows[j, f] * rows[k, f]
                dot *= scales[item] * scales[subsets[draw, order[k]]]
                for a in range(num_members):
                    dot -= weighted[a] * own[k, a]
                for m in range(k):
                    dot -= factor[j, m] * factor[k, m]
                factor[j, k] = dot / factor[k, k]
                pivot -= factor[j, k] * factor[j, k]
            if pivot <= 0.0:
                kept[draw] = False
                break
            factor[j, j] = np.sqrt(pivot)
