"""TypiClust: the most typical item of each cluster that has few labels.

Features are rows of length one, the objective is density, the search goes round the
clusters (Hacohen, Dekel and Weinshall, 2022).
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor

from fewlabels.errors import Count
from fewlabels.pool import Query, Record
from fewlabels.search import top
from fewlabels.search.clusters import k_means, neighbor_distances, round_robin
from fewlabels.strategies.inputs import BuiltIn, Request, unit_rows

_NUM_NEIGHBORS = 20
_NEAREST = 1e-5
_NUM_FITTED = 100_000


@dataclass(frozen=True)
class TypiClust(BuiltIn):
    """Take the densest item of each cluster, those with the fewest labels first."""

    too_small: ClassVar[int] = 5
    """Clusters up to this size are left out where the others hold enough."""
    max_clusters: Count = 500
    """There are as many clusters as labels after the query, at most this many."""

    def choose(self, request: Request) -> Query:
        """Choose from the clusters in turn."""
        pool, size, generator = request.pool, request.size, request.generator
        num_labeled = len(pool.labeled)
        items = torch.cat([pool.labeled, pool.candidates])
        rows = unit_rows(request.outputs(items).features)
        num_clusters = min(num_labeled + size, self.max_clusters)
        clusters = k_means(rows, num_clusters, generator, num_fitted=_NUM_FITTED)
        sizes = torch.bincount(clusters, minlength=num_clusters)
        labels = torch.bincount(clusters[:num_labeled], minlength=num_clusters)
        is_large = sizes > self.too_small
        if int((sizes - labels)[is_large].sum()) < size:
            is_large = torch.ones_like(is_large)
        large = torch.nonzero(is_large).flatten().tolist()
        # Clusters with the fewest labels come first, and of these the largest.
        large.sort(key=lambda number: (int(labels[number]), -int(sizes[number])))
        members = [
            torch.nonzero(clusters[num_labeled:] == number).flatten() + num_labeled
            for number in large
        ]

        def best(free: Tensor) -> Tensor:
            return top(self.scores(rows[free], generator), free, 1, generator)

        chosen = round_robin(members, size, best)
        record: Record = {"clusters": num_clusters, "clusters_used": len(members)}
        if len(items) > _NUM_FITTED:
            fitted = {"considered": _NUM_FITTED, "out_of": len(items)}
            record = {**record, "fitted_to": fitted}
        return Query(items[chosen], record=record)

    def scores(self, rows: Tensor, generator: Generator) -> Tensor:
        """Return how typical each of the free members of a cluster is, shape (n,)."""
        num_neighbors = min(_NUM_NEIGHBORS, len(rows) // 2)
        if not num_neighbors:
            return torch.zeros(1)
        return 1 / (neighbor_distances(rows, num_neighbors, generator) + _NEAREST)


@dataclass(frozen=True)
class Medoids(TypiClust):
    """Take the middle item of each cluster instead: a baseline."""

    too_small: ClassVar[int] = 0

    def scores(self, rows: Tensor, generator: Generator) -> Tensor:
        """Return minus the distance of free members to their mean, shape (n,)."""
        del generator
        rows = rows.double()
        return -(rows - rows.mean(dim=0)).square().sum(dim=1).sqrt()
