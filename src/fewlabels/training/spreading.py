"""Label spreading: labels flow along the edges of a graph of near items.

Zhou et al., "Learning with Local and Global Consistency" (NIPS 2003): the influence of
labels Y on all nodes is F = (I - a S)^-1 Y, where S is the normalized graph. Then, as
Zhu, Ghahramani and Lafferty proposed ("Semi-Supervised Learning Using Gaussian Fields
and Harmonic Functions", ICML 2003, Sec. 4), the influence of each class is divided by
its total over all nodes, so that neither many labels of a class nor labels in a dense
place outvote the others.

Shapes: M nodes, s sources, C classes.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import Share
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Floats
from fewlabels.training.graph import (
    GraphLearner,
    Sources,
    class_sums,
    fit_sharpness,
    floored,
)

USUAL_SHARPNESS = 4.0
"""What logarithms of shares of influence are usually multiplied by."""

_LEAST = 1e-300


@dataclass(frozen=True, kw_only=True)
class Spreading(GraphLearner):
    """Label spreading, every class as influential as the others."""

    damping: Share = 0.99
    """Share of a label's influence that goes on from each node to its neighbors."""

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        spread = SpreadLabels.of(graph, sources, self.damping)
        labels = sources.classes[spread.chosen]
        power, _ = fit_sharpness(spread.left_out, labels, USUAL_SHARPNESS)
        return floored(power * spread.logits)


class SpreadLabels(NamedTuple):
    """The influence of labels, with all of them and with each of some left out."""

    logits: Floats
    """Logarithms of the share of each class's influence at all nodes, shape (M, C)."""
    chosen: NDArray[np.int64]
    """Which sources were left out, shape (n,): none that is its class's only one."""
    left_out: Floats
    """The same at the node of each of them, without its own label, shape (n, C)."""

    @classmethod
    def of(
        cls, graph: NeighborGraph, sources: Sources, damping: float
    ) -> "SpreadLabels":
        """Spread labels over a graph."""
        influence_MC = influence(graph, sources, damping)
        totals = influence_MC.sum(axis=0)
        counts = np.bincount(sources.classes, minlength=sources.num_classes)
        chosen = sources.sample(counts[sources.classes] > 1)
        nodes, labels = sources.nodes[chosen], sources.classes[chosen]
        left_out = np.zeros((len(chosen), sources.num_classes))
        for row, node, number in zip(left_out, nodes, labels, strict=True):
            # Without a label, the influence at its node is less by that on itself.
            own = graph.influence(int(node), damping)
            others = (np.arange(sources.num_classes) == number).astype(np.float64)
            left = np.maximum(influence_MC[node] - own[node] * others, 0.0)
            row[:] = _logits(left, totals - own.sum() * others)
        return cls(_logits(influence_MC, totals), chosen, left_out)


def _logits(influences: Floats, totals: Floats) -> Floats:
    """Return logarithms of influences, each class's divided by its total."""
    return np.log(np.maximum(influences / np.where(totals > 0, totals, 1.0), _LEAST))


def influence(graph: NeighborGraph, sources: Sources, damping: float) -> Floats:
    """Return the influence of the labels of each class at each node, shape (M, C)."""
    return class_sums(graph, sources, np.ones(len(sources)), damping)
