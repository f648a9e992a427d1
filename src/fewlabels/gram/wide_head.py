"""Tangent kernel of an infinitely wide ReLU layer over the features."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.gram.rows import Matrix, Rows

_SAME_DIRECTION = 1 - 8 * torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class WideHeadKernel:
    """Tangent kernel of a wide ReLU layer: see :func:`wide_head_kernel`."""

    rows: Rows

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items

    @property
    def rank_bound(self) -> None:
        """No bound: the kernel is positive definite on rows that are not parallel."""
        return

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return 2 * self.rows.take(items).square().sum(dim=-1)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        left, right = self.rows.take(rows), self.rows.take(columns)
        lengths = left.norm(dim=-1)[..., :, None] * right.norm(dim=-1)[..., None, :]
        cosine = (left @ right.mT / lengths).clamp(-1, 1)
        # Rounding would tell two equal rows apart: the arc cosine is steep at one.
        cosine = torch.where(cosine > _SAME_DIRECTION, 1.0, cosine)
        angle = torch.arccos(cosine)
        order_0 = 1 - angle / torch.pi
        order_1 = torch.sin(angle) / torch.pi + order_0 * cosine
        block: Tensor = lengths * (order_1 + cosine * order_0)
        return block


def wide_head_kernel(features: Matrix, *, normalize: bool = False) -> WideHeadKernel:
    """Tangent kernel of an infinitely wide ReLU layer on [h; 1].

    k(x, x') = |x| |x'| (κ₁(cos) + cos κ₀(cos)) with the arc-cosine kernels of order
    zero and one (Cho and Saul, 2009): the two summands are the gradients of the outer
    and of the inner weights. It costs as much as a dot product and stays positive
    definite where the last layer's kernel has run out of rank, as long as no two rows
    are parallel.

    Args:
        features: Inputs of the last layer, shape (N, F).
        normalize: Whether rows [h; 1] are scaled to length one first.

    Returns:
        The kernel over all N items.
    """
    return WideHeadKernel(Rows(features, has_bias=True, is_normalized=normalize))
