"""A linear head over frozen features that is fitted, not trained: seconds on a CPU.

Regularized logistic regression on the labels, and, where cross-validation on the labels
does not speak against it, on what the labels say about their neighbors in the pool.

Shapes: N items of the pool that are looked at, n labeled ones, D features, C classes.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels import models, progress, rng
from fewlabels.features import moments, read_rows
from fewlabels.models import Head, Network
from fewlabels.naming import check_known
from fewlabels.neighbors import NeighborGraph
from fewlabels.pool import Pool
from fewlabels.training import darp
from fewlabels.training.darp import targets
from fewlabels.training.linear import logistic
from fewlabels.training.propagation import neighbor_graph, spread
from fewlabels.training.schedule import check_range
from fewlabels.training.shares import Shares, check_number_of_shares, check_shares
from fewlabels.training.views import View, Views

Unlabeled = Literal["auto", "use", "ignore"]
Scale = Literal["each", "common"]

_MOST_ITEMS = 6000  # of a pool that are looked at; the head then speaks of all
_REHEARSED_ROWS = 1000
_LABELS_EACH = 4
_NUM_NEIGHBORS = 10
_NUM_FOLDS = 5
_SHARPNESS = 4
_LEAST_SHARE = 1e-6
_NEVER_SEEN = -10.0
_NUM_TO_TELL_APART = 2


@dataclass(frozen=True, kw_only=True)
class Linear:
    """Logistic regression on labels and on their neighbors, to the optimum.

    Every class counts equally, or by its share where shares are given: with few labels,
    and with labels that a strategy chose, their spread says little about the pool.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    views: ClassVar[Mapping[str, View]] = {}

    unlabeled: Unlabeled = "auto"
    """Whether to learn from unlabeled images: ``"use"``, ``"ignore"``, or ``"auto"``,
    which uses them unless cross-validation on the labels speaks against it."""
    shares: Shares = "unknown"
    """Class shares of the pool: the shares themselves, ``"even"``, or ``"unknown"``;
    only where they are known is what unlabeled images are taken for aligned to them."""
    scale: Scale = "each"
    """What rows are divided by: the deviation of ``"each"`` feature, or a ``"common"``
    one, which suits features that have one unit, as pixels do."""
    penalty: float = 0.25
    """Penalty of squared weights, for rows scaled to a length of about one."""
    pool_weight: float = 100.0
    """How many labels all unlabeled images together count for."""

    def __post_init__(self) -> None:
        """Check the words and the ranges."""
        check_known("unlabeled", self.unlabeled, Unlabeled)
        check_known("scale", self.scale, Scale)
        check_range("penalty", self.penalty, at_least=1e-9)
        check_range("pool_weight", self.pool_weight, at_least=0)
        check_shares(self.shares)

    def check(self, pool: Pool) -> None:
        """Raise unless shares that were given are one for each class."""
        check_number_of_shares(self.shares, pool)

    def begin(self, views: Views, pool: Pool, key: int) -> Network:
        """Return a head that standardizes by mean and spread of the pool's rows."""
        draws = rng.stream(key, "initialize")
        head = models.build("linear", views.shape, pool.num_classes, draws)
        assert isinstance(head, Head)
        middle, deviation = moments(views.rows)
        if self.scale == "common":
            deviation = deviation.square().mean().sqrt().expand_as(deviation)
        head.standardize_by(middle, deviation)
        return head

    def solve(self, network: Network, views: Views, pool: Pool, key: int) -> None:
        """Fit the head to the labels, and to the pool where that is told or better."""
        items = _items(pool, key)
        labels = pool.labels[pool.labeled]
        seen, numbers = torch.unique(labels, return_inverse=True)
        with torch.no_grad():
            scaled = network.embed(read_rows(views.rows, items))
        scaled /= math.sqrt(scaled.shape[1])  # to a length of about one
        known = torch.arange(len(labels))  # the labeled items come first
        problem = LinearProblem(self, scaled, self._shares(pool)[seen])
        weight, bias = problem.solution(known, numbers, rng.stream(key, "folds"))
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
        problem.solution(known, labels[known], draws)
        return min(num_items, _MOST_ITEMS) / num_rows

    def _shares(self, pool: Pool) -> Tensor:
        """Return how much each class counts, shape (C,)."""
        if isinstance(self.shares, str):
            return torch.ones(pool.num_classes, dtype=torch.float64)
        return torch.tensor(self.shares, dtype=torch.float64)


