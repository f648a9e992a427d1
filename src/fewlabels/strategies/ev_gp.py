"""Expected variance: items that leave the least doubt about the rest of the pool.

The network's gradients give a Gaussian process, the objective is the mean of its
posterior variance over the pool, the search is greedy (Hemachandra et al., 2023).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from fewlabels.errors import check_range
from fewlabels.pool import Query
from fewlabels.search import minimize_variance
from fewlabels.strategies.inputs import BuiltIn, Request, check_part, sampled
from fewlabels.strategies.kernels import check_kernel, kernel_for, share_of_variance


@dataclass(frozen=True)
class ExpectedVariance(BuiltIn):
    """Greedily minimize the mean posterior variance of a Gaussian process."""

    ignores_order: ClassVar[bool] = True
    kernel: Any = field(default="auto", metadata={"code": True})
    """The prior covariance: as for :class:`fewlabels.strategies.MaxDet`."""
    normalize: bool = False
    """Whether gradients are scaled to length one first."""
    noise: float = 0.01
    """Variance of a label around the process, as a share of the mean prior one."""
    max_pool: int = 20_000
    """How many candidates are looked at; of more, a random part."""
    num_references: int = 2_000
    """Over how many items of the pool the mean is taken; of more, a random part."""

    def __post_init__(self) -> None:
        """Refuse a misspelt kernel, and noise that makes no sense."""
        check_kernel(self.kernel, normalize=self.normalize)
        check_range("noise", self.noise, above=0)
        check_part(max_pool=self.max_pool, num_references=self.num_references)

    def choose(self, request: Request) -> Query:
        """Choose greedily."""
        pool = request.pool
        asked = request.considered(self.max_pool)
        everything = torch.arange(len(pool))
        references = sampled(everything, self.num_references, request.generator)
        name, kernel = kernel_for(
            self.kernel,
            request,
            request.outputs(),
            normalize=self.normalize,
            among=torch.cat([asked.items, references]) if asked.record else None,
        )
        indices, before, after = minimize_variance(
            kernel,
            labeled=pool.labeled,
            candidates=asked.items,
            references=references,
            size=request.size,
            noise=share_of_variance(self.noise, kernel, references),
            generator=request.generator,
        )
        record = {
            "kernel": name,
            "references": len(references),
            "variance_before": before,
            "variance_after": after,
            **asked.record,
        }
        return Query(indices, -after, record)
