"""Learners over a graph of near items: no steps, and a new label in milliseconds.

Building the graph takes long and does not depend on labels, so it is cached: for the
same images without a look at them, for equal ones after reading all rows.

Shapes: N items, M nodes, s sources, n labels that were left out in turn, C classes,
R voters, D numbers per row.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from torch import Tensor

from fewlabels import models, rng
from fewlabels.errors import Count
from fewlabels.gram.graph import NeighborGraph, remembered_graph
from fewlabels.gram.nearest import Search
from fewlabels.gram.nodes import Floats, Nodes, get_or_compute
from fewlabels.models import Neighbors, Network
from fewlabels.models.neighbors import FLOOR
from fewlabels.names import check_installed
from fewlabels.pool import Images
from fewlabels.training.learner import DirectLearner, Shares
from fewlabels.training.views import Views

if TYPE_CHECKING:
    from fewlabels.training.training import TrainingTask

MOST_COLUMNS = 1024
"""Labels up to which each is solved for by itself, so that a new one costs only one."""

ABSENT = -1e6
"""Score of a class that has no label."""

_MOST_REMEMBERED = 2
_REHEARSED_ROWS = 1000
_FACTORS = 2.0 ** np.arange(-4.0, 2.01, 0.25)
_STIFFNESS = 0.5  # in units of one label's log loss, for twice or half the usual
_MOST_ROUNDS = 300
_LEAST = 1e-300
_FARTHEST = 600.0  # the exponential of what is lower would vanish


@dataclass(frozen=True, eq=False)
class Sources:
    """Labeled nodes and their classes, each pair once."""

    nodes: NDArray[np.int64]
    """Shape (s,)."""
    classes: NDArray[np.int64]
    """Shape (s,)."""
    num_classes: int

    @classmethod
    def at(
        cls, items: Tensor, labels: Tensor, num_classes: int, nodes: Nodes
    ) -> "Sources":
        """Return the sources of labeled items; equal items count once per class."""
        pairs = np.stack([nodes.node_of[items.numpy()], labels.numpy()], axis=1)
        distinct = np.unique(pairs, axis=0)
        return cls(distinct[:, 0], distinct[:, 1], num_classes)

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.nodes)

    def sample(self, is_wanted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return positions of the wanted sources, at most ``MOST_COLUMNS`` of them.

        The first ones are a random sample, since nodes are in the order of their
        hashes, and one more label changes at most one of them.
        """
        return np.flatnonzero(is_wanted)[:MOST_COLUMNS]


