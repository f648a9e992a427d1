"""Cluster-Margin: uncertain items, spread over clusters of their features.

Features are margins and penultimate rows, the search takes turns between clusters,
rare ones first (Citovsky et al., 2021).
"""

from dataclasses import dataclass
from typing import Annotated

import torch

from fewlabels.errors import Count, Limits, UsageError, Weight
from fewlabels.pool import Query
from fewlabels.search import top
from fewlabels.search.clusters import average_linkage, round_robin
from fewlabels.strategies.inputs import BuiltIn, Request, by_chunks, lead, sample_record

_MEAN_CLUSTER = 10


@dataclass(frozen=True)
class ClusterMargin(BuiltIn):
    """Take turns between the clusters of the items with the smallest margins."""

    pool_factor: Annotated[float, Limits(at_least=1)] = 10.0
    """How many times the query's size the uncertain items are that it is taken from."""
    num_clusters: Count | None = None
    """How many clusters there are; None: one for every ten items."""
    distance: Weight | None = None
    """How far apart clusters are at least, instead of their number."""
    max_pool: Count = 10_000
    """How many items can be clustered; distances of all pairs are held in memory."""

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        super().__post_init__()
        if self.num_clusters is not None and self.distance is not None:
            raise UsageError(
                f"Give {self.num_clusters} clusters or distance {self.distance:g}."
            )

    def choose(self, request: Request) -> Query:
        """Choose from the clusters in turn."""
        candidates, generator = request.pool.candidates, request.generator
        scores = -by_chunks(lead, request.predictions(candidates).logits)
        limit = min(max(self.max_pool, request.size), len(candidates))
        num_uncertain = round(min(self.pool_factor * request.size, limit))
        uncertain = top(scores, candidates, num_uncertain, generator)
        rest = candidates[~torch.isin(candidates, uncertain)]
        room = max(self.max_pool - num_uncertain, 0)
        items = torch.cat([uncertain, request.part_of(rest, room)])
        subsample = sample_record(len(items), len(candidates), self.max_pool)
        number = self.num_clusters or max(1, len(items) // _MEAN_CLUSTER)
        clusters = average_linkage(
            request.outputs(items).features[:],
            num_clusters=min(number, len(items)),
            distance=self.distance,
        )
        # Small clusters first, equally large ones shuffled.
        of_uncertain = clusters[:num_uncertain]
        numbers = torch.unique(of_uncertain)
        numbers = numbers[torch.randperm(len(numbers), generator=generator)]
        groups = sorted((uncertain[of_uncertain == n] for n in numbers), key=len)
        indices = round_robin(
            groups,
            request.size,
            lambda free: free[torch.randint(len(free), (1,), generator=generator)],
        )
        record = {
            "uncertain": num_uncertain,
            "clusters": int(clusters.max()) + 1,
            "clusters_of_uncertain": len(groups),
            **subsample,
        }
        return Query(indices, record=record)
