"""The nearest others of each node, by looking at all pairs or by faiss.

All pairs of a million rows are too many to look at. faiss (``pip install faiss-cpu``)
sorts nodes into cells around centers and compares each with those of the nearest cells.

Shapes: M nodes, D numbers per row, K neighbors.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import progress
from fewlabels.gram.nodes import Floats, Nodes
from fewlabels.progress import each

Search = Literal["exact", "faiss"]
Places = NDArray[np.int64]

_BLOCK = 2048
_JUDGED = 256  # nodes, about, that recall is measured on
_SPARE = 6  # candidates besides the nearest, since single precision may misplace some
_REFINED = 16  # nodes at a time, few, so that candidates stay near the processor
_SHARED = 2**14  # nodes that another process is asked about at a time
_ROWS_PER_CENTER = 50
_SHARE_OF_CELLS = 8  # one in so many is searched
_SEED = 1


def nearest(
    nodes: Nodes, num_neighbors: int, search: Search = "exact"
) -> tuple[Places, Floats]:
    """Find the nearest others of each node.

    Args:
        nodes: Where to look.
        num_neighbors: How many (K); fewer where there are fewer nodes.
        search: ``"exact"`` looks at all pairs, in blocks. ``"faiss"`` finds most of
            them, sooner where there are many nodes; it reports its recall, measured on
            some nodes, through :mod:`fewlabels.progress`.

    Returns:
        The neighbors of each node, nearest first, and of equally near ones that of the
        lower number; and their squared distances. Both of shape (M, K).
    """
    num_nodes = len(nodes)
    count = min(num_neighbors, num_nodes - 1)
    kept = min(count + _SPARE, num_nodes - 1)
    is_exact = search == "exact" or num_nodes <= _BLOCK
    candidates = _among_all(nodes, kept) if is_exact else _by_faiss(nodes, kept)
    starts = range(0, num_nodes, _SHARED)
    parts = [(_block(i, num_nodes, _SHARED), candidates[i:][:_SHARED]) for i in starts]
    ranked = each(partial(_rank_candidates, nodes.to_read(), count), parts)
    near, squares = map(np.concatenate, zip(*ranked, strict=True))
    if not is_exact:
        some = np.arange(0, num_nodes, -(-num_nodes // _JUDGED))
        blocks = (nodes.read(_block(i, num_nodes)) for i in range(0, num_nodes, _BLOCK))
        true = closest(nodes.read(some), blocks, count + 1).numpy()
        is_true = (near[some][:, :, None] == true[:, None, :]).any(axis=2)
        progress.tell(num_nodes, {"recall": float(is_true.mean())})
    return near, squares


def closest(rows: Tensor, blocks: Iterable[Tensor], count: int) -> Tensor:
    """Return which rows of all blocks are nearest to each row, shape (n, count)."""
    best, start = _Nearest(len(rows), count), 0
    for block in blocks:
        best.merge(0, _smallest(_distances(rows, block), count), start)
        start += len(block)
    return best.nodes


def others(near: Places, own: Places, num_nodes: int) -> Places:
    """Return candidates without the node itself; missing ones are arbitrary nodes."""
    count = near.shape[1] - 1
    is_other = (near != own[:, None]) & (near >= 0)
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(near, order, axis=1)
    lacks = ~np.take_along_axis(is_other, order, axis=1)
    spare = (own[:, None] + 1 + np.arange(count)) % num_nodes
    return np.where(lacks, spare, chosen)


def _by_faiss(nodes: Nodes, count: int) -> Places:
    """Return probable neighbors of each node, shape (M, count), none of them itself."""
    import faiss

    num_nodes, width = len(nodes), nodes.rows.shape[1]
    num_cells = max(1, min(int(4 * num_nodes**0.5), num_nodes // _ROWS_PER_CENTER))
    metric = faiss.METRIC_INNER_PRODUCT
    index: Any = faiss.index_factory(width, f"IVF{num_cells},SQfp16", metric)
    index.cp.seed = _SEED
    searched = max(1, num_cells // _SHARE_OF_CELLS)
    faiss.ParameterSpace().set_index_parameter(index, "nprobe", searched)
    most = min(num_nodes, _ROWS_PER_CENTER * num_cells)
    index.train(nodes.read(np.arange(most)).numpy())  # by hash, so a random part
    blocks = [_block(start, num_nodes) for start in range(0, num_nodes, _BLOCK)]
    for block in blocks:
        index.add(nodes.read(block).numpy())
    candidates = np.empty((num_nodes, count), dtype=np.int64)
    with progress.track("Neighbors", num_nodes) as advance:
        for block in blocks:
            near = index.search(nodes.read(block).numpy(), count + 1)[1]
            candidates[block] = others(near, block, num_nodes)
            advance(len(block))
    return candidates


def _among_all(nodes: Nodes, kept: int) -> Places:
    """Return the nearest of all nodes, by single precision, shape (M, kept)."""
    num_nodes = len(nodes)
    best = _Nearest(num_nodes, kept)
    blocks = list(range(0, num_nodes, _BLOCK))
    num_pairs = len(blocks) * (len(blocks) + 1) // 2
    with progress.track("Neighbors", num_pairs) as advance:
        compare = partial(_compare_block, nodes.to_read(), kept)
        for left, pairs in zip(blocks, each(compare, blocks), strict=True):
            for right, of_right, of_left in pairs:
                if of_right is not None:
                    best.merge(right, of_right, left)
                best.merge(left, of_left, right)
                advance(1)
    return best.nodes.numpy()


_Near = tuple[Tensor, Tensor]
"""Squared distances and places in a block of the nearest nodes of another block."""


def _compare_block(
    nodes: Nodes, kept: int, left: int
) -> Sequence[tuple[int, _Near | None, _Near]]:
    """Compare a block with itself and all later ones, each pair of blocks once.

    Returns:
        For each other block its start, the nodes of this block that are nearest to
        each of its nodes (None: it is this block), and the reverse.
    """
    pairs = []
    own = nodes.read(_block(left, len(nodes)))
    for right in range(left, len(nodes), _BLOCK):
        of_right = None
        if left == right:
            distances = _distances(own, own).fill_diagonal_(torch.inf)
        else:
            distances = _distances(own, nodes.read(_block(right, len(nodes))))
            of_right = _smallest(distances.T.contiguous(), kept)
        pairs.append((right, of_right, _smallest(distances, kept)))
    return pairs


def _smallest(distances: Tensor, count: int) -> _Near:
    near = distances.topk(min(count, distances.shape[1]), dim=1, largest=False)
    return near.values, near.indices


def _distances(rows: Tensor, others: Tensor) -> Tensor:
    """Return squared distances, in single precision."""
    squares = others.square().sum(dim=1)[None]
    distances = torch.addmm(squares, rows, others.T, alpha=-2)
    return distances.add_(rows.square().sum(dim=1)[:, None])


class _Nearest:
    """The nearest nodes so far, of every node."""

    def __init__(self, num_nodes: int, count: int) -> None:
        self.distances = torch.full((num_nodes, count), torch.inf)
        self.nodes = torch.zeros(num_nodes, count, dtype=torch.int64)

    def merge(self, start: int, near: _Near, offset: int) -> None:
        """Add what nodes from ``start`` on have near in a block from ``offset`` on."""
        part = slice(start, start + len(near[0]))
        distances = torch.cat([self.distances[part], near[0]], dim=1)
        numbers = torch.cat([self.nodes[part], near[1] + offset], dim=1)
        chosen = distances.topk(self.nodes.shape[1], dim=1, largest=False)
        self.distances[part] = chosen.values
        self.nodes[part] = numbers.gather(1, chosen.indices)


def _rank_candidates(
    nodes: Nodes, count: int, given: tuple[Places, Places]
) -> tuple[Places, Floats]:
    """Return the nearest candidates of some nodes, and their squared distances.

    Distances are in double precision. ``given`` holds the nodes, shape (n,), and the
    candidates of each, shape (n, k).
    """
    own, candidates = given
    candidates = np.sort(candidates, axis=1)  # so that ties go to the lower number
    near = np.empty((len(own), count), dtype=np.int64)
    squares: Floats = np.empty((len(own), count))
    for start in range(0, len(own), _REFINED):
        part = slice(start, start + _REFINED)
        rows = nodes.read(candidates[part].ravel())
        rows = rows.reshape(*candidates[part].shape, rows.shape[1])
        gaps = (nodes.read(own[part]).double()[:, None] - rows).square_().sum(dim=2)
        order = np.argsort(gaps.numpy(), axis=1, kind="stable")[:, :count]
        near[part] = np.take_along_axis(candidates[part], order, axis=1)
        squares[part] = np.take_along_axis(gaps.numpy(), order, axis=1)
    return near, squares


def _block(start: int, stop: int, length: int | None = None) -> Places:
    return np.arange(start, min(start + (length or _BLOCK), stop))
