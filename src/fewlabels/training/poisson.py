"""Poisson learning: labels are sources and sinks of a flow on a graph of near items.

Calder, Cook, Thorpe and Slepcev, "Poisson Learning: Graph Based Semi-Supervised
Learning at Very Low Label Rates" (ICML 2020): u solves L u = sum of (y_j - mean y) at
the labeled nodes j, where L is the graph's Laplacian, and a node is of the class that
has the largest u, divided by its share of the labels. But for what is the same for all
classes, that is the mean potential of the class's labels. Where class shares are known,
PoissonMBO (Sec. 2.4 there) goes on from it: a flow of one-hot classes alternates with
choosing classes anew, so that each gets its share.

Shapes: M nodes, s sources, n labels left out, C classes.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Floats
from fewlabels.training.graph import (
    ABSENT,
    GraphLearner,
    Sources,
    class_sums,
    fit_sharpness,
    floored,
)

_USUAL_SHARPNESS = 3.0
_ROUNDS = 10
_FLOWS = 40
_HARD = 30.0


@dataclass(frozen=True, kw_only=True)
class Poisson(GraphLearner):
    """Poisson learning; PoissonMBO where class shares are known."""

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        scores = mean_potentials(graph, sources)
        counts = _counts(graph, sources)[graph.parts[sources.nodes], sources.classes]
        chosen = sources.sample(counts > 1)  # none that is alone in its part
        nodes, labels = sources.nodes[chosen], sources.classes[chosen]
        left_out, own = scores[nodes], (np.arange(len(chosen)), labels)
        alone = np.array([graph.influence(int(node), None)[node] for node in nodes])
        several = counts[chosen]
        left_out[own] = (several * left_out[own] - alone) / (several - 1)
        spread = _spread(scores)
        power, _ = fit_sharpness(left_out / spread, labels, _USUAL_SHARPNESS)
        if self.shares != "unknown":
            scores = self._flow(graph, sources, floored(power * scores / spread))
            spread = _spread(scores)
        return floored(power * scores / spread)

    def _flow(self, graph: NeighborGraph, sources: Sources, logs: Floats) -> Floats:
        """Return the flow at each node after all rounds, shape (M, C)."""
        degrees, one_hot = graph.degrees, np.eye(sources.num_classes)
        laplacian = sparse.csr_array(sparse.diags_array(degrees) - graph.weights)
        source = np.zeros((len(graph), sources.num_classes))
        np.add.at(source, sources.nodes, one_hot[sources.classes])
        np.subtract.at(source, sources.nodes, one_hot[sources.classes].mean(axis=0))
        flow = logs
        for _ in range(_ROUNDS):
            chosen = self.aligned(_HARD * flow, graph, sources)
            flow = one_hot[chosen.argmax(axis=1)]
            for _ in range(_FLOWS):
                flow = flow - (laplacian @ flow - source) / degrees.max()
        is_absent = np.bincount(sources.classes, minlength=sources.num_classes) == 0
        flow[:, is_absent] = ABSENT
        return flow


def mean_potentials(graph: NeighborGraph, sources: Sources) -> Floats:
    """Return the mean potential of each class's labels at each node, shape (M, C).

    Labels count in the part of the graph that they are in. Where a class has none, it
    gets a number below all others; where no class has any, all get zero.
    """
    counts = _counts(graph, sources)
    shares = 1 / counts[graph.parts[sources.nodes], sources.classes]
    scores = class_sums(graph, sources, shares, damping=None)
    is_absent = (counts == 0) & counts.any(axis=1, keepdims=True)
    scores[is_absent[graph.parts]] = ABSENT
    return scores


def _counts(graph: NeighborGraph, sources: Sources) -> Floats:
    """Return how many labels of each class there are in each part of the graph."""
    counts = np.zeros((int(graph.parts.max()) + 1, sources.num_classes))
    np.add.at(counts, (graph.parts[sources.nodes], sources.classes), 1)
    return counts


def _spread(scores: Floats) -> float:
    """Return the deviation of the scores of classes that are there; never zero."""
    return float(np.std(scores[scores > ABSENT])) or 1.0
