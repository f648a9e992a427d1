"""Weak and strong views of images, a whole minibatch at a time.

Every image gets its own draws, all from an explicit generator, and there is no loop
over images. Images are uint8 or floats in [-1, 1], shape (n, c, h, w), and come back in
the same type; sizes are shares of the side, so that 8x8 and 32x32 images are changed
alike.

All numbers are drawn first, in one call, a row for each image: what happens to an image
depends on its place alone, never on the draws of others. RandAugment works on bytes;
see :mod:`fewlabels.data.randaugment`.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.data.randaugment import OPERATIONS, Operation, Ranges, apply_round
from fewlabels.errors import Limits, Settings, Share, UnknownNameError, UsageError

MID_GREY = 127
"""The byte just below the middle; the official code puts 0 on a scale of -1 to 1."""

_NUM_WEAK, _NUM_SMOOTH, _NUM_EACH, _NUM_CUTOUT = 3, 11, 4, 3
"""Numbers drawn for an image: for a weak view (shift down, shift right, flip), a smooth
strong view, an operation of RandAugment, and Cutout."""
_WHITE, _BYTE_MIDDLE = 255, 127.5
_IDENTITY = OPERATIONS.index("identity")


@dataclass(frozen=True, kw_only=True)
class WeakAugment(Settings):
    """Flip and shift, as in FixMatch (Sohn et al., 2020, Sec. 2.3)."""

    shift: Share = 0.125
    """Largest shift, as a share of the side; what moves in is mirrored."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""


@dataclass(frozen=True, kw_only=True)
class StrongAugment(Settings):
    """A random affine map, brightness, contrast and Cutout; for small grey images.

    RandAugment moves whole pixels, and on 8x8 images a pixel is as wide as a stroke.
    Here geometry is resampled once, smoothly, and every image gets some of everything.
    """

    rotation: float = 15.0
    """Largest rotation, in degrees."""
    shear: float = 0.15
    """Largest shear along either axis."""
    scale: Share = 0.1
    """Largest relative change of size."""
    shift: Share = 0.125
    """Largest shift, as a share of the side; what moves in repeats the border."""
    brightness: float = 0.1
    """Largest change of brightness, on a range of values from -1 to 1."""
    contrast: Share = 0.3
    """Largest relative change of contrast, around the mean of the image."""
    cutout: Share = 0.25
    """Side of the grey square, as a share of the side (DeVries and Taylor, 2017)."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""


@dataclass(frozen=True, kw_only=True)
class RandAugment(Settings):
    """A weak view, a few operations drawn for each image, and Cutout.

    The strong view of FixMatch (Sohn et al., 2020, Sec. 2.3 and Table 12), after
    RandAugment (Cubuk et al., 2020); defaults are those of the official code. Each
    image has its own operations, strengths and signs.
    """

    operations: tuple[Operation, ...] = OPERATIONS
    """What is drawn from; one that is named twice is drawn twice as often."""
    num_operations: Annotated[int, Limits(at_least=0)] = 2
    """Operations drawn for each image, one after the other, with replacement."""
    probability: Annotated[float, Limits(at_least=0, at_most=1)] = 0.5
    """How likely an operation that was drawn is carried out."""
    levels: Literal["whole", "continuous"] = "whole"
    """How strengths are drawn: ``"whole"`` for 1, 2, ... 9, ``"continuous"`` for
    anything from 0 to 10."""
    ranges: Ranges = "official"
    """What a strength means: ``"official"`` as in the official code, ``"paper-table"``
    as in Table 12; see ``docs/augmentation.md``."""
    empty: Literal["grey", "black"] = "grey"
    """What fills the place that an image was moved away from. ``"black"``: black.
    ``"grey"``: black until the end, then mid-grey; but what a later autocontrast,
    equalize, solarize or posterize made of the black stays, as in the official code."""
    cutout: Share = 0.5
    """Side of the square that is covered in the end, as a share of the side."""
    varies_cutout: bool = False
    """Draw each square's side, from 0 to ``cutout``, and the square as USB does: its
    top left corner never leaves the image, and it is a pixel longer than its side."""
    cutout_fill: Annotated[
        int | tuple[int, int, int], Limits(at_least=0, at_most=255)
    ] = MID_GREY
    """Color of the square, 0 to 255: one number, or red, green and blue. Images that
    do not have three channels get the mean of the three."""
    shift: Share = 0.125
    """Largest shift of the weak view, as a share of the side."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        super().__post_init__()
        if self.num_operations and not self.operations:
            raise UsageError(
                f"num_operations is {self.num_operations}; name operations to draw."
            )