def _items(pool: Pool, key: int) -> Tensor:
    """Return the labeled items, and others up to a bound, shape (N,)."""
    is_other = torch.ones(len(pool), dtype=torch.bool)
    is_other[pool.labeled] = False
    others = torch.nonzero(is_other).flatten()
    room = max(0, _MOST_ITEMS - len(pool.labeled))
    if len(others) > room:
        draws = rng.stream(key, "items")
        others = others[torch.randperm(len(others), generator=draws)[:room]]
    return torch.cat([pool.labeled, others.sort().values])


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Rows to fit a linear layer to, some of them labeled, by classes that are seen."""

    settings: Linear
    rows: Tensor
    """Standardized rows of a length of about one, shape (N, D)."""
    shares: Tensor
    """How much each class counts, shape (C,)."""

    def solution(
        self, known: Tensor, labels: Tensor, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """Return weight and bias, fitted in the way that is told or seems better.

        Args:
            known: Labeled rows, shape (n,).
            labels: Their classes, all of 0 to C - 1, shape (n,).
            generator: Deals out labels to the folds.

        Returns:
            Weight, shape (C, D), and bias, shape (C,).
        """
        told = self.settings.unlabeled
        num_classes = len(self.shares)
        if told == "ignore" or len(known) == len(self.rows):
            return self.supervised(known, labels)
        if num_classes < _NUM_TO_TELL_APART or not self.settings.pool_weight:
            return self.supervised(known, labels)
        graph = neighbor_graph(self.rows, _NUM_NEIGHBORS)
        if told == "use" or self._pool_helps(graph, known, labels, generator):
            return self.semi_supervised(graph, known, labels)
        return self.supervised(known, labels)

    def supervised(self, known: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return the layer that fits the labels alone."""
        one_hot = F.one_hot(labels, len(self.shares)).double()
        weights = self._weights(labels)
        return logistic(self.rows[known], one_hot, weights, self.settings.penalty)

    def semi_supervised(
        self, graph: NeighborGraph, known: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the layer that fits the labels and what they say of the pool."""
        is_rest = torch.ones(len(self.rows), dtype=torch.bool)
        is_rest[known] = False
        believed = spread(graph, known, labels)[is_rest]
        believed = believed.pow(_SHARPNESS)
        believed = (believed / believed.sum(dim=1, keepdim=True)).clamp(_LEAST_SHARE)
        believed /= believed.sum(dim=1, keepdim=True)
        if self.settings.shares != "unknown":
            wanted = targets.from_shares(self.shares, len(believed))
            believed = darp.solve(believed, wanted, capacity=None).refined
        one_hot = F.one_hot(labels, len(self.shares)).double()
        rest = believed.new_full(
            (len(believed),), self.settings.pool_weight / len(believed)
        )
        return logistic(
            torch.cat([self.rows[known], self.rows[is_rest]]),
            torch.cat([one_hot, believed]),
            torch.cat([self._weights(labels), rest]),
            self.settings.penalty,
        )

    def _weights(self, labels: Tensor) -> Tensor:
        """Return weights of labels: 1 on average, in total by class as shares are."""
        counts = torch.bincount(labels, minlength=len(self.shares)).double()
        each = self.shares / self.shares.sum() / counts
        return len(labels) * each[labels]

    def _pool_helps(
        self,
        graph: NeighborGraph,
        known: Tensor,
        labels: Tensor,
        generator: Generator,
    ) -> bool:
        """Return whether unlabeled images do no plain harm, by cross-validation.

        With few labels both ways get about as many right by chance, and unlabeled
        images help where neighbors tend to be alike. So they are used unless those
        labels that only one way gets right speak for the other by more than a standard
        error (McNemar's test).
        """
        folds = _folds(labels, generator)
        only_with = only_without = 0
        with progress.track("Cross-validation", _NUM_FOLDS) as advance:
            for number in range(_NUM_FOLDS):
                out = folds == number
                if bool(out.any()):
                    kept = (known[~out], labels[~out])
                    right_with, right_without = (
                        (F.linear(self.rows[known[out]], *layer).argmax(1))
                        == labels[out]
                        for layer in (
                            self.semi_supervised(graph, *kept),
                            self.supervised(*kept),
                        )
                    )
                    only_with += int((right_with & ~right_without).sum())
                    only_without += int((right_without & ~right_with).sum())
                advance(1)
        return only_without - only_with <= math.sqrt(only_without + only_with)


def _folds(labels: Tensor, generator: Generator) -> Tensor:
    """Deal the labels of each class out to folds; a class's only label to none.

    Returns:
        The fold of each label, -1: none, shape (n,).
    """
    folds = torch.full_like(labels, -1)
    offset = 0
    for number in range(int(labels.max()) + 1):
        members = torch.nonzero(labels == number).flatten()
        if len(members) < _NUM_TO_TELL_APART:
            continue
        order = torch.randperm(len(members), generator=generator)
        folds[members[order]] = (offset + torch.arange(len(members))) % _NUM_FOLDS
        offset += len(members)
    return folds
