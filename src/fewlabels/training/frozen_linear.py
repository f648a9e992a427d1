"""A linear head over frozen features that is fitted, not trained: seconds on a CPU.

Regularized logistic regression on the labels, and, where cross-validation on the labels
does not speak against it, on what the labels say about their neighbors in the pool.

Shapes: N items of the pool that are looked at, n labeled ones, D features, C classes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from scipy import sparse
from torch import Generator, Tensor

from fewlabels import models, progress, rng
from fewlabels.errors import UsageError
from fewlabels.features import (
    Embedded,
    FrozenClassifier,
    embedded,
    moments,
    read_rows,
)
from fewlabels.features.cache import Rows
from fewlabels.models import Head
from fewlabels.naming import check_known
from fewlabels.pool import Pool
from fewlabels.protocols import Classifier, ignore
from fewlabels.training import darp
from fewlabels.training import workspace as workspaces
from fewlabels.training.darp import targets
from fewlabels.training.frozen import FrozenInputs
from fewlabels.training.linear import logistic
from fewlabels.training.settings import check_range, decisive
from fewlabels.training.spreading import neighbor_graph, spread

Unlabeled = Literal["auto", "use", "ignore"]
Shares = Literal["unknown", "even"]
Scale = Literal["each", "common"]

MOST_ITEMS = 6000
"""Images of a pool that are looked at; the head then speaks of all."""

_NUM_NEIGHBORS = 10
_NUM_FOLDS = 5
_SHARPNESS = 4
_LEAST_SHARE = 1e-6
_NEVER_SEEN = -10.0
_NUM_TO_TELL_APART = 2


@dataclass(frozen=True, kw_only=True)
class FrozenLinearTrainer(FrozenInputs):
    """Logistic regression on labels and on their neighbors, to the optimum.

    Every class counts equally, or by its share where shares are given: with few labels,
    and with labels that a strategy chose, their spread says little about the pool.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    unlabeled: Unlabeled = "auto"
    """Whether to learn from unlabeled images: ``"use"``, ``"ignore"``, or ``"auto"``,
    which uses them unless cross-validation on the labels speaks against it."""
    shares: Shares | tuple[float, ...] = "unknown"
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
        if isinstance(self.shares, str):
            check_known("shares", self.shares, Shares)
        elif not all(0 < share < math.inf for share in self.shares):
            msg = f"shares are {self.shares}; every share must be a number above zero."
            raise UsageError(msg)

    def decisive(self) -> dict[str, Any]:
        """Return the settings that decide the outcome of a training."""
        return decisive(self)

    def fit(
        self,
        pool: Pool,
        generator: Generator,
        *,
        workspace: Path | None = None,
        on_checkpoint: Callable[[int, Classifier], None] = ignore,
    ) -> Classifier:
        """Fit the head; see :class:`fewlabels.protocols.Trainer`.

        Args:
            pool: Labeled and unlabeled images.
            generator: The only source of randomness.
            workspace: Where the head is kept and found again.
            on_checkpoint: Called once, with step 1, or 0 where nothing is labeled.

        Returns:
            Encoder and head; the head is untrained, if nothing is labeled.
        """
        self._check(pool)
        folder = None if workspace is None else Path(workspace)
        with workspaces.alone_in(folder):
            task = _Task.of(self, pool, rng.fork(generator))
            if len(pool.labeled) and not task.restores(folder):
                task.fit()
                if folder is not None:
                    workspaces.keep(task.head, folder, task.mark, self)
            on_checkpoint(int(len(pool.labeled) > 0), task.classifier)
            return task.classifier

    def restored(
        self, pool: Pool, generator: Generator, workspace: Path
    ) -> Classifier | None:
        """Return what :meth:`fit` kept in a folder; None if that is not there."""
        task = _Task.of(self, pool, rng.fork(generator))
        if len(pool.labeled) and not task.restores(workspace):
            return None
        return task.classifier

    def _check(self, pool: Pool) -> None:
        if not isinstance(self.shares, str) and len(self.shares) != pool.num_classes:
            msg = (
                f"{len(self.shares)} shares are given, and there are "
                f"{pool.num_classes} classes; give one share for each."
            )
            raise UsageError(msg)


