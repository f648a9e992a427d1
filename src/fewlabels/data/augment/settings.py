"""What may be set about views, and strong views that have a name."""

from dataclasses import dataclass
from typing import Annotated, Literal, get_args

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
    """What stands where an image was moved away. ``"black"``: black, from then on.
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
