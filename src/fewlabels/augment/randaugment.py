"""RandAugment as FixMatch uses it, for a whole minibatch at once.

All numbers are drawn first, in one call, a row for each image: what an image gets
depends on its place alone, never on what was drawn for others. Images that drew the
same operation are then changed together. Everything is done on bytes.
"""

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from fewlabels.augment.cutout import squares
from fewlabels.augment.geometry import MAPS, fetched, sources
from fewlabels.augment.settings import MID_GREY, Operation, RandAugment
from fewlabels.augment.shifts import shifted
from fewlabels.augment.strengths import argument
from fewlabels.augment.tones import TONES

_NUM_WEAK, _NUM_EACH, _NUM_CUTOUT = 3, 4, 3
_NUM_WHOLE_LEVELS = 9
_MOST = 10
_WHITE, _BYTE_MIDDLE = 255, 127.5
_FORGETS_EMPTY = frozenset({"autocontrast", "equalize", "solarize", "posterize"})
"""The official code drops transparency before these, so that empty becomes black."""


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
class Draws:
    """What n images get, in k rounds."""

    weak: Tensor
    """Shift down, shift right, flip: uniform numbers, shape (3, n)."""
    operations: Tensor
    """Positions in ``settings.operations``; -1 where nothing is done. Shape (k, n)."""
    levels: Tensor
    """Strengths, 0 to 10, float64, shape (k, n)."""
    signs: Tensor
    """1 or -1, float64, shape (k, n)."""
    centers: Tensor
    """Where Cutout's square is: uniform numbers, shape (2, n)."""
    sides: Tensor
    """Side of the square, as a share of the image's side, shape (n,)."""


def drawn(num_images: int, generator: Generator, settings: RandAugment) -> Draws:
    """Draw everything that a minibatch needs.

    Args:
        num_images: How many images.
        generator: The only source of randomness.
        settings: What to draw from.

    Returns:
        The draws.
    """
    num_rounds = settings.num_operations
    width = _NUM_WEAK + num_rounds * _NUM_EACH + _NUM_CUTOUT
    uniform = torch.rand(num_images, width, generator=generator, dtype=torch.float64)
    weak, cutout = uniform.T[:_NUM_WEAK], uniform.T[-_NUM_CUTOUT:]
    rounds = uniform.T[_NUM_WEAK:-_NUM_CUTOUT].view(num_rounds, _NUM_EACH, num_images)
    which, whether, how_much, sign = rounds.unbind(1)
    operations = (which * len(settings.operations)).long()
    if settings.levels == "whole":
        levels = (how_much * _NUM_WHOLE_LEVELS).floor() + 1
    else:
        levels = how_much * _MOST
    sides = cutout[2] if settings.varies_cutout else torch.ones_like(cutout[2])
    return Draws(
        weak=weak,
        operations=operations.masked_fill_(whether >= settings.probability, -1),
        levels=levels,
        signs=1 - 2 * (sign < 1 / 2).double(),
        centers=cutout[:2],
        sides=sides * settings.cutout,
    )


def changed(images: Tensor, draws: Draws, settings: RandAugment) -> Tensor:
    """Return what the draws make of images.

    Args:
        images: uint8, shape (n, c, h, w).
        draws: What each image gets.
        settings: The settings that the draws were made with.

    Returns:
        New images of the same shape.
    """
    views = shifted(images, draws.weak, shift=settings.shift, flip=settings.flip)
    is_empty = torch.zeros_like(views[:, :1], dtype=torch.bool)
    sides = images.shape[2], images.shape[3]
    rounds = zip(draws.operations, draws.levels, draws.signs, strict=True)
    for operations, levels, signs in rounds:
        for number, name in enumerate(settings.operations):
            chosen = (operations == number).nonzero().flatten()
            if len(chosen):
                strengths = argument(
                    name, settings.ranges, levels[chosen], signs[chosen], sides
                )
                _carry_out(name, strengths, chosen, views, is_empty)
    if settings.empty == "grey":
        views.masked_fill_(is_empty, MID_GREY)
    is_covered = squares(draws.centers, draws.sides, *sides)
    return torch.where(is_covered, _fill(settings, images.shape[1]), views)


def _carry_out(
    name: Operation, strengths: Tensor, chosen: Tensor, views: Tensor, is_empty: Tensor
) -> None:
    """Change the chosen views, and what is known to be empty, in place."""
    before = views[chosen]
    if name in MAPS:
        height, width = before.shape[2:]
        pixels, is_outside = sources(
            MAPS[name](strengths, height, width), height, width
        )
        views[chosen] = fetched(before, pixels, is_outside, fill=0)
        is_empty[chosen] = fetched(is_empty[chosen], pixels, is_outside, fill=1)
    else:
        views[chosen] = TONES[name](before, strengths)
    if name in _FORGETS_EMPTY:
        is_empty[chosen] = False


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
