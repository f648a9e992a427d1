"""What labels say about their neighbors: label spreading on a graph of near rows.

Zhou et al., "Learning with Local and Global Consistency" (NIPS 2003), with one change:
the influence of each class is divided by its total over all items (Zhu, Ghahramani and
Lafferty, "Semi-Supervised Learning Using Gaussian Fields and Harmonic Functions", ICML
2003, Sec. 4), so that neither many labels of a class nor labels in a dense place
outvote the others. How many items each class gets is nowhere prescribed.

Shapes: N items, D features, K neighbors, C classes.
"""

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import cg
from torch import Tensor

_BLOCK = 1024
_DAMPING = 0.99
_CUBED = 3
_TOLERANCE = 1e-4
_MOST_ROUNDS = 200
_LEAST = 1e-12


def neighbor_graph(rows: Tensor, num_neighbors: int) -> sparse.csr_array:
    """Join each item to those of most similar direction.

    Args:
        rows: Standardized rows, shape (N, D).
        num_neighbors: Neighbors of each item (K); fewer where there are fewer items.

    Returns:
        The symmetrically normalized adjacency matrix, shape (N, N). An edge weighs the
        cube of the cosine, and nothing where that is negative.
    """
    count = min(num_neighbors, len(rows) - 1)
    directions = F.normalize(rows.to(torch.float32), dim=1)
    near_NK = torch.empty(len(rows), count, dtype=torch.int64)
    cosine_NK = torch.empty(len(rows), count, dtype=torch.float32)
    for start in range(0, len(rows), _BLOCK):
        part = slice(start, min(start + _BLOCK, len(rows)))
        cosines = directions[part] @ directions.T
        own = torch.arange(part.start, part.stop)
        cosines[own - start, own] = -torch.inf
        cosine_NK[part], near_NK[part] = cosines.topk(count, dim=1)
    edges = cosine_NK.clamp_(min=0).pow_(_CUBED).double().flatten().numpy()
    begins = torch.arange(len(rows)).repeat_interleave(count).numpy()
    shape = (len(rows), len(rows))
    one_way = sparse.csr_array((edges, (begins, near_NK.flatten().numpy())), shape)
    graph = one_way + one_way.T
    degrees = np.asarray(graph.sum(axis=1)).ravel()
    scale = sparse.diags_array(1 / np.sqrt(np.maximum(degrees, _LEAST)))
    return sparse.csr_array(scale @ graph @ scale)


def spread(graph: sparse.csr_array, labeled: Tensor, labels: Tensor) -> Tensor:
    """Let labels flow along the edges, and say what every item then is.

    Args:
        graph: From :func:`neighbor_graph`, N items.
        labeled: Positions of items with a label, shape (n,).
        labels: Their classes, shape (n,); every class from 0 to C - 1 has one.

    Returns:
        One share per class, shape (N, C), float64; items that no label reaches get
        equal shares.
    """
    num_items, num_classes = graph.shape[0], int(labels.max()) + 1
    system = sparse.csr_array(sparse.eye_array(num_items) - _DAMPING * graph)
    influence_NC = np.empty((num_items, num_classes))
    for number in range(num_classes):
        source: NDArray[np.float64] = np.zeros(num_items)
        source[labeled[labels == number].numpy()] = 1.0
        flow, _ = cg(system, source, rtol=_TOLERANCE, maxiter=_MOST_ROUNDS)
        flow = np.maximum(flow, 0)
        influence_NC[:, number] = flow / flow.sum()
    influence_NC += _LEAST / num_items
    shares = influence_NC / influence_NC.sum(axis=1, keepdims=True)
    return torch.from_numpy(shares)
