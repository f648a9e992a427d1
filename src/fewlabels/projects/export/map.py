"""``map.parquet``: position and nearest neighbors of each image, for tools that draw.

Positions are the two main components of the model's features (PCA), which are cheap and
always the same. Neighbors are computed from the first 64 components.

Shapes: N images, F features, K components.
"""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from torch import Tensor

from fewlabels.gram.nearest import nearest
from fewlabels.gram.nodes import Nodes
from fewlabels.projects.export.tables import PREDICTION_COLUMNS, write_table

NUM_NEIGHBORS = 15
"""Near images that are named for each."""

_COMPONENTS = 64
_BLOCK = 4096
_MOST_COMPARED = 20_000  # images of which all pairs are compared
_NEIGHBORS = pa.struct(
    {"ids": pa.list_(pa.int64()), "distances": pa.list_(pa.float32())}
)
_SCHEMA = pa.schema(
    PREDICTION_COLUMNS | {"x": pa.float32(), "y": pa.float32(), "neighbors": _NEIGHBORS}
)


class FeatureFile:
    """Features of all images, collected in a file while predictions are made.

    Args:
        folder: Where the file is until the map is written.
        num_items: How many images there are.
    """

    def __init__(self, folder: Path, num_items: int) -> None:
        self._path, self._num_items = folder / "features.partial", num_items
        self._width = 0

    def add(self, features: Tensor) -> None:
        """Append the features of the next images, of any shape (n, ...)."""
        part = features.detach().flatten(1).float().cpu().numpy()
        self._width = part.shape[1]
        # Not through a memory map: where the disk is full, that ends the process.
        with self._path.open("ab") as file:
            file.write(part.tobytes())

    def write_map(self, path: Path, predictions: Path) -> None:
        """Write the map of the images that a table of predictions lists.

        Args:
            path: The file.
            predictions: ``predictions.parquet``, whose first columns are repeated.
        """
        shape = self._num_items, self._width
        rows = _main_components(np.memmap(self._path, np.float32, "r", shape=shape))
        self._path.unlink()
        # Rows are compared by their directions; of equal ones the first counts.
        nodes = Nodes.of(torch.from_numpy(rows), 0.0)
        is_large = len(nodes) > _MOST_COMPARED and find_spec("faiss") is not None
        near, squares = nearest(nodes, NUM_NEIGHBORS, "faiss" if is_large else "exact")
        near = nodes.first[near][nodes.node_of]
        distances = np.sqrt(squares)[nodes.node_of]
        known = pq.read_table(predictions, columns=list(PREDICTION_COLUMNS))

        def parts() -> Iterator[dict[str, Any]]:
            for start in range(0, len(rows), _BLOCK):
                some = slice(start, start + _BLOCK)
                columns = known.slice(start, _BLOCK).to_pydict()
                pairs = zip(near[some].tolist(), distances[some].tolist(), strict=True)
                neighbors = [{"ids": ids, "distances": far} for ids, far in pairs]
                x, y = rows[some, 0], rows[some, 1]
                yield {**columns, "x": x, "y": y, "neighbors": neighbors}

        write_table(path, _SCHEMA, parts())


def _main_components(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the main components of rows, largest first, shape (N, K); at least two."""
    num_items, width = rows.shape
    blocks = [slice(start, start + _BLOCK) for start in range(0, num_items, _BLOCK)]
    mean = sum((rows[b].sum(axis=0, dtype=np.float64) for b in blocks), np.zeros(width))
    mean = mean / num_items
    covariance = np.zeros((width, width))
    for block in blocks:
        part = rows[block].astype(np.float64) - mean
        covariance += part.T @ part
    count = min(_COMPONENTS, width)
    _, axes = eigh(covariance, subset_by_index=(width - count, width - 1))
    axes = axes[:, ::-1]
    # An axis has an arbitrary sign; this one is always the same.
    signs = np.sign(axes[np.abs(axes).argmax(axis=0), np.arange(count)])
    components = np.zeros((num_items, max(2, count)), dtype=np.float32)
    for block in blocks:
        components[block, :count] = (rows[block] - mean) @ (axes * signs)
    return components
