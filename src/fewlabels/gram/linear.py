"""The kernel of rows as they are, features or gradients: a scaled dot product."""

from dataclasses import dataclass, replace

from torch import Tensor

from fewlabels.gram.rows import DoubleRows
from fewlabels.pool import Matrix, as_rows
from fewlabels.protocols import InnerProduct


@dataclass(frozen=True, eq=False)
class LinearKernel:
    """k(i, j) = scale * row i . row j."""

    rows: DoubleRows
    scale: float = 1.0

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items

    @property
    def rank_bound(self) -> int:
        """Length of a row: no Gram matrix has a higher rank."""
        return self.rows.width

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        return self.scale * self.rows.self_products(items)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        return self.rows.products(rows, columns).mul_(self.scale)

    def inner_product(self) -> InnerProduct | None:
        """Return the form that compiled code works on, if rows are in memory here."""
        features = self.rows.array()
        if features is None:
            return None
        scales = self.rows.row_scales() * self.scale**0.5
        return InnerProduct(features, scales, float(self.rows.has_bias))


def euclidean_kernel(features: Matrix, *, normalize: bool = False) -> LinearKernel:
    """Dot product of rows, whose distances are the Euclidean ones.

    Distances do not change when the mean of all rows is taken away, and much less of
    them is lost to rounding.

    Args:
        features: Shape (N, F).
        normalize: Whether rows are scaled to length one first, and left where they are.

    Returns:
        The kernel over all N items.

    Example:
        >>> import torch
        >>> kernel = euclidean_kernel(torch.tensor([[1e8, 0.0], [1e8, 2.0]]))
        >>> kernel.diagonal(torch.arange(2)).tolist()
        [1.0, 1.0]
    """
    rows = DoubleRows(as_rows(features), has_bias=False, is_normalized=normalize)
    if not normalize:
        rows = replace(rows, center=rows.mean())
    return LinearKernel(rows.in_double())
