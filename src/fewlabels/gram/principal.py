"""The leading principal components of rows.

Shapes: N items, F numbers per row, P components.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from fewlabels.pool import Rows

_MOST_ROWS = 2048  # that the components are computed from
_BLOCK = 2048


def principal_basis(rows: NDArray[Any], count: int) -> NDArray[Any]:
    """Return the directions in which rows (n, F) are longest, shape (F, P)."""
    count = min(count, *rows.shape)
    return np.asarray(randomized_svd(rows, count, random_state=0)[2].T)


def principal_components(rows: Rows, count: int) -> Tensor:
    """Return the projections of rows onto their principal directions, not centered.

    Args:
        rows: Shape (N, F).
        count: How many directions (P); where there are no more columns, the rows are
            returned as they are. They are computed from some of many rows.

    Returns:
        float32, shape (N, P).
    """

    def read(which: Tensor) -> Tensor:
        return rows[which].to("cpu", torch.float32)

    everything = torch.arange(len(rows))
    parts = torch.split(everything, _BLOCK)
    if rows.shape[1] <= count:
        return torch.cat([read(part) for part in parts])
    some = read(everything[:: -(-len(rows) // _MOST_ROWS)])
    basis = torch.from_numpy(principal_basis(some.numpy(), count).copy())
    return torch.cat([read(part) @ basis for part in parts])
