"""Fisher information of the last layer, item by item, as factors.

Shapes: n items, C classes.

Under the classifier's own predictions, the information of an item about the last
layer's weights is (A Aᵀ) ⊗ (h hᵀ) with a small matrix A that depends on the logits
alone.
"""

import torch
from torch import Tensor


def class_factors(logits_nC: Tensor) -> Tensor:
    """Return A with the columns √p_c (p - e_c), so that A Aᵀ = diag p - p pᵀ.

    (p - e_c) ⊗ h is the gradient of the loss for class c, which has probability p_c.

    Args:
        logits_nC: Output before softmax.

    Returns:
        Shape (n, C, C), float64.
    """
    p_nC = logits_nC.to(torch.float64).softmax(dim=1)
    gaps_nCC = p_nC[:, :, None] - torch.eye(p_nC.shape[1], dtype=p_nC.dtype)
    return gaps_nCC * p_nC.sqrt()[:, None, :]


def binary_factors(logits_nC: Tensor) -> Tensor:
    """Return √(p (1 - p)) of the most likely class, as if it were right or wrong.

    1 - p is the sum of the others' probabilities: subtracting would leave nothing of
    the doubt about a nearly certain prediction.

    Args:
        logits_nC: Output before softmax.

    Returns:
        Shape (n, 1, 1), in the type of the logits.
    """
    others = logits_nC.softmax(dim=1)
    largest, place = others.max(dim=1, keepdim=True)
    others = others.scatter(1, place, 0.0)
    return (largest * others.sum(dim=1, keepdim=True)).sqrt()[:, :, None]
