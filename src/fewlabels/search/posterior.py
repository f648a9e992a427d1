"""Greedy searches by what a Gaussian process says once some items are labeled.

One item more takes the product of two columns out of all covariances, as a step of a
Cholesky factorization does. Without noise, and of candidates alone, that is the set of
largest determinant.

Shapes: n candidates, R references, L labeled, A labeled and chosen, C outputs, N
labeled items and candidates.
"""

import math

import torch
from numpy.typing import ArrayLike
from torch import Generator, Tensor

from fewlabels.progress import track
from fewlabels.protocols import Kernel
from fewlabels.search.blocks import fill_block, threads_for
from fewlabels.search.inputs import check_size, indices, known_sets
from fewlabels.search.scores import greedy, largest, top

_NOTHING = 1e-12


class Posterior:
    """Covariances of candidates and references, given labeled and chosen items.

    A label is the process's value plus noise. The n R covariances are kept.

    Attributes:
        candidates: Indices that may be added, shape (n,).
        covariances_nR: Posterior covariance of each candidate and each reference.
        variances_n: Posterior variance of each candidate.
        noise: Variance of a label around the process.
    """

    def __init__(
        self,
        kernel: Kernel,
        *,
        labeled: ArrayLike,
        candidates: ArrayLike,
        references: ArrayLike,
        noise: float,
    ) -> None:
        """Compute the posterior of what is labeled.

        Args:
            kernel: The prior covariance.
            labeled: Indices labeled already; may be empty.
            candidates: Indices that may be added, shape (n,).
            references: Indices that count, shape (R,).
            noise: Above zero, since two copies may be labeled.
        """
        labeled, candidates = known_sets(kernel, labeled, candidates)
        references = indices("references", references, kernel.num_items)
        self._kernel, self.candidates, self.noise = kernel, candidates, noise
        own_LL = kernel.block(labeled, labeled).cpu()
        own_LL.diagonal().add_(noise)
        self._factor_LL = torch.linalg.cholesky(own_LL)
        explained_RL = self._explained(labeled, references)
        self._explained_nA = self._explained(labeled, candidates)
        self.covariances_nR = own_LL.new_empty(len(candidates), len(references))
        fill_block(kernel, candidates, references, self.covariances_nR)
        self.covariances_nR.addmm_(self._explained_nA, explained_RL.T, alpha=-1)
        self.variances_n = _remaining(kernel, candidates, self._explained_nA)
        self._reference_variances_R = _remaining(kernel, references, explained_RL)

    @property
    def mean_variance(self) -> float:
        """Posterior variance, the mean over all references."""
        return float(self._reference_variances_R.mean())

    def explained_by_labels(self, values_LC: Tensor) -> Tensor:
        """Return K_nL (K_LL + noise)⁻¹ values, (n, C), before an item is added."""
        whitened = torch.linalg.solve_triangular(
            self._factor_LL, values_LC.to(torch.float64), upper=False
        )
        expected: Tensor = self._explained_nA[:, : len(whitened)] @ whitened
        return expected

    def add(self, place: int) -> Tensor:
        """Take in one more item and return how all candidates follow its label."""
        item = self.candidates[place : place + 1]
        block_n1 = self.variances_n.new_empty(len(self.candidates), 1)
        fill_block(self._kernel, self.candidates, item, block_n1)
        column_n = block_n1[:, 0] - self._explained_nA @ self._explained_nA[place]
        total = float(self.variances_n[place]) + self.noise
        column_n /= total**0.5
        column_R = self.covariances_nR[place] / total**0.5
        self.covariances_nR.addr_(column_n, column_R, alpha=-1)
        self.variances_n.sub_(column_n.square()).clamp_min_(0)
        self._reference_variances_R.sub_(column_R.square()).clamp_min_(0)
        self._explained_nA = torch.cat([self._explained_nA, column_n[:, None]], dim=1)
        followed: Tensor = column_n / total**0.5
        return followed

    def _explained(self, labeled: Tensor, items: Tensor) -> Tensor:
        """Return K_nL (K_LL + noise)^(-½) in its triangular form, shape (n, L)."""
        block_nL = self._factor_LL.new_empty(len(items), len(labeled))
        fill_block(self._kernel, items, labeled, block_nL)
        solved: Tensor = torch.linalg.solve_triangular(
            self._factor_LL, block_nL.T, upper=False
        )
        return solved.T


def _remaining(kernel: Kernel, items: Tensor, explained_nL: Tensor) -> Tensor:
    """Return the variance that is left of each item's own."""
    left = kernel.diagonal(items).cpu() - explained_nL.square().sum(dim=1)
    return left.clamp_min_(0)


