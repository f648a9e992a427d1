"""Kernels of network gradients, their Gram matrices and spectra; pure functions.

Shapes::

    N items in the pool    L labeled    S members of a set    Q queried
    C classes    F penultimate features

A kernel is asked for blocks by index, so that no N x N matrix is ever built.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.errors import ShapeError
from fewlabels.protocols import Kernel

_SAME_DIRECTION = 1 - 8 * torch.finfo(torch.float64).eps


@dataclass(frozen=True, eq=False)
class _Rows:
    """Feature rows [h; 1] in double precision, taken by index."""

    features: Tensor
    has_bias: bool
    is_normalized: bool

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return len(self.features)

    @property
    def width(self) -> int:
        """Length of a row."""
        return self.features.shape[1] + self.has_bias

    def take(self, items: Tensor) -> Tensor:
        """Return the rows of ``items``, (..., n) to (..., n, width)."""
        rows = self.features[items].to(torch.float64)
        if self.has_bias:
            rows = torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)
        if self.is_normalized:
            rows = torch.nn.functional.normalize(rows, dim=-1)
        return rows


@dataclass(frozen=True, eq=False)
class LastLayerKernel:
    """C (h.h' + 1): see :func:`last_layer_kernel`."""

    rows: _Rows
    num_classes: int

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items

    @property
    def rank_bound(self) -> int:
        """Number of gradient features of a class: no Gram matrix has a higher rank."""
        return self.rows.width

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.num_classes * self.rows.take(items).square().sum(dim=-1)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        return self.num_classes * (self.rows.take(rows) @ self.rows.take(columns).mT)


def last_layer_kernel(
    features: Tensor, num_classes: int, *, bias: bool = True, normalize: bool = False
) -> LastLayerKernel:
    """Gram kernel of the last layer's gradients, class blocks replaced by their trace.

    NPC paper, Sec. 3.4. The last layer is linear, so the gradient of logit c is (h, 1)
    in the slot of class c, the block of two items is (h.h' + 1) times the identity, and
    its trace is C (h.h' + 1). No automatic differentiation is needed, and the rank is
    at most F + 1: past that many items, every set has the smallest eigenvalue zero.

    Args:
        features: Inputs of the last layer, shape (N, F).
        num_classes: Number of classes C.
        bias: Whether the last layer has a bias, which adds the 1.
        normalize: Whether gradients are scaled to length one first, as in the example
            of Sec. 3.3; otherwise long gradients are preferred.

    Returns:
        The kernel over all N items.

    Example:
        >>> kernel = last_layer_kernel(torch.eye(3), num_classes=2)
        >>> kernel.block(torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[4.0, 2.0]]
    """
    _check_features(features)
    return LastLayerKernel(_Rows(features, bias, normalize), num_classes)


@dataclass(frozen=True, eq=False)
class WideHeadKernel:
    """Tangent kernel of a wide ReLU layer: see :func:`wide_head_kernel`."""

    rows: _Rows

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


def wide_head_kernel(features: Tensor, *, normalize: bool = False) -> WideHeadKernel:
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
    _check_features(features)
    return WideHeadKernel(_Rows(features, has_bias=True, is_normalized=normalize))


def smallest_eigenvalue(gram_SS: Tensor) -> Tensor:
    """Smallest eigenvalue of symmetric matrices.

    NPC paper, Eq. (3). Departs from the paper: a dense solver instead of LOBPCG, which
    at these sizes is slower and now and then far off.

    Args:
        gram_SS: Symmetric matrices, shape (..., S, S).

    Returns:
        One eigenvalue per matrix, shape (...).
    """
    spectra: Tensor = torch.linalg.eigvalsh((gram_SS + gram_SS.mT) / 2)
    return spectra[..., 0]


def eigenvalue_ceiling(
    kernel: Kernel, labeled: Tensor, candidates: Tensor, size: int
) -> float:
    """Upper bound on the smallest eigenvalue over all sets that could be chosen.

    By Cauchy's interlacing, the smallest eigenvalue of a Gram matrix only falls as
    items are added, so it is at most that of the labeled items alone, and at most each
    diagonal entry; ``size`` candidates are chosen, so the ``size``-th largest one
    counts.

    Args:
        kernel: The kernel.
        labeled: Indices labeled already; may be empty.
        candidates: Indices to choose from.
        size: How many are chosen.

    Returns:
        The bound.
    """
    diagonal = kernel.diagonal(candidates)
    bound = float(diagonal.topk(size).values[-1])
    if len(labeled):
        of_labeled = float(smallest_eigenvalue(kernel.block(labeled, labeled)))
        bound = min(bound, of_labeled)
    return bound


def numerical_rank(features: Tensor) -> int:
    """Rank of [H, 1] in double precision, from the spectrum of its second moments."""
    rows = _Rows(features, has_bias=True, is_normalized=False)
    moments = torch.zeros(rows.width, rows.width, dtype=torch.float64)
    for items in torch.split(torch.arange(len(features)), 65_536):
        part = rows.take(items)
        moments += part.T @ part
    spectrum = torch.linalg.eigvalsh(moments)
    tolerance = float(spectrum[-1]) * len(features) * torch.finfo(torch.float64).eps
    return int((spectrum > tolerance).sum())


def _check_features(features: Tensor) -> None:
    if features.ndim != 2:
        msg = (
            f"features have shape {tuple(features.shape)}; give one row per item, "
            "shape (N, F)."
        )
        raise ShapeError(msg)
