"""A graph of near nodes, and how something spreads along its edges.

Shapes: M nodes, K neighbors.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import cg, eigsh

from fewlabels.errors import ConvergenceWarning
from fewlabels.gram.nearest import Search, nearest
from fewlabels.gram.nodes import Floats, Nodes

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
    recall: float = 1.0
    """Which share of the true neighbors was found."""
    _systems: dict[float, sparse.csr_array] = field(default_factory=dict, init=False)
    _warned: set[float] = field(default_factory=set, init=False)
    _columns: dict[tuple[float, int], Floats] = field(default_factory=dict, init=False)
    _spectra: dict[int, tuple[Floats, Floats]] = field(default_factory=dict, init=False)

    @classmethod
    def of(
        cls, nodes: Nodes, num_neighbors: int, search: Search = "exact"
    ) -> "NeighborGraph":
        """Join each node to its nearest ones, and to whom it is one of the nearest."""
        near, squares, recall = nearest(nodes, num_neighbors, search)
        reach = np.sqrt(squares[:, -1]) if near.shape[1] else np.ones(len(near))
        reach = np.maximum(reach, _LEAST_REACH)
        lengths = squares / (reach[:, None] * reach[near])
        one_way = joined(near, np.exp(-np.minimum(lengths, _FARTHEST)))
        weights = sparse.csr_array(one_way.maximum(one_way.T))
        weights.sort_indices()
        return cls(nodes, reach, weights, recall)

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

    def influence(self, node: int, damping: float) -> Floats:
        """Return a column of the inverse of I - damping * normalized, shape (M,).

        It is how far a label of one node is felt at all others (Zhou et al., "Learning
        with Local and Global Consistency", 2003).
        """

        def column() -> Floats:
            source = np.zeros(len(self))
            source[node] = 1.0
            return self.diffused(source, damping)

        return self._remembered((damping, node), column)

    def diffused(self, source: Floats, damping: float) -> Floats:
        """Return the solution x of (I - damping * normalized) x = source, (M,)."""
        return np.asarray(np.maximum(self._solved(source, damping), 0.0))

    def potential(self, node: int) -> Floats:
        """Return a column of the inverse of the graph's Laplacian, shape (M,).

        The Laplacian, degrees minus weights, has no inverse: what is returned is one of
        the part that the node is in, with mean zero, weighted by degrees, and zero in
        all other parts.
        """

        def column() -> Floats:
            source = np.zeros(len(self))
            source[node] = 1.0
            return self.potentials(source)

        return self._remembered((1.0, node), column)

    def potentials(self, source: Floats) -> Floats:
        """Return x, whose Laplacian is ``source`` less its mean in each part, (M,)."""
        root = np.sqrt(self.degrees)
        found = self._solved(self._centered(source / root), 1.0)
        return np.asarray(self._centered(found) / root)

    def _centered(self, values: Floats) -> Floats:
        """Take away what the Laplacian does not see, in each part."""
        root = np.sqrt(self.degrees)
        along = np.bincount(self.parts, values * root)
        lengths = np.bincount(self.parts, self.degrees)
        return values - root * (along / lengths)[self.parts]

    def spectrum(self, count: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of ``normalized``, and their vectors.

        Largest first, shapes (count,) and (M, count); fewer, where there are fewer
        nodes.
        """
        if count not in self._spectra:
            num_nodes = len(self)
            if num_nodes <= max(_DENSE, _MOSTLY * count):
                values, vectors = np.linalg.eigh(self.normalized.toarray())
            else:
                values, vectors = self._largest_eigenvectors(count)
            found = values[::-1][:count], vectors[:, ::-1][:, :count]
            self._spectra[count] = found
        return self._spectra[count]

    def _largest_eigenvectors(self, count: int) -> tuple[Floats, Floats]:
        """Return them in single precision, a third of the time, then brought to double.

        The rotation of the vectors that makes their Ritz values exact squares the error
        of single precision.
        """
        start = np.sqrt(self.degrees) + np.linspace(0, 1, len(self))
        single = self.normalized.astype(np.float32)
        settings = {"which": "LA", "v0": start.astype(np.float32), "tol": _SINGLE}
        basis = np.linalg.qr(eigsh(single, count, **settings)[1].astype(np.float64))[0]
        values, rotation = np.linalg.eigh(basis.T @ (self.normalized @ basis))
        return values, basis @ rotation

    def _remembered(
        self, key: tuple[float, int], column: Callable[[], Floats]
    ) -> Floats:
        known = self._columns
        found = known.pop(key) if key in known else column()
        if len(known) >= max(1, _MOST_BYTES // found.nbytes):
            known.pop(next(iter(known)))
        known[key] = found  # the last one is forgotten last
        return found

    def _solved(self, source: Floats, damping: float) -> Floats:
        if damping not in self._systems:
            identity = sparse.eye_array(len(self), format="csr")
            system = sparse.csr_array(identity - damping * self.normalized)
            self._systems[damping] = system
        system = self._systems[damping]
        found, rounds = cg(system, source, rtol=_TOLERANCE, maxiter=_MOST_ROUNDS)
        if rounds and damping not in self._warned:
            self._warned.add(damping)
            left = np.linalg.norm(source - system @ found) / np.linalg.norm(source)
            warnings.warn(_inexact(float(left), rounds, len(self)), stacklevel=2)
        return np.asarray(found)


_remembered: dict[tuple[Any, ...], NeighborGraph] = {}


def remembered_graph(
    nodes: Nodes, num_neighbors: int, search: Search = "exact"
) -> NeighborGraph:
    """Return the graph of some nodes; the last few are remembered.

    A learner and a strategy that look at the same rows share it.
    """
    key = (*nodes.identity, num_neighbors, search)
    graph = _remembered.pop(key, None)
    if graph is None:
        graph = NeighborGraph.of(nodes, num_neighbors, search)
    _remembered[key] = graph
    while len(_remembered) > _MOST_GRAPHS:
        _remembered.pop(next(iter(_remembered)))
    return graph


def joined(near: NDArray[np.int64], edges: Floats) -> sparse.csr_array:
    """Return the edges of each node to its neighbors, (M, K), as a matrix (M, M)."""
    num_nodes, count = near.shape
    begins = np.repeat(np.arange(num_nodes), count)
    shape = (num_nodes, num_nodes)
    return sparse.csr_array((edges.ravel(), (begins, near.ravel())), shape=shape)


def _inexact(left: float, rounds: int, num_nodes: int) -> ConvergenceWarning:
    return ConvergenceWarning(
        f"How labels spread over the graph of {num_nodes:,} different items was not "
        f"found exactly: after {rounds:,} steps {left:.1e} of the equation was still "
        f"open, not {_TOLERANCE:.0e}. Items far from every label may be misjudged, "
        "most likely because groups of items are joined by edges that weigh next to "
        "nothing. Join each item to more neighbors, or lower the damping if there is "
        "one."
    )
