"""Groups and densities of feature rows, streamed.

Shapes: N rows, F features, K clusters.
"""

import torch
from torch import Generator, Tensor

from fewlabels.gram import euclidean_kernel
from fewlabels.search.covering import k_means_plus_plus

_CHUNK_ENTRIES = 2**22


def k_means(
    rows: Tensor, num_clusters: int, generator: Generator, *, num_turns: int = 20
) -> Tensor:
    """Return the cluster of each row, shape (N,), by Lloyd's algorithm.

    Centers begin as k-means++ seeds (Arthur and Vassilvitskii, 2007). A cluster that
    loses all its rows takes the row farthest from its center, so none ends empty.

    Args:
        rows: Shape (N, F).
        num_clusters: K, at most N.
        generator: Draws the seeds.
        num_turns: How often centers are moved, at most.

    Returns:
        Cluster numbers from 0 to K - 1.
    """
    seeds = k_means_plus_plus(
        euclidean_kernel(rows),
        candidates=torch.arange(len(rows)),
        size=num_clusters,
        generator=generator,
    )
    centers_KF = rows[seeds].to(torch.float64)
    clusters = torch.full((len(rows),), -1)
    for _ in range(num_turns):
        nearest, distances = _nearest(rows, centers_KF)
        nearest = _without_gaps(nearest, distances, num_clusters)
        if torch.equal(nearest, clusters):
            break
        clusters = nearest
        sums_KF = torch.zeros_like(centers_KF)
        for part in _parts(len(rows), rows.shape[1]):
            sums_KF.index_add_(0, clusters[part], rows[part].to(torch.float64))
        counts_K = torch.bincount(clusters, minlength=num_clusters)
        centers_KF = sums_KF / counts_K[:, None]
    return clusters


def typicality(
    rows: Tensor,
    generator: Generator,
    *,
    num_neighbors: int = 20,
    num_references: int = 2000,
) -> Tensor:
    """Return how densely rows are surrounded: 1 / mean distance to near ones, (N,).

    Neighbors are looked for among a random part of the rows, so that the cost grows
    with N, not with its square.

    Args:
        rows: Shape (N, F).
        generator: Draws the part.
        num_neighbors: How many neighbors count.
        num_references: Size of the part.

    Returns:
        Positive numbers; larger is denser.
    """
    order = torch.randperm(len(rows), generator=generator)
    references = rows[order[:num_references]].to(torch.float64)
    count = min(num_neighbors + 1, len(references))
    means = torch.empty(len(rows), dtype=torch.float64)
    for part in _parts(len(rows), len(references)):
        distances = torch.cdist(rows[part].to(torch.float64), references)
        means[part] = distances.topk(count, largest=False).values.mean(dim=1)
    return 1 / (means + 1e-5 * float(means.mean()) + 1e-300)


def _nearest(rows: Tensor, centers_KF: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row, and the squared distance to it."""
    nearest = torch.empty(len(rows), dtype=torch.int64)
    squares = torch.empty(len(rows), dtype=torch.float64)
    norms_K = centers_KF.square().sum(dim=1)
    for part in _parts(len(rows), len(centers_KF) + rows.shape[1]):
        own = rows[part].to(torch.float64)
        distances = norms_K - 2 * own @ centers_KF.T
        least = distances.min(dim=1)
        nearest[part] = least.indices
        squares[part] = (least.values + own.square().sum(dim=1)).clamp_min(0)
    return nearest, squares


def _without_gaps(nearest: Tensor, distances: Tensor, num_clusters: int) -> Tensor:
    """Give each empty cluster the row that is farthest from its center."""
    counts = torch.bincount(nearest, minlength=num_clusters)
    farthest = distances.argsort(descending=True).tolist()
    for cluster in torch.nonzero(counts == 0).flatten().tolist():
        row = next(row for row in farthest if counts[nearest[row]] > 1)
        counts[nearest[row]] -= 1
        nearest[row], counts[cluster] = cluster, 1
    return nearest


def _parts(length: int, width: int) -> list[slice]:
    step = max(1, _CHUNK_ENTRIES // max(1, width))
    return [slice(start, start + step) for start in range(0, length, step)]
