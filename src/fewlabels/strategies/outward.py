"""Outward: labels that explain the rest of the pool, where the model is unsure.

Features make a graph, its diffusion kernel is the prior covariance of all labels, and
what remains of it once some are known is to be small: its largest eigenvalue, its trace
or its sum, each weighted by doubt. The search is greedy; an item that is chosen takes
its share out of the covariance, a matrix of rank one. To shrink the trace is Cohn's
active learning for Gaussian processes (Cohn, 1996; Seo et al., 2000) and transductive
experimental design (Yu, Bi and Tresp, 2006).

Shapes: N items, n candidates, R numbers in a row of the kernel.
"""

from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from fewlabels.errors import Count, Limits, Positive, Weight
from fewlabels.gram.diffusion import Diffusion, diffusion_rows, joint_rows
from fewlabels.gram.graph import remembered_graph
from fewlabels.gram.nodes import Nodes
from fewlabels.names import OMIT_DEFAULT
from fewlabels.pool import Query
from fewlabels.protocols import Outputs
from fewlabels.search.blocks import chunks
from fewlabels.search.scores import greedy
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks, lead

Covariance = Literal["graph", "joint"]

_LEAST_DOUBT = 0.02
_JITTER = 1e-12
_CHUNK_ENTRIES = 2**22
_HALF = 0.5  # of a joint kernel


@dataclass(frozen=True)
class Outward(BuiltIn):
    """Shrink the largest eigenvalue of what is left to explain.

    NPC keeps the labeled set well conditioned; its outward twin does so to the rest.
    """

    ignores_order: ClassVar[bool] = True
    power: Weight = 1.0
    """How much doubt counts: an item weighs 1 less its lead, to this power; 0: equal
    weights."""
    kernel: Covariance = "graph"
    """The prior covariance: that of labels that spread over the graph, or of those and
    of a regression on the features in equal parts, as the learner ``blend`` sees."""
    num_neighbors: Count = 10
    """Edges that each item of the graph begins."""
    damping: Annotated[float, Limits(above=0, below=1)] = 0.99
    """What is left of a label after each edge, below 1."""
    rank: Count = 200
    """Eigenvectors of the graph that are computed."""
    noise: Positive = 0.01
    """Variance of a label."""
    max_pool: Count = field(default=20_000, metadata=OMIT_DEFAULT)
    """How many candidates are looked at."""

    def choose(self, request: Request) -> Query:
        """Choose greedily."""
        pool = request.pool
        candidates, subsample = request.candidates(self.max_pool)
        items = torch.arange(len(pool))
        if subsample:
            items = torch.cat([candidates, pool.labeled]).sort().values
        outputs = request.outputs(items)
        weights_N = torch.ones(len(items), dtype=torch.float64)
        if self.power and outputs.logits.shape[1] > 1 and len(pool.labeled):
            leads_N = by_chunks(lead, outputs.logits)
            weights_N = (1 - leads_N + _LEAST_DOUBT) ** (self.power / 2)
        rows, noise = self._rows(request, outputs, items)
        left = _Remainder(rows, weights_N, noise, torch.isin(items, pool.labeled))
        before = self.value(left)
        is_closed = ~torch.isin(items, candidates)

        def gains() -> Tensor:
            return self.gains(left).masked_fill(is_closed, -torch.inf)

        size, generator = request.size, request.generator
        chosen = greedy(gains, left.learn, size, generator, task="Choosing")
        after = self.value(left)
        record = {"left_before": before, "left_after": after, **subsample}
        return Query(items[torch.tensor(chosen)], -after, record)

    def _rows(
        self, request: Request, outputs: Outputs, items: Tensor
    ) -> tuple[Tensor, float]:
        """Return rows whose products are the covariance, (N, R), and the noise."""
        if self.kernel == "graph":
            settings = Diffusion(self.num_neighbors, self.damping, self.rank)
            spread = diffusion_rows(outputs.features, settings)
            # What no eigenvector explains tells nothing about other items: noise.
            return spread.rows, self.noise + spread.remainder
        rows, origin = request.label_free_rows(outputs, items)
        nodes = Nodes.of(rows, origin)
        graph = remembered_graph(nodes, self.num_neighbors)
        joint = joint_rows(graph, self.damping, self.rank)
        return torch.from_numpy(joint.joined(_HALF, nodes.node_of)), self.noise

    def value(self, left: "_Remainder") -> float:
        """Return what is to be small: the largest eigenvalue."""
        return float(torch.linalg.eigvalsh(left.inner(left.root()))[-1])

    def gains(self, left: "_Remainder") -> Tensor:
        """Return how much of the leading eigenvector each item explains, (N,)."""
        root_RR = left.root()
        top_R: Tensor = torch.linalg.eigh(left.inner(root_RR)).eigenvectors[:, -1]
        return left.seen(root_RR @ top_R).square() / left.variances_N


