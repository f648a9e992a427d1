"""Items that lower a Gaussian process's variance where it counts, one by one."""

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.inputs import known_sets
from fewlabels.search.posterior import Posterior
from fewlabels.search.scores import check_size, largest


def minimize_variance(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    references: ArrayLike,
    size: int,
    noise: float,
    generator: Generator,
) -> tuple[Tensor, float, float]:
    """Add the item that lowers the mean posterior variance most, ``size`` times.

    The label of x takes cov(r, x)² / (var(x) + noise) from the variance of r, whatever
    it will be. (A-optimal design on the references; Seo et al., 2000, and Hemachandra
    et al., 2023, with the tangent kernel.)

    Args:
        kernel: The prior covariance.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        references: Indices over which the mean is taken.
        size: How many to choose.
        noise: Variance of a label around the process, above zero.
        generator: Decides between equal items.

    Returns:
        The chosen indices, and the mean variance before and after.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates)
    check_size(size, len(candidates))
    posterior = Posterior(
        kernel,
        labeled=labeled,
        candidates=candidates,
        references=references,
        noise=noise,
    )
    before = posterior.mean_variance
    chosen: list[int] = []
    with track("Adding", size) as advance:
        for _ in range(size):
            lengths_n = torch.linalg.vector_norm(posterior.covariances_nR, dim=1)
            gains = lengths_n.square() / (posterior.variances_n + noise)
            gains[chosen] = -1
            best = largest(gains, generator)
            posterior.add(best)
            chosen.append(best)
            advance()
    return candidates[torch.tensor(chosen)], before, posterior.mean_variance
