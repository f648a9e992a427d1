"""Core-set: features, the distance to the nearest labeled item, farthest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Generator

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.naming import check_known
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier, Kernel
from fewlabels.search import check_size, farthest_first, smallest_radius
from fewlabels.strategies.inputs import check_part, considered

CoverMethod = Literal["greedy", "robust"]


@dataclass(frozen=True)
class Coreset:
    """Cover the pool with the smallest radius (Sener and Savarese, 2018)."""

    method: CoverMethod = "greedy"
    """Farthest-first, or the paper's mixed-integer program."""
    outliers: float = 1e-4
    """Share of the candidates that ``robust`` may leave uncovered."""
    max_pool: int = 200
    """How many candidates ``robust`` looks at; ``greedy`` looks at all."""

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        check_known("coreset method", self.method, CoverMethod)
        check_part(max_pool=self.max_pool)
        if not 0 <= self.outliers < 1:
            raise UsageError(
                f"outliers is {self.outliers}, the share of candidates that may stay "
                "uncovered; give 0 or more, and less than 1."
            )

    @property
    def ignores_order(self) -> bool:
        """Whether order is of no matter; programs have several best solutions."""
        return self.method == "greedy"

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
        outputs = classifier.outputs(pool.images, torch.arange(len(pool)))
        kernel = gram.euclidean_kernel(outputs.features)
        if self.method == "robust":
            return self._robust(kernel, pool, size, generator)
        indices, radius = farthest_first(
            kernel,
            labeled=pool.labeled,
            candidates=pool.candidates,
            size=size,
            generator=generator,
        )
        return Query(indices, record={"radius": radius})

    def _robust(
        self, kernel: Kernel, pool: Pool, size: int, generator: Generator
    ) -> Query:
        part = considered(pool.candidates, self.max_pool, generator, at_least=size)
        num_outliers = int(self.outliers * len(part.items))
        found = smallest_radius(
            kernel,
            labeled=pool.labeled,
            candidates=part.items,
            size=size,
            num_outliers=num_outliers,
            generator=generator,
        )
        record = {
            "radius": found.radius,
            "greedy_radius": found.greedy_radius,
            "outliers": num_outliers,
            "proven": found.is_proven,
        }
        return Query(found.indices, record={**record, **part.record})
