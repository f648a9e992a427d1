"""Cluster-Margin: uncertain items, spread over clusters of their features.

Features are margins and penultimate rows, the search takes turns between clusters,
rare ones first (Citovsky et al., 2021).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.errors import UsageError
from fewlabels.pool import Pool, Query, Record, Round
from fewlabels.protocols import Classifier
from fewlabels.search import check_size, top
from fewlabels.search.clusters import average_linkage, round_robin
from fewlabels.strategies.inputs import (
    by_chunks,
    check_part,
    lead,
    logits_of,
    notice,
    sampled,
)

_MEAN_CLUSTER = 10


@dataclass(frozen=True)
class ClusterMargin:
    """Take turns between the clusters of the items with the smallest margins."""

    pool_factor: float = 10.0
    """How many times the query's size the uncertain items are that it is taken from."""
    num_clusters: int | None = None
    """How many clusters there are; None: one for every ten items."""
    distance: float | None = None
    """How far apart clusters are at least, instead of their number."""
    max_pool: int = 10_000
    """How many items can be clustered; distances of all pairs are held in memory."""

    def __post_init__(self) -> None:
        """Refuse options that leave nothing to choose from or contradict each other."""
        check_part(max_pool=self.max_pool)
        if not self.pool_factor >= 1:
            raise UsageError(
                f"pool_factor is {self.pool_factor:g}, so fewer items would be looked "
                "at than are to be chosen; give at least 1."
            )
        if self.num_clusters is not None and self.distance is not None:
            raise UsageError(
                f"Clusters are made either by number ({self.num_clusters}) or by "
                f"distance ({self.distance:g}); leave one of the two out."
            )
        is_empty = self.num_clusters is not None and self.num_clusters < 1
        if is_empty or not (self.distance or 0.0) >= 0:
            raise UsageError(
                f"num_clusters is {self.num_clusters} and distance {self.distance}; "
                "items need at least 1 cluster, and a distance is not negative."
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
        logits = logits_of(classifier, pool, pool.candidates)
        scores = -by_chunks(lead, logits)
        del logits
        limit = min(max(self.max_pool, size), len(pool.candidates))
        num_uncertain = round(min(max(1.0, self.pool_factor) * size, limit))
        uncertain = top(scores, pool.candidates, num_uncertain, generator)
        items, left_out = self._clustered(pool.candidates, uncertain, generator)
        rows = classifier.outputs(pool.images, items).features[:]
        number = self.num_clusters or max(1, len(items) // _MEAN_CLUSTER)
        number = min(number, len(items))
        clusters = average_linkage(rows, num_clusters=number, distance=self.distance)
        groups = _by_size(uncertain, clusters[:num_uncertain], generator)
        indices = round_robin(groups, size, lambda free: _any_of(free, generator))
        record = {
            "uncertain": num_uncertain,
            "clusters": int(clusters.max()) + 1,
            "clusters_of_uncertain": len(groups),
            **left_out,
        }
        return Query(indices, record=record)

    def _clustered(
        self, candidates: Tensor, uncertain: Tensor, generator: Generator
    ) -> tuple[Tensor, Record]:
        """Return the uncertain items, then all others or a part, and a notice."""
        rest = candidates[~torch.isin(candidates, uncertain)]
        room = max(self.max_pool - len(uncertain), 0)
        items = torch.cat([uncertain, sampled(rest, room, generator)])
        return items, notice(len(items), len(candidates), self.max_pool)


def _by_size(items: Tensor, clusters: Tensor, generator: Generator) -> list[Tensor]:
    """Return the items of each cluster, small clusters first, equal ones shuffled."""
    numbers = torch.unique(clusters)
    numbers = numbers[torch.randperm(len(numbers), generator=generator)]
    groups = [items[clusters == number] for number in numbers]
    return sorted(groups, key=len)


def _any_of(free: Tensor, generator: Generator) -> Tensor:
    return free[torch.randint(len(free), (1,), generator=generator)]
