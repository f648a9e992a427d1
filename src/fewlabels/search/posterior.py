"""What a Gaussian process says of some items once others are labeled, kept up to date.

Shapes: n candidates, R references, L labeled, A labeled and chosen.
"""

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from fewlabels.protocols import Kernel
from fewlabels.search.blocks import fill_block
from fewlabels.search.inputs import indices, known_sets


class Posterior:
    """Covariances of candidates and references, given labeled and chosen items.

    A label is the process's value plus noise. One item more takes the product of two
    columns out of all covariances, as a step of elimination does in
    :mod:`fewlabels.search.determinant`. The n R covariances are kept.

    Attributes:
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
        self._kernel, self._candidates, self.noise = kernel, candidates, noise
        own_LL = kernel.block(labeled, labeled).cpu()
        own_LL.diagonal().add_(noise)
        self._factor_LL = torch.linalg.cholesky(own_LL)
        explained_RL = self._explained(labeled, references)
        self._explained_nA = self._explained(labeled, candidates)
        self.covariances_nR = own_LL.new_empty(len(candidates), len(references))
        fill_block(kernel, candidates, references, self.covariances_nR)
        self.covariances_nR.addmm_(self._explained_nA, explained_RL.T, alpha=-1)
        self.variances_n = _left(kernel, candidates, self._explained_nA)
        self._reference_variances_R = _left(kernel, references, explained_RL)

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
        item = self._candidates[place : place + 1]
        block_n1 = self.variances_n.new_empty(len(self._candidates), 1)
        fill_block(self._kernel, self._candidates, item, block_n1)
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


def _left(kernel: Kernel, items: Tensor, explained_nL: Tensor) -> Tensor:
    """Return the variance that is left of each item's own."""
    left = kernel.diagonal(items).cpu() - explained_nL.square().sum(dim=1)
    return left.clamp_min_(0)
