"""What labels say about their neighbors: label spreading on a graph of near rows.

As :mod:`fewlabels.training.spreading`, with edges that weigh the cube of the cosine.
How many items each class gets is nowhere prescribed.

Shapes: N items, D features, M nodes, K neighbors, C classes.
"""

import numpy as np
import torch
from torch import Tensor

from fewlabels.neighbors import NeighborGraph, Nodes, joined, nearest
from fewlabels.training.graph import Sources
from fewlabels.training.spreading import influence

_DAMPING = 0.99
_CUBED = 3
_LEAST = 1e-12


def neighbor_graph(rows: Tensor, num_neighbors: int) -> NeighborGraph:
    """Join each item to those of most similar direction.

    Args:
        rows: Standardized rows, shape (N, D); equal ones are one node.
        num_neighbors: Neighbors of each node (K); fewer where there are fewer nodes.

    Returns:
        The graph. An edge weighs the cube of the cosine, and nothing where that is
        negative; twice that where both are neighbors of each other.
    """
    nodes = Nodes.of(rows, 0.0)
    near_MK, squares_MK, _ = nearest(nodes, num_neighbors)
    one_way = joined(near_MK, np.maximum(1 - squares_MK / 2, 0) ** _CUBED)
    reach_M = np.sqrt(squares_MK.max(axis=1, initial=0))
    return NeighborGraph(nodes, reach_M, one_way + one_way.T)


def spread(graph: NeighborGraph, labeled: Tensor, labels: Tensor) -> Tensor:
    """Let labels flow along the edges, and say what every item then is.

    Args:
        graph: From :func:`neighbor_graph`, N items.
        labeled: Positions of items with a label, shape (n,).
        labels: Their classes, shape (n,); every class from 0 to C - 1 has one.

    Returns:
        One share per class, shape (N, C), float64; items that no label reaches get
        equal shares.
    """
    sources = Sources.at(labeled, labels, int(labels.max()) + 1, graph.nodes)
    felt_MC = influence(graph, sources, _DAMPING)
    felt_MC = felt_MC / felt_MC.sum(axis=0) + _LEAST / len(graph)
    shares_MC = felt_MC / felt_MC.sum(axis=1, keepdims=True)
    return torch.from_numpy(shares_MC[graph.nodes.node_of])
