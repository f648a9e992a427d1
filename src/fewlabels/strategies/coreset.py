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
    """Cover the pool with the smallest radius (Sener and Savarese, 2018).

    Looks at: the set, together with what is labeled. Avoids copies within a set: yes.
    Needs logits: no.

        x* = argmax over x of  min over s in L ∪ S of  ‖h(x) − h(s)‖,   Q times

    The item farthest from everything labeled is chosen, one at a time. The largest
    remaining distance, the radius, is at most twice that of the best set. Use it when
    features are good and the pool has no outliers, which it would choose first. It
    ignores predictions. ``"robust"`` solves mixed-integer programs for the smallest
    covering radius, which takes seconds to minutes.

    From *Active learning for convolutional neural networks: a core-set approach*, ICLR
    2018. Farthest-first: Gonzalez, *Clustering to minimize the maximum intercluster
    distance*, Theoretical Computer Science 38, 1985.
    """

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
