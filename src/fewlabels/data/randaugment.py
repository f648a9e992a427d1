"""What RandAugment does to images, exactly as Pillow does it.

Operations that move pixels are maps from the new image to the old one: the pixel (x, y)
takes its color at (a x + b y + c, d x + e y + f), measured at the middle of pixels.
Pillow rounds the six numbers to 1/65536 and goes on in whole numbers; so do we.

Of those that change colors most look only at the value of a channel: they are tables of
256 entries, and all images of a minibatch can be looked up together, whatever the
operation. The others look at a pixel's other channels or at its neighbors. Three
channels are red, green and blue; with any other number the grey of a pixel is the mean
of its channels, so one channel is its own grey.

Shapes: m images as uint8, (m, c, h, w), and one number per image, float64, (m,).
"""

from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

Operation = Literal[
    "identity",
    "autocontrast",
    "equalize",
    "rotate",
    "solarize",
    "color",
    "contrast",
    "brightness",
    "sharpness",
    "shear-x",
    "translate-x",
    "translate-y",
    "posterize",
    "shear-y",
]
"""Names of the operations that RandAugment draws from."""
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
"""The pool of the official FixMatch code, in its order."""
Ranges = Literal["official", "paper-table"]
"""What a strength means: as in the official code, or as in the paper's Table 12."""

_MAP_ENTRIES = {
    "shear-x": (0, 1),
    "shear-y": (1, 0),
    "translate-x": (0, 2),
    "translate-y": (1, 2),
}
"""Where a shear or a translation differs from the map that moves nothing."""
MOTIONS = ("rotate", *_MAP_ENTRIES)
"""Operations that move pixels. They go either way: a sign says which."""

_MOST = 10
_OFFICIAL_SIDE = 32
_FRACTION_BITS = 16
_WHITE, _NUM_BYTES = 255, 256
_RED_GREEN_BLUE = 3
# Rec. 601 luma in 1/65536, and the kernel of Pillow's SMOOTH, which sums to 13. All
# sums below are whole numbers under 2**24, which float32 holds exactly.
_LUMA = (19595.0, 38470.0, 7471.0)
_MORE_CENTER, _KERNEL_SUM = 4, 13


def argument(
    operation: str,
    ranges: Ranges,
    levels: Tensor,
    signs: Tensor,
    sides: tuple[int, int],
) -> Tensor:
    """Return what an operation takes, for one strength and sign per image.

    Args:
        operation: Name of the operation.
        ranges: The table that says what a strength means.
        levels: Strengths, 0 to 10, float64, shape (m,).
        signs: 1 or -1, shape (m,); only directions have a sign.
        sides: Height and width of the images.

    Returns:
        float64, shape (m,): degrees for rotate, a slope for the shears, whole pixels
        for the translations, a threshold for solarize, bits for posterize, a factor for
        color, contrast, brightness and sharpness. The others take nothing: strengths.
    """
    is_official = ranges == "official"
    taken = levels * signs if operation in MOTIONS else levels
    if operation == "rotate":
        taken = taken * 30 / _MOST
    elif operation in {"shear-x", "shear-y"}:
        taken = taken * 0.3 / _MOST
    elif operation in {"translate-x", "translate-y"}:
        side = sides[1] if operation == "translate-x" else sides[0]
        if is_official:  # as many pixels as the strength on images of 32
            taken = (taken * side / _OFFICIAL_SIDE).trunc()
        else:  # up to 0.3 of the side; the nearest pixel, halves upward, as in Pillow
            taken = (taken * 0.3 / _MOST * side + 0.5).floor()
    elif operation == "solarize":
        taken = _NUM_BYTES - (taken * _NUM_BYTES / _MOST).trunc()
    elif operation == "posterize":
        bits = (taken * 4 / _MOST).trunc()  # at least one, where official code fails
        taken = (4 - bits).clamp(min=1) if is_official else 4 + bits
    elif operation in {"color", "contrast", "brightness", "sharpness"}:
        span, least = (1.8, 0.1) if is_official else (0.9, 0.05)
        taken = taken * span / _MOST + least
    return taken


def affine_maps(operation: str, taken: Tensor, height: int, width: int) -> Tensor:
    """Return the maps of an operation that moves pixels, float64, shape (m, 2, 3).

    A rotation turns images counterclockwise about their middle. A shear pushes rows or
    columns, each further than the one before; a translation pushes images to the left,
    or up.
    """
    maps = torch.eye(2, 3, dtype=taken.dtype).repeat(len(taken), 1, 1)
    if operation == "rotate":
        angle = -taken.deg2rad()
        maps[:, 0, 0] = maps[:, 1, 1] = angle.cos()
        maps[:, 0, 1] = angle.sin()
        maps[:, 1, 0] = -maps[:, 0, 1]
        middle = torch.tensor([width / 2, height / 2], dtype=maps.dtype)
        maps[:, :, 2] = middle - maps[:, :, :2] @ middle
    else:
        maps[:, *_MAP_ENTRIES[operation]] = taken
    return maps


