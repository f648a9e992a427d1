"""The nearest others of each node, most of them, by faiss (the extra ``faiss``).

All pairs of a million rows are too many to look at. Here nodes are sorted into cells
around centers, and each is compared with those of the nearest cells.

Shapes: M nodes, D numbers per row, K candidates.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels import progress
from fewlabels.gram.nodes import Nodes
from fewlabels.names import check_installed

_BLOCK = 2048
_ROWS_PER_CENTER = 50
_SHARE_OF_CELLS = 8  # one in so many is searched
_SEED = 1


def candidates(nodes: Nodes, count: int) -> NDArray[np.int64]:
    """Return probable neighbors of each node, shape (M, K), none of them itself."""
    check_installed("Approximate search", "faiss", extra="faiss")
    index = _filled(nodes)
    num_nodes = len(nodes)
    found = np.empty((num_nodes, count), dtype=np.int64)
    with progress.track("Neighbors", num_nodes) as advance:
        for start in range(0, num_nodes, _BLOCK):
            part = np.arange(start, min(start + _BLOCK, num_nodes))
            near = index.search(nodes.read(part).numpy(), count + 1)[1]
            found[part] = others(near, part, num_nodes)
            advance(len(part))
    return found


def _filled(nodes: Nodes) -> Any:
    """Return an index that holds all nodes, in half precision."""
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
    for start in range(0, num_nodes, _BLOCK):
        part = np.arange(start, min(start + _BLOCK, num_nodes))
        index.add(nodes.read(part).numpy())
    return index


def others(
    near: NDArray[np.int64], own: NDArray[np.int64], num_nodes: int
) -> NDArray[np.int64]:
    """Leave each node out of its own candidates; where some lack, any will do."""
    count = near.shape[1] - 1
    is_other = (near != own[:, None]) & (near >= 0)
    order = np.argsort(~is_other, axis=1, kind="stable")[:, :count]
    chosen = np.take_along_axis(near, order, axis=1)
    lacks = ~np.take_along_axis(is_other, order, axis=1)
    spare = (own[:, None] + 1 + np.arange(count)) % num_nodes
    return np.where(lacks, spare, chosen)
