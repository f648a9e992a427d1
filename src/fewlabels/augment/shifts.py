"""Weak views: flips, and shifts by whole pixels with mirrored borders."""

import torch
from torch import Generator, Tensor

from fewlabels.augment.settings import WeakAugment

NUM_DRAWS = 3
"""Numbers that are drawn for an image: shift down, shift right, flip."""


def weak(images: Tensor, generator: Generator, settings: WeakAugment) -> Tensor:
    """Return each image flipped at random and shifted by whole pixels.

    Args:
        images: uint8 or floats, shape (n, c, h, w).
        generator: The only source of randomness.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    size = (NUM_DRAWS, len(images))
    draws = torch.rand(size, generator=generator, dtype=torch.float32)
    return shifted(images, draws, shift=settings.shift, flip=settings.flip)


def shifted(images: Tensor, draws: Tensor, *, shift: float, flip: bool) -> Tensor:
    """Return the weak views that uniform numbers stand for.

    Args:
        images: Any type, shape (n, c, h, w).
        draws: From 0 to below 1, shape (3, n): shift down, shift right, flip.
        shift: Largest shift, as a share of the side.
        flip: Whether half of the images are mirrored.

    Returns:
        New images of the same shape and type.
    """
    height, width = images.shape[2:]
    rows = _positions(height, draws[0], shift)
    columns = _positions(width, draws[1], shift)
    if flip:
        columns = torch.where(draws[2, :, None] < 1 / 2, width - 1 - columns, columns)
    pixels = (rows[:, :, None] * width + columns[:, None, :]).flatten(1)[:, None]
    flat = images.flatten(2)
    return flat.gather(2, pixels.expand_as(flat)).view_as(images)


def _positions(size: int, draws: Tensor, share: float) -> Tensor:
    """Return source positions along one axis, mirrored at the border: (n, size)."""
    reach = min(round(share * size), size - 1)
    offsets = (draws * (2 * reach + 1)).long().clamp_(max=2 * reach) - reach
    positions = (torch.arange(size) + offsets[:, None]).abs_()
    return size - 1 - (size - 1 - positions).abs_()
