"""Weak and strong views of images, a whole minibatch at a time.

Every image gets its own draws, all from an explicit generator, and there is no loop
over images. Images are uint8 or floats in [-1, 1], shape (n, c, h, w), and come back in
the same type; sizes are shares of the side, so that 8x8 and 32x32 images are changed
alike.

All numbers are drawn first, in one call, a row for each image: what happens to an image
depends on its place alone, never on the draws of others.

RandAugment works on bytes, exactly as Pillow does. Operations that move pixels are maps
from the new image to the old one: the pixel (x, y) takes its color at (a x + b y + c,
d x + e y + f), measured at the middle of pixels. Pillow rounds the six numbers to
1/65536 and goes on in whole numbers; so do we. Of those that change colors most look
only at the value of a channel: they are tables of 256 entries, and all images of a
minibatch can be looked up together, whatever the operation. The others look at a
pixel's other channels or at its neighbors. Three channels are red, green and blue; with
any other number the grey of a pixel is the mean of its channels, so one channel is its
own grey.

Shapes: m images of an operation as uint8, (m, c, h, w), and one number per image,
float64, (m,).
"""

import math
from dataclasses import dataclass
from typing import Annotated, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from fewlabels.errors import Limits, Settings, Share, UnknownNameError, UsageError

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

MID_GREY = 127
"""The byte just below the middle; the official code puts 0 on a scale of -1 to 1."""

_NUM_WEAK, _NUM_SMOOTH, _NUM_EACH, _NUM_CUTOUT = 3, 11, 4, 3
"""Numbers drawn for an image: for a weak view (shift down, shift right, flip), a smooth
strong view, an operation of RandAugment, and Cutout."""

_MAP_ENTRIES = {
    "shear-x": (0, 1),
    "shear-y": (1, 0),
    "translate-x": (0, 2),
    "translate-y": (1, 2),
}
"""Where a shear or a translation differs from the map that moves nothing."""
MOTIONS = ("rotate", *_MAP_ENTRIES)
"""Operations that move pixels. They go either way: a sign says which."""

_WHITE = 255


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

PRESETS: dict[str, Strong] = {
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
"""Settings of strong views by name."""


def preset(name: str) -> Strong:
    """Return the settings of a strong view by name.

    The first three are for photographs and mirror them; for images with a left and a
    right, such as digits, take ``dataclasses.replace(preset(name), flip=False)``.

    Example:
        >>> preset("usb").num_operations
        3

    Args:
        name: One of :data:`PRESETS`.

    Returns:
        The settings.

    Raises:
        UnknownNameError: If there is no such preset.
    """
    if name not in PRESETS:
        raise UnknownNameError("preset of strong views", name, PRESETS)
    return PRESETS[name]


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
    rounded = ((images.float() + 1) * 127.5).round_().clamp_(0, _WHITE)
    views = view(rounded.to(torch.uint8), draws, settings)
    return views.to(images.dtype).div_(127.5).sub_(1)


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
    which, whether, strength, sign = rounds.unbind(1)
    codes = [OPERATIONS.index(name) for name in settings.operations]
    pool = torch.tensor(codes, dtype=torch.int64)
    operations = pool[(which * len(pool)).long()]
    operations[whether >= settings.probability] = OPERATIONS.index("identity")
    is_whole = settings.levels == "whole"
    sides = cutout[2] if settings.varies_cutout else torch.ones_like(cutout[2])
    return DrawnOperations(
        weak=weak,
        operations=operations,
        levels=(strength * 9).floor() + 1 if is_whole else strength * 10,
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
    as_usb, fill = settings.varies_cutout, settings.cutout_fill
    is_covered = cutout_mask(draws.centers, draws.sides, *sides, as_usb=as_usb)
    if isinstance(fill, tuple) and len(fill) != num_channels:
        fill = round(sum(fill) / len(fill))
    color = torch.tensor(fill, dtype=torch.uint8).view(-1, 1, 1)
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
    values = images.float() / 127.5 - 1 if is_bytes else images
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
        return ((values + 1) * 127.5).round_().to(torch.uint8)
    return values


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
        taken = taken * 30 / 10
    elif operation in {"shear-x", "shear-y"}:
        taken = taken * 0.3 / 10
    elif operation in {"translate-x", "translate-y"}:
        side = sides[1] if operation == "translate-x" else sides[0]
        if is_official:  # as many pixels as the strength on images of 32
            taken = (taken * side / 32).trunc()
        else:  # up to 0.3 of the side; the nearest pixel, halves upward, as in Pillow
            taken = (taken * 0.3 / 10 * side + 0.5).floor()
    elif operation == "solarize":
        taken = 256 - (taken * 256 / 10).trunc()
    elif operation == "posterize":
        bits = (taken * 4 / 10).trunc()  # at least one, where official code fails
        taken = (4 - bits).clamp(min=1) if is_official else 4 + bits
    elif operation in {"color", "contrast", "brightness", "sharpness"}:
        span, least = (1.8, 0.1) if is_official else (0.9, 0.05)
        taken = taken * span / 10 + least
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
    fixed = (coefficients * 2**16 + 0.5).floor().to(torch.int32)
    columns = torch.arange(width, dtype=torch.int32)
    rows = torch.arange(height, dtype=torch.int32)
    by_column = fixed[:, :, 0, None] * columns + fixed[:, :, 2, None]
    by_row = fixed[:, :, 1, None] * rows
    sources = (by_row[:, :, :, None] + by_column[:, :, None, :]) >> 16
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
    first_bins = torch.arange(flat[..., 0].numel(), dtype=torch.int32) * 256
    bins = flat.flatten(0, 1) + first_bins[:, None]
    counts = torch.bincount(bins.flatten(), minlength=len(bins) * 256)
    counts = counts.view(*flat.shape[:2], 256)  # of each value in each channel
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


_TABLED = (autocontrast, equalize, solarize, posterize, contrast, brightness)
TABLES = {operation.__name__: operation for operation in _TABLED}
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
        inner = (..., slice(1, -1), slice(1, -1))  # the kernel of Pillow's SMOOTH:
        smooth[inner] = _rounded(boxes + 4 * values[inner], 13)  # its sum is 13
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
    return torch.arange(256, dtype=dtype)


def _grey(images: Tensor) -> Tensor:
    """Return one channel of whole numbers, 0 to 255: float32, (m, 1, h, w)."""
    values = images.float()
    if images.shape[1] != 3:
        return _rounded(values.sum(dim=1, keepdim=True), images.shape[1])
    red, green, blue = torch.split(values, 1, dim=1)
    # Rec. 601 luma in 1/65536: whole numbers under 2**24, which float32 holds exactly.
    return _rounded(19595.0 * red + 38470.0 * green + 7471.0 * blue, 2**16)


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