Strong = RandAugment | StrongAugment
"""Everything that :func:`fewlabels.data.augment.strong` takes as settings."""

_PRESETS: dict[str, Strong] = {
    # google-research/fixmatch, the variant with RandAugment, on CIFAR.
    "official": RandAugment(flip=True),
    # Table 12 of the paper, with continuous strengths.
    "paper-table": RandAugment(
        levels="continuous", ranges="paper-table", empty="black", flip=True
    ),
    # microsoft/Semi-supervised-learning.
    "usb": RandAugment(
        num_operations=3,
        probability=1.0,
        levels="continuous",
        ranges="paper-table",
        empty="black",
        varies_cutout=True,
        cutout_fill=(125, 123, 114),
        flip=True,
    ),
    "small-grey": StrongAugment(),
}


def preset_names() -> tuple[str, ...]:
    """Return the names of the presets."""
    return tuple(_PRESETS)


def preset(name: str) -> Strong:
    """Return the settings of a strong view by name.

    The first three are for photographs and mirror them; for images with a left and a
    right, such as digits, take ``dataclasses.replace(preset(name), flip=False)``.

    Example:
        >>> preset("usb").num_operations
        3

    Args:
        name: One of :func:`preset_names`.

    Returns:
        The settings.

    Raises:
        UnknownNameError: If there is no such preset.
    """
    if name not in _PRESETS:
        raise UnknownNameError("preset of strong views", name, _PRESETS)
    return _PRESETS[name]


