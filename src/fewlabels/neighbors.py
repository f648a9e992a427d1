"""Which items are near each other: a graph over the rows of a pool.

Rows are compared by their direction, and each item is joined to its nearest ones. Items
whose rows are equal are one node, so that copies of an image count once. A node is told
by a hash of its row, and nodes stand in the order of these hashes: the order of the
items has no say.

Shapes: N items, n items asked about, M nodes, D numbers per row, K neighbors.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg
from torch import Tensor

from fewlabels import progress

_BLOCK = 2048
_SPARE = 6  # candidates besides the nearest, since single precision may misplace some
_REFINED = 256  # nodes whose candidates are in memory at a time
_FARTHEST = 50.0  # exponent of the lightest edge, so that none vanishes
_LEAST_NORM = 1e-12
_TOLERANCE = 1e-10
_MOST_ROUNDS = 2000
_MOST_BYTES = 2**28  # of influences that are remembered

Floats = NDArray[np.float64]


class RowSource(Protocol):
    """One row per item, in memory or in a file."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of items, and of numbers in a row."""
        ...

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def __getitem__(self, items: NDArray[np.int64], /) -> NDArray[Any]:
        """Return the rows of some items, shape (n, D)."""
        ...


def directions(rows: Tensor, origin: float | Tensor) -> Tensor:
    """Return rows as seen from an origin, with length one; one at the origin as zero.

    Args:
        rows: float32, shape (n, D).
        origin: What stands for nothing in every column, such as black in an image.

    Returns:
        float32, shape (n, D).
    """
    shifted = rows - origin
    norms: Tensor = torch.linalg.vector_norm(shifted, dim=1, keepdim=True)
    return shifted / norms.clamp(min=_LEAST_NORM)


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
    """What tells each node, ascending, shape (M,)."""
    center: Tensor
    """Mean direction of the items, float32, shape (D,)."""
    spread: float
    """Root mean square of what directions differ by from it, over all columns."""

    @classmethod
    def of(cls, rows: RowSource, origin: float) -> "Nodes":
        """Find the different rows; one pass over all of them."""
        num_items, width = rows.shape
        found = np.empty(num_items, dtype=np.int64)
        total = torch.zeros(width, dtype=torch.float64)
        squares = 0.0
        for start in range(0, num_items, _BLOCK):
            items = np.arange(start, min(start + _BLOCK, num_items))
            part = _read(rows, items)
            found[items] = row_hashes(part).numpy()
            unit = directions(part, origin)
            total += unit.sum(dim=0, dtype=torch.float64)
            squares += float(unit.square().sum(dtype=torch.float64))
        hashes, first, node_of = np.unique(
            found, return_index=True, return_inverse=True
        )
        center = total / num_items
        variance = squares / num_items - float(center.square().sum())
        spread = float(np.sqrt(max(variance, 0.0) / width)) or 1.0
        return cls(rows, origin, node_of, first, hashes, center.float(), spread)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.first)

    def read(self, nodes: NDArray[np.int64]) -> Tensor:
        """Return the directions of some nodes, float32, shape (n, D)."""
        return directions(_read(self.rows, self.first[nodes]), self.origin)


def nearest(nodes: Nodes, num_neighbors: int) -> tuple[NDArray[np.int64], Floats]:
    """Find the nearest others of each node, all pairs looked at in blocks.

    Args:
        nodes: Where to look.
        num_neighbors: How many (K); fewer where there are fewer nodes.

    Returns:
        The neighbors of each node, nearest first and of equally near ones that of the
        lower number, and their squared distances; both of shape (M, K).
    """
    num_nodes = len(nodes)
    count = min(num_neighbors, num_nodes - 1)
    kept = min(count + _SPARE, num_nodes - 1)
    best = _Nearest(num_nodes, kept)
    blocks = range(0, num_nodes, _BLOCK)
    num_pairs = len(blocks) * (len(blocks) + 1) // 2
    with progress.track("Neighbors", num_pairs) as advance:
        for left in blocks:
            one = nodes.read(_block(left, num_nodes))
            for right in range(left, num_nodes, _BLOCK):
                other = one if left == right else nodes.read(_block(right, num_nodes))
                distances = torch.addmm(
                    other.square().sum(dim=1)[None], one, other.T, alpha=-2
                ).add_(one.square().sum(dim=1)[:, None])
                if left == right:
                    distances.fill_diagonal_(torch.inf)
                else:
                    best.update(right, distances.T.contiguous(), left)
                best.update(left, distances, right)
                advance(1)
    return _refined(nodes, best.nodes.numpy(), count)


class _Nearest:
    """The nearest nodes found so far, of every node."""

    def __init__(self, num_nodes: int, count: int) -> None:
        self.distances = torch.full((num_nodes, count), torch.inf)
        self.nodes = torch.zeros(num_nodes, count, dtype=torch.int64)

    def update(self, start: int, distances: Tensor, other: int) -> None:
        """Compare the nodes from ``start`` on with those from ``other`` on."""
        part = slice(start, start + len(distances))
        count = self.nodes.shape[1]
        near = distances.topk(min(count, distances.shape[1]), dim=1, largest=False)
        values = torch.cat([self.distances[part], near.values], dim=1)
        numbers = torch.cat([self.nodes[part], near.indices + other], dim=1)
        chosen = values.topk(count, dim=1, largest=False)
        self.distances[part] = chosen.values
        self.nodes[part] = numbers.gather(1, chosen.indices)


