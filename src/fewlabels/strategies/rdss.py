"""RDSS: features, a discrepancy that favors variety, herding without replacement.

Shapes: n candidates.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fewlabels import gram
from fewlabels.errors import check_range
from fewlabels.pool import Query
from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.covering import squared_distances
from fewlabels.search.scores import largest
from fewlabels.strategies.inputs import BuiltIn, Request, check_part

_CHUNK_ROWS, _CHUNK_COLUMNS = 256, 16_384


@dataclass(frozen=True)
class RepresentativeDiverse(BuiltIn):
    """Choose items that together resemble the pool, and not each other.

    Shao et al., "Enhancing Semi-Supervised Learning via Representative and Diverse
    Sample Selection" (NeurIPS 2024).
    """

    ignores_order: ClassVar[bool] = True
    alpha: float | None = None
    """How much resembling the pool counts; None: 1 - 1 / √(labels after the query)."""
    width: float = 1.0
    """Width of the Gaussian kernel between rows of length one."""
    max_pool: int = 20_000
    """How many candidates are looked at."""

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        check_part(max_pool=self.max_pool)
        check_range("width", self.width, above=0)
        if self.alpha is not None:
            check_range("alpha", self.alpha, at_least=0, at_most=1)

    def choose(self, request: Request) -> Query:
        """Choose by herding."""
        part, num_labeled = request.considered(self.max_pool), len(request.pool.labeled)
        items = torch.cat([part.items, request.pool.labeled])
        features = request.outputs(items).features
        kernel = gram.euclidean_kernel(features, normalize=True)
        everything = torch.arange(len(items))
        candidates, labeled = torch.split(everything, [len(part.items), num_labeled])
        num_labels = num_labeled + request.size
        alpha = 1 - num_labels**-0.5 if self.alpha is None else self.alpha
        means = self._near(kernel, candidates, everything) / len(items)
        near = self._near(kernel, candidates, labeled)
        chosen: list[int] = []
        with track("Herding", request.size) as advance:
            for number in range(num_labeled + 1, num_labels + 1):
                gains = alpha * number * means - near
                gains[chosen] = -torch.inf
                chosen.append(largest(gains, request.generator))
                near += self._near(kernel, candidates, torch.tensor(chosen[-1:]))
                advance()
        record = {"alpha": alpha, **part.record}
        return Query(part.items[torch.tensor(chosen)], record=record)

    def _near(self, kernel: Kernel, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the sum of k(i, j) over some columns, for each row, shape (n,)."""
        sums = torch.zeros(len(rows), dtype=torch.float64)
        for some in torch.split(rows, _CHUNK_ROWS):
            for others in torch.split(columns, _CHUNK_COLUMNS):
                squares = squared_distances(kernel, some, others).cpu()
                sums[some] += (-squares / (2 * self.width**2)).exp().sum(dim=1)
        return sums
