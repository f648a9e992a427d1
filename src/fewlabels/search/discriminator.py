"""Telling two groups of rows apart: logistic regression, both groups counting alike.

Shapes: N rows, n of them to learn from, F features.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_MOST_TURNS = 1000


@dataclass(frozen=True, eq=False)
class Discriminator:
    """A linear function of rows: the larger, the surer a row is of the second group."""

    weights: Tensor
    """Shape (F,), float64."""
    offset: float
    """What is added."""

    def scores(self, rows: Tensor) -> Tensor:
        """Return the log odds of the second group, (N, F) to (N,), float64."""
        return rows.to(torch.float64) @ self.weights + self.offset


def discriminator(one: Tensor, other: Tensor, *, penalty: float) -> Discriminator:
    """Fit a logistic regression to two groups of rows.

    Features are first scaled to a mean of zero and a spread of one. What is minimized
    is the mean loss of ``one`` plus that of ``other``, however many rows they have,
    plus half of ``penalty`` times the squared length of the weights. It has one
    minimum, so the fit is no matter of chance.

    Args:
        one: Rows of the first group, shape (n, F), at least one.
        other: Rows of the second group, at least one.
        penalty: Positive; the larger, the flatter the function.

    Returns:
        The function, for rows that are not scaled.
    """
    rows = torch.cat([one, other]).to(torch.float64)
    center, spread = rows.mean(dim=0), rows.std(dim=0, correction=0)
    spread[spread <= 1e-12 * rows.abs().amax(dim=0)] = 1  # constant but for rounding
    scaled_nF = (rows - center) / spread
    signs = torch.ones(len(rows), dtype=torch.float64)
    signs[: len(one)] = -1
    shares = torch.full_like(signs, 1 / len(other))
    shares[: len(one)] = 1 / len(one)

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        vector = torch.from_numpy(parameters)
        weights, offset = vector[:-1], vector[-1]
        leads = signs * (scaled_nF @ weights + offset)
        losses = torch.nn.functional.softplus(-leads)
        slopes = -shares * signs * torch.sigmoid(-leads)
        slope_F = scaled_nF.T @ slopes + penalty * weights
        slope = torch.cat([slope_F, slopes.sum()[None]])
        total = shares @ losses + penalty / 2 * weights.square().sum()
        return float(total), slope.numpy()

    from scipy.optimize import minimize

    options = {"maxiter": _MOST_TURNS, "ftol": 1e-14, "gtol": 1e-8}
    start = np.zeros(rows.shape[1] + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    weights = torch.from_numpy(found.x[:-1]) / spread
    return Discriminator(weights, float(found.x[-1] - weights @ center))
