"""The nearest others of each node.

Shapes: M nodes, D numbers per row, K neighbors.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import progress
from fewlabels.neighbors import approximate
from fewlabels.neighbors.nodes import Floats, Nodes

Search = Literal["exact", "faiss"]

_BLOCK = 2048
_JUDGED = 256  # nodes, about, that recall is measured on
_SPARE = 6  # candidates besides the nearest, since single precision may misplace some
_REFINED = 256  # nodes whose candidates are in memory at a time


def nearest(
    nodes: Nodes, num_neighbors: int, search: Search = "exact"
) -> tuple[NDArray[np.int64], Floats]:
    """Find the nearest others of each node.

    Args:
        nodes: Where to look.
        num_neighbors: How many (K); fewer where there are fewer nodes.
        search: ``"exact"`` looks at all pairs, in blocks. ``"faiss"`` finds most of
            them, sooner where there are many nodes; its recall, measured on some
            nodes, is told to whoever listens to :mod:`fewlabels.progress`.

    Returns:
        The neighbors of each node, nearest first and of equally near ones that of the
        lower number, and their squared distances; both of shape (M, K).
    """
    count = min(num_neighbors, len(nodes) - 1)
    kept = min(count + _SPARE, len(nodes) - 1)
    if search == "exact" or len(nodes) <= _BLOCK:
        return _refined(nodes, _among_all(nodes, kept), count)
    found = _refined(nodes, approximate.candidates(nodes, kept), count)
    some = np.arange(0, len(nodes), -(-len(nodes) // _JUDGED))
    progress.tell(len(nodes), {"recall": recall(nodes, some, found[0][some])})
    return found


def recall(nodes: Nodes, some: NDArray[np.int64], near: NDArray[np.int64]) -> float:
    """Return which share of the true neighbors of some nodes is among those found."""
    starts = range(0, len(nodes), _BLOCK)
    blocks = (nodes.read(_block(start, len(nodes))) for start in starts)
    true = closest(nodes.read(some), blocks, near.shape[1] + 1).numpy()
    is_found = (near[:, :, None] == true[:, None, :]).any(axis=2)
    return float(is_found.mean())


def closest(rows: Tensor, blocks: Iterable[Tensor], count: int) -> Tensor:
    """Return which rows of all blocks are nearest to each row, shape (n, count)."""
    best, start = _Nearest(len(rows), count), 0
    for block in blocks:
        best.update(0, _distances(rows, block), start)
        start += len(block)
    return best.nodes


def _among_all(nodes: Nodes, kept: int) -> NDArray[np.int64]:
    """Return the nearest of all nodes, by single precision, shape (M, kept)."""
    num_nodes = len(nodes)
    best = _Nearest(num_nodes, kept)
    blocks = range(0, num_nodes, _BLOCK)
    num_pairs = len(blocks) * (len(blocks) + 1) // 2
    with progress.track("Neighbors", num_pairs) as advance:
        for left in blocks:
            one = nodes.read(_block(left, num_nodes))
            for right in range(left, num_nodes, _BLOCK):
                if left == right:
                    distances = _distances(one, one).fill_diagonal_(torch.inf)
                else:
                    other = nodes.read(_block(right, num_nodes))
                    distances = _distances(one, other)
                    best.update(right, distances.T.contiguous(), left)
                best.update(left, distances, right)
                advance(1)
    return best.nodes.numpy()


def _distances(one: Tensor, other: Tensor) -> Tensor:
    """Return squared distances, in single precision."""
    squares = other.square().sum(dim=1)[None]
    distances = torch.addmm(squares, one, other.T, alpha=-2)
    return distances.add_(one.square().sum(dim=1)[:, None])


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
    """Return the nearest candidates of each node, by double precision."""
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


def _block(start: int, stop: int) -> NDArray[np.int64]:
    return np.arange(start, min(start + _BLOCK, stop))
