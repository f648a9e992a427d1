"""A linear head over frozen features that is fitted, not trained: seconds on a CPU.

Regularized logistic regression on the labels and, unless cross-validation on the labels
speaks against it, on labels that are spread to their neighbors in the pool.

Shapes: N items of the pool that are looked at, n labeled ones, D features, C classes,
M nodes of a graph of neighbors, K neighbors of each.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels import models, progress, rng
from fewlabels.errors import Limits, Weight
from fewlabels.gram.graph import NeighborGraph, joined
from fewlabels.gram.nearest import nearest
from fewlabels.gram.nodes import Nodes
from fewlabels.models import Head, Network
from fewlabels.models.classifiers import moments
from fewlabels.pool import read_rows
from fewlabels.training import darp, targets
from fewlabels.training.graph import Sources
from fewlabels.training.learner import DirectLearner, Shares
from fewlabels.training.spreading import influence

if TYPE_CHECKING:
    from fewlabels.training.training import TrainingTask

_MOST_ITEMS = 6000  # of a pool that are looked at; the head then speaks of all
_REHEARSED_ROWS = 1000
_LABELS_EACH = 4
_NUM_NEIGHBORS = 10
_NUM_FOLDS = 5
_SHARPNESS = 4
_LEAST_SHARE = 1e-6
_NEVER_SEEN = -10.0
_MOST_ROUNDS = 200
_SMALLEST_GRADIENT = 1e-4
_REMEMBERED = 10
_DAMPING = 0.99
_LEAST = 1e-12

Layer = tuple[Tensor, Tensor]
"""Weight, shape (C, D), and bias, shape (C,)."""


@dataclass(frozen=True, kw_only=True)
class Linear(DirectLearner):
    """Logistic regression on labels and on their neighbors, to the optimum.

    Every class counts equally, or by its share where shares are given: with few labels,
    and with labels that a strategy chose, their spread says little about the pool.
    """

    unlabeled: Literal["auto", "use", "ignore"] = "auto"
    """Whether to learn from unlabeled images: ``"use"``, ``"ignore"``, or ``"auto"``,
    which uses them unless cross-validation on the labels speaks against it."""
    shares: Shares = "unknown"
    """Class shares of the pool: the shares themselves, ``"even"``, or ``"unknown"``;
    only where they are known is what unlabeled images are taken for aligned to them."""
    scale: Literal["each", "common"] = "each"
    """What rows are divided by: the deviation of ``"each"`` feature, or a ``"common"``
    one, which suits features that have one unit, as pixels do."""
    penalty: Annotated[float, Limits(at_least=1e-9)] = 0.25
    """Penalty of squared weights, for rows scaled to a length of about one."""
    pool_weight: Weight = 100.0
    """How many labels all unlabeled images together count for."""

    def begin(self, task: "TrainingTask") -> Network:
        """Return a head that standardizes by mean and spread of the pool's rows."""
        draws = rng.stream(task.key, "initialize")
        head = models.build("linear", task.views.shape, task.pool.num_classes, draws)
        assert isinstance(head, Head)
        middle, deviation = moments(task.views.rows)
        if self.scale == "common":
            deviation = deviation.square().mean().sqrt().expand_as(deviation)
        head.standardize_by(middle, deviation)
        return head

    def solve(self, network: Network, task: "TrainingTask") -> None:
        """Fit the head to the labels, and to the pool if that is chosen or better."""
        pool, labels = task.pool, task.pool.labels[task.pool.labeled]
        others, room = pool.unlabeled, max(0, _MOST_ITEMS - len(labels))
        if len(others) > room:
            draws = rng.stream(task.key, "items")
            others = others[torch.randperm(len(others), generator=draws)[:room]]
        items = torch.cat([pool.labeled, others.sort().values])
        seen, numbers = torch.unique(labels, return_inverse=True)
        with torch.no_grad():
            scaled = network.embed(read_rows(task.views.rows, items))
        scaled /= math.sqrt(scaled.shape[1])  # to a length of about one
        shares = torch.ones(pool.num_classes, dtype=torch.float64)
        if not isinstance(self.shares, str):
            shares = torch.tensor(self.shares, dtype=torch.float64)
        known = torch.arange(len(labels))  # the labeled items come first
        problem = LinearProblem(self, scaled, shares[seen])
        weight, bias = problem.solve(known, numbers, rng.stream(task.key, "folds"))
        layer = network.head
        with torch.no_grad():
            layer.weight.zero_()
            layer.bias.fill_(_NEVER_SEEN)
            layer.weight[seen] = weight / math.sqrt(scaled.shape[1])
            layer.bias[seen] = bias - bias.mean()

    def rehearse(self, num_items: int, num_classes: int, width: int) -> float:
        """Solve a problem of random rows; return how many times longer all take."""
        num_rows = min(num_items, _REHEARSED_ROWS)
        draws = rng.stream(0, "probe of fitting")
        labels = torch.arange(num_rows) % num_classes
        centers = torch.randn(num_classes, width, generator=draws)[labels]
        rows = centers + torch.randn(num_rows, width, generator=draws)
        most = min(_LABELS_EACH * num_classes, 1 + num_rows // 2, num_rows)
        known = torch.arange(most)
        shares = torch.ones(min(num_classes, len(known)), dtype=torch.float64)
        problem = LinearProblem(self, rows / (2 * width) ** 0.5, shares)
        problem.solve(known, labels[known], draws)
        return min(num_items, _MOST_ITEMS) / num_rows


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Rows to fit a linear layer to, some of them labeled, by classes that are seen."""

    settings: Linear
    rows: Tensor
    """Standardized rows of a length of about one, shape (N, D)."""
    shares: Tensor
    """How much each class counts, shape (C,)."""

    def solve(self, known: Tensor, labels: Tensor, generator: Generator) -> Layer:
        """Return the layer that is fitted as the settings say, or as seems better.

        Args:
            known: Labeled rows, shape (n,).
            labels: Their classes, all of 0 to C - 1, shape (n,).
            generator: Deals out labels to the folds.

        Returns:
            Weight and bias.
        """
        mode = self.settings.unlabeled
        is_all_known = len(known) == len(self.rows)
        is_decided = len(self.shares) == 1 or not self.settings.pool_weight
        if mode == "ignore" or is_all_known or is_decided:
            return self.fit(known, labels)
        graph = neighbor_graph(self.rows, _NUM_NEIGHBORS)
        if mode == "use" or self._pool_helps(graph, known, labels, generator):
            return self.fit(known, labels, graph)
        return self.fit(known, labels)

    def fit(
        self, known: Tensor, labels: Tensor, graph: NeighborGraph | None = None
    ) -> Layer:
        """Return the layer that fits the labels and, by a graph, the rest of the pool.

        The weights of labels are 1 on average, and by class in total as shares are.
        """
        counts = torch.bincount(labels, minlength=len(self.shares)).double()
        each = self.shares / self.shares.sum() / counts
        weights = len(labels) * each[labels]
        rows, one_hot = self.rows[known], F.one_hot(labels, len(self.shares)).double()
        if graph is None:
            return fit_logistic(rows, one_hot, weights, self.settings.penalty)
        is_rest = torch.ones(len(self.rows), dtype=torch.bool)
        is_rest[known] = False
        believed = spread_labels(graph, known, labels)[is_rest]
        believed = believed.pow(_SHARPNESS)
        believed = (believed / believed.sum(dim=1, keepdim=True)).clamp(_LEAST_SHARE)
        believed /= believed.sum(dim=1, keepdim=True)
        if self.settings.shares != "unknown":
            wanted = targets.from_shares(self.shares, len(believed))
            believed = darp.solve(believed, wanted, capacity=None).refined
        share = self.settings.pool_weight / len(believed)
        return fit_logistic(
            torch.cat([rows, self.rows[is_rest]]),
            torch.cat([one_hot, believed]),
            torch.cat([weights, believed.new_full((len(believed),), share)]),
            self.settings.penalty,
        )

    def _pool_helps(
        self, graph: NeighborGraph, known: Tensor, labels: Tensor, generator: Generator
    ) -> bool:
        """Return whether unlabeled images do no plain harm, by cross-validation.

        With few labels both ways get about as many right by chance, and unlabeled
        images help where neighbors tend to be alike. So they are used unless those
        labels that only one way gets right speak for the other by more than a standard
        error (McNemar's test). The labels of each class are dealt out to the folds; the
        only label of a class is in none.
        """
        folds, offset = torch.full_like(labels, -1), 0
        for number in range(int(labels.max()) + 1):
            members = torch.nonzero(labels == number).flatten()
            if len(members) > 1:
                order = torch.randperm(len(members), generator=generator)
                folds[members[order]] = (offset + torch.arange(len(order))) % _NUM_FOLDS
                offset += len(members)
        only_with = only_without = 0
        with progress.track("Cross-validation", _NUM_FOLDS) as advance:
            for number in range(_NUM_FOLDS):
                out = folds == number
                if bool(out.any()):
                    kept = (known[~out], labels[~out])
                    right_with, right_without = (
                        F.linear(self.rows[known[out]], *layer).argmax(1) == labels[out]
                        for layer in (self.fit(*kept, graph), self.fit(*kept))
                    )
                    only_with += int((right_with & ~right_without).sum())
                    only_without += int((right_without & ~right_with).sum())
                advance(1)
        return only_without - only_with <= math.sqrt(only_without + only_with)


def neighbor_graph(rows: Tensor, num_neighbors: int) -> NeighborGraph:
    """Return the graph that joins each item to its nearest neighbors by cosine.

    Args:
        rows: Standardized rows, shape (N, D); equal rows are one node.
        num_neighbors: Neighbors of each node (K); fewer where there are fewer nodes.

    Returns:
        The graph. The weight of an edge is the cube of the cosine, 0 if that is
        negative, and twice as much if each node is a neighbor of the other.
    """
    nodes = Nodes.of(rows, 0.0)
    near_MK, squares_MK = nearest(nodes, num_neighbors)
    one_way = joined(near_MK, np.maximum(1 - squares_MK / 2, 0) ** 3)
    reach_M = np.sqrt(squares_MK.max(axis=1, initial=0))
    return NeighborGraph(nodes, reach_M, one_way + one_way.T)


def spread_labels(graph: NeighborGraph, labeled: Tensor, labels: Tensor) -> Tensor:
    """Return class shares of all items, from labels that flow along the edges.

    As :mod:`fewlabels.training.spreading`, but for the weights of the edges. How many
    items each class gets is nowhere prescribed.

    Args:
        graph: From :func:`neighbor_graph`, N items.
        labeled: Positions of items with a label, shape (n,).
        labels: Their classes, shape (n,); every class from 0 to C - 1 has one.

    Returns:
        One share per class, shape (N, C), float64; items that no label reaches get
        equal shares.
    """
    sources = Sources.at(labeled, labels, int(labels.max()) + 1, graph.nodes)
    influence_MC = influence(graph, sources, _DAMPING)
    influence_MC = influence_MC / influence_MC.sum(axis=0) + _LEAST / len(graph)
    shares_MC = influence_MC / influence_MC.sum(axis=1, keepdims=True)
    return torch.from_numpy(shares_MC[graph.nodes.node_of])


def fit_logistic(
    rows: Tensor, targets: Tensor, weights: Tensor, penalty: float
) -> Layer:
    """Return weight and bias of the linear layer of least penalized cross-entropy.

    What is minimized is the sum over rows of weight times cross-entropy, plus half the
    penalty times the squares of the layer's weights; the bias is free. The problem is
    convex: there is no step size, no seed and nothing that can diverge.

    Args:
        rows: Standardized rows, shape (n, D).
        targets: What each row is, one share per class, shape (n, C).
        weights: How much each row counts, shape (n,).
        penalty: Above zero; ``1 / C`` of scikit-learn's LogisticRegression.

    Returns:
        Weight and bias, float32.
    """
    rows, targets, weights = (tensor.float() for tensor in (rows, targets, weights))
    with torch.inference_mode(mode=False), torch.enable_grad():
        weight = torch.zeros(targets.shape[1], rows.shape[1], requires_grad=True)
        bias = torch.zeros(targets.shape[1], requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [weight, bias],
            max_iter=_MOST_ROUNDS,
            tolerance_grad=_SMALLEST_GRADIENT,
            history_size=_REMEMBERED,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            logits = F.linear(rows, weight, bias)
            losses_n = F.cross_entropy(logits, targets, reduction="none")
            total = weights @ losses_n + penalty / 2 * weight.square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
