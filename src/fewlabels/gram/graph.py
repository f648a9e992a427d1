"""A graph of near nodes, and how labels spread along its edges.

Shapes: M nodes, K neighbors.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg, eigsh

from fewlabels.errors import ConvergenceWarning
from fewlabels.gram.nearest import Search, nearest
from fewlabels.gram.nodes import Floats, Nodes, Value, get_or_compute

_FARTHEST = 50.0  # exponent of the lightest edge, so that none vanishes
_LEAST_REACH = 1e-12
_TOLERANCE = 1e-10
_MOST_ROUNDS = 2000
_SINGLE = 1e-5  # tolerance of eigenvectors in single precision
_MOST_BYTES = 2**28  # of columns that are remembered
_MOST_GRAPHS = 2  # that are remembered
_DENSE = 200  # nodes up to which all eigenvectors are worked out,
_MOSTLY = 4  # or this many times those that are wanted; it is then faster


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """Nodes joined to their nearest ones; edges weigh less the longer they are.

    The weight is exp(-d^2 / (s_i s_j)), where s is the distance to the farthest
    neighbor of each (Zelnik-Manor and Perona, "Self-Tuning Spectral Clustering", 2004).

    Columns of inverses are solved for one by one, from zero, so that it does not matter
    which others were asked for before; the last ones are remembered.
    """

    nodes: Nodes
    reach: Floats
    """Distance to the farthest neighbor of each node, shape (M,)."""
    weights: sparse.csr_array
    """Symmetric, zero on the diagonal, shape (M, M)."""
    _memory: dict[Any, Any] = field(default_factory=dict, init=False)
    _columns: dict[Any, Floats] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls, nodes: Nodes, num_neighbors: int, search: Search = "exact"
    ) -> "NeighborGraph":
        """Join nodes where one is among the nearest of the other."""
        near, squares = nearest(nodes, num_neighbors, search)
        reach = np.sqrt(squares[:, -1]) if near.shape[1] else np.ones(len(near))
        reach = np.maximum(reach, _LEAST_REACH)
        lengths = squares / (reach[:, None] * reach[near])
        one_way = joined(near, np.exp(-np.minimum(lengths, _FARTHEST)))
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

    @cached_property
    def parts(self) -> NDArray[np.int64]:
        """The number of the connected part that each node is in, shape (M,)."""
        return np.asarray(connected_components(self.weights, directed=False)[1])

    def influence(self, node: int, damping: float | None) -> Floats:
        """Return what :meth:`spread` gives for one at a node and zero elsewhere, (M,).

        It is how far a label of one node is felt at all others (Zhou et al., "Learning
        with Local and Global Consistency", 2003).
        """
        source = np.zeros(len(self))
        source[node] = 1.0
        most = max(1, _MOST_BYTES // source.nbytes)
        return get_or_compute(
            self._columns, (damping, node), lambda: self.spread(source, damping), most
        )

    def spread(self, source: Floats, damping: float | None) -> Floats:
        """Return the solution x of (I - damping * normalized) x = source, shape (M,).

        Without damping, the solution of L x = source less its mean in each part, where
        the Laplacian L is degrees minus weights: a potential, whose mean by degrees is
        zero in each part.
        """
        if damping is not None:
            return np.asarray(np.maximum(self._solved(source, damping), 0.0))
        root = np.sqrt(self.degrees)
        solution = self._solved(self._centered(source / root), 1.0)
        return np.asarray(self._centered(solution) / root)

    def _centered(self, values: Floats) -> Floats:
        """Subtract the part of ``values`` that the Laplacian maps to zero."""
        root = np.sqrt(self.degrees)
        along = np.bincount(self.parts, values * root)
        lengths = np.bincount(self.parts, self.degrees)
        return values - root * (along / lengths)[self.parts]

    def spectrum(self, count: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of ``normalized``, and their vectors.

        Largest first, shapes (count,) and (M, count); fewer, where there are fewer
        nodes.
        """
        return self.remember(("spectrum", count), lambda: self._eigenvectors(count))

    def _eigenvectors(self, count: int) -> tuple[Floats, Floats]:
        """Return eigenvalues and vectors; of a large graph from single precision.

        That takes a third of the time. The rotation of the vectors that makes their
        Ritz values exact squares the error of single precision.
        """
        if len(self) <= max(_DENSE, _MOSTLY * count):
            values, vectors = np.linalg.eigh(self.normalized.toarray())
        else:
            start = np.sqrt(self.degrees) + np.linspace(0, 1, len(self))
            single = self.normalized.astype(np.float32)
            settings = {"which": "LA", "v0": start.astype(np.float32), "tol": _SINGLE}
            vectors = eigsh(single, count, **settings)[1].astype(np.float64)
            basis = np.linalg.qr(vectors)[0]
            values, rotation = np.linalg.eigh(basis.T @ (self.normalized @ basis))
            vectors = basis @ rotation
        return values[::-1][:count], vectors[:, ::-1][:, :count]

    def remember(self, key: Any, compute: Callable[[], Value]) -> Value:
        """Return the value that is cached under a key; the first call computes it."""
        value: Value = get_or_compute(self._memory, key, compute)
        return value

    def _solved(self, source: Floats, damping: float) -> Floats:
        system = self.remember(
            ("system", damping),
            lambda: sparse.csr_array(
                sparse.eye_array(len(self), format="csr") - damping * self.normalized
            ),
        )
        solution, rounds = cg(system, source, rtol=_TOLERANCE, maxiter=_MOST_ROUNDS)
        if rounds and ("warned", damping) not in self._memory:
            self._memory["warned", damping] = True
            left = np.linalg.norm(source - system @ solution) / np.linalg.norm(source)
            message = (
                f"After {rounds:,} steps, how labels spread over a graph of "
                f"{len(self):,} items is known to {left:.1e}, not {_TOLERANCE:.0e}. "
                "Join each item to more neighbors, or lower the damping."
            )
            warnings.warn(message, ConvergenceWarning, stacklevel=2)
        return np.asarray(solution)


_remembered: dict[tuple[Any, ...], NeighborGraph] = {}


def remembered_graph(
    nodes: Nodes, num_neighbors: int, search: Search = "exact"
) -> NeighborGraph:
    """Return the graph of some nodes; the last few are remembered.

    A learner and a strategy that look at the same rows share it.
    """
    key = (*nodes.identity, num_neighbors, search)
    compute = partial(NeighborGraph.of, nodes, num_neighbors, search)
    return get_or_compute(_remembered, key, compute, _MOST_GRAPHS)


def joined(near: NDArray[np.int64], edges: Floats) -> sparse.csr_array:
    """Return the edges of each node to its neighbors, (M, K), as a matrix (M, M)."""
    num_nodes, count = near.shape
    begins = np.repeat(np.arange(num_nodes), count)
    shape = (num_nodes, num_nodes)
    return sparse.csr_array((edges.ravel(), (begins, near.ravel())), shape=shape)
