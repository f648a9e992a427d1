"""What kernel ridge regression would get wrong, mode by mode, before any training.

A fully trained wide network predicts like ridge regression with its kernel (NPC paper,
Secs. 4.2 and 5.4). The modes of a kernel are its eigenfunctions over a pool; Bordelon,
Canatar and Pehlevan (2020) give the error in each of them for a random labeled set.

Shapes::

    N items that errors are measured on    M = N modes    P labeled items
    C outputs    pool: all items of the kernel
"""

from typing import NamedTuple

import torch
from scipy.optimize import brentq
from torch import Tensor

from fewlabels.errors import check_range
from fewlabels.protocols import Kernel

_SMALLEST = 1e-12
"""Share of the largest eigenvalue below which one is zero."""


class Modes(NamedTuple):
    """Eigenfunctions of a kernel over some items with equal weights."""

    items: Tensor
    """Positions of the items in the pool, shape (N,)."""
    eigenvalues: Tensor
    """Those of K / N, descending; they sum to the mean of k(i, i). Shape (M,)."""
    functions: Tensor
    """Value of each mode at each item, with mean square 1; shape (N, M)."""

    def power(self, values: Tensor) -> Tensor:
        """Return the power of functions (N, C) in each mode, summed over C: (M,).

        The powers of all modes sum to the mean over items of the summed squares.
        """
        means_MC = self.functions.T @ values.to(self.functions) / len(self.items)
        return means_MC.square().sum(dim=1)


def kernel_modes(kernel: Kernel, items: Tensor) -> Modes:
    """Return the modes of a kernel over some items, by a dense decomposition.

    Args:
        kernel: The kernel, such as the tangent kernel of an untrained network.
        items: Positions in the pool, shape (N,). Time grows as N³: of a large pool,
            take a random part.
    """
    gram_NN = kernel.block(items, items).double() / len(items)
    values, vectors = torch.linalg.eigh((gram_NN + gram_NN.T) / 2)
    values = values.flip(0).clamp_min(0)
    is_zero = values < _SMALLEST * values[0]
    functions = vectors.flip(1) * len(items) ** 0.5
    return Modes(items, values.masked_fill(is_zero, 0), functions)


def random_set_error(
    modes: Modes, power: Tensor, num_labeled: int, *, ridge: float = 0.0
) -> Tensor:
    """Return the expected squared error in each mode for a random labeled set.

    Bordelon, Canatar and Pehlevan (2020): with the eigenvalues λ, the target's power
    a², P labels and K + ridge I inverted, the total over all modes is::

        E = Σ a² κ² / (κ + P λ)² / (1 - γ)
        κ = ridge + Σ λ κ / (κ + P λ),    γ = Σ P λ² / (κ + P λ)²

    They assign each term of the sum to the mode of the target that causes it. Here an
    error belongs to the mode it is in, as in :func:`labeled_set_error`: its bias
    a² κ² / (κ + P λ)², and the share P λ² / (κ + P λ)² of E, which is its variance over
    sets. It is an average over sets, in an approximation for many modes.

    Args:
        modes: The modes.
        power: Power of the target in each, from :meth:`Modes.power`; the eigenvalues
            for a target that is drawn from the kernel's Gaussian process.
        num_labeled: Labels P; 0 gives the power itself.
        ridge: What is added to the diagonal of the labeled items' Gram matrix.

    Returns:
        Errors, shape (M,).
    """
    check_range("num_labeled", num_labeled, at_least=0)
    check_range("ridge", ridge, at_least=0)
    values = modes.eigenvalues

    def excess(kappa: float) -> float:  # rises with kappa
        shares = values / (kappa + num_labeled * values)
        return 1 - ridge / kappa - float(shares.sum())

    highest = ridge + float(values.sum())
    lowest = _SMALLEST * highest
    has_root = highest > 0 and excess(lowest) < 0
    # Without one, labels outnumber the modes, and each is learned exactly.
    kappa = float(brentq(excess, lowest, highest)) if has_root else 0.0
    if kappa == 0:
        return torch.where(values > 0, 0.0, power) if num_labeled else power
    learned = num_labeled * values / (kappa + num_labeled * values)
    bias = power * (1 - learned).square()
    spread = learned.square() / max(num_labeled, 1)
    return bias + spread * bias.sum() / (1 - spread.sum())


def labeled_set_error(
    kernel: Kernel,
    modes: Modes,
    labeled: Tensor,
    targets: Tensor | None = None,
    *,
    ridge: float = 0.0,
) -> Tensor:
    """Return the squared error in each mode of ridge regression from a labeled set.

    Args:
        kernel: The kernel that ``modes`` are of.
        modes: The modes, over the items that errors are measured on.
        labeled: Positions of the labeled items in the pool, shape (P,).
        targets: Targets of all items of the pool, shape (pool, C). Where they are not
            known, the error is the one expected for a target from the Gaussian process
            of the kernel; without ridge, its power is that of the variance left.
        ridge: What is added to the diagonal of the labeled items' Gram matrix.

    Returns:
        Errors, shape (M,); their sum is the mean squared error over the items.
    """
    gram_PP = kernel.block(labeled, labeled).double()
    cross_NP = kernel.block(modes.items, labeled).double()
    shifted_PP = gram_PP + ridge * torch.eye(len(labeled), dtype=gram_PP.dtype)
    weights_NP = torch.linalg.solve(shifted_PP, cross_NP.T).T
    if targets is not None:
        targets = targets.double()
        return modes.power(weights_NP @ targets[labeled] - targets[modes.items])
    # With y from the process, of covariance K: the diagonal of Φᵀ E[r rᵀ] Φ / N².
    predicted_MP, known_MP = (
        modes.functions.T @ part / len(modes.items) for part in (weights_NP, cross_NP)
    )
    predicted_M = (predicted_MP @ gram_PP * predicted_MP).sum(dim=1)
    common_M = (predicted_MP * known_MP).sum(dim=1)
    return (predicted_M - 2 * common_M + modes.eigenvalues).clamp_min(0)
