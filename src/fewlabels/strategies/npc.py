"""Neural pre-conditioning: the strategy of the paper, wired from its three parts.

Features are network gradients, the objective is the smallest eigenvalue of their Gram
matrix together with the labeled items', the search is random (NPC paper, Algorithm 1).
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Generator, Tensor

from fewlabels.errors import DegenerateGramWarning, UsageError
from fewlabels.gram import Weights
from fewlabels.identity import SILENT
from fewlabels.matrices import Rows, rows_at
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Kernel
from fewlabels.rng import fork
from fewlabels.search import (
    ClusterDraws,
    Draws,
    Method,
    SearchResult,
    WeightedDraws,
    check_random_only,
    check_size,
    check_tie_tolerance,
    maximize_smallest_eigenvalue,
)
from fewlabels.search.blocks import chunks
from fewlabels.search.clusters import k_means, typicality
from fewlabels.search.workers import check_processes, local_processes
from fewlabels.strategies.kernels import candidates_for, check_kernel, kernel_for

Proposal = Literal["uniform", "clusters", "typical"]


@dataclass(frozen=True)
class NeuralPreconditioning:
    """Maximize the smallest eigenvalue of the gradient Gram matrix."""

    kernel: Any = field(default="auto", metadata={"code": True})
    """``last-layer`` is the paper; ``auto`` takes it while its rank is large enough;
    your own: see :data:`fewlabels.strategies.kernels.KernelChoice`."""
    weights: Weights = field(default="none", metadata=SILENT)
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
        check_kernel(self)
        check_known("weights", self.weights, Weights)
        if self.weights != "none" and self.kernel != "diffusion":
            raise UsageError(
                f"weights={self.weights!r} goes with kernel='diffusion', which knows "
                f"how far an item is felt, and the kernel is {self.kernel!r}."
            )
        check_known("search method", self.method, Method)
        check_known("proposal", self.proposal, Proposal)
        check_tie_tolerance(self.tie_tolerance)
        check_processes(self.processes)
        proposal = None if self.proposal == "uniform" else self.proposal
        check_random_only(self.method, draws=self.draws, proposal=proposal)

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
        check_size(size, len(pool.candidates))
        part = candidates_for(self, pool, size, generator)
        among = part.items if part.record else None
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        name, kernel = kernel_for(
            self,
            classifier,
            outputs,
            pool,
            size,
            generator,
            history,
            weights=self.weights,
            among=among,
        )
        with local_processes(self.processes) as executor:
            found = maximize_smallest_eigenvalue(
                kernel,
                labeled=pool.labeled,
                candidates=part.items,
                size=size,
                method=self.method,
                draws=self.draws,
                proposal=self._proposal(outputs.features, part.items, size, generator),
                tie_tolerance=self.tie_tolerance,
                executor=executor,
                generator=generator,
            )
        _warn_if_degenerate(kernel, outputs.features, pool, found)
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
        self, features: Rows, candidates: Tensor, size: int, generator: Generator
    ) -> Draws | None:
        """Return where draws come from; None: uniform ones."""
        if self.proposal == "uniform" or self.method != "random":
            return None
        rows = rows_at(features, candidates)
        if self.proposal == "typical":
            weights = typicality(rows, generator)
            return WeightedDraws(candidates, weights, size, fork(generator))
        clusters = k_means(rows, size, generator)
        members = tuple(candidates[clusters == number] for number in range(size))
        return ClusterDraws(members, fork(generator))


def _warn_if_degenerate(
    kernel: Kernel, features: Rows, pool: Pool, found: SearchResult
) -> None:
    """Say that every choice scores zero, and why."""
    num_labeled, size = len(pool.labeled), len(found.indices)
    bound = kernel.rank_bound
    lacks_rank = bound is not None and num_labeled + size > bound
    if not (lacks_rank or found.is_tie):
        return
    reason = (
        f"{num_labeled + size} items are compared through {bound} gradient features, "
        "so their Gram matrix is singular, every choice scores zero and the one made "
        "is a tie."
        if lacks_rank
        else f"No set of {size} items that was tried scores better than zero together "
        f"with the {num_labeled} labeled ones, so the one chosen is a tie."
    )
    remedy = _remedy(bound, features, pool, num_labeled + size)
    warnings.warn(f"{reason} {remedy}", DegenerateGramWarning, stacklevel=3)


def _remedy(
    rank_bound: int | None, features: Rows, pool: Pool, num_members: int
) -> str:
    """Say only what can make some set score more than zero."""
    num_labeled = len(pool.labeled)
    num_distinct = _num_distinct(features, pool.labeled, num_labeled)
    if num_distinct < num_labeled:
        return (
            f"The {num_labeled} labeled items have {num_distinct} distinct rows of "
            "features; while copies are labeled, no choice and no kernel can change "
            "that. Take copies out of the pool."
        )
    everything = torch.cat([pool.labeled, pool.candidates])
    num_distinct = _num_distinct(features, everything, num_members)
    if num_distinct < num_members:
        return (
            f"Labeled items and candidates have {num_distinct} distinct rows of "
            f"features, fewer than the {num_members} items to be labeled, and a copy "
            "adds nothing to what it copies. Take copies out of the pool."
        )
    limit = num_members - 1 if rank_bound is None else min(rank_bound, num_members - 1)
    advice = f"Label and query at most {limit} items together"
    if rank_bound is None:
        return f"{advice}, or try more draws."
    return f"{advice}, or use kernel='wide-head' or 'auto'."


def _num_distinct(features: Rows, items: Tensor, enough: int) -> int:
    """Count distinct rows of some items, no further than is needed."""
    seen = features[items[:0]]
    for part in chunks(len(items), features.shape[1]):
        if len(seen) < enough and features.shape[1]:
            seen = torch.unique(torch.cat([seen, features[items[part]]]), dim=0)
    return len(seen) if features.shape[1] else min(1, len(items))
