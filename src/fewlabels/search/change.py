"""Items that would change outputs elsewhere most, if they were learned.

Shapes: n candidates, R references, L labeled, C outputs.
"""

import torch
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.search.posterior import Posterior
from fewlabels.search.scores import check_size, largest, top


def maximize_change(
    posterior: Posterior,
    *,
    outputs: Tensor,
    targets: Tensor,
    candidates: Tensor,
    size: int,
    one_by_one: bool,
    generator: Generator,
) -> tuple[Tensor, Tensor]:
    """Choose the items whose learning changes the references' outputs most.

    By the block inverse of the kernel regression, learning x with the target t moves
    the output of r by cov(r, x) / (var(x) + noise) (t - f(x)), so the mean length of
    that over r needs no retraining and no solve per candidate.

    Args:
        posterior: Covariances given what is labeled.
        outputs: f(x) of each candidate, shape (n, C).
        targets: What each candidate would be learned as, shape (n, C).
        candidates: Indices to choose from.
        size: How many to choose.
        one_by_one: Whether each chosen item is learned before the next is chosen;
            otherwise the largest scores are taken at once.
        generator: Decides between equal scores.

    Returns:
        The chosen indices, and their scores when they were chosen, shape (size,).
    """
    check_size(size, len(candidates))
    gaps_nC = targets - outputs
    everything = torch.arange(len(candidates))
    if not one_by_one:
        scores = _scores(posterior, gaps_nC)
        chosen = top(scores, everything, size, generator)
        return candidates[chosen], scores[chosen]
    places: list[int] = []
    found: list[float] = []
    with track("Adding", size) as advance:
        for _ in range(size):
            scores = _scores(posterior, gaps_nC)
            scores[places] = -1
            best = largest(scores, generator)
            found.append(float(scores[best]))
            gap_C = gaps_nC[best].clone()
            gaps_nC -= posterior.add(best)[:, None] * gap_C
            places.append(best)
            advance()
    return candidates[torch.tensor(places)], torch.tensor(found)


def _scores(posterior: Posterior, gaps_nC: Tensor) -> Tensor:
    """Return the mean length of the change over all references, shape (n,)."""
    sums_n = torch.linalg.vector_norm(posterior.covariances_nR, ord=1, dim=1)
    means_n = sums_n / posterior.covariances_nR.shape[1]
    lengths_n = torch.linalg.vector_norm(gaps_nC, dim=1)
    scores: Tensor = means_n * lengths_n / (posterior.variances_n + posterior.noise)
    return scores