def move_pixels(planes: Tensor, maps: Tensor) -> Tensor:
    """Return images (m, c, h, w) whose pixels come from elsewhere; 0 if from outside.

    The maps lead from new to old coordinates: float64, shape (m, 2, 3).
    """
    height, width = planes.shape[2:]
    at_middle = maps[:, :, 2] + maps[:, :, :2].sum(dim=2) / 2
    coefficients = torch.cat([maps[:, :, :2], at_middle[:, :, None]], dim=2)
    fixed = (coefficients * 2**_FRACTION_BITS + 0.5).floor().to(torch.int32)
    columns = torch.arange(width, dtype=torch.int32)
    rows = torch.arange(height, dtype=torch.int32)
    by_column = fixed[:, :, 0, None] * columns + fixed[:, :, 2, None]
    by_row = fixed[:, :, 1, None] * rows
    sources = (by_row[:, :, :, None] + by_column[:, :, None, :]) >> _FRACTION_BITS
    x, y = sources.unbind(1)
    # A border of zeros, one pixel wide, stands for everything outside.
    framed = F.pad(planes, (1, 1, 1, 1)).flatten(2)
    x, y = x.clamp_(-1, width), y.clamp_(-1, height)
    pixels = (y.add_(1).mul_(width + 2) + x.add_(1)).flatten(1)[:, None].long()
    chosen = framed.gather(2, pixels.expand(-1, planes.shape[1], -1))
    return chosen.view_as(planes)


