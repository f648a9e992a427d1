"""Weak views, the smooth strong ones, and Cutout, which all strong ones end with."""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.data.augment.settings import StrongAugment, WeakAugment

NUM_WEAK_DRAWS = 3
"""Numbers that are drawn for an image: shift down, shift right, flip."""
NUM_SMOOTH_DRAWS = 11
"""Numbers that are drawn for a smooth strong view of an image."""

_BYTE_MIDDLE = 127.5


def weak(images: Tensor, generator: Generator, settings: WeakAugment) -> Tensor:
    """Return each image flipped at random and shifted by whole pixels.

    Args:
        images: uint8 or floats, shape (n, c, h, w).
        generator: The only source of randomness.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    size = (NUM_WEAK_DRAWS, len(images))
    draws = torch.rand(size, generator=generator, dtype=torch.float32)
    return shift_and_flip(images, draws, shift=settings.shift, flip=settings.flip)


def shift_and_flip(
    images: Tensor, draws: Tensor, *, shift: float, flip: bool
) -> Tensor:
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


def cutout_mask(
    draws: Tensor, shares: Tensor, height: int, width: int, *, as_usb: bool = False
) -> Tensor:
    """Return which pixels a square covers (Cutout; DeVries and Taylor, 2017).

    Args:
        draws: Where its center is, from 0 to below 1 along both sides, shape (2, n).
        shares: Its side, as a share of the image's side, shape (n,).
        height: Height of the images.
        width: Width of the images.
        as_usb: As USB draws it: the center is drawn from 1, not 0, to the side (NumPy's
            ``uniform(side)``), the top left corner is moved into the image, and Pillow
            draws the last row and column too, so that it is a pixel longer than asked
            for. Else it may hang over the border.

    Returns:
        bool, shape (n, 1, h, w).
    """
    rows, columns = (
        _band(size, centers, shares, as_usb=as_usb)
        for size, centers in zip((height, width), draws, strict=True)
    )
    return (rows[:, :, None] & columns[:, None, :])[:, None]


def _band(size: int, draws: Tensor, shares: Tensor, *, as_usb: bool) -> Tensor:
    """Return which positions of an axis lie in a band centered at random: (n, size)."""
    positions = torch.arange(size)
    if as_usb:
        lengths = shares * size
        centers = 1 + draws * (size - 1)
        first = (centers - lengths / 2).clamp_(min=0).floor()[:, None]
        last = (first + lengths[:, None]).floor()
        return (positions >= first) & (positions <= last) & (lengths > 0)[:, None]
    sides = (shares * size).round().long()
    first = ((draws * size).long() - sides // 2)[:, None]
    return (positions >= first) & (positions < first + sides[:, None])


def smooth_view(images: Tensor, draws: Tensor, settings: StrongAugment) -> Tensor:
    """Return each image moved, re-lit and partly covered; see :func:`.strong`.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w).
        draws: Uniform numbers, floats of the precision to compute in, shape (11, n).
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    is_bytes = images.dtype == torch.uint8
    values = images.float() / _BYTE_MIDDLE - 1 if is_bytes else images
    height, width = images.shape[2:]
    signed = draws * 2 - 1
    # Rotate, shear, scale and shift by one bilinear resampling.
    angle = signed[0] * math.radians(settings.rotation)
    shear_x, shear_y = signed[1] * settings.shear, signed[2] * settings.shear
    zoom = 1 + signed[3] * settings.scale
    mirror = 1 - 2 * (draws[6] < 1 / 2).to(values.dtype) if settings.flip else 1.0
    cosine, sine = angle.cos() * zoom, angle.sin() * zoom
    # R(angle) · [[1, shear_x], [shear_y, 1]] · diag(mirror, 1), from output to input,
    # in coordinates that run from -1 to 1 along both sides.
    matrix = torch.stack(
        [
            (cosine - sine * shear_y) * mirror,
            (cosine * shear_x - sine) * (height / width),
            (sine + cosine * shear_y) * mirror * (width / height),
            sine * shear_x + cosine,
        ]
    ).view(2, 2, -1)
    shifts = signed[4:6] * 2 * settings.shift
    theta = torch.cat([matrix, shifts[:, None]], dim=1).permute(2, 0, 1)
    grid = F.affine_grid(theta, list(values.shape), align_corners=False)
    values = F.grid_sample(values, grid, padding_mode="border", align_corners=False)
    # Change brightness and contrast, and stay in [-1, 1].
    brightness = (signed[7] * settings.brightness)[:, None, None, None]
    contrast = (1 + signed[8] * settings.contrast)[:, None, None, None]
    mean = values.mean(dim=(1, 2, 3), keepdim=True)
    values = ((values - mean) * contrast + (mean + brightness)).clamp_(-1, 1)
    sides = torch.full((len(images),), settings.cutout, dtype=torch.float64)
    values = values.masked_fill(cutout_mask(draws[9:], sides, height, width), 0)
    if is_bytes:
        return ((values + 1) * _BYTE_MIDDLE).round_().to(torch.uint8)
    return values
