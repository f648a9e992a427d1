"""Outward: labels that explain the rest of the pool, where the model is unsure.

Features make a graph, its diffusion kernel is the prior covariance of all labels, and
what remains of it once some are known is to be small: its largest eigenvalue, its trace
or its sum, each weighted by doubt. The search is greedy; an item that is chosen takes
its share out of the covariance, a matrix of rank one.

Shapes: N items, n candidates, R eigenvectors.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fewlabels.errors import UsageError
from fewlabels.gram.diffusion import Diffusion, DiffusionRows, diffusion_rows
from fewlabels.identity import SILENT
from fewlabels.pool import Pool, Query, Round
from fewlabels.progress import track
from fewlabels.protocols import Classifier, Outputs
from fewlabels.search import check_size
from fewlabels.search.blocks import chunks
from fewlabels.search.scores import largest
from fewlabels.strategies.inputs import by_chunks, check_part, considered, lead

_LEAST_DOUBT = 0.02
_JITTER = 1e-12
_CHUNK_ENTRIES = 2**22


@dataclass(frozen=True)
class Outward:
    """Shrink the largest eigenvalue of what is left to explain.

    NPC keeps the labeled set well conditioned; its outward twin does so to the rest.
    """

    ignores_order: ClassVar[bool] = True
    power: float = 1.0
    """How much doubt counts: an item weighs 1 less its lead, to this power; 0: all
    items weigh the same."""
    num_neighbors: int = 10
    """Edges that each item of the graph begins."""
    damping: float = 0.99
    """What is left of a label after each edge, below 1."""
    rank: int = 200
    """Eigenvectors of the graph that are computed."""
    noise: float = 0.01
    """Variance of a label."""
    max_pool: int = field(default=20_000, metadata=SILENT)
    """How many candidates are looked at."""

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        _ = self._diffusion
        check_part(max_pool=self.max_pool)
        if not 0 <= self.power < float("inf"):
            raise UsageError(f"power is {self.power}; give 0 or more.")
        if not 0 < self.noise < float("inf"):
            raise UsageError(f"noise is {self.noise}, a variance; give more than 0.")

    @property
    def _diffusion(self) -> Diffusion:
        return Diffusion(self.num_neighbors, self.damping, self.rank)

    def select(
        self,
        classifier: Classifier,
        pool: Pool,
        size: int,
        generator: Generator,
        *,
        history: Sequence[Round] = (),
    ) -> Query:
        """Choose ``size`` candidates; see :class:`fewlabels.protocols.Strategy`."""
        del history
        check_size(size, len(pool.candidates))
        part = considered(pool.candidates, self.max_pool, generator, at_least=size)
        items = torch.arange(len(pool))
        if part.record:
            items = torch.cat([part.items, pool.labeled]).sort().values
        outputs = classifier.outputs(pool.images, items)
        found = diffusion_rows(outputs.features, self._diffusion)
        weights_N = self._weights(outputs, pool)
        left = _Left(found, weights_N, self.noise)
        left.learn(torch.nonzero(torch.isin(items, pool.labeled)).flatten())
        before = self.value(left)
        is_free = torch.isin(items, part.items)
        chosen: list[int] = []
        with track("Choosing", size) as advance:
            for _ in range(size):
                gains_N = self.gains(left).masked_fill(~is_free, -torch.inf)
                chosen.append(largest(gains_N, generator))
                is_free[chosen[-1]] = False
                left.learn(torch.tensor(chosen[-1:]))
                advance()
        after = self.value(left)
        record = {"left_before": before, "left_after": after, **part.record}
        return Query(items[torch.tensor(chosen)], -after, record)

    def _weights(self, outputs: Outputs, pool: Pool) -> Tensor:
        """Return the root of what each item weighs, shape (N,)."""
        has_doubts = outputs.logits.shape[1] > 1 and len(pool.labeled) > 0
        if not self.power or not has_doubts:
            return torch.ones(len(outputs.logits), dtype=torch.float64)
        leads_N = by_chunks(lead, outputs.logits)
        return (1 - leads_N + _LEAST_DOUBT) ** (self.power / 2)

    def value(self, left: "_Left") -> float:
        """Return what is to be small: the largest eigenvalue."""
        return float(torch.linalg.eigvalsh(left.inner())[-1])

    def gains(self, left: "_Left") -> Tensor:
        """Return how much of the leading eigenvector each item explains, (N,)."""
        top_R: Tensor = torch.linalg.eigh(left.inner()).eigenvectors[:, -1]
        return (left.rows @ (left.root @ top_R)).square() / left.variances()


@dataclass(frozen=True)
class VOptimal(Outward):
    """Shrink the trace of what is left to explain (Ji and Han, 2012)."""

    power: float = 0.0

    def value(self, left: "_Left") -> float:
        """Return the trace."""
        return float(left.inner().trace())

    def gains(self, left: "_Left") -> Tensor:
        """Return how much of the trace each item takes away, (N,)."""
        return left.shares() / left.variances()


@dataclass(frozen=True)
class SigmaOptimal(Outward):
    """Shrink the sum of what is left to explain (Ma, Garnett and Schneider, 2013)."""

    power: float = 0.0

    def value(self, left: "_Left") -> float:
        """Return the sum over all pairs."""
        total_R = left.total
        return float(total_R @ left.covariance @ total_R)

    def gains(self, left: "_Left") -> Tensor:
        """Return how much of the sum each item takes away, (N,)."""
        seen_N = left.rows @ (left.covariance @ left.total)
        return seen_N.square() / left.variances()


class _Left:
    """The covariance that some labels leave of the pool, rows M rows^T."""

    def __init__(self, found: DiffusionRows, weights_N: Tensor, noise: float) -> None:
        self.rows = found.rows
        # What no eigenvector explains tells nothing about other items: noise.
        self._noise = noise + found.remainder
        self.covariance = torch.eye(found.rows.shape[1], dtype=torch.float64)
        self.weighted = (self.rows * weights_N.square()[:, None]).T @ self.rows
        self.total = self.rows.T @ weights_N
        self._variances = self.rows.square().sum(dim=1) + self._noise
        self._shares: Tensor | None = None
        self._root: Tensor | None = None

    @property
    def root(self) -> Tensor:
        """A square root of the covariance, (R, R)."""
        if self._root is None:
            identity = torch.eye(len(self.covariance), dtype=torch.float64)
            self._root = torch.linalg.cholesky(self.covariance + _JITTER * identity)
        return self._root

    def inner(self) -> Tensor:
        """Return the matrix that has the weighted covariance's eigenvalues, (R, R)."""
        return self.root.T @ self.weighted @ self.root

    def variances(self) -> Tensor:
        """Return the variance of a label of each item, shape (N,)."""
        return self._variances

    def shares(self) -> Tensor:
        """Return the weighted square of what each item tells of all others, (N,)."""
        if self._shares is None:
            inner = self.covariance @ self.weighted @ self.covariance
            parts = chunks(len(self.rows), self.rows.shape[1], _CHUNK_ENTRIES)
            self._shares = torch.cat(
                [(self.rows[one] @ inner * self.rows[one]).sum(dim=1) for one in parts]
            )
        return self._shares

    def learn(self, items: Tensor) -> None:
        """Take out what labels of some items explain.

        What is known of all items follows: an item costs N x R, not N x R x R.
        """
        for row_R in self.rows[items]:
            seen_R = self.covariance @ row_R
            variance = row_R @ seen_R + self._noise
            seen_N = self.rows @ seen_R
            if self._shares is not None:
                told_R = self.weighted @ seen_R
                cross_N = self.rows @ (self.covariance @ told_R)
                doubled_N = seen_N * (seen_R @ told_R / variance) - 2 * cross_N
                self._shares = self._shares + doubled_N * seen_N / variance
            self._variances = self._variances - seen_N.square() / variance
            self.covariance = self.covariance - torch.outer(seen_R / variance, seen_R)
        self.covariance = (self.covariance + self.covariance.T) / 2
        self._root = None
