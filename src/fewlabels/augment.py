"""Weak and strong views of images, a whole minibatch at a time.

Every image gets its own draws, all from an explicit generator, and there is no loop
over images. Images are uint8 or floats in [-1, 1], shape (n, c, h, w), and come back in
the same type; sizes are shares of the side, so that 8x8 and 32x32 images are changed
alike.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.errors import UsageError

_BYTE_MIDDLE = 127.5


@dataclass(frozen=True, kw_only=True)
class WeakAugment:
    """Flip and shift, as in FixMatch (Sohn et al., 2020, Sec. 2.3)."""

    shift: float = 0.125
    """Largest shift, as a share of the side; what moves in is mirrored."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_share("shift", self.shift)


@dataclass(frozen=True, kw_only=True)
class StrongAugment:
    """A random affine map, brightness, contrast and Cutout.

    A cheap stand-in for the RandAugment of the FixMatch paper (Sec. 2.3): geometry is
    resampled once, and every image gets some of everything.
    """

    rotation: float = 15.0
    """Largest rotation, in degrees."""
    shear: float = 0.15
    """Largest shear along either axis."""
    scale: float = 0.1
    """Largest relative change of size."""
    shift: float = 0.125
    """Largest shift, as a share of the side; what moves in repeats the border."""
    brightness: float = 0.1
    """Largest change of brightness, on a range of values from -1 to 1."""
    contrast: float = 0.3
    """Largest relative change of contrast, around the mean of the image."""
    cutout: float = 0.25
    """Side of the grey square, as a share of the side (DeVries and Taylor, 2017)."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("scale", "shift", "contrast", "cutout"):
            _check_share(name, getattr(self, name))


def weak(images: Tensor, generator: Generator, settings: WeakAugment) -> Tensor:
    """Return each image flipped at random and shifted by whole pixels.

    Args:
        images: uint8 or floats, shape (n, c, h, w).
        generator: The only source of randomness.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    num_images, num_channels, height, width = images.shape
    draws = torch.rand(3, num_images, 1, generator=generator, dtype=torch.float32)
    rows = _shifted(height, draws[0], settings.shift)
    columns = _shifted(width, draws[1], settings.shift)
    if settings.flip:
        columns = torch.where(draws[2] < 1 / 2, width - 1 - columns, columns)
    pixels = (rows[:, :, None] * width + columns[:, None, :]).view(num_images, 1, -1)
    flat = images.reshape(num_images, num_channels, height * width)
    return flat.gather(2, pixels.expand(-1, num_channels, -1)).view_as(images)


def strong(images: Tensor, generator: Generator, settings: StrongAugment) -> Tensor:
    """Return each image moved, re-lit and partly covered, each in its own way.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w).
        generator: The only source of randomness.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    is_bytes = images.dtype == torch.uint8
    values = images.float() / _BYTE_MIDDLE - 1 if is_bytes else images
    draws = torch.rand(11, len(images), generator=generator, dtype=values.dtype)
    signed = draws * 2 - 1
    values = _moved(values, signed[:6], draws[6] < 1 / 2, settings)
    values = _lit(values, signed[7:9], settings)
    values = _covered(values, draws[9:], settings.cutout)
    if is_bytes:
        return ((values + 1) * _BYTE_MIDDLE).round_().to(torch.uint8)
    return values


def _shifted(size: int, draws: Tensor, share: float) -> Tensor:
    """Return source positions along one axis, mirrored at the border: (n, size)."""
    reach = min(round(share * size), size - 1)
    offsets = (draws * (2 * reach + 1)).long().clamp_(max=2 * reach) - reach
    positions = (torch.arange(size) + offsets).abs_()
    return size - 1 - (size - 1 - positions).abs_()


def _moved(
    values: Tensor, signed: Tensor, is_flipped: Tensor, settings: StrongAugment
) -> Tensor:
    """Rotate, shear, scale and shift by one bilinear resampling."""
    height, width = values.shape[2:]
    angle = signed[0] * math.radians(settings.rotation)
    shear_x, shear_y = signed[1] * settings.shear, signed[2] * settings.shear
    zoom = 1 + signed[3] * settings.scale
    mirror = 1 - 2 * is_flipped.to(values.dtype) if settings.flip else 1.0
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
    return F.grid_sample(values, grid, padding_mode="border", align_corners=False)


def _lit(values: Tensor, signed: Tensor, settings: StrongAugment) -> Tensor:
    """Change brightness and contrast, and stay in [-1, 1]."""
    brightness = (signed[0] * settings.brightness)[:, None, None, None]
    contrast = (1 + signed[1] * settings.contrast)[:, None, None, None]
    mean = values.mean(dim=(1, 2, 3), keepdim=True)
    return ((values - mean) * contrast + (mean + brightness)).clamp_(-1, 1)


def _covered(values: Tensor, draws: Tensor, share: float) -> Tensor:
    """Put a mid-grey square somewhere; it may hang over the border."""
    height, width = values.shape[2:]
    rows = _band(height, draws[0], share)
    columns = _band(width, draws[1], share)
    return values.masked_fill((rows[:, :, None] & columns[:, None, :])[:, None], 0)


def _band(size: int, draws: Tensor, share: float) -> Tensor:
    """Return which positions of an axis lie in a band centered at random: (n, size)."""
    band = round(share * size)
    first = (draws * size).long() - band // 2
    positions = torch.arange(size)
    return (positions >= first[:, None]) & (positions < first[:, None] + band)


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        msg = f"{name} is {value}; it is a share, from 0 to below 1."
        raise UsageError(msg)


Strong = StrongAugment


def preset(name: str) -> Strong:
    """Return settings by name."""
    return StrongAugment()
