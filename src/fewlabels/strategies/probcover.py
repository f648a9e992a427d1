"""ProbCover: features of length one, how many lie within a radius, greedy coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from fewlabels import gram
from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Round
from fewlabels.protocols import Classifier
from fewlabels.search import check_size, maximize_coverage, pure_radius
from fewlabels.search.clusters import k_means
from fewlabels.strategies.inputs import check_part, considered, unit_rows

_DIAMETER = 2.0  # of the sphere that rows of length one lie on


@dataclass(frozen=True)
class ProbCover:
    """Cover as many items as possible by balls of one radius (Yehuda et al., 2022)."""

    radius: float | None = None
    """Radius of a ball, between rows of length one; None: the largest pure one."""
    purity: float = 0.95
    """Least share of the balls that hold one cluster only, where it is estimated."""
    num_clusters: int | None = None
    """How many clusters stand for classes; None: as many as classes, or as items."""
    max_pool: int = 20_000
    """How many candidates are looked at."""

    def __post_init__(self) -> None:
        """Refuse options that mean nothing."""
        check_part(max_pool=self.max_pool)
        if self.radius is not None and not self.radius > 0:
            raise UsageError(
                f"radius is {self.radius}, and such a ball covers nothing; give more "
                "than 0 (rows have length one), or None to estimate it."
            )
        if not 0 < self.purity <= 1:
            raise UsageError(
                f"purity is {self.purity}, the least share of balls that hold one "
                "cluster only; give more than 0 and at most 1."
            )
        if self.num_clusters is not None and self.num_clusters < 2:
            raise UsageError(
                f"num_clusters is {self.num_clusters}, and one cluster is pure at "
                "every radius; give at least 2, or a radius."
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
        count = len(part.items)
        items = torch.cat([part.items, pool.labeled])
        rows = classifier.outputs(pool.images, items).features
        kernel = gram.euclidean_kernel(rows, normalize=True)
        radius = self.radius
        if radius is None:
            radius = self._pure_radius(rows[:count], pool.num_classes, size, generator)
        limit = radius * radius  # infinite where a power would be an error
        places, share = maximize_coverage(
            kernel,
            partial(_is_within, limit),
            weights=torch.ones(count, dtype=torch.float64),
            labeled=torch.arange(count, len(items)),
            candidates=torch.arange(count),
            size=size,
            generator=generator,
        )
        record = {"radius": radius, "covered": share}
        return Query(part.items[places], record={**record, **part.record})

    def _pure_radius(
        self, rows: Tensor, num_classes: int, size: int, generator: Generator
    ) -> float:
        """Return the radius at which balls seldom reach into another cluster."""
        wanted = self.num_clusters or (num_classes if num_classes > 1 else size)
        num_clusters = min(max(wanted, 2), len(rows))
        if num_clusters < 2:
            return _DIAMETER
        units = unit_rows(rows.to(torch.float64))
        clusters = k_means(units, num_clusters, generator)
        return pure_radius(gram.euclidean_kernel(units), clusters, self.purity)


def _is_within(limit: float, squares: Tensor) -> Tensor:
    return (squares < limit).to(squares.dtype)
