"""Groups and densities of feature rows, streamed where the method can be.

Shapes: N rows, F features, K clusters.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Generator, Tensor

from fewlabels.gram import euclidean_kernel
from fewlabels.pool import Rows, slice_rows, take_rows
from fewlabels.progress import current_executor, each, track
from fewlabels.search.blocks import chunks
from fewlabels.search.covering import k_means_plus_plus

_CHUNK_ENTRIES = 2**22


def k_means(
    rows: Rows,
    num_clusters: int,
    generator: Generator,
    *,
    num_turns: int = 20,
    num_fitted: int | None = None,
) -> Tensor:
    """Return the cluster of each row, shape (N,), by Lloyd's algorithm.

    Centers begin as k-means++ seeds (Arthur and Vassilvitskii, 2007). A cluster that
    loses all its rows takes the row farthest from its center, so none ends empty.

    Args:
        rows: Shape (N, F).
        num_clusters: K, at most N.
        generator: Draws the seeds.
        num_turns: How often centers are moved, at most.
        num_fitted: How many rows, drawn at random, centers are fitted to, at least K;
            None: all.

    Returns:
        Cluster numbers from 0 to K - 1.
    """
    if num_fitted is None or len(rows) <= max(num_fitted, num_clusters):
        return _lloyd(rows, num_clusters, generator, num_turns)
    order = torch.randperm(len(rows), generator=generator)
    chosen = order[: max(num_fitted, num_clusters)]
    fitted = rows[chosen] if current_executor() is None else take_rows(rows, chosen)
    clusters = _lloyd(fitted, num_clusters, generator, num_turns)
    nearest, distances = _nearest(rows, _means(fitted, clusters, num_clusters))
    return _without_gaps(nearest, distances, num_clusters)


def _lloyd(
    rows: Rows, num_clusters: int, generator: Generator, num_turns: int
) -> Tensor:
    kernel, every = euclidean_kernel(rows), torch.arange(len(rows))
    seeds = k_means_plus_plus(
        kernel, candidates=every, size=num_clusters, generator=generator
    )
    centers_KF = rows[seeds].to(torch.float64)
    clusters = torch.full((len(rows),), -1)
    with track("Clustering", num_turns) as advance:
        for _ in range(num_turns):
            nearest, distances = _nearest(rows, centers_KF)
            nearest = _without_gaps(nearest, distances, num_clusters)
            if torch.equal(nearest, clusters):
                break
            clusters = nearest
            centers_KF = _means(rows, clusters, num_clusters)
            advance()
    return clusters


def _means(rows: Rows, clusters: Tensor, num_clusters: int) -> Tensor:
    """Return the mean row of each cluster, shape (K, F)."""
    parts = chunks(len(rows), rows.shape[1], _CHUNK_ENTRIES)
    own = [clusters[part] for part in parts]
    pairs = list(zip(slice_rows(rows, parts), own, strict=True))
    sums_KF = sum(each(partial(_sums, num_clusters), pairs))
    counts_K = torch.bincount(clusters, minlength=num_clusters)
    return sums_KF / counts_K[:, None]


def _sums(num_clusters: int, part: tuple[Rows, Tensor]) -> Tensor:
    """Return the sum of some rows of each cluster, shape (K, F)."""
    rows, clusters = part
    sums_KF = torch.zeros(num_clusters, rows.shape[1], dtype=torch.float64)
    return sums_KF.index_add_(0, clusters, rows[:].to(torch.float64))


def average_linkage(
    rows: Tensor, *, num_clusters: int | None = None, distance: float | None = None
) -> Tensor:
    """Return the cluster of each row, shape (N,), by agglomeration.

    The two clusters with the smallest mean distance between their rows are merged
    until few enough are left, or until they are farther apart than ``distance``.
    Distances of all pairs are held in memory.
    """
    if len(rows) == 1:
        return torch.zeros(1, dtype=torch.int64)
    from scipy.cluster.hierarchy import fcluster, linkage

    tree = linkage(rows.to(torch.float64).numpy(), method="average")
    if distance is None:
        numbers = fcluster(tree, num_clusters, criterion="maxclust")
    else:
        numbers = fcluster(tree, distance, criterion="distance")
    return torch.from_numpy(numbers).to(torch.int64) - 1


def round_robin(
    groups: Sequence[Tensor], size: int, choose: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return ``size`` members, one of each group in turn, round after round.

    ``choose`` returns one of the members (n,) that it gets, shape (1,).
    """
    left = list(groups)
    chosen: list[Tensor] = []
    with track("Choosing", size) as advance:
        while len(chosen) < size:
            for number, free in enumerate(left):
                if len(free) and len(chosen) < size:
                    chosen.append(choose(free))
                    left[number] = free[free != chosen[-1]]
                    advance()
    return torch.cat(chosen)