@dataclass(frozen=True)
class VOptimal(Outward):
    """Shrink the trace of what is left to explain (Ji and Han, 2012)."""

    power: Weight = 0.0

    def value(self, left: "_Remainder") -> float:
        """Return the trace."""
        return float(left.inner(left.root()).trace())

    def gains(self, left: "_Remainder") -> Tensor:
        """Return how much of the trace each item takes away, (N,)."""
        return left.shares() / left.variances_N


@dataclass(frozen=True)
class VarianceReduction(VOptimal):
    """Shrink the variance of the learner ``blend``, above all where it is in doubt.

    The kernel is the one that its regression sees; an item counts by the square of 1
    less its lead.
    """

    power: Weight = 2.0
    kernel: Covariance = "joint"
    noise: Positive = 0.3


@dataclass(frozen=True)
class SigmaOptimal(Outward):
    """Shrink the sum of what is left to explain (Ma, Garnett and Schneider, 2013)."""

    power: Weight = 0.0

    def value(self, left: "_Remainder") -> float:
        """Return the sum over all pairs."""
        total_R = left.total
        return float(total_R @ left.covariance @ total_R)

    def gains(self, left: "_Remainder") -> Tensor:
        """Return how much of the sum each item takes away, (N,)."""
        seen_N = left.seen(left.covariance @ left.total)
        return seen_N.square() / left.variances_N


class _Remainder:
    """The covariance that some labels leave of the pool, rows M rows^T.

    Matrices of R x R are in double precision; rows may be in single.
    ``variances_N`` are those of a label of each item.
    """

    def __init__(
        self, rows: Tensor, weights_N: Tensor, noise: float, is_labeled: Tensor
    ) -> None:
        self.rows, self._noise = rows, noise
        known = rows[is_labeled].double()
        identity = torch.eye(rows.shape[1], dtype=torch.float64)
        self.covariance = torch.linalg.inv(identity + known.T @ known / noise)
        self.covariance = (self.covariance + self.covariance.T) / 2
        weighted = rows * weights_N.square().to(rows.dtype)[:, None]
        self.weighted = (weighted.T @ rows).double()
        self.total = (rows.T @ weights_N.to(rows.dtype)).double()
        self.variances_N = self._forms(self.covariance) + noise
        self._shares: Tensor | None = None

    def _forms(self, matrix: Tensor) -> Tensor:
        """Return row . matrix . row of each item, shape (N,)."""
        inner = matrix.to(self.rows.dtype)
        parts = chunks(len(self.rows), self.rows.shape[1], _CHUNK_ENTRIES)
        forms = [(self.rows[p] @ inner * self.rows[p]).sum(dim=1) for p in parts]
        return torch.cat(forms).double()

    def seen(self, vector: Tensor) -> Tensor:
        """Return the product of each row with a vector, shape (N,)."""
        return (self.rows @ vector.to(self.rows.dtype)).double()

    def root(self) -> Tensor:
        """Return a square root of the covariance, (R, R)."""
        identity = torch.eye(len(self.covariance), dtype=torch.float64)
        root: Tensor = torch.linalg.cholesky(self.covariance + _JITTER * identity)
        return root

    def inner(self, root_RR: Tensor) -> Tensor:
        """Return the matrix that has the weighted covariance's eigenvalues, (R, R)."""
        return root_RR.T @ self.weighted @ root_RR

    def shares(self) -> Tensor:
        """Return the weighted square of what each item tells of all others, (N,)."""
        if self._shares is None:
            inner = self.covariance @ self.weighted @ self.covariance
            self._shares = self._forms(inner)
        return self._shares

    def learn(self, item: int) -> None:
        """Take out what the label of an item explains.

        The variances of all items are updated, not computed anew: that costs N x R per
        label instead of N x R x R.
        """
        row_R = self.rows[item].double()
        seen_R = self.covariance @ row_R
        variance = row_R @ seen_R + self._noise
        seen_N = self.seen(seen_R)
        if self._shares is not None:
            explained_R = self.weighted @ seen_R
            cross_N = self.seen(self.covariance @ explained_R)
            doubled_N = seen_N * (seen_R @ explained_R / variance) - 2 * cross_N
            self._shares = self._shares + doubled_N * seen_N / variance
        self.variances_N = self.variances_N - seen_N.square() / variance
        self.covariance = self.covariance - torch.outer(seen_R / variance, seen_R)
        self.covariance = (self.covariance + self.covariance.T) / 2
