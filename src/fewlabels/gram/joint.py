"""Features and graph side by side: the rows that a blend's regression sees.

Both halves are scaled to a mean squared length of one, so that a share says how much
of the kernel each of them is. Neither depends on the scale of single columns: features
are brought to their principal components by a rotation.

Shapes: M nodes, D numbers per row, P components, R eigenvectors.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.principal import principal_basis

NUM_COMPONENTS = 256
"""Principal components of the features that are kept (P)."""
RANK = 100
"""Eigenvectors of the graph that are kept (R)."""

_MOST_ROWS = 4096  # that the principal components are computed from
_BLOCK = 2048

Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class JointRows:
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
