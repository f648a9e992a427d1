"""A wide two-layer ReLU network by hand: outputs, Gram matrix, gradient step.

f(x) = √(2/m) a·relu(W x), with all entries of W and a from N(0, 1), in float64. The
gradients by both layers have the Gram matrix

    K = (2/m) (H Hᵀ + X Xᵀ ∘ A Aᵀ),   H = relu(X Wᵀ),   A = 1[X Wᵀ > 0] a,

which for m → ∞ is the wide-head kernel, without its 1.

Shapes: N items in the pool, n items of a set, D inputs, m hidden units.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor


@dataclass(frozen=True, eq=False)
class TwoLayers:
    """f(x) = √(2/m) a·relu(W x)."""

    inner: Tensor
    """W, shape (m, D)."""
    outer: Tensor
    """a, shape (m,)."""

    @classmethod
    def draw(cls, num_inputs: int, width: int, generator: Generator) -> "TwoLayers":
        """Return a network with standard normal weights."""
        inner = torch.randn(width, num_inputs, generator=generator, dtype=torch.float64)
        outer = torch.randn(width, generator=generator, dtype=torch.float64)
        return cls(inner, outer)

    @property
    def scale(self) -> float:
        """√(2/m)."""
        return math.sqrt(2 / len(self.outer))

    def __call__(self, inputs_nD: Tensor) -> Tensor:
        """Return the outputs, shape (n,)."""
        outputs: Tensor = self.scale * (inputs_nD @ self.inner.T).relu() @ self.outer
        return outputs

    def gram(self, inputs_nD: Tensor) -> Tensor:
        """Return the Gram matrix of the gradients by all weights, shape (n, n)."""
        before_nm = inputs_nD @ self.inner.T
        hidden_nm = before_nm.relu()
        active_nm = (before_nm > 0) * self.outer
        inner_nn = (inputs_nD @ inputs_nD.T) * (active_nm @ active_nm.T)
        gram: Tensor = self.scale**2 * (hidden_nm @ hidden_nm.T + inner_nn)
        return gram

    def stepped(
        self, inputs_nD: Tensor, residuals_n: Tensor, rate: float
    ) -> "TwoLayers":
        """Return the network after one step of gradient descent on ½ |residuals|²."""
        before_nm = inputs_nD @ self.inner.T
        active_nm = (before_nm > 0) * self.outer
        outer = before_nm.relu().T @ residuals_n
        inner = (active_nm * residuals_n[:, None]).T @ inputs_nD
        rate = rate * self.scale
        return TwoLayers(self.inner - rate * inner, self.outer - rate * outer)


@dataclass(frozen=True, eq=False)
class GramKernel:
    """A kernel whose Gram matrix over the whole pool is at hand."""

    gram: Tensor
    """Shape (N, N)."""
    rank_bound: None = None

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return len(self.gram)

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.gram.diagonal()[items]

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        return self.gram[rows[..., :, None], columns[..., None, :]]