@dataclass(frozen=True, eq=False)
class _Task:
    """One fit: what is fitted to which rows."""

    settings: FrozenLinearTrainer
    pool: Pool
    key: int
    classifier: FrozenClassifier
    rows: Rows

    @classmethod
    def of(cls, settings: FrozenLinearTrainer, pool: Pool, key: int) -> "_Task":
        encoder, cache = settings.encoder_for(pool), settings.feature_cache()
        rows = embedded(pool.images, encoder, cache=cache)
        draws = rng.stream(key, "initialize")
        head = models.build("linear", (rows.shape[1],), pool.num_classes, draws)
        assert isinstance(head, Head)
        middle, deviation = moments(rows)
        if settings.scale == "common":
            deviation = deviation.square().mean().sqrt().expand_as(deviation)
        head.standardize_by(middle, deviation)
        classifier = FrozenClassifier(
            module=head.eval(),
            num_classes=pool.num_classes,
            encoder=encoder,
            known=(Embedded(pool.images, rows),),
            cache=cache,
        )
        return cls(settings, pool, key, classifier, rows)

    @property
    def head(self) -> Head:
        assert isinstance(self.classifier.module, Head)
        return self.classifier.module

    @property
    def mark(self) -> str:
        name = self.classifier.encoder.name
        return workspaces.fingerprint(self.settings, self.pool, name, self.key)

    def restores(self, folder: Path | None) -> bool:
        """Fill the head with what was kept, if it was."""
        return folder is not None and workspaces.restore(self.head, folder, self.mark)

    def fit(self) -> None:
        """Fit the head to the labels, and to the pool where that is told or better."""
        items = self._items()
        labels = self.pool.labels[self.pool.labeled]
        seen, numbers = torch.unique(labels, return_inverse=True)
        with torch.no_grad():
            scaled = self.head.embed(read_rows(self.rows, items))
        scaled /= math.sqrt(scaled.shape[1])  # to a length of about one
        known = torch.arange(len(labels))  # the labeled items come first
        problem = LinearProblem(self.settings, scaled, self._shares()[seen])
        weight, bias = problem.solution(known, numbers, rng.stream(self.key, "folds"))
        layer = self.head.head
        with torch.no_grad():
            layer.weight.zero_()
            layer.bias.fill_(_NEVER_SEEN)
            layer.weight[seen] = weight / math.sqrt(scaled.shape[1])
            layer.bias[seen] = bias - bias.mean()

    def _items(self) -> Tensor:
        """Return the labeled items, and others up to a bound, shape (N,)."""
        is_other = torch.ones(len(self.pool), dtype=torch.bool)
        is_other[self.pool.labeled] = False
        others = torch.nonzero(is_other).flatten()
        room = max(0, MOST_ITEMS - len(self.pool.labeled))
        if len(others) > room:
            draws = rng.stream(self.key, "items")
            others = others[torch.randperm(len(others), generator=draws)[:room]]
        return torch.cat([self.pool.labeled, others.sort().values])

    def _shares(self) -> Tensor:
        """Return how much each class counts, shape (C,)."""
        given = self.settings.shares
        if isinstance(given, str):
            return torch.ones(self.pool.num_classes, dtype=torch.float64)
        return torch.tensor(given, dtype=torch.float64)


@dataclass(frozen=True, eq=False)
class LinearProblem:
    """Rows to fit a linear layer to, some of them labeled, by classes that are seen."""

    settings: FrozenLinearTrainer
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
        self, graph: sparse.csr_array, known: Tensor, labels: Tensor
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
        graph: sparse.csr_array,
        known: Tensor,
        labels: Tensor,
        generator: Generator,
    ) -> bool:
        """Tell by cross-validation whether unlabeled images do no plain harm.

        With few labels both ways get about as many right by chance, and unlabeled
        images help where neighbors tend to be alike. So they are used unless those
        labels that only one way gets right speak for the other by more than a standard
        error (McNemar's test).

        Args:
            graph: The neighbors of each row.
            known: Labeled rows, shape (n,).
            labels: Their classes, shape (n,).
            generator: Deals out labels to the folds.

        Returns:
            Whether to use them.
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
