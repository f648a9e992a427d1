"""ProbCover: features of length one, how many lie within a radius, greedy coverage."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from fewlabels import gram
from fewlabels.errors import Count, Limits, Positive
from fewlabels.pool import Query
from fewlabels.search import maximize_coverage, pure_radius
from fewlabels.search.clusters import k_means
from fewlabels.strategies.inputs import BuiltIn, Request, unit_rows

_DIAMETER = 2.0  # of the sphere that rows of length one lie on


@dataclass(frozen=True)
class ProbCover(BuiltIn):
    """Cover as many items as possible by balls of one radius (Yehuda et al., 2022)."""

    radius: Positive | None = None
    """Radius of a ball, between rows of length one; None: the largest pure one."""
    purity: Annotated[float, Limits(above=0, at_most=1)] = 0.95
    """Least share of the balls that hold one cluster only, where it is estimated."""
    num_clusters: Annotated[int | None, Limits(at_least=2)] = None
    """How many clusters stand for classes; None: as many as classes, or as items."""
    max_pool: Count = 20_000
    """How many candidates are looked at."""

    def choose(self, request: Request) -> Query:
        """Cover greedily."""
        candidates, subsample, outputs, kernel = request.on_sphere(self.max_pool)
        count, radius = len(candidates), self.radius
        if radius is None:
            radius = self._pure_radius(outputs.features[:count], request)
        limit = radius * radius  # infinite where a power would be an error
        places, share = maximize_coverage(
            kernel,
            partial(_is_within, limit),
            weights=torch.ones(count, dtype=torch.float64),
            **request.sets(torch.arange(count), torch.arange(count, kernel.num_items)),
        )
        record = {"radius": radius, "covered": share}
        return Query(candidates[places], record={**record, **subsample})

    def _pure_radius(self, rows: Tensor, request: Request) -> float:
        """Return the radius at which balls seldom reach into another cluster."""
        num_classes = request.pool.num_classes
        wanted = self.num_clusters or (num_classes if num_classes > 1 else request.size)
        num_clusters = min(max(wanted, 2), len(rows))
        if num_clusters < 2:
            return _DIAMETER
        units = unit_rows(rows.to(torch.float64))
        clusters = k_means(units, num_clusters, request.generator)
        return pure_radius(gram.euclidean_kernel(units), clusters, self.purity)


def _is_within(limit: float, squares: Tensor) -> Tensor:
    return (squares < limit).to(squares.dtype)
