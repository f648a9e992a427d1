"""Optimal transport: seeded, balanced soft k-means on the spectrum of a graph.

Nodes are points whose coordinates are the leading eigenvectors of the normalized graph,
brought to length one (Ng, Jordan and Weiss, "On Spectral Clustering", NIPS 2001). Each
labeled class has a center, at first the mean of its labels. In turn, nodes are assigned
to centers by entropic optimal transport, so that each class gets its share (Cuturi,
"Sinkhorn Distances", NIPS 2013), and centers move to the mean of what they were given.

Shapes: M nodes, s sources, C classes, k classes that have a label, d coordinates.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fewlabels.neighbors import Floats, NeighborGraph
from fewlabels.training.calibration import floored, sharpness
from fewlabels.training.graph import ABSENT, GraphLearner, Sources
from fewlabels.training.schedule import check_range
from fewlabels.training.transport import balanced

_ROUNDS = 15
_NUM_FOLDS = 5
_USUAL_SHARPNESS = 1.0
_LEAST = 1e-12


@dataclass(frozen=True, kw_only=True)
class OT(GraphLearner):
    """Seeded soft k-means, balanced to class shares that are even, given or estimated.

    Where shares are unknown, they are estimated: half by what each class would be
    assigned without any, half even.
    """

    temperature: float = 0.1
    """How soft assignments are, as a share of the mean squared distance."""

    def __post_init__(self) -> None:
        """Check the ranges and the shares."""
        super().__post_init__()
        check_range("temperature", self.temperature, at_least=1e-6)

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        logits = self._assigned(graph, sources)
        left_out, labels = [], []
        for fold in range(_NUM_FOLDS):
            out = sources.fold(fold, _NUM_FOLDS)
            if out.any():
                found = self._assigned(graph, sources.without(out))
                left_out.append(found[sources.nodes[out]])
                labels.append(sources.classes[out])
        if not labels:
            return floored(_USUAL_SHARPNESS * logits)
        told = np.concatenate(left_out), np.concatenate(labels)
        return floored(sharpness(*told, _USUAL_SHARPNESS) * logits)

    def _assigned(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of how far each node belongs to each class, (M, C)."""
        points = graph.spectrum(2 * sources.num_classes)
        points = points / np.maximum(
            np.linalg.norm(points, axis=1, keepdims=True), _LEAST
        )
        seen = np.unique(sources.classes)
        masses = np.bincount(graph.nodes.node_of).astype(np.float64)
        given = np.zeros((len(graph), sources.num_classes))
        np.add.at(given, (sources.nodes, sources.classes), 1)
        labeled, given = np.unique(sources.nodes), given[:, seen]
        known = given[labeled] / given[labeled].sum(axis=1, keepdims=True)
        shares = self._shares(sources)[seen]
        belongs, logs, offsets = given, np.zeros_like(given), np.zeros(len(seen))
        for _ in range(_ROUNDS):
            weighed = belongs * masses[:, None]
            centers = weighed.T @ points / weighed.sum(axis=0)[:, None]
            costs = squared_distances(points, centers)
            found = assignment(costs, masses, shares, self.temperature, offsets)
            logs, offsets = found.logs, found.offsets  # near those of the next round
            if self.shares == "unknown":
                shares = (found.unasked + 1 / len(seen)) / 2
            belongs = np.exp(logs)
            belongs[labeled] = known
        every = np.full((len(graph), sources.num_classes), ABSENT)
        every[:, seen] = logs
        every[~np.isin(graph.parts, graph.parts[sources.nodes])] = 0.0
        return every

    def _shares(self, sources: Sources) -> Floats:
        """Return the share of each class that is assumed at first, shape (C,)."""
        if isinstance(self.shares, str):
            return np.ones(sources.num_classes)
        return np.array(self.shares)


def squared_distances(points: Floats, centers: Floats) -> Floats:
    """Return the squared distance of each point to each center, shape (M, k)."""
    cross = points @ centers.T
    squares = (points**2).sum(axis=1)[:, None] + (centers**2).sum(axis=1) - 2 * cross
    return np.asarray(np.maximum(squares, 0.0))


class Assignment(NamedTuple):
    """Nodes assigned to classes."""

    logs: Floats
    """Logarithms of how far each node belongs to each class, shape (M, k)."""
    offsets: Floats
    """What classes are favored by so that each gets its share, shape (k,)."""
    unasked: Floats
    """The share that each would get if none were asked for, shape (k,)."""


def assignment(
    costs: Floats,
    masses: Floats,
    shares: Floats,
    temperature: float,
    offsets: Floats | float = 0.0,
) -> Assignment:
    """Assign nodes to classes at little cost, so that each class gets its share.

    Args:
        costs: What each assignment costs, shape (M, k).
        masses: How much each node counts, shape (M,).
        shares: How much each class gets, shape (k,); any scale.
        temperature: How soft assignments are, as a share of the mean cost; as it falls,
            they approach the cheapest ones.
        offsets: Where to begin; it changes how long it takes, and little else.

    Returns:
        The assignment.
    """
    logits = -costs / max(temperature * float(costs.mean()), _LEAST)
    free = np.exp(floored(logits + np.log(shares / shares.sum())))
    logs = balanced(logits + offsets, masses, shares)
    favors = (logs - logits).max(axis=0)
    return Assignment(logs, favors - favors.max(), masses @ free / masses.sum())
