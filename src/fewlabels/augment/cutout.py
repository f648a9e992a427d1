"""Cutout: a square of one color somewhere on each image (DeVries and Taylor, 2017)."""

import torch
from torch import Tensor


def squares(draws: Tensor, shares: Tensor, height: int, width: int) -> Tensor:
    """Return which pixels a square covers; it may hang over the border.

    Args:
        draws: Where its center is, from 0 to below 1 along both sides, shape (2, n).
        shares: Its side, as a share of the image's side, shape (n,).
        height: Height of the images.
        width: Width of the images.

    Returns:
        bool, shape (n, 1, h, w).
    """
    rows = _band(height, draws[0], shares)
    columns = _band(width, draws[1], shares)
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def _band(size: int, draws: Tensor, shares: Tensor) -> Tensor:
    """Return which positions of an axis lie in a band centered at random: (n, size)."""
    sides = (shares * size).round().long()
    first = ((draws * size).long() - sides // 2)[:, None]
    positions = torch.arange(size)
    return (positions >= first) & (positions < first + sides[:, None])
