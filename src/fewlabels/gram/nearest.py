"""The nearest others of each node.

Shapes: M nodes, D numbers per row, K neighbors.
"""

from collections.abc import Iterable
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import progress
from fewlabels.gram import approximate
from fewlabels.gram.nodes import Floats, Nodes
from fewlabels.jobs.sharing import each

Search = Literal["exact", "faiss"]

_BLOCK = 2048
_JUDGED = 256  # nodes, about, that recall is measured on
_SPARE = 6  # candidates besides the nearest, since single precision may misplace some
_REFINED = 16  # nodes at a time, few, so that candidates stay near the processor
_SHARED = 2**14  # nodes that another process is asked about at a time


class Found(NamedTuple):
    """The nearest others of each node."""

    near: NDArray[np.int64]
    """Nearest first, and of equally near ones that of the lower number, (M, K)."""
    squares: Floats
    """Their squared distances, shape (M, K)."""
    recall: float = 1.0
    """Which share of the true neighbors is among them, measured on some nodes."""


def nearest(nodes: Nodes, num_neighbors: int, search: Search = "exact") -> Found:
    """Find the nearest others of each node.

    Args:
        nodes: Where to look.
        num_neighbors: How many (K); fewer where there are fewer nodes.
        search: ``"exact"`` looks at all pairs, in blocks. ``"faiss"`` finds most of
            them, sooner where there are many nodes; its recall, measured on some
            nodes, is told to whoever listens to :mod:`fewlabels.progress`.

    Returns:
        The neighbors of each node.
    """
    count = min(num_neighbors, len(nodes) - 1)
    kept = min(count + _SPARE, len(nodes) - 1)
    if search == "exact" or len(nodes) <= _BLOCK:
        return Found(*_refined(nodes, _among_all(nodes, kept), count))
    near, squares = _refined(nodes, approximate.candidates(nodes, kept), count)
    some = np.arange(0, len(nodes), -(-len(nodes) // _JUDGED))
    share = recall(nodes, some, near[some])
    progress.tell(len(nodes), {"recall": share})
    return Found(near, squares, share)


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
        best.merge(0, *_smallest(_distances(rows, block), count), start)
        start += len(block)
    return best.nodes


def _among_all(nodes: Nodes, kept: int) -> NDArray[np.int64]:
    """Return the nearest of all nodes, by single precision, shape (M, kept)."""
    num_nodes = len(nodes)
    best = _Nearest(num_nodes, kept)
    blocks = list(range(0, num_nodes, _BLOCK))
    num_pairs = len(blocks) * (len(blocks) + 1) // 2
    with progress.track("Neighbors", num_pairs) as advance:
        compare = partial(_compared, nodes.to_read(), kept)
        for left, pairs in zip(blocks, each(compare, blocks), strict=True):
            for right, of_right, of_left in pairs:
                if of_right is not None:
                    best.merge(right, *of_right, left)
                best.merge(left, *of_left, right)
                advance(1)
    return best.nodes.numpy()


_Near = tuple[Tensor, Tensor]
"""Squared distances and places in a block of the nearest nodes of another block."""


def _compared(
    nodes: Nodes, kept: int, left: int
) -> list[tuple[int, _Near | None, _Near]]:
    """Compare a block with itself and all later ones, in both directions."""
    found: list[tuple[int, _Near | None, _Near]] = []
    one = nodes.read(_block(left, len(nodes)))
    for right in range(left, len(nodes), _BLOCK):
        of_right = None
        if left == right:
            distances = _distances(one, one).fill_diagonal_(torch.inf)
        else:
            distances = _distances(one, nodes.read(_block(right, len(nodes))))
            of_right = _smallest(distances.T.contiguous(), kept)
        found.append((right, of_right, _smallest(distances, kept)))
    return found


def _smallest(distances: Tensor, count: int) -> _Near:
    near = distances.topk(min(count, distances.shape[1]), dim=1, largest=False)
    return near.values, near.indices


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

    def merge(self, start: int, values: Tensor, places: Tensor, other: int) -> None:
        """Take in what nodes from ``start`` on have near among those from ``other``."""
        part = slice(start, start + len(values))
        values = torch.cat([self.distances[part], values], dim=1)
        numbers = torch.cat([self.nodes[part], places + other], dim=1)
        chosen = values.topk(self.nodes.shape[1], dim=1, largest=False)
        self.distances[part] = chosen.values
        self.nodes[part] = numbers.gather(1, chosen.indices)


def _refined(
    nodes: Nodes, candidates: NDArray[np.int64], count: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest candidates of each node, by double precision."""
    parts = [
        (
            np.arange(start, min(start + _SHARED, len(candidates))),
            candidates[start:][:_SHARED],
        )
        for start in range(0, len(candidates), _SHARED)
    ]
    found = list(each(partial(_refined_part, nodes.to_read(), count), parts))
    near, squares = zip(*found, strict=True)
    return np.concatenate(near), np.concatenate(squares)


def _refined_part(
    nodes: Nodes, count: int, given: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[NDArray[np.int64], Floats]:
    own, candidates = given
    candidates = np.sort(candidates, axis=1)  # so that ties go to the lower number
    near = np.empty((len(own), count), dtype=np.int64)
    squares: Floats = np.empty((len(own), count))
    for start in range(0, len(own), _REFINED):
        part = slice(start, start + _REFINED)
        others = nodes.read(candidates[part].ravel())
        others = others.reshape(*candidates[part].shape, others.shape[1])
        gaps = (nodes.read(own[part]).double()[:, None] - others).square_().sum(dim=2)
        order = np.argsort(gaps.numpy(), axis=1, kind="stable")[:, :count]
        near[part] = np.take_along_axis(candidates[part], order, axis=1)
        squares[part] = np.take_along_axis(gaps.numpy(), order, axis=1)
    return near, squares


def _block(start: int, stop: int) -> NDArray[np.int64]:
    return np.arange(start, min(start + _BLOCK, stop))
