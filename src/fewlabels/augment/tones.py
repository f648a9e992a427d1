"""Operations that change colors and move nothing, exactly as Pillow does them.

Most of them look only at the value of a channel: they are tables of 256 entries, and
all images of a minibatch can be looked up together, whatever the operation. The others
look at a pixel's other channels or at its neighbors.

Three channels are red, green and blue; with any other number the grey of a pixel is the
mean of its channels, so one channel is its own grey.

Shapes: m images as uint8, (m, c, h, w), and one number per image, float64, (m,).
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

_WHITE = 255
_RED_GREEN_BLUE = 3
# Rec. 601 luma in 1/65536, and the kernel of Pillow's SMOOTH, which sums to 13. All
# sums below are whole numbers under 2**24, which float32 holds exactly.
_LUMA = (19595.0, 38470.0, 7471.0)
_MORE_CENTER, _KERNEL_SUM = 4, 13

_Change = Callable[[Tensor, Tensor], Tensor]


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
    counts = _histograms(images)
    brightest = images.flatten(2).amax(dim=2, keepdim=True).long()
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


TABLES: Mapping[str, _Change] = MappingProxyType(
    {
        "autocontrast": autocontrast,
        "equalize": equalize,
        "solarize": solarize,
        "posterize": posterize,
        "contrast": contrast,
        "brightness": brightness,
    }
)
"""Operations that give tables, uint8, (m, c, 256) or, alike for all, (m, 1, 256)."""


def looked_up(images: Tensor, tables: Tensor) -> Tensor:
    """Return the entries that the values of images stand for; tables: (m, c, 256)."""
    return tables.gather(2, images.flatten(2).long()).view_as(images)


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


BLENDS: Mapping[str, _Change] = MappingProxyType(
    {"color": color, "sharpness": sharpness}
)
"""Operations that give images."""


def _entries(dtype: torch.dtype) -> Tensor:
    """Return 0, 1, ... 255."""
    return torch.arange(_WHITE + 1, dtype=dtype)


def _histograms(images: Tensor) -> Tensor:
    """Return how often each value occurs in each channel: int64, (m, c, 256)."""
    num_images, num_channels = images.shape[:2]
    num_bins = _WHITE + 1
    first_bins = torch.arange(num_images * num_channels, dtype=torch.int32) * num_bins
    bins = images.flatten(2).flatten(0, 1) + first_bins[:, None]
    counts = torch.bincount(bins.flatten(), minlength=len(bins) * num_bins)
    return counts.view(num_images, num_channels, num_bins)


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