@dataclass(frozen=True, kw_only=True)
class GraphLearner(DirectLearner):
    """A learner that predicts all nodes of a graph from the labels of a few."""

    network: ClassVar[str] = "neighbors"
    """The kind of network that holds the result."""

    neighbors: Count = 10
    """Nearest items that each item is joined to."""
    landmarks: Count = 10_000
    """Most rows that are kept with the classifier, to vote on new images."""
    search: Search = "exact"
    """How to search neighbors: ``"exact"``, or by ``"faiss"``, which misses a few and
    is meant for more than 100,000 items."""
    shares: Shares = "unknown"
    """Class shares of the pool: the shares themselves, ``"even"``, or ``"unknown"``."""

    def __post_init__(self) -> None:
        """Check the options, and that what they need is installed."""
        super().__post_init__()
        if self.search == "faiss":
            check_installed("Approximate search", "faiss", install="faiss-cpu")

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return log-probabilities of all nodes, shape (M, C)."""
        raise NotImplementedError

    def begin(self, task: "TrainingTask") -> Network:
        """Return a network that holds the rows of the pool, without predictions."""
        nodes = nodes_of(task.views, task.pool.images)
        sizes = self.neighbors, min(self.landmarks, len(nodes)), len(nodes)
        name = "-".join(map(str, (self.network, *sizes)))
        width = (nodes.rows.shape[1],)  # of views, it might have to be worked out
        draws = rng.stream(0, "nothing to draw")
        network = models.build(name, width, task.pool.num_classes, draws)
        assert isinstance(network, Neighbors)
        network.set_nodes(nodes)
        return network

    def solve(self, network: Network, task: "TrainingTask") -> None:
        """Store the log-probabilities of all nodes in the network."""
        assert isinstance(network, Neighbors)
        pool, nodes = task.pool, nodes_of(task.views, task.pool.images)
        labels = pool.labels[pool.labeled]
        sources = Sources.at(pool.labeled, labels, pool.num_classes, nodes)
        graph = remembered_graph(nodes, self.neighbors, self.search)
        self.fill(network, graph, sources)

    def fill(self, network: Neighbors, graph: NeighborGraph, sources: Sources) -> None:
        """Store the log-probabilities that follow from some labels in a network."""
        beliefs = self.aligned(self.beliefs(graph, sources), graph, sources)
        network.set_beliefs(graph, torch.from_numpy(beliefs))

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Build a graph of random rows; return how many times longer all take."""
        del num_classes
        num_rows = min(num_items, _REHEARSED_ROWS)
        draws = rng.stream(0, "probe of a graph")
        rows = torch.rand(num_rows, width, generator=draws).numpy()
        NeighborGraph.of(Nodes.of(rows, 0.0), self.neighbors)
        return (num_items / num_rows) ** 2  # pairs; what labels add grows more slowly

    def present(self, sources: Sources) -> NDArray[np.int64]:
        """Return the classes that have a label; no other is predicted."""
        return np.unique(sources.classes)

    def class_shares(self, sources: Sources) -> Floats:
        """Return the share of each class, even unless shares are given, shape (C,)."""
        even = np.ones(sources.num_classes)
        return even if isinstance(self.shares, str) else np.array(self.shares)

    def aligned(self, logs: Floats, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return log-probabilities under which each class has its share, if known.

        Args:
            logs: Log-probabilities, shape (M, C).
            graph: The nodes; each is weighted by the number of equal items.
            sources: The labels; a class without any has no share.

        Returns:
            Log-probabilities, shape (M, C).
        """
        if self.shares == "unknown":
            return logs
        present, shares = self.present(sources), self.class_shares(sources)
        counts = np.bincount(graph.nodes.node_of).astype(np.float64)
        beliefs = np.full_like(logs, ABSENT)
        beliefs[:, present] = balanced(logs[:, present], counts, shares[present])
        return floored(beliefs)


_remembered: dict[tuple[int, str, float], tuple[Images, Nodes]] = {}


def nodes_of(views: Views, images: Images) -> Nodes:
    """Return the different rows of a pool; those of the last few are cached."""

    def compute() -> tuple[Images, Nodes]:  # images that are kept keep their id
        return images, Nodes.of(views.rows, views.origin)

    key = id(images), views.identity, views.origin
    return get_or_compute(_remembered, key, compute, _MOST_REMEMBERED)[1]


def class_sums(
    graph: NeighborGraph, sources: Sources, weights: Floats, damping: float | None
) -> Floats:
    """Return the weighted influence of each class's sources at each node, (M, C).

    Without damping, it is their potential. Few sources are solved for one by one, so
    that a new one costs only its own.
    """
    sums = np.zeros((len(graph), sources.num_classes))
    if len(sources) <= MOST_COLUMNS:
        pairs = zip(sources.nodes, sources.classes, weights, strict=True)
        for node, number, weight in pairs:
            sums[:, number] += weight * graph.influence(int(node), damping)
        return sums
    for number in np.unique(sources.classes):
        is_own, source = sources.classes == number, np.zeros(len(graph))
        source[sources.nodes[is_own]] = weights[is_own]
        sums[:, number] = graph.spread(source, damping)
    return sums


def floored(logits: Floats) -> Floats:
    """Return log-probabilities of logits, shape (M, C), none far below ``FLOOR``."""
    probabilities = np.maximum(softmax(logits, axis=1), 1.01 * np.exp(FLOOR))
    total = probabilities.sum(axis=1, keepdims=True)
    return np.asarray(np.log(probabilities / total))


def fit_sharpness(
    left_out: Floats,
    labels: NDArray[np.int64],
    usual: float,
    weights: Floats | None = None,
) -> tuple[float, float]:
    """Return the factor of logits that fits labels best, by leaving each out in turn.

    Few labels are weak evidence, so a penalty keeps the factor near the usual one; with
    no labels it is the usual one.

    Args:
        left_out: Logits of each labeled node, from all other labels, shape (n, C).
        labels: The classes of these nodes, shape (n,).
        usual: The usual factor.
        weights: Weight of each label, shape (n,); None for equal weights.

    Returns:
        A factor between a sixteenth of the usual one and four times as much, and the
        value that it minimizes: summed log loss plus penalty.
    """
    every = np.arange(len(labels))
    weights = np.ones(len(labels)) if weights is None else weights
    losses = [
        _STIFFNESS * np.log2(factor) ** 2
        - weights @ floored(usual * factor * left_out)[every, labels]
        for factor in _FACTORS
    ]
    best = int(np.argmin(losses))
    return usual * float(_FACTORS[best]), float(losses[best])


def balanced(
    logits: Floats, masses: Floats, shares: Floats, tolerance: float = 1e-6
) -> Floats:
    """Return the probabilities closest to given ones that give each class its share.

    They are softmax(logits + b), where b is the same for all nodes. Sinkhorn's
    iteration finds b: it scales classes and nodes in turn. With logits of minus cost
    over temperature, they are the plan of entropic optimal transport, which approaches
    the cheapest plan as the temperature falls.

    Args:
        logits: Log-probabilities up to a constant for each node, shape (M, C).
        masses: Weight of each node, shape (M,).
        shares: Share of each class, above zero, shape (C,); any scale.
        tolerance: Largest relative error of a share.

    Returns:
        Log-probabilities, shape (M, C).
    """
    wanted, weights = shares / shares.sum(), masses / masses.sum()
    lowered = np.maximum(logits - logits.max(axis=1, keepdims=True), -_FARTHEST)
    kernel, scale = np.exp(lowered), np.ones(len(wanted))
    for _ in range(_MOST_ROUNDS):
        got = scale * ((weights / (kernel @ scale)) @ kernel) + _LEAST
        if np.abs(np.log(wanted / got)).max() < tolerance:
            break
        scale = scale * (wanted / got)
        scale /= scale.max()
    totals = (kernel @ scale)[:, None]
    return np.asarray(lowered + np.log(scale) - np.log(totals))
