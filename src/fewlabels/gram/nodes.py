"""The different rows of a pool.

Rows are compared by their direction. Items whose rows are equal are one node, so that
copies of an image count once. Nodes are identified and sorted by a hash of their row,
so that the order of the items does not matter.

Shapes: N items, n items asked about, M nodes, D numbers per row.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.pool import RowSource, read_rows

_BLOCK = 2048
_LEAST_NORM = 1e-60  # what single precision holds is longer, or zero

Floats = NDArray[np.float64]
"""Numbers in double precision, of any shape."""

Value = TypeVar("Value")


def get_or_compute(
    memory: dict[Any, Value],
    key: Any,
    compute: Callable[[], Value],
    most: float = float("inf"),
) -> Value:
    """Return the value under a key, computed the first time; the latest are kept."""
    value = memory.pop(key) if key in memory else compute()
    while len(memory) >= most:
        memory.pop(next(iter(memory)))
    memory[key] = value  # the latest is dropped last
    return value


def directions(rows: Tensor, origin: float | Tensor) -> Tensor:
    """Return rows as seen from an origin, with length one; one at the origin as zero.

    Args:
        rows: float32, shape (n, D).
        origin: What stands for nothing in every column, such as black in an image.

    Returns:
        float32, shape (n, D).
    """
    shifted = (rows - origin).double()  # whose squares neither overflow nor vanish
    norms = shifted.square().sum(dim=1, keepdim=True).sqrt()
    return (shifted / norms.clamp(min=_LEAST_NORM)).float()


def row_hashes(rows: Tensor) -> Tensor:
    """Return a number for each row, equal for equal rows, int64, shape (n,).

    Sums of integers wrap around and do not round: a row has the same hash on every
    machine and in any company.
    """
    order = torch.arange(1, rows.shape[1] + 1, device=rows.device)
    weights = order * -7046029254386353131  # the multipliers of SplitMix64
    weights = (weights ^ (weights >> 30)) * -4658895280553007687
    weights = (weights ^ (weights >> 27)) * -7723592293110705685
    bits = (rows + 0.0).view(torch.int32)  # minus zero becomes zero
    return (bits * (weights | 1)).sum(dim=1)


@dataclass(frozen=True, eq=False)
class Nodes:
    """The different rows of a pool."""

    rows: RowSource
    origin: float
    node_of: NDArray[np.int64]
    """The node of each item, shape (N,)."""
    first: NDArray[np.int64]
    """An item of each node, shape (M,)."""
    hashes: NDArray[np.int64]
    """Identifies each node, ascending, shape (M,)."""
    center: Tensor
    """Mean direction of the items, float32, shape (D,)."""
    spread: float
    """Root mean square of what directions differ by from it, over all columns."""

    @classmethod
    def of(cls, rows: RowSource, origin: float) -> "Nodes":
        """Find the different rows; one pass over all of them."""
        num_items, width = rows.shape
        item_hashes = np.empty(num_items, dtype=np.int64)
        total = torch.zeros(width, dtype=torch.float64)
        squares = 0.0
        for start in range(0, num_items, _BLOCK):
            items = np.arange(start, min(start + _BLOCK, num_items))
            part = read_rows(rows, items)
            item_hashes[items] = row_hashes(part).numpy()
            unit = directions(part, origin)
            total += unit.sum(dim=0, dtype=torch.float64)
            squares += float(unit.square().sum(dtype=torch.float64))
        hashes, first, node_of = np.unique(
            item_hashes, return_index=True, return_inverse=True
        )
        center = total / num_items
        variance = squares / num_items - float(center.square().sum())
        spread = float(np.sqrt(max(variance, 0.0) / width)) or 1.0
        return cls(rows, origin, node_of, first, hashes, center.float(), spread)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.first)

    def to_read(self) -> "Nodes":
        """Return a copy without what reading does not need, for another process."""
        return replace(self, node_of=self.node_of[:0], hashes=self.hashes[:0])

    def read(self, nodes: NDArray[np.int64]) -> Tensor:
        """Return the directions of some nodes, float32, shape (n, D)."""
        return directions(read_rows(self.rows, self.first[nodes]), self.origin)

    @property
    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for equal rows of equal items."""
        items = self.hashes.tobytes(), self.node_of.tobytes()
        return self.rows.shape, self.origin, *items
