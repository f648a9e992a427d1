"""Which items are near each other: a graph over the rows of a pool."""

from fewlabels.neighbors.approximate import check_installed
from fewlabels.neighbors.graph import NeighborGraph
from fewlabels.neighbors.nodes import (
    Floats,
    Nodes,
    RowSource,
    directions,
    read_rows,
    row_hashes,
)
from fewlabels.neighbors.search import Search, nearest

__all__ = [
    "Floats",
    "NeighborGraph",
    "Nodes",
    "RowSource",
    "Search",
    "check_installed",
    "directions",
    "nearest",
    "read_rows",
    "row_hashes",
]
