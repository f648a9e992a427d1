"""Neural pre-conditioning: the strategy of the paper, wired from its three parts.

Features are network gradients, the objective is the smallest eigenvalue of their Gram
matrix together with the labeled items', the search is random (NPC paper, Algorithm 1).
"""

import warnings
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from fewlabels.errors import Count, DegenerateGramWarning, Share, UsageError
from fewlabels.gram import Weights
from fewlabels.names import OMIT_DEFAULT
from fewlabels.pool import Pool, Query, Rows, take_rows
from fewlabels.protocols import Kernel
from fewlabels.rng import fork
from fewlabels.search import (
    ClusterDraws,
    Draws,
    Method,
    SearchResult,
    WeightedDraws,
    check_random_only,
    maximize_smallest_eigenvalue,
)
from fewlabels.search.blocks import chunks, local_processes
from fewlabels.strategies.inputs import Request
from fewlabels.strategies.kernels import KernelStrategy

Proposal = Literal["uniform", "clusters", "typical"]


@dataclass(frozen=True)
class NeuralPreconditioning(KernelStrategy):
    """Maximize the smallest eigenvalue of the gradient Gram matrix.

    The kernel ``last-layer`` is that of the paper.
    """

    weights: Weights = field(default="none", metadata=OMIT_DEFAULT)
    """``influence``: items count by how much they say about the pool; for the kernel
    ``diffusion``."""
    method: Method = "random"
    """How sets are searched: the paper's random draws, ``greedy`` or ``exchange``."""
    draws: int | None = None
    """How many sets are tried at random; None: as many as there are candidates."""
    proposal: Proposal = "uniform"
    """How sets are drawn: as in the paper, one per cluster, or by local density."""
    tie_tolerance: Share = 1e-3
    """Draws within this share of the ceiling count as tied; 0 is the paper."""
    processes: Count = 1
    """Processes to spread draws over; the choice is the same."""

    def __post_init__(self) -> None:
        """Refuse options that would have no effect."""
        super().__post_init__()
        if self.weights != "none" and self.kernel != "diffusion":
            raise UsageError(f"weights={self.weights!r} needs the kernel 'diffusion'.")
        proposal = None if self.proposal == "uniform" else self.proposal
        check_random_only(self.method, draws=self.draws, proposal=proposal)

    def choose(self, request: Request) -> Query:
        """Choose the best set that is found."""
        outputs = request.outputs()
        kernel, candidates, record = self.among_candidates(
            request, outputs, self.weights
        )
        with local_processes(self.processes) as executor:
            best = maximize_smallest_eigenvalue(
                kernel,
                labeled=request.pool.labeled,
                candidates=candidates,
                size=request.size,
                method=self.method,
                draws=self.draws,
                proposal=self._proposal(request, outputs.features, candidates),
                tie_tolerance=self.tie_tolerance,
                executor=executor,
                generator=request.generator,
            )
        _warn_if_degenerate(kernel, outputs.features, request.pool, best)
        facts = {"ceiling": best.ceiling, "tie": best.is_tie}
        counts = {"draws": best.num_draws, "refuted": best.num_refuted}
        return Query(best.indices, best.value, {**record, **facts, **counts})

    def _proposal(
        self, request: Request, features: Rows, candidates: Tensor
    ) -> Draws | None:
        """Return where draws come from; None: uniform ones."""
        size, generator = request.size, request.generator
        if self.proposal == "uniform":
            return None
        from fewlabels.search.clusters import k_means, typicality

        rows = take_rows(features, candidates)
        if self.proposal == "typical":
            weights = typicality(rows, generator)
            return WeightedDraws(candidates, weights, size, fork(generator))
        clusters = k_means(rows, size, generator)
        members = tuple(candidates[clusters == number] for number in range(size))
        return ClusterDraws(members, fork(generator))


def _warn_if_degenerate(
    kernel: Kernel, features: Rows, pool: Pool, best: SearchResult
) -> None:
    """Warn that every choice scores zero, and name only what can change that."""
    num_labeled, size, bound = len(pool.labeled), len(best.indices), kernel.rank_bound
    num_members = num_labeled + size
    if bound is not None and num_members > bound:
        reason = (
            f"{num_members} items are compared through {bound} gradient features, so "
            "their Gram matrix is singular and every choice is a tie at zero."
        )
    elif best.is_tie:
        reason = (
            f"No set of {size} items that was tried scores better than zero together "
            f"with the {num_labeled} labeled ones, so the one chosen is a tie."
        )
    else:
        return
    everything = torch.cat([pool.labeled, pool.candidates])
    own = _num_distinct(features, pool.labeled, num_labeled)
    distinct = _num_distinct(features, everything, num_members)
    if own < num_labeled or distinct < num_members:
        which, number = "Labeled items and candidates", distinct
        if own < num_labeled:
            which, number = f"The {num_labeled} labeled items", own
        remedy = (
            f"{which} have {number} distinct rows of features. Take copies out of the "
            "pool."
        )
    elif bound is None:
        remedy = f"Label and query fewer than {num_members} items, or try more draws."
    else:
        limit = min(bound, num_members - 1)
        remedy = (
            f"Label and query at most {limit} items together, or use "
            "kernel='wide-head' or 'auto'."
        )
    warnings.warn(f"{reason} {remedy}", DegenerateGramWarning, stacklevel=4)


def _num_distinct(features: Rows, items: Tensor, enough: int) -> int:
    """Count distinct rows of some items, no further than is needed."""
    seen = features[items[:0]]
    for part in chunks(len(items), features.shape[1]):
        if len(seen) < enough and features.shape[1]:
            seen = torch.unique(torch.cat([seen, features[items[part]]]), dim=0)
    return len(seen) if features.shape[1] else min(1, len(items))
