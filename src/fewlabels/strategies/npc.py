"""Neural pre-conditioning: the strategy of the paper, wired from its three parts.

Features are network gradients, the objective is the smallest eigenvalue of their Gram
matrix together with the labeled items', the search is random (NPC paper, Algorithm 1).
"""

import warnings
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from fewlabels import search
from fewlabels.errors import Count, DegenerateGramWarning, Share, UsageError
from fewlabels.gram import Weights
from fewlabels.names import OMIT_DEFAULT
from fewlabels.pool import Query, Rows, take_rows
from fewlabels.rng import fork
from fewlabels.search.blocks import local_processes
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
    method: search.Method = "random"
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
        search.check_random_only(self.method, draws=self.draws, proposal=proposal)

    def choose(self, request: Request) -> Query:
        """Choose the best set that is found."""
        outputs = request.outputs()
        among = self.among_candidates(request, outputs, self.weights)
        kernel, candidates, record = among
        with local_processes(self.processes) as executor:
            best = search.maximize_smallest_eigenvalue(
                kernel,
                **request.sets(candidates),
                method=self.method,
                draws=self.draws,
                proposal=self._proposal(request, outputs.features, candidates),
                tie_tolerance=self.tie_tolerance,
                executor=executor,
            )
        num_labeled, bound = len(request.pool.labeled), kernel.rank_bound
        if best.is_tie or (bound is not None and num_labeled + request.size > bound):
            through = "" if bound is None else f" through {bound} gradient features"
            warnings.warn(
                f"{num_labeled + request.size} items are compared{through}, and no set "
                f"of {request.size} scores better than zero: the choice is a tie. Take "
                "copies out of the pool, label fewer, or use kernel='wide-head'.",
                DegenerateGramWarning,
                stacklevel=3,
            )
        facts = {"ceiling": best.ceiling, "tie": best.is_tie}
        counts = {"draws": best.num_draws, "refuted": best.num_refuted}
        return Query(best.indices, best.value, {**record, **facts, **counts})

    def _proposal(
        self, request: Request, features: Rows, candidates: Tensor
    ) -> search.Draws | None:
        """Return where draws come from; None: uniform ones."""
        size, generator = request.size, request.generator
        if self.proposal == "uniform":
            return None
        from fewlabels.search.clusters import k_means, typicality

        rows = take_rows(features, candidates)
        if self.proposal == "typical":
            weights = typicality(rows, generator)
            return search.WeightedDraws(candidates, weights, size, fork(generator))
        clusters = k_means(rows, size, generator)
        members = tuple(candidates[clusters == number] for number in range(size))
        return search.ClusterDraws(members, fork(generator))
