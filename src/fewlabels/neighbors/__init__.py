"""Which items are near each other: a graph over the rows of a pool."""

from fewlabels.neighbors.approximate import others
from fewlabels.neighbors.graph import NeighborGraph, joined, remembered_graph
from fewlabels.neighbors.nodes import (
    Floats,
    Nodes,
    RowSource,
    directions,
    read_rows,
    row_hashes,
)
from fewlabels.neighbors.search import Search, closest, nearest

__all__ = [
    "Floats",
    "NeighborGraph",
    "Nodes",
    "RowSource",
    "Search",
    "closest",
    "directions",
    "joined",
    "nearest",
    "others",
    "read_rows",
    "remembered_graph",
    "row_hashes",
]
