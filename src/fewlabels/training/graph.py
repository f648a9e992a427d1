"""Learners over a graph of near items: no steps, and a new label in milliseconds.

The graph takes long and does not depend on labels, so that it is remembered: of the
same images at once, of images that hold the same after one look at all rows.

Shapes: N items, M nodes, s sources, C classes, R voters, D numbers per row.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import models, rng
from fewlabels.models import Neighbors, Network, Votes
from fewlabels.naming import check_installed, check_known
from fewlabels.neighbors import (
    Floats,
    NeighborGraph,
    Nodes,
    Search,
    remembered_graph,
)
from fewlabels.pool import Images, Pool
from fewlabels.training.calibration import floored
from fewlabels.training.schedule import check_range
from fewlabels.training.shares import Shares, check_number_of_shares, check_shares
from fewlabels.training.transport import balanced
from fewlabels.training.views import View, Views

MOST_COLUMNS = 1024
"""Labels up to which each is solved for by itself, so that a new one costs only one."""

ABSENT = -1e6
"""Score of a class that has no label."""

_MOST_REMEMBERED = 2
_REHEARSED_ROWS = 1000


@dataclass(frozen=True, eq=False)
class Sources:
    """What is labeled: nodes and their classes, each pair once."""

    nodes: NDArray[np.int64]
    """Shape (s,)."""
    classes: NDArray[np.int64]
    """Shape (s,)."""
    num_classes: int

    @classmethod
    def of(cls, pool: Pool, nodes: Nodes) -> "Sources":
        """Return the labels of a pool."""
        labeled = pool.labeled
        return cls.at(labeled, pool.labels[labeled], pool.num_classes, nodes)

    @classmethod
    def at(
        cls, items: Tensor, labels: Tensor, num_classes: int, nodes: Nodes
    ) -> "Sources":
        """Return labels of some items; copies with the same label count once."""
        pairs = np.stack([nodes.node_of[items.numpy()], labels.numpy()], axis=1)
        found = np.unique(pairs, axis=0)
        return cls(found[:, 0], found[:, 1], num_classes)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.nodes)

    def some(self, are_wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the numbers of those that are wanted; of many, the first ones.

        Nodes are in the order of their hashes, so that these are a random part of all,
        and one more label changes at most one of them.
        """
        return np.flatnonzero(are_wanted)[:MOST_COLUMNS]


