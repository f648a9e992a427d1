"""Expected variance: items that leave the least doubt about the rest of the pool.

The network's gradients give a Gaussian process, the objective is the mean of its
posterior variance over the pool, the search is greedy (Hemachandra et al., 2023).
"""

from dataclasses import dataclass
from typing import ClassVar

from fewlabels.errors import Positive
from fewlabels.pool import Query
from fewlabels.search import minimize_variance
from fewlabels.strategies.inputs import Request
from fewlabels.strategies.kernels import ProcessStrategy


@dataclass(frozen=True)
class ExpectedVariance(ProcessStrategy):
    """Greedily minimize the mean posterior variance of a Gaussian process."""

    ignores_order: ClassVar[bool] = True
    noise: Positive = 0.01
    """Variance of a label around the process, as a share of the mean prior one."""

    def choose(self, request: Request) -> Query:
        """Choose greedily."""
        posterior, record = self.posterior(request, request.outputs(), self.noise)
        indices, before, after = minimize_variance(
            posterior, size=request.size, generator=request.generator
        )
        variances = {"variance_before": before, "variance_after": after}
        return Query(indices, -after, {**record, **variances})
