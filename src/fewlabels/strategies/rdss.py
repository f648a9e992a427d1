"""RDSS: features, a discrepancy that favors variety, herding without replacement.

Shapes: n candidates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Round
from fewlabels.progress import track
from fewlabels.protocols import Classifier, Kernel
from fewlabels.search import check_size
from fewlabels.search.covering import squared_distances
from fewlabels.search.scores import largest
from fewlabels.strategies.inputs import check_part, considered

_CHUNK_ROWS, _CHUNK_COLUMNS = 256, 16_384


@dataclass(frozen=True)
class RepresentativeDiverse:
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
        if self.alpha is not None and not 0 <= self.alpha <= 1:
            raise UsageError(
                f"alpha is {self.alpha}; give a number from 0 (variety alone) to 1, or "
                "None to have it chosen."
            )
        if not 0 < self.width < math.inf:
            raise UsageError(
                f"width is {self.width}, and distances are divided by it; give a "
                "number above 0."
            )

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
        items = torch.cat([part.items, pool.labeled])
        features = classifier.outputs(pool.images, items).features
        kernel = gram.euclidean_kernel(features, normalize=True)
        count, everything = len(part.items), torch.arange(len(items))
        num_labels = len(pool.labeled) + size
        alpha = 1 - num_labels**-0.5 if self.alpha is None else self.alpha
        means = self._near(kernel, everything[:count], everything) / len(items)
        near = self._near(kernel, everything[:count], everything[count:])
        chosen: list[int] = []
        with track("Herding", size) as advance:
            for number in range(len(pool.labeled) + 1, num_labels + 1):
                gains = alpha * number * means - near
                gains[chosen] = -torch.inf
                chosen.append(largest(gains, generator))
                near += self._near(
                    kernel, everything[:count], torch.tensor(chosen[-1:])
                )
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
