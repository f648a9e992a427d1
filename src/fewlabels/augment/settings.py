"""What may be set about views."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from fewlabels.errors import UsageError
from fewlabels.naming import check_known

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
Levels = Literal["whole", "continuous"]
"""How strengths are drawn: 1, 2, ... 9, or anything from 0 to 10."""
Ranges = Literal["official", "paper-table"]
"""What a strength means: as in the official code, or as in the paper's Table 12."""
Empty = Literal["grey", "black"]
"""What stands where an image was moved away."""

MID_GREY = 127
"""The byte just below the middle; the official code puts 0 on a scale of -1 to 1."""
_WHITE = 255


@dataclass(frozen=True, kw_only=True)
class WeakAugment:
    """Flip and shift, as in FixMatch (Sohn et al., 2020, Sec. 2.3)."""

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    shift: float = 0.125
    """Largest shift, as a share of the side; what moves in is mirrored."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        _check_share("shift", self.shift)


@dataclass(frozen=True, kw_only=True)
class StrongAugment:
    """A random affine map, brightness, contrast and Cutout; for small grey images.

    RandAugment moves whole pixels, and on 8x8 images a pixel is as wide as a stroke.
    Here geometry is resampled once, smoothly, and every image gets some of everything.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    rotation: float = 15.0
    """Largest rotation, in degrees."""
    shear: float = 0.15
    """Largest shear along either axis."""
    scale: float = 0.1
    """Largest relative change of size."""
    shift: float = 0.125
    """Largest shift, as a share of the side; what moves in repeats the border."""
    brightness: float = 0.1
    """Largest change of brightness, on a range of values from -1 to 1."""
    contrast: float = 0.3
    """Largest relative change of contrast, around the mean of the image."""
    cutout: float = 0.25
    """Side of the grey square, as a share of the side (DeVries and Taylor, 2017)."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name in ("scale", "shift", "contrast", "cutout"):
            _check_share(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True)
class RandAugment:
    """A weak view, a few operations drawn for each image, and Cutout.

    The strong view of FixMatch (Sohn et al., 2020, Sec. 2.3 and Table 12), after
    RandAugment (Cubuk et al., 2020); defaults are those of the official code. Each
    image has its own operations, strengths and signs.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}

    operations: tuple[Operation, ...] = OPERATIONS
    """What is drawn from; one that is named twice is drawn twice as often."""
    num_operations: int = 2
    """Operations drawn for each image, one after the other, with replacement."""
    probability: float = 0.5
    """How likely an operation that was drawn is carried out."""
    levels: Levels = "whole"
    """How strengths are drawn: ``"whole"`` for 1, 2, ... 9, ``"continuous"`` for
    anything from 0 to 10."""
    ranges: Ranges = "official"
    """What a strength means: ``"official"`` as in the official code, ``"paper-table"``
    as in Table 12; see ``docs/augmentation.md``."""
    empty: Empty = "grey"
    """What stands where an image was moved away. ``"black"``: black, from then on.
    ``"grey"``: black until the end, then mid-grey; but what a later autocontrast,
    equalize, solarize or posterize made of the black stays, as in the official code."""
    cutout: float = 0.5
    """Side of the square that is covered in the end, as a share of the side."""
    varies_cutout: bool = False
    """Draw each square's side, from 0 to ``cutout``, and the square as USB does: its
    top left corner never leaves the image, and it is a pixel longer than its side."""
    cutout_fill: int | tuple[int, int, int] = MID_GREY
    """Color of the square, 0 to 255: one number, or red, green and blue. Images that
    do not have three channels get the mean of the three."""
    shift: float = 0.125
    """Largest shift of the weak view, as a share of the side."""
    flip: bool = False
    """Mirror half of the images left to right; for photographs, not for digits."""

    def __post_init__(self) -> None:
        """Check names and ranges."""
        for name in self.operations:
            check_known("operation", name, Operation)
        check_known("way to draw levels", self.levels, Levels)
        check_known("table of ranges", self.ranges, Ranges)
        check_known("filling of empty places", self.empty, Empty)
        _check_share("shift", self.shift)
        _check_share("cutout", self.cutout)
        self._check_counts()
        self._check_color()

    def _check_counts(self) -> None:
        if self.num_operations < 0 or (self.num_operations and not self.operations):
            raise UsageError(
                f"num_operations is {self.num_operations} and {len(self.operations)} "
                "operations are named to draw from. Draw 0 or more, and name at least "
                "one unless none is drawn."
            )
        if not 0 <= self.probability <= 1:
            raise UsageError(f"probability is {self.probability}; it goes from 0 to 1.")

    def _check_color(self) -> None:
        fill = self.cutout_fill
        values = (fill,) if isinstance(fill, int) else tuple(fill)
        if len(values) not in {1, 3} or not all(0 <= v <= _WHITE for v in values):
            raise UsageError(
                f"cutout_fill is {fill}; give one number, or three for red, green and "
                f"blue, each from 0 to {_WHITE}."
            )


Strong = RandAugment | StrongAugment
"""Everything that :func:`fewlabels.augment.strong` takes as settings."""


def _check_share(name: str, value: float) -> None:
    if not 0.0 <= value < 1.0:
        raise UsageError(f"{name} is {value}; it is a share, from 0 to below 1.")