@dataclass(frozen=True, kw_only=True)
class GraphLearner:
    """What finds the classes of all nodes of a graph from those of a few."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    views: ClassVar[Mapping[str, View]] = {}
    network: ClassVar[str] = "neighbors"
    """The kind of network that is filled."""

    neighbors: int = 10
    """Nearest items that each item is joined to."""
    landmarks: int = 10_000
    """Most rows that are kept with the classifier, to vote on new images."""
    search: Search = "exact"
    """How neighbors are found: ``"exact"``, or by ``"faiss"``, which misses a few and
    is meant for more than 100,000 items."""
    shares: Shares = "unknown"
    """Class shares of the pool: the shares themselves, ``"even"``, or ``"unknown"``."""

    def __post_init__(self) -> None:
        """Check the ranges and the shares."""
        check_range("neighbors", self.neighbors, at_least=1)
        check_range("landmarks", self.landmarks, at_least=1)
        check_known("search", self.search, Search)
        if self.search == "faiss":
            check_installed("Approximate search", "faiss", extra="faiss")
        check_shares(self.shares)

    def check(self, pool: Pool) -> None:
        """Raise unless shares that were given are one for each class."""
        check_number_of_shares(self.shares, pool)

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        raise NotImplementedError

    def begin(self, views: Views, pool: Pool, key: int) -> Network:
        """Return a network that knows the rows of the pool, and nothing about them."""
        del key
        nodes = surroundings(views, pool.images).nodes
        sizes = (self.neighbors, min(self.landmarks, len(nodes)), len(nodes))
        name = f"{self.network}-{'-'.join(map(str, sizes))}"
        draws = rng.stream(0, "nothing to draw")
        width = (nodes.rows.shape[1],)  # of views, it might have to be worked out
        network = models.build(name, width, pool.num_classes, draws)
        assert isinstance(network, Neighbors)
        network.remember(nodes)
        return network

    def solve(self, network: Network, views: Views, pool: Pool, key: int) -> None:
        """Fill the network with what is believed about each node."""
        del key
        assert isinstance(network, Neighbors)
        around = surroundings(views, pool.images)
        sources = Sources.of(pool, around.nodes)
        self.fill(network, around, around.graph(self.neighbors, self.search), sources)

    def fill(
        self,
        network: Neighbors,
        around: "Surroundings",
        graph: NeighborGraph,
        sources: Sources,
    ) -> None:
        """Fill a network with the beliefs that some labels lead to."""
        beliefs = self.aligned(self.beliefs(graph, sources), around.nodes, sources)
        self.set_beliefs(network, around, graph, beliefs)

    def set_beliefs(
        self,
        network: Neighbors,
        around: "Surroundings",
        graph: NeighborGraph,
        beliefs: Floats,
    ) -> None:
        """Let a network know what is believed of all nodes, and who votes."""
        voters = around.voters(network.num_voters)
        votes = around.votes(network.num_neighbors, network.num_voters, self.search)
        network.believe(graph, voters, votes, torch.from_numpy(beliefs))

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Join random rows; return how many times longer all take."""
        del num_classes
        num_rows = min(num_items, _REHEARSED_ROWS)
        draws = rng.stream(0, "probe of a graph")
        rows = torch.rand(num_rows, width, generator=draws).numpy()
        NeighborGraph.of(Nodes.of(rows, 0.0), self.neighbors)
        return (num_items / num_rows) ** 2  # pairs; what labels add grows more slowly

    def present(self, sources: Sources) -> NDArray[np.int64]:
        """Return the classes that nodes may have: those with a label."""
        return np.unique(sources.classes)

    def told_shares(self, sources: Sources) -> Floats:
        """Return the share of each class; where none is told, even, shape (C,)."""
        if isinstance(self.shares, str):
            return np.ones(sources.num_classes)
        return np.array(self.shares)

    def aligned(self, logs: Floats, nodes: Nodes, sources: Sources) -> Floats:
        """Return beliefs of which each class gets its share, if that is told.

        Args:
            logs: Logarithms of probabilities, shape (M, C).
            nodes: The nodes; they count as often as there are copies.
            sources: Classes that are not present have no share.

        Returns:
            Logarithms of probabilities, shape (M, C).
        """
        if self.shares == "unknown":
            return logs
        present, shares = self.present(sources), self.told_shares(sources)
        counts = np.bincount(nodes.node_of).astype(np.float64)
        found = np.full_like(logs, ABSENT)
        found[:, present] = balanced(logs[:, present], counts, shares[present])
        return floored(found)


@dataclass(eq=False)
class Surroundings:
    """What is near what in a pool, worked out when it is asked for."""

    nodes: Nodes
    images: Images
    identity: tuple[str, float]
    _voters: dict[int, Tensor] = field(default_factory=dict)
    _votes: dict[tuple[int, int, Search], Votes] = field(default_factory=dict)

    def graph(self, num_neighbors: int, search: Search) -> NeighborGraph:
        """Return the graph."""
        return remembered_graph(self.nodes, num_neighbors, search)

    def voters(self, number: int) -> Tensor:
        """Return directions of the first nodes, shape (R, D)."""
        if number not in self._voters:
            self._voters[number] = self.nodes.read(np.arange(number))
        return self._voters[number]

    def votes(self, num_neighbors: int, num_voters: int, search: Search) -> Votes:
        """Return what is known of votes on other rows, to be added to."""
        return self._votes.setdefault((num_neighbors, num_voters, search), {})

    def is_of(self, images: Images, identity: tuple[str, float]) -> bool:
        """Return whether it was worked out for these images, seen in this way."""
        return self.images is images and self.identity == identity


_remembered: list[Surroundings] = []


def surroundings(views: Views, images: Images) -> Surroundings:
    """Return what is near what in a pool; the last few pools are remembered."""
    identity = (views.identity, views.origin)
    for one in _remembered:
        if one.is_of(images, identity):
            return one
    nodes = Nodes.of(views.rows, views.origin)
    found = Surroundings(nodes, images, identity)
    for number, one in enumerate(_remembered):
        if one.nodes.identity == nodes.identity:
            found = _remembered.pop(number)
            found.images, found.identity = images, identity
            break
    _remembered.append(found)
    del _remembered[:-_MOST_REMEMBERED]
    return found
