"""Kernel of the gradients of the predicted probabilities, in closed form.

Shapes::

    N items in the pool    C classes    F penultimate features
    r, c rows and columns of a block; leading axes are bulk
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fewlabels.errors import UsageError
from fewlabels.gram.rows import DoubleRows
from fewlabels.pool import Matrix, as_rows


@dataclass(frozen=True, eq=False)
class SoftmaxKernel:
    """(h.h' + 1) tr[J(p) J(p')]: see :func:`softmax_kernel`."""

    rows: DoubleRows
    logits: DoubleRows
    temperature: float

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return self.rows.num_items

    @property
    def rank_bound(self) -> int:
        """(F + 1) C (C - 1) / 2: J is symmetric, and its rows sum to zero."""
        num_classes = self.logits.width
        return self.rows.width * num_classes * (num_classes - 1) // 2

    def diagonal(self, items: Tensor) -> Tensor:
        """Return k(i, i) for each index."""
        traces = [self._own_trace(part) for part in self.logits.chunks(items)]
        return self.rows.squared_lengths(items) * torch.cat(traces).reshape(items.shape)

    def block(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return k(i, j), (..., r) and (..., c) to (..., r, c)."""
        products_rc = self.rows.products(rows, columns)
        p_rC, spread_rC = self._predictions(rows)
        q_cC, spread_cC = self._predictions(columns)
        both_rc = p_rC @ q_cC.mT
        cross_rc = both_rc.square() - p_rC.square() @ q_cC.square().mT
        block: Tensor = products_rc * (spread_rC @ spread_cC.mT + cross_rc)
        return block

    def _own_trace(self, items: Tensor) -> Tensor:
        p_nC, spread_nC = self._predictions(items)
        squares_nC = p_nC.square()
        cross_n = squares_nC.sum(-1).square() - squares_nC.square().sum(-1)
        return spread_nC.square().sum(-1) + cross_n

    def _predictions(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return p and p (1 - p), on the device of the features.

        1 - p is the sum of the other probabilities: subtracting would leave nothing of
        the doubt about a nearly certain prediction.
        """
        p_nC = torch.softmax(self.logits.take(items) / self.temperature, dim=-1)
        p_nC = p_nC.to(self.rows.device)
        others_CC = 1 - torch.eye(p_nC.shape[-1], dtype=p_nC.dtype, device=p_nC.device)
        return p_nC, p_nC * (p_nC @ others_CC)


def softmax_kernel(
    features: Matrix,
    logits: Matrix,
    *,
    temperature: float = 1.0,
    normalize: bool = False,
) -> SoftmaxKernel:
    """Gram kernel of the last layer's gradients through the softmax.

    As in the NPC paper, Sec. 3.4, but for the probabilities p = softmax(z) instead of
    the logits z = W h + b. With the Jacobian J(p) = diag p - p pᵀ of the softmax, the
    gradient of p_c by the weights of logit d is J(p)_cd (h, 1). Two items have the
    class block (h.h' + 1) J(p) J(p')ᵀ, and its trace is

        (h.h' + 1) tr[J(p) J(q)],
        tr[J(p) J(q)] = Σ p q - Σ p² q - Σ p q² + (p.q)²
                      = Σ p (1 - p) q (1 - q) + (p.q)² - Σ p² q².

    The second form is computed. Items that are predicted with certainty have J = 0:
    the kernel sees doubt as well as place, and dies where predictions saturate. Its
    error is a few roundings of (h.h' + 1), so doubts below about 1e-8 count as none.

    Args:
        features: Inputs of the last layer, shape (N, F).
        logits: Outputs of the last layer, shape (N, C).
        temperature: Divides the logits; the gradient is by the layer so scaled. Above
            1, saturated predictions are softened.
        normalize: Whether rows [h; 1] are scaled to length one first; J keeps its
            length, which is the doubt.

    Returns:
        The kernel over all N items.

    Raises:
        UsageError: If the temperature is not positive.

    Example:
        >>> sure_of_one = torch.tensor([[0.0, 0.0], [9.0, -9.0]])
        >>> kernel = softmax_kernel(torch.zeros(2, 3), sure_of_one)
        >>> doubtful, sure = kernel.diagonal(torch.arange(2)).tolist()
        >>> round(doubtful, 6), round(sure, 6)
        (0.25, 0.0)
    """
    rows = DoubleRows(as_rows(features), has_bias=True, is_normalized=normalize)
    outputs = rows.logits(logits)
    if not temperature > 0:
        raise UsageError(
            f"temperature is {temperature}; it divides the logits: give more than 0."
        )
    return SoftmaxKernel(rows, outputs, temperature)
