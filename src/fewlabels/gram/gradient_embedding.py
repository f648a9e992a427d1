"""Kernel of the loss's gradients, were each item's predicted class its true one.

Shapes::

    N items in the pool    C classes    F penultimate features
    r, c rows and columns of a block; leading axes are bulk
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.gram.rows import DoubleRows
from fewlabels.pool import Matrix, as_rows


@dataclass(frozen=True, eq=False)
class GradientEmbeddingKernel:
    """(a.a') (h.h'): see :func:`gradient_embedding_kernel`."""

    rows: DoubleRows
    errors: DoubleRows
    """a = e_ŷ - p of each item, shape (N, C)."""

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items

    @property
    def rank_bound(self) -> int:
        """F (C - 1): the entries of a sum to zero."""
        return self.rows.width * (self.errors.width - 1)

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.rows.self_products(items) * self.errors.self_products(items)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        products = self.rows.products(rows, columns)
        return products.mul_(self.errors.products(rows, columns).to(products.device))

    def part(self, items: Tensor) -> "GradientEmbeddingKernel":
        """Return the kernel of some items alone, which are numbered from 0 on."""
        return GradientEmbeddingKernel(self.rows.part(items), self.errors.part(items))


def gradient_embedding_kernel(
    features: Matrix, logits: Matrix
) -> GradientEmbeddingKernel:
    """Inner product of BADGE's gradient embeddings, which are never written out.

    The cross-entropy of the class ŷ that is predicted has the gradient (p - e_ŷ) hᵀ by
    the last layer's weights (Ash et al., 2020, Sec. 3), a matrix of C x F numbers. Two
    of them have the inner product

        (a.a') (h.h'),   a = e_ŷ - p,

    so C + F numbers per item are enough. The bias is left out, as in the authors' code.
    1 - p_ŷ is summed from the other probabilities, which keeps small doubts.

    Args:
        features: Inputs of the last layer, shape (N, F).
        logits: Outputs of the last layer, shape (N, C).

    Returns:
        The kernel over all N items.

    Example:
        >>> kernel = gradient_embedding_kernel(torch.ones(2, 3), torch.zeros(2, 2))
        >>> kernel.diagonal(torch.arange(2)).tolist()  # |(1/2, -1/2)|² |(1, 1, 1)|²
        [1.5, 1.5]
    """
    rows = DoubleRows(as_rows(features), has_bias=False, is_normalized=False)
    outputs = rows.logits(logits)
    is_double = outputs.features.dtype == torch.float64
    errors_NC = torch.empty(
        outputs.num_items,
        outputs.width,
        dtype=torch.float64 if is_double else torch.float32,
        device=outputs.device,
    )
    for part in outputs.chunks(torch.arange(outputs.num_items)):
        errors_NC[part] = _errors(outputs.take(part)).to(errors_NC.dtype)
    errors = DoubleRows(errors_NC, has_bias=False, is_normalized=False, name="errors")
    return GradientEmbeddingKernel(rows.in_double(), errors.in_double())


def _errors(logits_nC: Tensor) -> Tensor:
    """Return e_ŷ - p."""
    predicted_n1 = logits_nC.argmax(dim=-1, keepdim=True)
    others_nC = logits_nC.softmax(dim=-1).scatter_(-1, predicted_n1, 0)
    doubt_n1 = others_nC.sum(dim=-1, keepdim=True)
    return others_nC.neg().scatter_(-1, predicted_n1, doubt_n1)
