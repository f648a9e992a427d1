"""The kernel of labels that spread over a graph of neighbors, alone and with features.

K = (I - a S)^-1, where S holds the weights of the edges, divided by the roots of both
nodes' degrees: how far a label of one item is felt at another (Zhou et al., "Learning
with Local and Global Consistency", 2003). It is never built: its largest eigenvalues,
those next to 1 / (1 - a), hold nearly all of it, and the rest is close to a multiple of
the identity.

Joint rows, which a blend's regression sees, have features and graph side by side. Both
halves are scaled to a mean squared length of one, so that a share says how much of the
kernel each of them is. Neither depends on the scale of single columns: features are
brought to their principal components by a rotation.

Shapes: N items, M nodes of the graph, R eigenvectors, D numbers per row, P components.
"""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.errors import Count, Limits, Settings
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.kernels import DoubleRows, LinearKernel, Weights
from fewlabels.gram.nodes import Nodes, get_or_compute
from fewlabels.gram.principal import principal_basis
from fewlabels.names import check_known
from fewlabels.pool import Rows

NUM_COMPONENTS = 256
"""Principal components of the features that joint rows keep (P)."""
RANK = 100
"""Eigenvectors of the graph that joint rows keep (R)."""

_MOST_ROWS = 4096  # that the principal components are computed from
_BLOCK = 2048
_last: dict[tuple[Any, ...], "DiffusionRows"] = {}

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Diffusion(Settings):
    """How labels spread: settings of the kernel."""

    num_neighbors: Count = 10
    """Edges that each item begins."""
    damping: Annotated[float, Limits(above=0, below=1)] = 0.99
    """What is left of a label after each edge (a), below 1."""
    rank: Count = 200
    """Eigenvectors that are computed (R); from the number of items on it is exact."""


class DiffusionRows(NamedTuple):
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
    return get_or_compute(_last, key, lambda: _compute_rows(nodes, settings), most=1)


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
    parts = vectors_MR * scales_R, graph.spread(counts_M, a)
    rows, sums = (torch.from_numpy(part[nodes.node_of]) for part in parts)
    return DiffusionRows(rows, remainder, sums)


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


class JointRows(NamedTuple):
    """Both halves of the rows of all nodes."""

    features: Singles
    """Centered directions in the basis, mean squared length one, shape (M, P)."""
    diffusion: Singles
    """Eigenvectors of the graph, scaled as labels spread, likewise, shape (M, R)."""
    basis: Singles
    """Maps a centered direction to its features, shape (D, P)."""

    def joined(self, share: float, nodes: NDArray[np.int64]) -> Singles:
        """Return rows of some nodes, the graph having a share: shape (n, P + R)."""
        halves = (1 - share, self.features), (share, self.diffusion)
        return np.hstack([np.float32(part**0.5) * half[nodes] for part, half in halves])


def joint_rows(
    graph: NeighborGraph, damping: float = 0.99, rank: int = RANK
) -> JointRows:
    """Return features and diffusion rows of the nodes of a graph.

    They are remembered as long as the graph is.

    Args:
        graph: The graph; its nodes know their rows.
        damping: What is left of a label after each edge, below 1.
        rank: Eigenvectors of the graph (R).

    Returns:
        The rows, in single precision.
    """

    def compute() -> JointRows:
        features, basis = graph.remember("components", lambda: _components(graph))
        values, vectors = graph.spectrum(rank)
        diffusion = (vectors / np.sqrt(1 - damping * values)).astype(np.float32)
        return JointRows(features, diffusion / _length(diffusion), basis)

    return graph.remember(("joint rows", damping, rank), compute)


def _components(graph: NeighborGraph) -> tuple[Singles, Singles]:
    """Return principal components of all nodes, scaled, and the basis they are in."""
    nodes, num_nodes = graph.nodes, len(graph)
    center = nodes.center.numpy()
    basis = np.eye(len(center), dtype=np.float32)
    if len(center) > NUM_COMPONENTS:
        # Nodes are in the order of their hashes, so that the first ones are a sample.
        sample = nodes.read(np.arange(min(num_nodes, _MOST_ROWS))).numpy() - center
        basis = principal_basis(sample, NUM_COMPONENTS)
    features = np.empty((num_nodes, basis.shape[1]), dtype=np.float32)
    for start in range(0, num_nodes, _BLOCK):
        part = np.arange(start, min(start + _BLOCK, num_nodes))
        features[part] = (nodes.read(part).numpy() - center) @ basis
    scale = _length(features)
    return features / scale, np.asarray(basis / scale, dtype=np.float32)


def _length(rows: Singles) -> np.float32:
    """Return the root of the mean squared length of rows; 1 where all are zero."""
    mean = np.square(rows, dtype=np.float64).sum(axis=1).mean()
    return np.float32(float(np.sqrt(mean)) or 1.0)