def minimize_variance(
    posterior: Posterior, *, size: int, generator: Generator
) -> tuple[Tensor, float, float]:
    """Add the item that lowers the mean posterior variance most, ``size`` times.

    The label of x takes cov(r, x)² / (var(x) + noise) from the variance of r, whatever
    it will be. (A-optimal design on the references; Seo et al., 2000, and Hemachandra
    et al., 2023, with the tangent kernel.)

    Args:
        posterior: Covariances given what is labeled; the chosen items are added.
        size: How many of its candidates to choose.
        generator: Decides between equal items.

    Returns:
        The chosen indices, and the mean variance before and after.
    """
    check_size(size, len(posterior.candidates))
    before, noise = posterior.mean_variance, posterior.noise

    def gains() -> Tensor:
        lengths_n = torch.linalg.vector_norm(posterior.covariances_nR, dim=1)
        reductions: Tensor = lengths_n.square() / (posterior.variances_n + noise)
        return reductions

    chosen = torch.tensor(greedy(gains, posterior.add, size, generator))
    return posterior.candidates[chosen], before, posterior.mean_variance


def maximize_change(
    posterior: Posterior,
    *,
    outputs: Tensor,
    targets: Tensor,
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
        size: How many candidates to choose.
        one_by_one: Whether each chosen item is learned before the next is chosen;
            otherwise the largest scores are taken at once.
        generator: Decides between equal scores.

    Returns:
        The chosen indices, and their scores when they were chosen, shape (size,).
    """
    candidates = posterior.candidates
    check_size(size, len(candidates))
    gaps_nC = targets - outputs
    scores = _scores(posterior, gaps_nC)
    if not one_by_one:
        places = top(scores, torch.arange(len(candidates)), size, generator)
        return candidates[places], scores[places]
    changes: list[float] = []

    def learn(place: int) -> None:
        nonlocal scores
        changes.append(float(scores[place]))
        gap_C = gaps_nC[place].clone()
        gaps_nC.sub_(posterior.add(place)[:, None] * gap_C)
        scores = _scores(posterior, gaps_nC)

    def gains() -> Tensor:
        return scores.clone()

    chosen = greedy(gains, learn, size, generator)
    return candidates[torch.tensor(chosen)], torch.tensor(changes)


def _scores(posterior: Posterior, gaps_nC: Tensor) -> Tensor:
    """Return the mean length of the change over all references, shape (n,)."""
    sums_n = torch.linalg.vector_norm(posterior.covariances_nR, ord=1, dim=1)
    means_n = sums_n / posterior.covariances_nR.shape[1]
    lengths_n = torch.linalg.vector_norm(gaps_nC, dim=1)
    scores: Tensor = means_n * lengths_n / (posterior.variances_n + posterior.noise)
    return scores


def maximize_determinant(
    kernel: Kernel,
    *,
    labeled: ArrayLike,
    candidates: ArrayLike,
    size: int,
    generator: Generator,
) -> tuple[Tensor, float]:
    """Add the item that labeled and chosen ones explain least, ``size`` times.

    Each step multiplies the determinant of the Gram matrix by the residual
    k_ii − k_iA K_AA⁻¹ k_Ai of the added item, so the largest residual is the greedy
    choice (D-optimal design; Chen, Zhang and Zhou, 2018, for the fast update).

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        size: How many to choose.
        generator: Decides between equal residuals, and where none is left.

    Returns:
        The chosen indices, and the logarithm of the determinant of what they add; minus
        infinity where the rank of the kernel is exhausted.
    """
    labeled, candidates = known_sets(kernel, labeled, candidates, size)
    with threads_for(len(candidates) * (len(labeled) + size) ** 2):
        everything = torch.cat([candidates, labeled])
        residuals = kernel.diagonal(everything).clone()  # a kernel may keep its own
        least = _NOTHING * float(residuals.max())
        columns = residuals.new_empty(len(everything), len(labeled) + size)
        fill_block(kernel, everything, labeled, columns[:, : len(labeled)])
        for number in range(len(labeled)):
            _eliminate(residuals, columns, number, len(candidates) + number)
        residuals[len(candidates) :] = 0
        chosen: list[int] = []
        value = 0.0
        with track("Adding", size) as advance:
            for number in range(len(labeled), len(labeled) + size):
                free = residuals[: len(candidates)].clone()
                free[chosen] = -1
                best = largest(free, generator)
                if float(free[best]) <= least:  # no item adds anything any more
                    scores = torch.zeros(len(candidates))
                    scores[chosen] = torch.arange(len(chosen), 0, -1).to(scores)
                    return top(scores, candidates, size, generator), -math.inf
                value += math.log(float(free[best]))
                chosen.append(best)
                added = columns[:, number : number + 1]
                fill_block(kernel, everything, candidates[best : best + 1], added)
                _eliminate(residuals, columns, number, best)
                advance()
    return candidates[torch.tensor(chosen)], value


def _eliminate(residuals: Tensor, columns_NA: Tensor, number: int, pivot: int) -> None:
    """Take out of all residuals what one more item explains.

    Column ``number`` holds the kernel's values of that item, and what it explains
    beyond the columns before it afterwards.
    """
    left = float(residuals[pivot])
    if left <= _NOTHING * float(residuals.max().clamp_min(0)):
        columns_NA[:, number] = 0
        return
    column = columns_NA[:, number]
    column = column - columns_NA[:, :number] @ columns_NA[pivot, :number]
    column /= math.sqrt(left)
    columns_NA[:, number] = column
    residuals.sub_(column.square()).clamp_min_(0)
