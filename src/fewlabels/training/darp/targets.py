"""How many items each class shall get.

Shapes: M rows of probabilities, K classes.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from fewlabels.errors import UsageError

_MOST_ROUNDS = 1000
_STILL = 1e-10
_LEAST_SHARE = 1e-6


def uniform(num_items: float, num_classes: int) -> Tensor:
    """Return equal numbers for all classes, shape (K,), float64."""
    return torch.full((num_classes,), num_items / num_classes, dtype=torch.float64)


def from_shares(shares: Sequence[float], num_items: float) -> Tensor:
    """Return the numbers that positive shares stand for; they need not sum to one."""
    given_K = torch.tensor(shares, dtype=torch.float64)
    if not len(given_K) or not bool(given_K.isfinite().all() and (given_K > 0).all()):
        msg = f"The target's shares are {list(shares)}; each must be above zero."
        raise UsageError(msg)
    return num_items * given_K / given_K.sum()


def from_labels(labels: Tensor, num_classes: int, num_items: float) -> Tensor:
    """Return numbers in proportion to labels, each class counted once more than seen."""
    counts_K = torch.bincount(labels, minlength=num_classes).double() + 1
    return num_items * counts_K / counts_K.sum()


def estimated(probabilities: Tensor, prior: Tensor | None = None) -> Tensor:
    """Return the most likely numbers, given predictions.

    Expectation maximization of Saerens, Latinne and Decaestecker, "Adjusting the
    Outputs of a Classifier to New a Priori Probabilities" (2002).
    """
    matrix_MK = probabilities.double()
    num_items, num_classes = matrix_MK.shape
    before_K = uniform(1, num_classes) if prior is None else prior.double()
    shares_K = before_K.clone()
    for _ in range(_MOST_ROUNDS):
        posterior_MK = matrix_MK * (shares_K / before_K)
        posterior_MK /= posterior_MK.sum(dim=1, keepdim=True)
        found_K = posterior_MK.mean(dim=0).clamp_(min=_LEAST_SHARE)
        found_K /= found_K.sum()
        change = float((found_K - shares_K).abs().max())
        shares_K = found_K
        if change < _STILL:
            break
    return num_items * shares_K


def misfit(probabilities: Tensor, target: Tensor) -> float:
    """Return the total variation between mean prediction and target, from 0 to 1."""
    mean_K = probabilities.double().mean(dim=0)
    return float((mean_K - target / target.sum()).abs().sum() / 2)
