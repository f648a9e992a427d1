"""The kernel of labels that spread over a graph of neighbors.

K = (I - a S)^-1, where S holds the weights of the edges, divided by the roots of both
nodes' degrees: how far a label of one item is felt at another (Zhou et al., "Learning
with Local and Global Consistency", 2003). It is never built: its largest eigenvalues,
those next to 1 / (1 - a), hold nearly all of it, and what they leave is close to a
multiple of the identity.

Shapes: N items, M nodes of the graph, R eigenvectors.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from fewlabels.errors import UsageError
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.linear import LinearKernel
from fewlabels.gram.nodes import Nodes
from fewlabels.gram.rows import DoubleRows
from fewlabels.names import check_known
from fewlabels.pool import Rows

Weights = Literal["none", "influence"]

_last: dict[tuple[Any, ...], "DiffusionRows"] = {}  # that were made, of what


@dataclass(frozen=True)
class Diffusion:
    """How labels spread: settings of the kernel."""

    num_neighbors: int = 10
    """Edges that each item begins."""
    damping: float = 0.99
    """What is left of a label after each edge (a), below 1."""
    rank: int = 200
    """Eigenvectors that are computed (R); from the number of items on it is exact."""

    def __post_init__(self) -> None:
        """Refuse what makes no kernel."""
        for name in ("num_neighbors", "rank"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is {getattr(self, name)}; give at least 1.")
        if not 0 < self.damping < 1:
            raise UsageError(
                f"damping is {self.damping}; labels fade with every edge, so give a "
                "number between 0 and 1, such as 0.99."
            )


@dataclass(frozen=True, eq=False)
class DiffusionRows:
    """The kernel as k(i, j) = rows[i] . rows[j], plus a remainder where i is j."""

    rows: Tensor
    """Shape (N, R), float64."""
    remainder: float
    """What the computed eigenvectors leave of every item, on average."""
    sums: Tensor
    """Sum of k(i, j) over all items j, shape (N,)."""

    @property
    def diagonal(self) -> Tensor:
        """k(i, i) of every item, shape (N,)."""
        return self.rows.square().sum(dim=1) + self.remainder


def diffusion_rows(features: Rows, settings: Diffusion) -> DiffusionRows:
    """Return rows whose dot products are the kernel, by its largest eigenvalues.

    The last ones are remembered: whoever asks again about the same features waits for
    one look at all of them.

    Args:
        features: Shape (N, F); compared by direction. Copies share a node.
        settings: How labels spread.

    Returns:
        The rows of all items.
    """
    nodes = Nodes.of(features, 0.0)
    key = settings, *nodes.identity
    if key not in _last:
        _last.clear()
        _last[key] = _made(nodes, settings)
    return _last[key]


def _made(nodes: Nodes, settings: Diffusion) -> DiffusionRows:
    graph = NeighborGraph.of(nodes, settings.num_neighbors)
    adjacency, a = graph.normalized, settings.damping
    values_R, vectors_MR = graph.spectrum(settings.rank)
    remainder = _remainder(adjacency, values_R, a)
    scales_R = np.sqrt(np.maximum(1 / (1 - a * values_R) - remainder, 0))
    counts_M = np.bincount(nodes.node_of, minlength=len(nodes)).astype(np.float64)
    sums_M = graph.diffused(counts_M, a)
    items = nodes.node_of
    return DiffusionRows(
        torch.from_numpy((vectors_MR * scales_R)[items]),
        remainder,
        torch.from_numpy(sums_M[items]),
    )


def diffusion_kernel(
    features: Rows,
    settings: Diffusion = Diffusion(),  # noqa: B008 - it cannot be changed
    *,
    weights: Weights = "none",
) -> LinearKernel:
    """Return the kernel of labels that spread over a graph, without its remainder.

    Args:
        features: Shape (N, F); compared by direction.
        settings: How labels spread.
        weights: ``"influence"``: scaled so that k(i, i) is the squared sum of row i of
            the kernel, divided by its diagonal; how much an item says about the pool.

    Returns:
        The kernel over all N items.
    """
    check_known("weights", weights, Weights)
    found = diffusion_rows(features, settings)
    rows = found.rows
    if weights == "influence":
        rows = rows * (found.sums / found.diagonal)[:, None]
    return LinearKernel(DoubleRows(rows, has_bias=False, is_normalized=False))


def _remainder(
    adjacency: sparse.csr_array, values_R: NDArray[np.float64], damping: float
) -> float:
    """Return the mean of 1 / (1 - a x) over the eigenvalues x that are left out.

    Traces of the matrix and its square tell their mean and variance; the function is
    taken to second order around the mean.
    """
    num_left = adjacency.shape[0] - len(values_R)
    if not num_left:
        return 0.0
    mean = -float(values_R.sum()) / num_left  # the trace is zero
    square = float((adjacency.data**2).sum() - (values_R**2).sum()) / num_left
    middle = 1 / (1 - damping * mean)
    return float(middle + damping**2 * middle**3 * max(square - mean**2, 0.0))