def _refined(
    nodes: Nodes, candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest of some candidates, by distances in double precision."""
    candidates = np.sort(candidates, axis=1)  # so that ties go to the lower number
    num_nodes = len(candidates)
    near = np.empty((num_nodes, count), dtype=np.int64)
    squares: Floats = np.empty((num_nodes, count))
    for start in range(0, num_nodes, _REFINED):
        part = np.arange(start, min(start + _REFINED, num_nodes))
        others = nodes.read(candidates[part].ravel())
        others = others.reshape(*candidates[part].shape, others.shape[1])
        gaps = (nodes.read(part).double()[:, None] - others).square_().sum(dim=2)
        order = np.argsort(gaps.numpy(), axis=1, kind="stable")[:, :count]
        near[part] = np.take_along_axis(candidates[part], order, axis=1)
        squares[part] = np.take_along_axis(gaps.numpy(), order, axis=1)
    return near, squares


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """Nodes joined to their nearest ones; edges weigh less the longer they are.

    The weight is exp(-d^2 / (s_i s_j)), where s is the distance to the farthest
    neighbor of each (Zelnik-Manor and Perona, "Self-Tuning Spectral Clustering", 2004).
    """

    nodes: Nodes
    reach: Floats
    """Distance to the farthest neighbor of each node, shape (M,)."""
    weights: sparse.csr_array
    """Symmetric, zero on the diagonal, shape (M, M)."""
    _systems: dict[float, sparse.csr_array] = field(default_factory=dict, init=False)
    _influences: dict[tuple[float, int], Floats] = field(
        default_factory=dict, init=False
    )

    @classmethod
    def of(cls, nodes: Nodes, num_neighbors: int) -> "NeighborGraph":
        """Join each node to its nearest ones, and to whom it is one of the nearest."""
        near, squares = nearest(nodes, num_neighbors)
        num_nodes, count = near.shape
        reach = np.sqrt(squares[:, -1]) if count else np.ones(num_nodes)
        reach = np.maximum(reach, _LEAST_NORM)
        begins, ends = np.repeat(np.arange(num_nodes), count), near.ravel()
        lengths = squares.ravel() / (reach[begins] * reach[ends])
        edges = np.exp(-np.minimum(lengths, _FARTHEST))
        shape = (num_nodes, num_nodes)
        one_way = sparse.csr_array((edges, (begins, ends)), shape=shape)
        weights = sparse.csr_array(one_way.maximum(one_way.T))
        weights.sort_indices()
        return cls(nodes, reach, weights)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @cached_property
    def degrees(self) -> Floats:
        """Total weight of the edges of each node, shape (M,); 1 where there is none."""
        totals = np.asarray(self.weights.sum(axis=1)).ravel()
        return np.where(totals > 0, totals, 1.0)

    @cached_property
    def normalized(self) -> sparse.csr_array:
        """Weights divided by the roots of both nodes' degrees, shape (M, M)."""
        scale = sparse.diags_array(1 / np.sqrt(self.degrees))
        return sparse.csr_array(scale @ self.weights @ scale)

    def influence(self, node: int, damping: float) -> Floats:
        """Return a column of the inverse of I - damping * normalized, shape (M,).

        It is how far a label of one node is felt at all others (Zhou et al., "Learning
        with Local and Global Consistency", 2003). Each column is solved for by itself,
        from zero, so that it does not matter which others were asked for before; the
        last ones are remembered.
        """
        known = self._influences
        found = known.pop((damping, node), None)
        if found is None:
            source = np.zeros(len(self))
            source[node] = 1.0
            found = self.diffused(source, damping)
            if len(known) >= max(1, _MOST_BYTES // max(1, found.nbytes)):
                known.pop(next(iter(known)))
        known[damping, node] = found  # the last one is forgotten last
        return found

    def diffused(self, source: Floats, damping: float) -> Floats:
        """Return the solution x of (I - damping * normalized) x = source, (M,)."""
        found, _ = cg(
            self._system(damping), source, rtol=_TOLERANCE, maxiter=_MOST_ROUNDS
        )
        return np.asarray(np.maximum(found, 0.0))

    def _system(self, damping: float) -> sparse.csr_array:
        if damping not in self._systems:
            identity = sparse.eye_array(len(self), format="csr")
            system = sparse.csr_array(identity - damping * self.normalized)
            self._systems[damping] = system
        return self._systems[damping]


def _read(rows: RowSource, items: NDArray[np.int64]) -> Tensor:
    """Return some rows as float32, shape (n, D)."""
    return torch.from_numpy(np.asarray(rows[items])).to(torch.float32)


def _block(start: int, stop: int) -> NDArray[np.int64]:
    return np.arange(start, min(start + _BLOCK, stop))
