"""Rotations, shears and translations by the nearest pixel, exactly as Pillow does them.

A map goes from the new image to the old one: the pixel (x, y) takes its color at
(a x + b y + c, d x + e y + f), measured at the middle of pixels. Pillow rounds the six
numbers to 1/65536 and goes on in whole numbers; so do we.

Shapes: m images.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

_FRACTION_BITS = 16


def rotation(degrees: Tensor, height: int, width: int) -> Tensor:
    """Return maps that turn images counterclockwise about their middle: (m, 2, 3)."""
    angle = -degrees.deg2rad()
    maps = _still(degrees)
    maps[:, 0, 0] = maps[:, 1, 1] = angle.cos()
    maps[:, 0, 1] = angle.sin()
    maps[:, 1, 0] = -maps[:, 0, 1]
    middle = torch.tensor([width / 2, height / 2], dtype=maps.dtype)
    maps[:, :, 2] = middle - maps[:, :, :2] @ middle
    return maps


def shear_x(slope: Tensor, *_: int) -> Tensor:
    """Return maps that push rows sideways, more from row to row: (m, 2, 3)."""
    return _with(slope, 0, 1)


def shear_y(slope: Tensor, *_: int) -> Tensor:
    """Return maps that push columns up or down, more each time: (m, 2, 3)."""
    return _with(slope, 1, 0)


def translation_x(pixels: Tensor, *_: int) -> Tensor:
    """Return maps that push images to the left: (m, 2, 3)."""
    return _with(pixels, 0, 2)


def translation_y(pixels: Tensor, *_: int) -> Tensor:
    """Return maps that push images up: (m, 2, 3)."""
    return _with(pixels, 1, 2)


MAPS: Mapping[str, Callable[[Tensor, int, int], Tensor]] = MappingProxyType(
    {
        "rotate": rotation,
        "shear-x": shear_x,
        "shear-y": shear_y,
        "translate-x": translation_x,
        "translate-y": translation_y,
    }
)
"""The operations that move pixels: from argument, height and width to maps."""


def sources(maps: Tensor, height: int, width: int) -> tuple[Tensor, Tensor]:
    """Return where each pixel comes from.

    Args:
        maps: From new to old coordinates, float64, shape (m, 2, 3).
        height: Height of the images.
        width: Width of the images.

    Returns:
        The number of the source pixel, row by row, shape (m, h·w), and whether it lies
        outside, where the number means nothing, of the same shape.
    """
    at_middle = maps[:, :, 2] + maps[:, :, :2].sum(dim=2) / 2
    coefficients = torch.cat([maps[:, :, :2], at_middle[:, :, None]], dim=2)
    fixed = (coefficients * 2**_FRACTION_BITS + 0.5).floor().to(torch.int64)
    a_or_d, b_or_e, c_or_f = fixed[:, :, :, None, None].unbind(2)
    rows, columns = torch.arange(height)[:, None], torch.arange(width)
    found = (a_or_d * columns + b_or_e * rows + c_or_f) >> _FRACTION_BITS
    x, y = found.flatten(2).unbind(1)
    is_outside = (x < 0) | (x >= width) | (y < 0) | (y >= height)
    return (y * width + x).masked_fill_(is_outside, 0), is_outside


def fetched(planes: Tensor, pixels: Tensor, is_outside: Tensor, *, fill: int) -> Tensor:
    """Return images whose pixels come from elsewhere.

    Args:
        planes: Any type, shape (m, c, h, w).
        pixels: Number of the source pixel, shape (m, h·w).
        is_outside: Where there is none, of the same shape.
        fill: What stands there.

    Returns:
        New images of the same shape and type.
    """
    flat = planes.flatten(2)
    moved = flat.gather(2, pixels[:, None].expand_as(flat))
    return moved.masked_fill_(is_outside[:, None], fill).view_as(planes)


def _still(like: Tensor) -> Tensor:
    """Return maps that leave everything where it is: (m, 2, 3)."""
    return torch.eye(2, 3, dtype=like.dtype).repeat(len(like), 1, 1)


def _with(values: Tensor, row: int, column: int) -> Tensor:
    """Return maps that differ from the identity in one place."""
    maps = _still(values)
    maps[:, row, column] = values
    return maps
