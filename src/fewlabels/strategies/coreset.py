"""Core-set: features, the distance to the nearest labeled item, farthest first."""

from dataclasses import dataclass
from typing import Literal

from fewlabels import gram
from fewlabels.errors import Count, Share
from fewlabels.pool import Query
from fewlabels.search import farthest_first, smallest_radius
from fewlabels.strategies.inputs import BuiltIn, Request

CoverMethod = Literal["greedy", "robust"]


@dataclass(frozen=True)
class Coreset(BuiltIn):
    """Cover the pool with the smallest radius (Sener and Savarese, 2018)."""

    method: CoverMethod = "greedy"
    """Farthest-first, or the paper's mixed-integer program."""
    outliers: Share = 1e-4
    """Share of the candidates that ``robust`` may leave uncovered."""
    max_pool: Count = 200
    """How many candidates ``robust`` looks at; ``greedy`` looks at all."""

    @property
    def ignores_order(self) -> bool:
        """Whether order is of no matter; programs have several best solutions."""
        return self.method == "greedy"

    def choose(self, request: Request) -> Query:
        """Choose centers that cover the candidates."""
        kernel = gram.euclidean_kernel(request.outputs().features)
        if self.method == "greedy":
            sets = request.sets(request.pool.candidates)
            indices, radius = farthest_first(kernel, **sets)
            return Query(indices, record={"radius": radius})
        candidates, subsample = request.candidates(self.max_pool)
        num_outliers = int(self.outliers * len(candidates))
        sets = request.sets(candidates)
        cover = smallest_radius(kernel, **sets, num_outliers=num_outliers)
        record = {
            "radius": cover.radius,
            "greedy_radius": cover.greedy_radius,
            "outliers": num_outliers,
            "proven": cover.is_proven,
            **subsample,
        }
        return Query(cover.indices, record=record)