def autocontrast(images: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel from black to white, unless it has one value only."""
    flat = images.flatten(2)
    low = flat.amin(dim=2, keepdim=True).double()
    high = flat.amax(dim=2, keepdim=True).double()
    is_even = high <= low
    entries = _entries(torch.float64)
    # Not a number over a tensor: torch would multiply by a rounded reciprocal.
    scale = entries[-1] / (high - low).masked_fill(is_even, 1)
    stretched = (entries * scale - low * scale).trunc().clamp_(0, _WHITE)
    return torch.where(is_even, entries, stretched).to(torch.uint8)


def equalize(images: Tensor, _: Tensor) -> Tensor:
    """Spread the values of each channel evenly."""
    flat = images.flatten(2)
    first_bins = torch.arange(flat[..., 0].numel(), dtype=torch.int32) * _NUM_BYTES
    bins = flat.flatten(0, 1) + first_bins[:, None]
    counts = torch.bincount(bins.flatten(), minlength=len(bins) * _NUM_BYTES)
    counts = counts.view(*flat.shape[:2], _NUM_BYTES)  # of each value in each channel
    brightest = flat.amax(dim=2, keepdim=True).long()
    num_pixels = images.shape[2] * images.shape[3]
    # As in Pillow, nothing happens where fewer than 255 pixels are darker than the
    # brightest value: nothing ever happens to images of 15x15.
    step = (num_pixels - counts.gather(2, brightest)) // _WHITE
    darker = counts.cumsum(dim=2) - counts
    spread = ((step // 2 + darker) // step.clamp(min=1)).clamp_(max=_WHITE)
    return torch.where(step == 0, _entries(torch.int64), spread).to(torch.uint8)


def solarize(_: Tensor, threshold: Tensor) -> Tensor:
    """Invert values from a threshold on."""
    entries = _entries(torch.float64)
    inverted = torch.where(entries < threshold[:, None], entries, _WHITE - entries)
    return inverted.to(torch.uint8)[:, None]


def posterize(_: Tensor, bits: Tensor) -> Tensor:
    """Keep the first bits of each value only."""
    steps = (2 ** (8 - bits))[:, None]
    entries = _entries(torch.float64)
    return ((entries / steps).floor_() * steps).to(torch.uint8)[:, None]


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Move between the image's mean grey (0), itself (1) and beyond."""
    total = _grey(images).sum(dim=(1, 2, 3), dtype=torch.float64)
    mean = _rounded(total, images.shape[2] * images.shape[3])
    return _blended(mean[:, None, None], _entries(torch.float32), factor[:, None, None])


def brightness(_: Tensor, factor: Tensor) -> Tensor:
    """Move between black (0), the image itself (1) and beyond."""
    entries = _entries(torch.float32)
    return _blended(torch.zeros_like(entries), entries, factor[:, None, None])


TABLES = {
    "autocontrast": autocontrast,
    "equalize": equalize,
    "solarize": solarize,
    "posterize": posterize,
    "contrast": contrast,
    "brightness": brightness,
}
"""Operations that give tables, uint8, (m, c, 256) or, alike for all, (m, 1, 256)."""


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Move between the image's grey version (0), itself (1) and beyond."""
    return _blended(_grey(images), images.float(), factor[:, None, None, None])


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Move between a smoothed image (0), itself (1) and beyond; the border stays."""
    values = images.float()
    smooth = values.clone()
    if min(images.shape[2:]) >= 3:  # else the kernel has no room
        in_rows = values[..., :-2] + values[..., 1:-1] + values[..., 2:]
        boxes = in_rows[..., :-2, :] + in_rows[..., 1:-1, :] + in_rows[..., 2:, :]
        inner = (..., slice(1, -1), slice(1, -1))
        smooth[inner] = _rounded(boxes + _MORE_CENTER * values[inner], _KERNEL_SUM)
    return _blended(smooth, values, factor[:, None, None, None])


BLENDS = {"color": color, "sharpness": sharpness}
"""Operations that give images."""

_FORGETFUL = ("autocontrast", "equalize", "solarize", "posterize")
"""The official code drops transparency before these: what is empty becomes black."""
_ORDER = ("identity", *TABLES, *MOTIONS, *BLENDS)
"""Operations with tables, then motions, then others, each kind side by side."""
_PLACES = torch.tensor([_ORDER.index(name) for name in OPERATIONS])


def apply_round(
    canvas: Tensor, draws: tuple[Tensor, Tensor, Tensor], ranges: Ranges
) -> Tensor:
    """Return the canvas after one operation for each image.

    The canvas is images as uint8 with one more channel, shape (n, c + 1, h, w): 255, or
    0 where an image was moved away and the place is empty. So Pillow keeps
    transparency. The draws are operations, as positions in ``OPERATIONS``, levels from
    0 to 10, and signs, 1 or -1: all of shape (n,).
    """
    operations, levels, signs = draws
    places = _PLACES[operations]
    order = places.argsort(stable=True)
    arranged, levels, signs = canvas[order], levels[order], signs[order]
    _, num_channels, height, width = arranged[:, :-1].shape
    counts = torch.bincount(places, minlength=len(_ORDER)).tolist()
    tables, maps, end = [], [], 0
    for name, count in zip(_ORDER, counts, strict=True):
        part = slice(end, end + count)
        end += count
        if not count or name == "identity":
            continue
        colors = arranged[part, :-1]
        taken = argument(name, ranges, levels[part], signs[part], (height, width))
        if name in TABLES:
            tables.append(TABLES[name](colors, taken).expand(-1, num_channels, -1))
        elif name in MOTIONS:
            maps.append(affine_maps(name, taken, height, width))
        else:
            arranged[part, :-1] = BLENDS[name](colors, taken)
        if name in _FORGETFUL:
            arranged[part, -1] = _WHITE
    middle = counts[0] + sum(map(len, tables))  # of _ORDER: tables before, maps behind
    if tables:
        part = slice(counts[0], middle)
        colors = arranged[part, :-1]
        entries = torch.cat(tables).gather(2, colors.flatten(2).long())
        arranged[part, :-1] = entries.view_as(colors)
    if maps:
        part = slice(middle, middle + sum(map(len, maps)))
        arranged[part] = move_pixels(arranged[part], torch.cat(maps))
    return arranged[order.argsort()]


def _entries(dtype: torch.dtype) -> Tensor:
    """Return 0, 1, ... 255."""
    return torch.arange(_NUM_BYTES, dtype=dtype)


def _grey(images: Tensor) -> Tensor:
    """Return one channel of whole numbers, 0 to 255: float32, (m, 1, h, w)."""
    values = images.float()
    if images.shape[1] != _RED_GREEN_BLUE:
        return _rounded(values.sum(dim=1, keepdim=True), images.shape[1])
    red, green, blue = _LUMA
    luma = red * values[:, :1] + green * values[:, 1:2] + blue * values[:, 2:]
    return _rounded(luma, 2**16)


def _rounded(numerator: Tensor, denominator: int) -> Tensor:
    """Return the nearest whole number to a fraction of whole numbers, halves upward."""
    return (2 * numerator + denominator).div_(2 * denominator).floor_()


def _blended(start: Tensor, values: Tensor, factor: Tensor) -> Tensor:
    """Return ``start + factor · (values - start)``, cut to bytes.

    In float32 and rounded toward zero, as Pillow computes it.
    """
    origin = start.float()
    mixed = origin + factor.float() * (values - origin)
    return mixed.clamp_(0, _WHITE).to(torch.uint8)
