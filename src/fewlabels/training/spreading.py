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

import numpy as np

from fewlabels.neighbors import Floats, NeighborGraph
from fewlabels.training.calibration import log_probabilities, sharpness
from fewlabels.training.graph import GraphLearner, Sources
from fewlabels.training.schedule import check_range

_MOST_COLUMNS = 256
"""Labels up to which each is spread by itself, so that a new one costs one solution."""


@dataclass(frozen=True, kw_only=True)
class Spreading(GraphLearner):
    """Label spreading, every class as influential as the others."""

    damping: float = 0.99
    """Share of a label's influence that goes on from each node to its neighbors."""

    def __post_init__(self) -> None:
        """Check the ranges and the shares."""
        super().__post_init__()
        check_range("damping", self.damping, at_least=0, below=1)

    def beliefs(self, graph: NeighborGraph, sources: Sources) -> Floats:
        """Return logarithms of probabilities of all nodes, shape (M, C)."""
        felt_MC = influence(graph, sources, self.damping)
        totals = felt_MC.sum(axis=0)
        scores = felt_MC / np.where(totals > 0, totals, 1.0)
        power = self._sharpness(graph, sources, felt_MC, totals)
        return log_probabilities(scores, power)

    def _sharpness(
        self,
        graph: NeighborGraph,
        sources: Sources,
        felt_MC: Floats,
        totals: Floats,
    ) -> float:
        """Return the power of scores, from leaving out each label in turn."""
        # Without a label, the influence at its node is less by that on itself. A class
        # of one label could not be found without it.
        counts = np.bincount(sources.classes, minlength=sources.num_classes)
        chosen = np.flatnonzero(counts[sources.classes] > 1)
        step = -(-len(chosen) // _MOST_COLUMNS) or 1
        chosen = chosen[::step]
        rows = []
        for node, number in zip(
            sources.nodes[chosen], sources.classes[chosen], strict=True
        ):
            own = graph.influence(int(node), self.damping)
            row, left = felt_MC[node].copy(), totals.copy()
            row[number] = max(row[number] - own[node], 0.0)
            left[number] -= own.sum()
            rows.append(row / np.where(left > 0, left, 1.0))
        left_out = np.array(rows).reshape(len(chosen), sources.num_classes)
        return sharpness(left_out, sources.classes[chosen])


def influence(graph: NeighborGraph, sources: Sources, damping: float) -> Floats:
    """Return how far the labels of each class are felt at each node, shape (M, C)."""
    felt_MC = np.zeros((len(graph), sources.num_classes))
    if len(sources) <= _MOST_COLUMNS:
        for node, number in zip(sources.nodes, sources.classes, strict=True):
            felt_MC[:, number] += graph.influence(int(node), damping)
        return felt_MC
    for number in np.unique(sources.classes):
        source = np.zeros(len(graph))
        source[sources.nodes[sources.classes == number]] = 1.0
        felt_MC[:, number] = graph.diffused(source, damping)
    return felt_MC