def weak(images: Tensor, generator: Generator, settings: WeakAugment) -> Tensor:
    """Return each image flipped at random and shifted by whole pixels.

    Args:
        images: uint8 or floats, shape (n, c, h, w).
        generator: The only source of randomness.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    size = (_NUM_WEAK, len(images))
    draws = torch.rand(size, generator=generator, dtype=torch.float32)
    return shift_and_flip(images, draws, settings)


def strong(images: Tensor, generator: Generator, settings: Strong) -> Tensor:
    """Return each image changed a lot, each in its own way.

    Args:
        images: uint8, or floats in [-1, 1], shape (n, c, h, w). :class:`RandAugment`
            rounds floats to the 256 levels that bytes stand for.
        generator: The only source of randomness.
        settings: How to change them; see :func:`fewlabels.data.augment.preset`.

    Returns:
        New images of the same shape and type.
    """
    if not len(images):
        return images.clone()
    is_bytes = images.dtype == torch.uint8
    if isinstance(settings, StrongAugment):
        dtype = torch.float32 if is_bytes else images.dtype
        size = (_NUM_SMOOTH, len(images))
        draws = torch.rand(size, generator=generator, dtype=dtype)
        return smooth_view(images, draws, settings)
    size = (len(images), num_draws(settings))
    draws = torch.rand(size, generator=generator, dtype=torch.float64)
    if is_bytes:
        return view(images, draws, settings)
    rounded = ((images.float() + 1) * _BYTE_MIDDLE).round_().clamp_(0, _WHITE)
    views = view(rounded.to(torch.uint8), draws, settings)
    return views.to(images.dtype).div_(_BYTE_MIDDLE).sub_(1)


def num_draws(settings: WeakAugment | Strong) -> int:
    """Return how many uniform numbers a view of one image needs (D)."""
    if isinstance(settings, WeakAugment):
        return _NUM_WEAK
    if isinstance(settings, StrongAugment):
        return _NUM_SMOOTH
    return _NUM_WEAK + settings.num_operations * _NUM_EACH + _NUM_CUTOUT


def view(images: Tensor, draws: Tensor, settings: WeakAugment | Strong) -> Tensor:
    """Return the weak or strong views that uniform draws determine.

    Args:
        images: uint8, shape (n, c, h, w).
        draws: From 0 to below 1, float64, shape (n, D); see :func:`num_draws`.
        settings: How to change images; they say whether views are weak or strong.

    Returns:
        New images of the same shape.
    """
    if isinstance(settings, WeakAugment):
        return shift_and_flip(images, draws.T, settings)
    if isinstance(settings, StrongAugment):
        return smooth_view(images, draws.T.float(), settings)
    return apply_draws(images, read_draws(draws, settings), settings)


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


def read_draws(uniform: Tensor, settings: RandAugment) -> DrawnOperations:
    """Return what uniform numbers, float64, shape (n, :func:`num_draws`), stand for."""
    weak, rounds, cutout = uniform.T.tensor_split((_NUM_WEAK, -_NUM_CUTOUT))
    rounds = rounds.view(settings.num_operations, _NUM_EACH, len(uniform))
    which, whether, how_much, sign = rounds.unbind(1)
    codes = [OPERATIONS.index(name) for name in settings.operations]
    pool = torch.tensor(codes, dtype=torch.int64)
    operations = pool[(which * len(pool)).long()]
    is_whole = settings.levels == "whole"
    levels = (how_much * 9).floor() + 1 if is_whole else how_much * 10
    sides = cutout[2] if settings.varies_cutout else torch.ones_like(cutout[2])
    return DrawnOperations(
        weak=weak,
        operations=operations.masked_fill(whether >= settings.probability, _IDENTITY),
        levels=levels,
        signs=1 - 2 * (sign < 1 / 2).double(),
        centers=cutout[:2],
        sides=sides * settings.cutout,
    )


def apply_draws(
    images: Tensor, draws: DrawnOperations, settings: RandAugment
) -> Tensor:
    """Return what the draws make of images, uint8, shape (n, c, h, w)."""
    weak = shift_and_flip(images, draws.weak, settings)
    canvas = torch.cat([weak, torch.full_like(weak[:, :1], _WHITE)], dim=1)
    for draw in zip(draws.operations, draws.levels, draws.signs, strict=True):
        canvas = apply_round(canvas, draw, settings.ranges)
    views, is_full = canvas[:, :-1], canvas[:, -1:]
    if settings.empty == "grey":
        views = _either(is_full, views, torch.tensor(MID_GREY, dtype=torch.uint8))
    num_channels, *sides = images.shape[1:]
    is_covered = cutout_mask(
        draws.centers, draws.sides, *sides, as_usb=settings.varies_cutout
    )
    given = settings.cutout_fill
    fill: tuple[int, ...] = (given,) if isinstance(given, int) else given
    if len(fill) != num_channels:
        fill = (round(sum(fill) / len(fill)),)
    color = torch.tensor(fill, dtype=torch.uint8)[:, None, None]
    return _either(is_covered.to(torch.uint8) * _WHITE, color, views)


def _either(mask: Tensor, chosen: Tensor, other: Tensor) -> Tensor:
    """Return ``chosen`` where all bits of the mask are set, ``other`` where none is.

    All are bytes. Ten times as fast as ``torch.where``.
    """
    return (chosen & mask) | (other & ~mask)


def shift_and_flip(
    images: Tensor, draws: Tensor, settings: WeakAugment | RandAugment
) -> Tensor:
    """Return the weak views that uniform numbers stand for.

    Args:
        images: Any type, shape (n, c, h, w).
        draws: From 0 to below 1, shape (3, n): shift down, shift right, flip.
        settings: How far to go.

    Returns:
        New images of the same shape and type.
    """
    height, width = images.shape[2:]
    rows = _positions(height, draws[0], settings.shift)
    columns = _positions(width, draws[1], settings.shift)
    if settings.flip:
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
    bands: list[Tensor] = []
    for size, centers in zip((height, width), draws, strict=True):
        positions = torch.arange(size)
        if as_usb:
            lengths = (shares * size)[:, None]
            middle = (1 + centers * (size - 1))[:, None]
            first = (middle - lengths / 2).clamp_(min=0).floor()
            is_covered = (positions <= (first + lengths).floor()) & (lengths > 0)
        else:
            sides = (shares * size).round().long()[:, None]
            first = (centers * size).long()[:, None] - sides // 2
            is_covered = positions < first + sides
        bands.append((positions >= first) & is_covered)
    return (bands[0][:, :, None] & bands[1][:, None, :])[:, None]


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
