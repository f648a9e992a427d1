"""Rotations, shears and translations by the nearest pixel, exactly as Pillow does them.

A map goes from the new image to the old one: the pixel (x, y) takes its color at
(a x + b y + c, d x + e y + f), measured at the middle of pixels. Pillow rounds the six
numbers to 1/65536 and goes on in whole numbers; so do we.

Shapes: m images.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
import torch.nn.functional as F
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


MAPS: Mapping[str, Callable[[Tensor, int, int], Tensor]] = MappingProxyType(
    {
        "rotate": rotation,
        "shear-x": lambda slope, *_: _with(slope, 0, 1),
        "shear-y": lambda slope, *_: _with(slope, 1, 0),
        "translate-x": lambda pixels, *_: _with(pixels, 0, 2),
        "translate-y": lambda pixels, *_: _with(pixels, 1, 2),
    }
)
"""The operations that move pixels: from argument, height and width to maps (m, 2, 3).

A shear pushes rows or columns, each further than the one before; a translation pushes
images to the left, or up.
"""


def moved(planes: Tensor, maps: Tensor) -> Tensor:
    """Return images (m, c, h, w) whose pixels come from elsewhere; 0 if from outside.

    The maps lead from new to old coordinates: float64, shape (m, 2, 3).
    """
    height, width = planes.shape[2:]
    at_middle = maps[:, :, 2] + maps[:, :, :2].sum(dim=2) / 2
    coefficients = torch.cat([maps[:, :, :2], at_middle[:, :, None]], dim=2)
    fixed = (coefficients * 2**_FRACTION_BITS + 0.5).floor().to(torch.int32)
    x, y = (_along(fixed[:, i], height, width) for i in range(2))
    # A border of zeros, one pixel wide, stands for everything outside.
    framed = F.pad(planes, (1, 1, 1, 1)).flatten(2)
    x, y = x.clamp_(-1, width), y.clamp_(-1, height)
    pixels = (y.add_(1).mul_(width + 2) + x.add_(1)).flatten(1)[:, None].long()
    chosen = framed.gather(2, pixels.expand(-1, planes.shape[1], -1))
    return chosen.view_as(planes)


def _along(fixed: Tensor, height: int, width: int) -> Tensor:
    """Return one source coordinate of every pixel, in whole pixels: (m, h, w)."""
    columns = torch.arange(width, dtype=torch.int32)
    rows = torch.arange(height, dtype=torch.int32)
    by_column = fixed[:, 0, None] * columns + fixed[:, 2, None]
    by_row = fixed[:, 1, None] * rows
    return (by_row[:, :, None] + by_column[:, None, :]) >> _FRACTION_BITS


def _still(like: Tensor) -> Tensor:
    """Return maps that leave everything where it is: (m, 2, 3)."""
    return torch.eye(2, 3, dtype=like.dtype).expand(len(like), -1, -1).clone()


def _with(values: Tensor, row: int, column: int) -> Tensor:
    """Return maps that differ from the identity in one place."""
    maps = _still(values)
    maps[:, row, column] = values
    return maps
