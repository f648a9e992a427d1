"""Tangent kernel of an infinitely wide ReLU layer over the features.

Shapes::

    N items in the pool    F penultimate features
    r, c rows and columns of a block; leading axes are bulk
    k pairs of a block whose rows are nearly parallel
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.gram.rows import DoubleRows
from fewlabels.pool import Matrix, as_rows

_NEARLY_PARALLEL = 1 - 1e-4
_CHUNK_NUMBERS = 2**22


@dataclass(frozen=True, eq=False)
class WideHeadKernel:
    """Tangent kernel of a wide ReLU layer: see :func:`wide_head_kernel`."""

    rows: DoubleRows
    """Rows [h; 1] in their own length, from which angles are taken."""
    is_normalized: bool
    """Whether all rows count as if their length were one."""

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
        squares = self.rows.squared_lengths(items)
        return 2 * (torch.ones_like(squares) if self.is_normalized else squares)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        left, right = self.rows.take(rows), self.rows.take(columns)
        left_squares = left.square().sum(-1)[..., :, None]
        right_squares = right.square().sum(-1)[..., None, :]
        # The root of the product, not the product of roots: of a square it is exact.
        lengths_rc = (left_squares * right_squares).sqrt()
        angle_rc = _angles(left, right, left @ right.mT / lengths_rc)
        share_rc = 1 - angle_rc / torch.pi
        value_rc = angle_rc.sin() / torch.pi + 2 * share_rc * angle_rc.cos()
        return value_rc if self.is_normalized else lengths_rc * value_rc


def wide_head_kernel(features: Matrix, *, normalize: bool = False) -> WideHeadKernel:
    """Tangent kernel of an infinitely wide ReLU layer on [h; 1].

    k(x, x') = |x| |x'| (κ₁(cos) + cos κ₀(cos)) with the arc-cosine kernels of order
    zero and one (Cho and Saul, 2009): the two summands are the gradients of the outer
    and of the inner weights. With the angle θ between the rows that is
    |x| |x'| (sin θ / π + 2 (1 - θ / π) cos θ). It costs as much as a dot product and
    stays positive definite where the last layer's kernel has run out of rank, as long
    as no two rows are parallel.

    Near copies are told apart by k(x, x) - k(x, x') ≈ |x|² θ / π. An arc cosine would
    lose half the digits there, so nearly parallel rows are compared through their
    difference: entries are right to 1e-14 |x| |x'| at any angle (to 1e-15 below
    .01), and equal rows give exactly the diagonal.

    Args:
        features: Inputs of the last layer, shape (N, F).
        normalize: Whether rows [h; 1] are scaled to length one first.

    Returns:
        The kernel over all N items.
    """
    rows = DoubleRows(as_rows(features), has_bias=True, is_normalized=False)
    return WideHeadKernel(rows, normalize)


def _angles(left: Tensor, right: Tensor, cosine_rc: Tensor) -> Tensor:
    """Return the angles between all rows, with care where they are nearly parallel."""
    angle_rc = torch.arccos(cosine_rc.clamp(-1, 1))
    pairs = torch.nonzero(cosine_rc.abs() > _NEARLY_PARALLEL)
    length = max(1, _CHUNK_NUMBERS // left.shape[-1])
    for part in torch.split(pairs, length):
        *bulk, row, column = part.unbind(dim=1)
        places = (*bulk, row, column)
        sign_k = cosine_rc[places].sign()
        small_k = _small_angles(left[*bulk, row], sign_k, right[*bulk, column])
        angle_rc[places] = torch.where(sign_k > 0, small_k, torch.pi - small_k)
    return angle_rc


def _small_angles(x_k: Tensor, sign_k: Tensor, y_k: Tensor) -> Tensor:
    """Return the small angle between the lines of x and y, with all its digits.

    d = x - sign y is exact or nearly so, and what of d is at right angles to x has the
    length |y| sin θ.
    """
    d_k = x_k - sign_k[:, None] * y_k
    along_k = (x_k * d_k).sum(-1) / x_k.square().sum(-1)
    across_k = (d_k - along_k[:, None] * x_k).norm(dim=-1)
    return torch.arcsin((across_k / y_k.norm(dim=-1)).clamp(max=1))
