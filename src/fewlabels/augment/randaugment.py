"""RandAugment as FixMatch uses it, for a whole minibatch at once.

All numbers are drawn first, in one call, a row for each image: what an image gets
depends on its place alone, never on what was drawn for others. Everything is done on
bytes.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.augment.cutout import squares, usb_squares
from fewlabels.augment.operations import after_round
from fewlabels.augment.settings import MID_GREY, OPERATIONS, RandAugment
from fewlabels.augment.shifts import shifted

_NUM_WEAK, _NUM_EACH, _NUM_CUTOUT = 3, 4, 3
_NUM_WHOLE_LEVELS = 9
_MOST = 10
_WHITE, _BYTE_MIDDLE = 255, 127.5
_IDENTITY = OPERATIONS.index("identity")


def randaugmented(
    images: Tensor, generator: Generator, settings: RandAugment
) -> Tensor:
    """Return each image shifted, changed by operations of its own, and partly covered.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w). Floats are rounded to
            the nearest of the 256 levels that bytes stand for, 2/255 apart.
        generator: The only source of randomness.
        settings: What to draw from.

    Returns:
        New images of the same shape and type.
    """
    draws = drawn(len(images), generator, settings)
    if images.dtype == torch.uint8:
        return changed(images, draws, settings)
    rounded = ((images.float() + 1) * _BYTE_MIDDLE).round_().clamp_(0, _WHITE)
    views = changed(rounded.to(torch.uint8), draws, settings)
    return views.to(images.dtype).div_(_BYTE_MIDDLE).sub_(1)


@dataclass(frozen=True, eq=False)
class DrawnOperations:
    """What n images get, in k rounds."""

    weak: Tensor
    """Shift down, shift right, flip: uniform numbers, shape (3, n)."""
    operations: Tensor
    """Positions in ``OPERATIONS``; identity where nothing is done. Shape (k, n)."""
    levels: Tensor
    """Strengths, 0 to 10, float64, shape (k, n)."""
    signs: Tensor
    """1 or -1, float64, shape (k, n)."""
    centers: Tensor
    """Where Cutout's square is: uniform numbers, shape (2, n)."""
    sides: Tensor
    """Side of the square, as a share of the image's side, shape (n,)."""


def drawn(
    num_images: int, generator: Generator, settings: RandAugment
) -> DrawnOperations:
    """Return all that a minibatch of so many images draws."""
    width = num_draws(settings)
    uniform = torch.rand(num_images, width, generator=generator, dtype=torch.float64)
    return told_by(uniform, settings)


def num_draws(settings: RandAugment) -> int:
    """Return how many numbers are drawn for an image."""
    return _NUM_WEAK + settings.num_operations * _NUM_EACH + _NUM_CUTOUT


def told_by(uniform: Tensor, settings: RandAugment) -> DrawnOperations:
    """Return what uniform numbers, float64, shape (n, :func:`num_draws`), stand for."""
    num_images, num_rounds = len(uniform), settings.num_operations
    weak, cutout = uniform.T[:_NUM_WEAK], uniform.T[-_NUM_CUTOUT:]
    rounds = uniform.T[_NUM_WEAK:-_NUM_CUTOUT].view(num_rounds, _NUM_EACH, num_images)
    which, whether, how_much, sign = rounds.unbind(1)
    codes = [OPERATIONS.index(name) for name in settings.operations]
    pool = torch.tensor(codes, dtype=torch.int64)
    operations = pool[(which * len(pool)).long()]
    if settings.levels == "whole":
        levels = (how_much * _NUM_WHOLE_LEVELS).floor() + 1
    else:
        levels = how_much * _MOST
    sides = cutout[2] if settings.varies_cutout else torch.ones_like(cutout[2])
    return DrawnOperations(
        weak=weak,
        operations=operations.masked_fill(whether >= settings.probability, _IDENTITY),
        levels=levels,
        signs=1 - 2 * (sign < 1 / 2).double(),
        centers=cutout[:2],
        sides=sides * settings.cutout,
    )


def changed(images: Tensor, draws: DrawnOperations, settings: RandAugment) -> Tensor:
    """Return what the draws make of images, uint8, shape (n, c, h, w)."""
    weak = shifted(images, draws.weak, shift=settings.shift, flip=settings.flip)
    canvas = torch.cat([weak, torch.full_like(weak[:, :1], _WHITE)], dim=1)
    rounds = zip(draws.operations, draws.levels, draws.signs, strict=True)
    for operations, levels, signs in rounds:
        canvas = after_round(canvas, operations, levels, signs, settings.ranges)
    views, is_full = canvas[:, :-1], canvas[:, -1:]
    if settings.empty == "grey":
        views = _either(is_full, views, torch.tensor(MID_GREY, dtype=torch.uint8))
    cover = usb_squares if settings.varies_cutout else squares
    is_covered = cover(draws.centers, draws.sides, images.shape[2], images.shape[3])
    mask = is_covered.to(torch.uint8) * _WHITE
    return _either(mask, _fill(settings, images.shape[1]), views)


def _either(mask: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Return ``chosen`` where all bits of the mask are set, ``other`` where none is.

    All are bytes. Ten times as fast as ``torch.where``.
    """
    return (chosen & mask) | (other & ~mask)


def _fill(settings: RandAugment, num_channels: int) -> Tensor:
    """Return the color of the squares as bytes, for each channel: (c, 1, 1)."""
    fill = settings.cutout_fill
    if isinstance(fill, int):
        values = [fill] * num_channels
    elif len(fill) == num_channels:
        values = list(fill)
    else:
        values = [round(sum(fill) / len(fill))] * num_channels
    return torch.tensor(values, dtype=torch.uint8)[:, None, None]