def neighbor_distances(
    rows: Rows, num_neighbors: int, generator: Generator, *, num_references: int = 5000
) -> Tensor:
    """Return the mean Euclidean distance of each row to its nearest others, (N,).

    Where there are more than ``num_references`` rows, neighbors are looked for among a
    random part of them, so that the cost grows with N, not with its square.
    """
    chosen = torch.arange(len(rows))
    if len(rows) > num_references:
        chosen = torch.randperm(len(rows), generator=generator)[:num_references]
    center = rows[chosen].to(torch.float64).mean(dim=0)
    references_RF = rows[chosen].to(torch.float64) - center
    norms_R = references_RF.square().sum(dim=1)
    count = min(num_neighbors, len(chosen) - 1)
    means = torch.empty(len(rows), dtype=torch.float64)
    width = len(chosen) + count * rows.shape[1]
    for part in chunks(len(rows), width, _CHUNK_ENTRIES):
        own = rows[part].to(torch.float64) - center
        squares = norms_R - 2 * own @ references_RF.T
        numbers = torch.arange(part.start, part.stop)
        squares[numbers[:, None] == chosen] = torch.inf
        nearest = squares.topk(count, largest=False).indices
        # From differences: copies are at distance zero, not at a rounding error.
        exact = (references_RF[nearest] - own[:, None]).square().sum(dim=2).sqrt()
        means[part] = exact.sort(dim=1).values.mean(dim=1)
    return means


def typicality(
    rows: Rows,
    generator: Generator,
    *,
    num_neighbors: int = 20,
    num_references: int = 2000,
) -> Tensor:
    """Return how densely rows are surrounded: 1 / mean distance to near ones, (N,).

    Neighbors are looked for among a random part of many rows, as in
    :func:`neighbor_distances`.
    """
    if len(rows) == 1:
        return torch.ones(1, dtype=torch.float64)
    means = neighbor_distances(
        rows, num_neighbors, generator, num_references=num_references
    )
    return 1 / (means + 1e-5 * float(means.mean()) + 1e-300)


def _nearest(rows: Rows, centers_KF: Tensor) -> tuple[Tensor, Tensor]:
    """Return the nearest center of each row, and the squared distance to it."""
    width = len(centers_KF) + rows.shape[1]
    parts = slice_rows(rows, chunks(len(rows), width, _CHUNK_ENTRIES))
    nearest, squares = zip(*each(partial(_nearest_of, centers_KF), parts), strict=True)
    return torch.cat(nearest), torch.cat(squares)


def _nearest_of(centers_KF: Tensor, rows: Rows) -> tuple[Tensor, Tensor]:
    own = rows[:].to(torch.float64)
    distances = centers_KF.square().sum(dim=1) - 2 * own @ centers_KF.T
    least = distances.min(dim=1)
    squares = (least.values + own.square().sum(dim=1)).clamp_min(0)
    return least.indices, squares


def _without_gaps(nearest: Tensor, distances: Tensor, num_clusters: int) -> Tensor:
    """Give each empty cluster the row that is farthest from its center."""
    counts = torch.bincount(nearest, minlength=num_clusters)
    if bool((counts > 0).all()):
        return nearest
    farthest = distances.argsort(descending=True).tolist()
    for cluster in torch.nonzero(counts == 0).flatten().tolist():
        row = next(row for row in farthest if counts[nearest[row]] > 1)
        counts[nearest[row]] -= 1
        nearest[row], counts[cluster] = cluster, 1
    return nearest
