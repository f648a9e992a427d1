"""Neural pre-conditioning: the strategy of the paper, wired from its three parts.

Features are network gradients, the objective is the smallest eigenvalue of their Gram
matrix together with the labeled items', the search is random (NPC paper, Algorithm 1).
"""

import warnings
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from fewlabels.errors import DegenerateGramWarning, UsageError, check_range
from fewlabels.gram import Weights
from fewlabels.names import OMIT_DEFAULT, check_known
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
from fewlabels.search.blocks import chunks
from fewlabels.search.clusters import k_means, typicality
from fewlabels.search.workers import check_processes, local_processes
from fewlabels.strategies.inputs import BuiltIn, Request
from fewlabels.strategies.kernels import candidates_for, check_kernel, kernel_for

Proposal = Literal["uniform", "clusters", "typical"]


@dataclass(frozen=True)
class NeuralPreconditioning(BuiltIn):
    """Maximize the smallest eigenvalue of the gradient Gram matrix."""

    kernel: Any = field(default="auto", metadata={"code": True})
    """``last-layer`` is the paper; ``auto`` takes it while its rank is large enough;
    your own: see :data:`fewlabels.strategies.kernels.KernelChoice`."""
    weights: Weights = field(default="none", metadata=OMIT_DEFAULT)
    """``influence``: items count by how much they say about the pool; for the kernel
    ``diffusion``."""
    method: Method = "random"
    """How sets are searched: the paper's random draws, ``greedy`` or ``exchange``."""
    draws: int | None = None
    """How many sets are tried at random; None: as many as there are candidates."""
    proposal: Proposal = "uniform"
    """How sets are drawn: as in the paper, one per cluster, or by local density."""
    tie_tolerance: float = 1e-3
    """Draws within this share of the ceiling count as tied; 0 is the paper."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""
    processes: int = 1
    """Processes to spread draws over; the choice is the same."""

    def __post_init__(self) -> None:
        """Refuse misspelt words, which would pass for the defaults, and no shares."""
        check_kernel(self.kernel, normalize=self.normalize)
        check_known("weights", self.weights, Weights)
        if self.weights != "none" and self.kernel != "diffusion":
            raise UsageError(
                f"weights={self.weights!r} goes with kernel='diffusion' alone, and the "
                f"kernel is {self.kernel!r}; leave one of them out."
            )
        check_known("search method", self.method, Method)
        check_known("proposal", self.proposal, Proposal)
        check_range("tie_tolerance", self.tie_tolerance, at_least=0, below=1)
        check_processes(self.processes)
        proposal = None if self.proposal == "uniform" else self.proposal
        check_random_only(self.method, draws=self.draws, proposal=proposal)

    def choose(self, request: Request) -> Query:
        """Choose the best set that is found."""
        part, outputs = candidates_for(self.kernel, request), request.outputs()
        name, kernel = kernel_for(
            self.kernel,
            request,
            outputs,
            normalize=self.normalize,
            weights=self.weights,
            among=part.items if part.record else None,
        )
        with local_processes(self.processes) as executor:
            found = maximize_smallest_eigenvalue(
                kernel,
                labeled=request.pool.labeled,
                candidates=part.items,
                size=request.size,
                method=self.method,
                draws=self.draws,
                proposal=self._proposal(request, outputs.features, part.items),
                tie_tolerance=self.tie_tolerance,
                executor=executor,
                generator=request.generator,
            )
        _warn_if_degenerate(kernel, outputs.features, request.pool, found)
        record = {
            "kernel": name,
            "ceiling": found.ceiling,
            "tie": found.is_tie,
            "draws": found.num_draws,
            "refuted": found.num_refuted,
            **part.record,
        }
        return Query(found.indices, found.value, record)

    def _proposal(
        self, request: Request, features: Rows, candidates: Tensor
    ) -> Draws | None:
        """Return where draws come from; None: uniform ones."""
        size, generator = request.size, request.generator
        if self.proposal == "uniform":
            return None
        rows = take_rows(features, candidates)
        if self.proposal == "typical":
            weights = typicality(rows, generator)
            return WeightedDraws(candidates, weights, size, fork(generator))
        clusters = k_means(rows, size, generator)
        members = tuple(candidates[clusters == number] for number in range(size))
        return ClusterDraws(members, fork(generator))


def _warn_if_degenerate(
    kernel: Kernel, features: Rows, pool: Pool, found: SearchResult
) -> None:
    """Say that every choice scores zero, why, and only what can change that."""
    num_labeled, size, bound = len(pool.labeled), len(found.indices), kernel.rank_bound
    num_members = num_labeled + size
    if bound is not None and num_members > bound:
        reason = (
            f"{num_members} items are compared through {bound} gradient features, so "
            "their Gram matrix is singular and every choice is a tie at zero."
        )
    elif found.is_tie:
        reason = (
            f"No set of {size} items that was tried scores better than zero together "
            f"with the {num_labeled} labeled ones, so the one chosen is a tie."
        )
    else:
        return
    everything = torch.cat([pool.labeled, pool.candidates])
    own = _num_distinct(features, pool.labeled, num_labeled)
    distinct = _num_distinct(features, everything, num_members)
    if own < num_labeled:
        remedy = (
            f"The {num_labeled} labeled items have {own} distinct rows of features. "
            "Take copies out of the pool."
        )
    elif distinct < num_members:
        remedy = (
            f"Labeled items and candidates have {distinct} distinct rows of features, "
            f"fewer than the {num_members} to be labeled. Take copies out of the pool."
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
