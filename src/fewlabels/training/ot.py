"""Optimal transport: seeded, balanced soft k-means on the spectrum of a graph.

Nodes are points whose coordinates are the leading eigenvectors of the normalized graph,
brought to length one (Ng, Jordan and Weiss, "On Spectral Clustering", NIPS 2001). Each
class has a center, at first the mean of its labels. In turn, nodes are assigned to
centers by entropic optimal transport, so that each class gets its share (Cuturi,
"Sinkhorn Distances", NIPS 2013), and centers move to the mean of what they were given.
Each time, centers are matched to classes anew, as labels are likeliest: a mean of one
or two labels may have gone to a neighboring cluster.

Known shares mean that every class is there. A class that has no label yet then begins
where the other centers explain nodes worst.

How sure beliefs may be is seen on the labels themselves: a center is the mean of many
nodes, so that a label hardly sways its own.

Shapes: M nodes, s sources, C classes, k classes that nodes may have, d coordinates.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from fewlabels.errors import Limits
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Floats
from fewlabels.training.graph import (
    ABSENT,
    GraphLearner,
    Sources,
    balanced,
    fit_sharpness,
    floored,
)

_ROUNDS = 15
_COORDINATES = 1.5  # for each class
_USUAL_SHARPNESS = 1.0
_LEAST = 1e-12
_MOST_BEGINNINGS = 1000
_NEAR_ENOUGH = 1e-3  # to shares that are met only to move centers


@dataclass(frozen=True, kw_only=True)
class OT(GraphLearner):
    """Seeded soft k-means, balanced to class shares that are even, given or estimated.

    Where shares are unknown, they are estimated: half by what each class would be
    assigned without any, half even.
    """

    temperature: Annotated[float, Limits(at_least=1e-6)] = 0.1
    """How soft assignments are, as a share of the mean squared distance."""

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        logs = self._assigned(graph, sources)
        own = logs[sources.nodes], sources.classes
        return floored(fit_sharpness(*own, _USUAL_SHARPNESS)[0] * logs)

    def present(self, sources: Sources) -> NDArray[np.int64]:
        """Return the classes that nodes may have: all where shares are known."""
        if self.shares == "unknown":
            return super().present(sources)
        return np.arange(sources.num_classes)

    def _assigned(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of how far each node belongs to each class, (M, C)."""
        present, shares = self.present(sources), self.class_shares(sources)
        masses = np.bincount(graph.nodes.node_of).astype(np.float64)
        given = np.zeros((len(graph), sources.num_classes))
        np.add.at(given, (sources.nodes, sources.classes), 1)
        absent = present[~given[:, present].any(axis=0)]
        is_reached = np.isin(graph.parts, graph.parts[sources.nodes])
        if not len(absent):  # else they may be what the absent classes have
            masses = masses * is_reached
        _, points = graph.spectrum(math.ceil(_COORDINATES * sources.num_classes))
        lengths = np.linalg.norm(points, axis=1, keepdims=True)
        points = points / np.maximum(lengths, _LEAST)
        every = np.full((len(graph), sources.num_classes), ABSENT)
        every[:, present] = self._clustered(
            points, masses, given[:, present], shares[present]
        )
        if len(absent):  # no label distinguishes them
            any_of_them = np.logaddexp.reduce(every[:, absent], axis=1)
            own = np.log(shares[absent] / shares[absent].sum())
            every[:, absent] = any_of_them[:, None] + own
        else:
            every[~is_reached] = 0.0
        return every

    def _clustered(
        self, points: Floats, masses: Floats, given: Floats, shares: Floats
    ) -> Floats:
        """Return logarithms of how far points belong to classes, shape (M, k)."""
        labeled = np.flatnonzero(given.any(axis=1))
        labels = given[labeled]
        centers = first_centers(points, masses, given)
        logs, offsets = given, np.zeros(len(shares))
        for _ in range(_ROUNDS):
            costs = center_distances(points, centers)
            plan = assignment(costs, masses, shares, self.temperature, offsets)
            likelihoods = labels.T @ plan.logs[labeled]
            _, likeliest = linear_sum_assignment(likelihoods, maximize=True)
            logs, offsets = plan.logs[:, likeliest], plan.offsets[likeliest]
            if self.shares == "unknown":
                shares = (plan.unbalanced[likeliest] + 1 / len(shares)) / 2
            belongs = np.exp(logs)
            belongs[labeled] = labels / labels.sum(axis=1, keepdims=True)
            centers = means(belongs * masses[:, None], points)
        return logs


def means(weights: Floats, points: Floats) -> Floats:
    """Return the mean of the points under each column of weights, shape (k, d)."""
    totals = np.maximum(weights.sum(axis=0), _LEAST)
    return np.asarray(weights.T @ points / totals[:, None])


def first_centers(points: Floats, masses: Floats, given: Floats) -> Floats:
    """Return the first center of each class: the mean of its labels, if it has any.

    Args:
        points: Coordinates, shape (M, d).
        masses: How much each node counts, shape (M,).
        given: Labels of each class at each node, shape (M, k).

    Returns:
        Coordinates, shape (k, d). A class without labels begins at the node that
        lowers most, by its mass, how far all are from the nearest center.
    """
    centers = means(given * masses[:, None], points)
    has_center = np.asarray(given.any(axis=0))
    some = points[:: -(-len(points) // _MOST_BEGINNINGS)]
    for number in np.flatnonzero(~has_center):
        nearest = center_distances(points, centers[has_center]).min(axis=1)
        gained = np.maximum(nearest[:, None] - center_distances(points, some), 0)
        centers[number] = some[(masses @ gained).argmax()]
        has_center[number] = True
    return centers


def center_distances(points: Floats, centers: Floats) -> Floats:
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
    unbalanced: Floats
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
    logs = balanced(logits + offsets, masses, shares, _NEAR_ENOUGH)
    favors = (logs - logits).max(axis=0)
    return Assignment(logs, favors - favors.max(), masses @ free / masses.sum())
