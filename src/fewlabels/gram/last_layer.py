"""Kernel of the last layer's gradients, in closed form.

Shapes: N items in the pool, S members of a set, C classes, F penultimate features.
"""

from typing import Literal

from fewlabels.errors import UnknownNameError
from fewlabels.gram.linear import LinearKernel
from fewlabels.gram.rows import DoubleRows
from fewlabels.pool import Matrix, as_rows

_BLOCKS = ("full", "trace")


class LastLayerKernel(LinearKernel):
    """C (h.h' + 1): see :func:`last_layer_kernel`."""


def last_layer_kernel(
    features: Matrix,
    num_classes: int,
    *,
    bias: bool = True,
    normalize: bool = False,
    blocks: Literal["trace", "full"] = "trace",
) -> LastLayerKernel:
    """Gram kernel of the last layer's gradients, class blocks replaced by their trace.

    NPC paper, Sec. 3.4. The last layer is linear, so the gradient of logit c is (h, 1)
    in the slot of class c, the block of two items is (h.h' + 1) times the identity, and
    its trace is C (h.h' + 1). No automatic differentiation is needed, and the rank is
    at most F + 1: past that many items, every set has the smallest eigenvalue zero.

    Keeping the blocks whole would give the (S C, S C) matrix of all pairs of item and
    class, the Kronecker product of (h.h' + 1) and the identity. Its eigenvalues are
    those of (h.h' + 1), C times each: the trace only multiplies them by C, and both
    forms choose the same sets. ``blocks="full"`` therefore leaves the factor C out, so
    that spectra and step limits are those of the whole matrix.

    Args:
        features: Inputs of the last layer, shape (N, F); a tensor on any device, an
            array or a memory map.
        num_classes: Number of classes C.
        bias: Whether the last layer has a bias, which adds the 1.
        normalize: Whether gradients are scaled to length one first, as in the example
            of Sec. 3.3; otherwise long gradients are preferred.
        blocks: ``"trace"`` (the paper), or ``"full"`` for the eigenvalues of the matrix
            with whole class blocks.

    Returns:
        The kernel over all N items.

    Raises:
        UnknownNameError: If there is no such form of the class blocks.

    Example:
        >>> import torch
        >>> kernel = last_layer_kernel(torch.eye(3), num_classes=2)
        >>> kernel.block(torch.tensor([0]), torch.tensor([0, 1])).tolist()
        [[4.0, 2.0]]
    """
    if blocks not in _BLOCKS:
        raise UnknownNameError("form of the class blocks", blocks, _BLOCKS)
    scale = num_classes if blocks == "trace" else 1
    return LastLayerKernel(DoubleRows(as_rows(features), bias, normalize), scale)
