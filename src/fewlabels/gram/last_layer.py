"""Kernel of the last layer's gradients, in closed form."""

from dataclasses import dataclass

from torch import Tensor

from fewlabels.gram.rows import Matrix, Rows


@dataclass(frozen=True, eq=False)
class LastLayerKernel:
    """C (h.h' + 1): see :func:`last_layer_kernel`."""

    rows: Rows
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
    features: Matrix, num_classes: int, *, bias: bool = True, normalize: bool = False
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
        >>> import torch
        >>> kernel = last_layer_kernel(torch.eye(3), num_classes=2)
        >>> kernel.block(torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[4.0, 2.0]]
    """
    return LastLayerKernel(Rows(features, bias, normalize), num_classes)
