"""Core-set: features, the distance to the nearest labeled item, farthest first."""

from dataclasses import dataclass
from typing import Literal

from fewlabels import gram
from fewlabels.errors import check_range
from fewlabels.names import check_known
from fewlabels.pool import Query
from fewlabels.search import farthest_first, smallest_radius
from fewlabels.strategies.inputs import BuiltIn, Request, check_part

CoverMethod = Literal["greedy", "robust"]


@dataclass(frozen=True)
class Coreset(BuiltIn):
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
        check_range("outliers", self.outliers, at_least=0, below=1)

    @property
    def ignores_order(self) -> bool:
        """Whether order is of no matter; programs have several best solutions."""
        return self.method == "greedy"

    def choose(self, request: Request) -> Query:
        """Choose centers that cover the candidates."""
        kernel = gram.euclidean_kernel(request.outputs().features)
        labeled, size = request.pool.labeled, request.size
        if self.method == "greedy":
            indices, radius = farthest_first(
                kernel,
                labeled=labeled,
                candidates=request.pool.candidates,
                size=size,
                generator=request.generator,
            )
            return Query(indices, record={"radius": radius})
        part = request.considered(self.max_pool)
        num_outliers = int(self.outliers * len(part.items))
        found = smallest_radius(
            kernel,
            labeled=labeled,
            candidates=part.items,
            size=size,
            num_outliers=num_outliers,
            generator=request.generator,
        )
        record = {
            "radius": found.radius,
            "greedy_radius": found.greedy_radius,
            "outliers": num_outliers,
            "proven": found.is_proven,
            **part.record,
        }
        return Query(found.indices, record=record)
