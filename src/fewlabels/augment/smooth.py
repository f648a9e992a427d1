"""Strong views by one smooth affine map, brightness, contrast and Cutout."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fewlabels.augment.cutout import squares
from fewlabels.augment.settings import StrongAugment

NUM_DRAWS = 11
"""Numbers that are drawn for an image."""

_BYTE_MIDDLE = 127.5


def smooth(images: Tensor, draws: Tensor, settings: StrongAugment) -> Tensor:
    """Return each image moved, re-lit and partly covered; see :func:`.views.strong`.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w).
        draws: Uniform numbers, floats of the precision to compute in, shape (11, n).
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    is_bytes = images.dtype == torch.uint8
    values = images.float() / _BYTE_MIDDLE - 1 if is_bytes else images
    signed = draws * 2 - 1
    values = _moved(values, signed[:6], draws[6] < 1 / 2, settings)
    values = _lit(values, signed[7:9], settings)
    sides = torch.full((len(images),), settings.cutout, dtype=torch.float64)
    values = values.masked_fill(squares(draws[9:], sides, *images.shape[2:]), 0)
    if is_bytes:
        return ((values + 1) * _BYTE_MIDDLE).round_().to(torch.uint8)
    return values


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
