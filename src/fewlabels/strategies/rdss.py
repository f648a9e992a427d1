"""RDSS: features, a discrepancy that favors variety, herding without replacement.

Shapes: n candidates.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from fewlabels.errors import Count, Limits, Positive
from fewlabels.pool import Query
from fewlabels.protocols import Kernel
from fewlabels.search.covering import squared_distances
from fewlabels.search.scores import greedy
from fewlabels.strategies.inputs import BuiltIn, Request

_CHUNK_ROWS, _CHUNK_COLUMNS = 256, 16_384


@dataclass(frozen=True)
class RepresentativeDiverse(BuiltIn):
    """Choose items that together resemble the pool, and not each other.

    Shao et al., "Enhancing Semi-Supervised Learning via Representative and Diverse
    Sample Selection" (NeurIPS 2024).
    """

    ignores_order: ClassVar[bool] = True
    alpha: Annotated[float | None, Limits(at_least=0, at_most=1)] = None
    """How much resembling the pool counts; None: 1 - 1 / √(labels after the query)."""
    width: Positive = 1.0
    """Width of the Gaussian kernel between rows of length one."""
    max_pool: Count = 20_000
    """How many candidates are looked at."""

    def choose(self, request: Request) -> Query:
        """Choose by herding."""
        candidates, subsample, _, kernel = request.on_sphere(self.max_pool)
        num_labeled, alpha = len(request.pool.labeled), self.alpha
        everything = torch.arange(kernel.num_items)
        rows, labeled = torch.split(everything, [len(candidates), num_labeled])
        if alpha is None:
            alpha = 1 - (num_labeled + request.size) ** -0.5
        means = self._near(kernel, rows, everything) / len(everything)
        near = self._near(kernel, rows, labeled)
        num_members = num_labeled + 1

        def gains() -> Tensor:
            return alpha * num_members * means - near

        def add(place: int) -> None:
            nonlocal near, num_members
            near = near + self._near(kernel, rows, torch.tensor([place]))
            num_members += 1

        chosen = greedy(gains, add, request.size, request.generator, task="Herding")
        record = {"alpha": alpha, **subsample}
        return Query(candidates[torch.tensor(chosen)], record=record)

    def _near(self, kernel: Kernel, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the sum of k(i, j) over some columns, for each row, shape (n,)."""
        sums = torch.zeros(len(rows), dtype=torch.float64)
        for some in torch.split(rows, _CHUNK_ROWS):
            for others in torch.split(columns, _CHUNK_COLUMNS):
                squares = squared_distances(kernel, some, others).cpu()
                sums[some] += (-squares / (2 * self.width**2)).exp().sum(dim=1)
        return sums
