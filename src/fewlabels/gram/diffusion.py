"""The kernel of labels that spread over a graph of neighbors.

K = (I - a S)^-1, where S holds the weights of the edges, divided by the roots of both
nodes' degrees: how far a label of one item is felt at another (Zhou et al., "Learning
with Local and Global Consistency", 2003). It is never built: its largest eigenvalues,
those next to 1 / (1 - a), hold nearly all of it, and the rest is close to a multiple of
the identity.

Shapes: N items, M nodes of the graph, R eigenvectors.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from torch import Tensor

from fewlabels.errors import Count, Limits, Settings
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.kernels import DoubleRows, LinearKernel, Weights
from fewlabels.gram.nodes import Nodes
from fewlabels.names import check_known
from fewlabels.pool import Rows

_last: dict[tuple[Any, ...], "DiffusionRows"] = {}


@dataclass(frozen=True)
class Diffusion(Settings):
    """How labels spread: settings of the kernel."""

    num_neighbors: Count = 10
    """Edges that each item begins."""
    damping: Annotated[float, Limits(above=0, below=1)] = 0.99
    """What is left of a label after each edge (a), below 1."""
    rank: Count = 200
    """Eigenvectors that are computed (R); from the number of items on it is exact."""


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

    The last result is remembered: asking again about the same features costs one pass
    over them.

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
        _last[key] = _compute_rows(nodes, settings)
    return _last[key]


def _compute_rows(nodes: Nodes, settings: Diffusion) -> DiffusionRows:
    """Return the rows, and the mean of 1 / (1 - a x) over all other eigenvalues x.

    The traces of the matrix and its square give the mean and variance of those; the
    function is taken to second order around the mean.
    """
    graph, a = NeighborGraph.of(nodes, settings.num_neighbors), settings.damping
    values_R, vectors_MR = graph.spectrum(settings.rank)
    remainder, num_left = 0.0, len(nodes) - len(values_R)
    if num_left:
        mean = -float(values_R.sum()) / num_left  # the trace is zero
        squares = float((graph.normalized.data**2).sum() - (values_R**2).sum())
        variance = max(squares / num_left - mean**2, 0.0)
        middle = 1 / (1 - a * mean)
        remainder = float(middle + a**2 * middle**3 * variance)
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
    diffusion = diffusion_rows(features, settings)
    rows = diffusion.rows
    if weights == "influence":
        rows = rows * (diffusion.sums / diffusion.diagonal)[:, None]
    return LinearKernel(DoubleRows(rows))
