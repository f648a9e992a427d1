"""A mixture of label spreading and a regression over features and graph.

Label spreading is hard to beat with a few labels per class and hardly learns from more;
a regression does the opposite. Both are cheap to judge by leaving out one label at a
time: spreading by subtracting a label's influence, regularized least squares by a
formula (Allen, 1974). Least squares classify as well as other losses (Rifkin, Yeo and
Poggio, "Regularized Least-Squares Classification", 2003). How much of the regression's
rows is graph, its penalty and both temperatures are those of the least log loss of the
labels left out, in which all classes count equally. The weight of spreading depends on
the number of labels per class alone: with few labels, what is left out says too little
about it.

Shapes: M nodes, s sources, n of them left out, C classes, c classes that have a label,
P components of features, R eigenvectors, Z numbers in a joint row (P + R).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels.errors import Share, Weight
from fewlabels.gram.diffusion import JointRows, Singles, joint_rows
from fewlabels.gram.graph import NeighborGraph
from fewlabels.gram.nodes import Floats
from fewlabels.models import BlendNetwork, Neighbors
from fewlabels.training.graph import (
    ABSENT,
    GraphLearner,
    Sources,
    fit_sharpness,
    floored,
)
from fewlabels.training.spreading import USUAL_SHARPNESS, SpreadLabels

_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9)  # of the graph in the regression's rows
_PENALTIES = (0.1, 0.3, 1.0, 3.0, 10.0)
_USUAL = 0.75, 1.0  # share and penalty where no label can be left out
_USUAL_FACTOR = 8.0  # that scores of the regression are multiplied by


@dataclass(frozen=True, kw_only=True)
class Blend(GraphLearner):
    """Label spreading and least squares, mixed by the number of labels per class."""

    network: ClassVar[str] = "blend"

    damping: Share = 0.99
    """Share of a label's influence that goes on from each node to its neighbors."""
    balance: Weight = 12.0
    """Labels per class at which spreading and the regression count equally; with fewer,
    spreading counts more."""

    def fill(self, network: Neighbors, graph: NeighborGraph, sources: Sources) -> None:
        """Fill a network with beliefs about the nodes, and with a rule for others."""
        assert isinstance(network, BlendNetwork)
        rows = joint_rows(graph, self.damping)
        mixture = self.mixture(graph, rows, sources)
        beliefs = self.aligned(mixture.beliefs, graph, sources)
        network.set_beliefs(graph, torch.from_numpy(beliefs))
        voters = slice(network.num_voters)
        rule = {
            "weight": np.array([mixture.weight]),
            "spread_beliefs": mixture.spread[voters],
            "slopes": mixture.regression.slopes @ rows.basis.T,
            "heights": mixture.regression.heights[voters],
            # Aligning to class shares adds the same numbers to the logits of all.
            "offsets": (beliefs - mixture.beliefs).mean(axis=0),
        }
        for name, values in rule.items():
            network.get_buffer(name).copy_(torch.from_numpy(values))

    def mixture(
        self, graph: NeighborGraph, rows: JointRows, sources: Sources
    ) -> "Mixture":
        """Return beliefs about all nodes, and what they are put together from."""
        spread = SpreadLabels.of(graph, sources, self.damping)
        labels = sources.classes[spread.chosen]
        weights = equal_weights(labels)
        power, _ = fit_sharpness(spread.left_out, labels, USUAL_SHARPNESS, weights)
        spread_MC = floored(power * spread.logits)
        fitted = regression(rows, sources)
        regressed_MC = floored(rows.features @ fitted.slopes.T + fitted.heights)
        per_class = len(sources) / len(np.unique(sources.classes))
        weight = self.balance / (self.balance + per_class)
        mixed_MC = weight * np.exp(spread_MC) + (1 - weight) * np.exp(regressed_MC)
        return Mixture(np.log(mixed_MC), weight, spread_MC, fitted)


class Mixture(NamedTuple):
    """What is believed about all nodes."""

    beliefs: Floats
    """Logarithms of probabilities, shape (M, C)."""
    weight: float
    """Of spreading, from 0 to 1; the rest is that of the regression."""
    spread: Floats
    """What spreading alone believes, shape (M, C)."""
    regression: "Regression"


class Regression(NamedTuple):
    """Least squares on joint rows, scaled to logits."""

    slopes: Floats
    """What each component of the features adds to the logits, shape (C, P)."""
    heights: Floats
    """What the place of each node in the graph adds to them, shape (M, C)."""


def regression(rows: JointRows, sources: Sources) -> Regression:
    """Return the regression whose labels left out have the least log loss."""
    present, labels = np.unique(sources.classes, return_inverse=True)
    targets = np.eye(len(present))[labels] - 1 / len(present)
    weights = equal_weights(labels)
    is_out = np.bincount(labels)[labels] > 1  # the only label of a class stays
    judged = labels[is_out], _USUAL_FACTOR, equal_weights(labels[is_out])
    shares: Sequence[float] = _SHARES if is_out.any() else _USUAL[:1]
    penalties: Sequence[float] = _PENALTIES if is_out.any() else _USUAL[1:]
    least, best = np.inf, (0.0, np.empty(0))
    for share in shares:
        own = rows.joined(share, sources.nodes)
        for coefficients, left_out in least_squares(own, targets, weights, penalties):
            factor, loss = fit_sharpness(left_out[is_out], *judged)
            if loss < least:
                least, best = loss, (share, factor * coefficients)
    share, coefficients = best
    num_components = rows.features.shape[1]
    slopes = np.zeros((sources.num_classes, num_components))
    slopes[present] = np.sqrt(1 - share) * coefficients[:num_components].T
    heights = np.full((len(rows.features), sources.num_classes), ABSENT)
    along = np.sqrt(share) * coefficients[num_components:]
    heights[:, present] = rows.diffusion @ along
    return Regression(slopes, heights)


def least_squares(
    rows: Singles, targets: Floats, weights: Floats, penalties: Sequence[float]
) -> Iterator[tuple[Floats, Floats]]:
    """Fit a weighted ridge regression for each penalty.

    Args:
        rows: Shape (s, Z).
        targets: Shape (s, c).
        weights: How much each row counts, shape (s,).
        penalties: What squared coefficients are multiplied by, above zero.

    Yields:
        Coefficients, shape (Z, c), and what all other rows predict of each target,
        shape (s, c).
    """
    roots = np.sqrt(weights)[:, None]
    left, values, right = np.linalg.svd(roots * rows, full_matrices=False)
    along = left.T @ (roots * targets)
    for penalty in penalties:
        kept = values**2 / (values**2 + penalty)
        coefficients = right.T @ ((values / (values**2 + penalty))[:, None] * along)
        residuals = targets - left @ (kept[:, None] * along) / roots
        leverage = left**2 @ kept  # of each row on its own prediction
        yield coefficients, targets - residuals / (1 - leverage)[:, None]


def equal_weights(labels: NDArray[np.int64]) -> Floats:
    """Return weights of mean one under which all classes count equally, shape (n,)."""
    if not len(labels):
        return np.empty(0)
    weights = 1 / np.bincount(labels)[labels]
    return np.asarray(weights * (len(labels) / weights.sum()))
