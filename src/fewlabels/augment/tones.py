"""Operations that change colors and move nothing, exactly as Pillow does them.

Each takes images as uint8, shape (m, c, h, w), and one number per image, float64, shape
(m,), and returns new images. Three channels are red, green and blue; with any other
number the grey of a pixel is the mean of its channels, so one channel is its own grey.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

_WHITE = 255
_RED_GREEN_BLUE = 3
# Rec. 601 luma in 1/65536, and the kernel of Pillow's SMOOTH, which sums to 13.
_LUMA = (19595, 38470, 7471)
_MORE_CENTER, _KERNEL_SUM = 4, 13


def identity(images: Tensor, _: Tensor) -> Tensor:
    """Return the images as they are."""
    return images


def autocontrast(images: Tensor, _: Tensor) -> Tensor:
    """Stretch each channel from black to white, unless it has one value only."""
    low = images.amin(dim=(2, 3)).double()[:, :, None]
    high = images.amax(dim=(2, 3)).double()[:, :, None]
    is_flat = high <= low
    entries = torch.arange(_WHITE + 1, dtype=torch.float64)
    # Not a number over a tensor: torch would multiply by a rounded reciprocal.
    scale = entries[-1] / (high - low).masked_fill(is_flat, 1)
    tables = (entries * scale - low * scale).trunc().clamp_(0, _WHITE)
    return _looked_up(images, torch.where(is_flat, entries, tables))


def equalize(images: Tensor, _: Tensor) -> Tensor:
    """Spread the values of each channel evenly."""
    # As in Pillow, nothing happens where fewer than 255 pixels are darker than the
    # brightest value: nothing ever happens to images of 15x15.
    counts = _histograms(images)
    brightest = images.flatten(2).amax(dim=2, keepdim=True).long()
    num_pixels = images.shape[2] * images.shape[3]
    step = (num_pixels - counts.gather(2, brightest)) // _WHITE
    darker = counts.cumsum(dim=2) - counts
    tables = ((step // 2 + darker) // step.clamp(min=1)).clamp_(max=_WHITE)
    entries = torch.arange(_WHITE + 1)
    return _looked_up(images, torch.where(step == 0, entries, tables))


def solarize(images: Tensor, threshold: Tensor) -> Tensor:
    """Invert values from a threshold on."""
    is_dark = images < _per_image(threshold).to(torch.int16)
    return torch.where(is_dark, images, _WHITE - images)


def posterize(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the first bits of each value only."""
    dropped = 2 ** (8 - bits)
    return images & _per_image(_WHITE + 1 - dropped).to(torch.uint8)


def color(images: Tensor, factor: Tensor) -> Tensor:
    """Move between the image's grey version (0), itself (1) and beyond."""
    return _blended(_grey(images), images, factor)


def contrast(images: Tensor, factor: Tensor) -> Tensor:
    """Move between the image's mean grey (0), itself (1) and beyond."""
    grey = _grey(images)
    total = grey.sum(dim=(2, 3), keepdim=True)
    num_pixels = images.shape[2] * images.shape[3]
    return _blended(_rounded(total, num_pixels), images, factor)


def brightness(images: Tensor, factor: Tensor) -> Tensor:
    """Move between black (0), the image itself (1) and beyond."""
    return _blended(images.new_zeros(1), images, factor)


def sharpness(images: Tensor, factor: Tensor) -> Tensor:
    """Move between a smoothed image (0), itself (1) and beyond; the border stays."""
    values = images.to(torch.int32)
    smooth = values.clone()
    if min(images.shape[2:]) >= 3:  # else the kernel has no room
        in_rows = values[..., :-2] + values[..., 1:-1] + values[..., 2:]
        boxes = in_rows[..., :-2, :] + in_rows[..., 1:-1, :] + in_rows[..., 2:, :]
        inner = (..., slice(1, -1), slice(1, -1))
        weighted = boxes + _MORE_CENTER * values[inner]
        smooth[inner] = _rounded(weighted, _KERNEL_SUM)
    return _blended(smooth, images, factor)


TONES: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = MappingProxyType(
    {
        "identity": identity,
        "autocontrast": autocontrast,
        "equalize": equalize,
        "solarize": solarize,
        "posterize": posterize,
        "color": color,
        "contrast": contrast,
        "brightness": brightness,
        "sharpness": sharpness,
    }
)
"""The operations that change colors only."""


def _grey(images: Tensor) -> Tensor:
    """Return one channel of whole numbers, 0 to 255: int64, (m, 1, h, w)."""
    values = images.to(torch.int64)
    if images.shape[1] == _RED_GREEN_BLUE:
        weights, total = torch.tensor(_LUMA), sum(_LUMA)
    else:
        weights, total = torch.ones(1, dtype=torch.int64), images.shape[1]
    weighted = (values * weights[:, None, None]).sum(dim=1, keepdim=True)
    return _rounded(weighted, total)


def _rounded(numerator: Tensor, denominator: int) -> Tensor:
    """Return the nearest whole number to a fraction of whole numbers, halves upward."""
    return torch.div(
        2 * numerator + denominator, 2 * denominator, rounding_mode="floor"
    )


def _blended(start: Tensor, images: Tensor, factor: Tensor) -> Tensor:
    """Return ``start + factor · (images - start)``, cut to bytes.

    In float32 and rounded toward zero, as Pillow computes it.
    """
    origin = start.to(torch.float32)
    steps = images.to(torch.float32) - origin
    mixed = origin + _per_image(factor).to(torch.float32) * steps
    return mixed.clamp_(0, _WHITE).to(torch.uint8)


def _histograms(images: Tensor) -> Tensor:
    """Return how often each value occurs in each channel: int64, (m, c, 256)."""
    flat = images.flatten(2).long()
    counts = flat.new_zeros(*flat.shape[:2], _WHITE + 1)
    return counts.scatter_add_(2, flat, torch.ones_like(flat))


def _looked_up(images: Tensor, tables: Tensor) -> Tensor:
    """Return the entries that the values stand for; tables are (m, c, 256)."""
    entries = tables.to(torch.uint8)
    return entries.gather(2, images.flatten(2).long()).view_as(images)


def _per_image(values: Tensor) -> Tensor:
    """Return one value per image in a shape that meets images: (m, 1, 1, 1)."""
    return values[:, None, None, None]
