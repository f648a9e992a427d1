"""Regularized multinomial logistic regression, fitted to its optimum.

Shapes: n rows, D features, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

_MOST_ROUNDS = 200
_SMALLEST_GRADIENT = 1e-4
_REMEMBERED = 10


def logistic(
    rows: Tensor, targets: Tensor, weights: Tensor, penalty: float
) -> tuple[Tensor, Tensor]:
    """Return weight and bias of the linear layer of least penalized cross-entropy.

    What is minimized is the sum over rows of weight times cross-entropy, plus half the
    penalty times the squares of the layer's weights; the bias is free. The problem is
    convex: there is no step size, no seed and nothing that can diverge.

    Args:
        rows: Standardized rows, shape (n, D).
        targets: What each row is, one share per class, shape (n, C).
        weights: How much each row counts, shape (n,).
        penalty: Above zero; ``1 / C`` of scikit-learn's LogisticRegression.

    Returns:
        Weight, shape (C, D), and bias, shape (C,), float32.
    """
    single = torch.float32
    rows, targets, weights = (one.to(single) for one in (rows, targets, weights))
    num_classes, num_features = targets.shape[1], rows.shape[1]
    with torch.inference_mode(mode=False), torch.enable_grad():
        weight = torch.zeros(num_classes, num_features, dtype=single)
        bias = torch.zeros(num_classes, dtype=single)
        layer = [weight.requires_grad_(), bias.requires_grad_()]
        optimizer = torch.optim.LBFGS(
            layer,
            max_iter=_MOST_ROUNDS,
            tolerance_grad=_SMALLEST_GRADIENT,
            history_size=_REMEMBERED,
            line_search_fn="strong_wolfe",
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            losses_n = F.cross_entropy(
                F.linear(rows, weight, bias), targets, reduction="none"
            )
            total = weights @ losses_n + penalty / 2 * weight.square().sum()
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weight.detach(), bias.detach()
