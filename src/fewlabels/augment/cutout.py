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
    return _crossed(
        _band(height, draws[0], shares),
        _band(width, draws[1], shares),
    )


def usb_squares(draws: Tensor, shares: Tensor, height: int, width: int) -> Tensor:
    """Return which pixels a square covers as USB draws it.

    Its center is drawn from 1, not 0, to the side (NumPy's ``uniform(side)``), its top
    left corner is moved into the image, and Pillow draws the last row and column too,
    so that it is a pixel longer than asked for. Arguments and result are those of
    :func:`squares`.
    """
    return _crossed(
        _usb_band(height, draws[0], shares),
        _usb_band(width, draws[1], shares),
    )


def _crossed(rows: Tensor, columns: Tensor) -> Tensor:
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def _band(size: int, draws: Tensor, shares: Tensor) -> Tensor:
    """Return which positions of an axis lie in a band centered at random: (n, size)."""
    sides = (shares * size).round().long()
    first = ((draws * size).long() - sides // 2)[:, None]
    positions = torch.arange(size)
    return (positions >= first) & (positions < first + sides[:, None])


def _usb_band(size: int, draws: Tensor, shares: Tensor) -> Tensor:
    """Return which positions of an axis lie between USB's two corners: (n, size)."""
    lengths = shares * size
    centers = 1 + draws * (size - 1)
    first = (centers - lengths / 2).clamp_(min=0).floor()
    last = (first + lengths).floor()
    positions = torch.arange(size)
    is_between = (positions >= first[:, None]) & (positions <= last[:, None])
    return is_between & (lengths > 0)[:, None]
