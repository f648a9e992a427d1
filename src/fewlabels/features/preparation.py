"""What a pretrained network wants of images: size, crop, interpolation, mean, spread.

Shapes: n images, c channels, h and w pixels.
"""

from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fewlabels import rng
from fewlabels.errors import UsageError

Interpolation = Literal["nearest", "bilinear", "bicubic"]

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colors of ImageNet, which most networks are told to expect."""

LARGEST_SIDE = 2048
"""Largest height or width, in pixels, that images are resized or cut to."""

_COLORS = 3
_HIGHEST = 255.0
_USUAL_SIDE = 224


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """How images become the input of a network, in this order."""

    scale: int | tuple[int, int] | None
    """The shorter side, or height and width, they are resized to; None: not at all."""
    crop: tuple[int, int] | None = None
    """Height and width that are cut out of the center; None: all is kept."""
    interpolation: Interpolation = "bilinear"
    """How they are resized, always with antialiasing unless it is ``"nearest"``."""
    mean: tuple[float, ...] = MEAN
    """Subtracted from colors in [0, 1]."""
    spread: tuple[float, ...] = SPREAD
    """What colors are divided by after that."""

    def __post_init__(self) -> None:
        """Check what files may say."""
        if self.interpolation not in get_args(Interpolation):
            raise UsageError(
                f"Images would have to be resized by '{self.interpolation}', which is "
                f"not known here. Known: {', '.join(get_args(Interpolation))}."
            )
        scale = self.scale if isinstance(self.scale, tuple) else (self.scale or 1,)
        for side in (*scale, *(self.crop or ())):
            if not isinstance(side, int) or not 1 <= side <= LARGEST_SIDE:
                raise UsageError(
                    f"Images would have to be brought to {self.scale} and cut to "
                    f"{self.crop} pixels; sides of 1 to {LARGEST_SIDE:,} are supported."
                )
        if {len(self.mean), len(self.spread)} != {_COLORS} or 0 in self.spread:
            raise UsageError(
                f"Mean and spread of the colors are {self.mean} and {self.spread}; "
                "three numbers each are needed, no spread of 0."
            )

    @property
    def side(self) -> int | None:
        """Shorter side of the images that it takes without enlarging them."""
        return min(self.scale) if isinstance(self.scale, tuple) else self.scale

    def of(self, images: Tensor) -> Tensor:
        """Return the input of the network.

        Args:
            images: In [-1, 1], shape (n, c, h, w); grey ones get three equal channels.

        Returns:
            float32, shape (n, 3, h, w).
        """
        levels = ((images + 1) * (_HIGHEST / 2)).round()
        levels = self._cropped(self._resized(levels.expand(-1, _COLORS, -1, -1)))
        mean, spread = (
            levels.new_tensor(values)[:, None, None]
            for values in (self.mean, self.spread)
        )
        return (levels / _HIGHEST - mean) / spread

    def _resized(self, levels: Tensor) -> Tensor:
        """Bring images to a size, rounded to whole levels, as image libraries do."""
        height, width = levels.shape[2:]
        scale = self.scale
        if isinstance(scale, int):
            short = min(height, width)
            scale = (int(scale * height / short), int(scale * width / short))
        if scale is None or scale == (height, width):
            return levels
        if self.interpolation == "nearest":
            return F.interpolate(levels, scale, mode="nearest-exact")
        for size in ((height, scale[1]), scale):  # rows first, as Pillow does
            levels = F.interpolate(
                levels, size, mode=self.interpolation, antialias=True
            )
            levels = levels.round().clamp(0, _HIGHEST)
        return levels

    def _cropped(self, levels: Tensor) -> Tensor:
        if self.crop is None:
            return levels
        (height, width), (tall, wide) = levels.shape[2:], self.crop
        top, left = round((height - tall) / 2), round((width - wide) / 2)
        return levels[:, :, top : top + tall, left : left + wide]


class Preparing(Protocol):
    """Makes the input of a network of images; its ``repr`` tells all that decides."""

    @property
    def side(self) -> int | None:
        """Shorter side of images that need not be enlarged; None: of no size."""
        ...

    def of(self, images: Tensor) -> Tensor:
        """Return the input (n, 3, h, w) that images in [-1, 1] become."""
        ...


class Prepared(nn.Module):
    """A network together with the preparation of its images."""

    def __init__(self, network: nn.Module, preparation: Preparing) -> None:
        """Put both together.

        Args:
            network: Gives rows, or maps, of its input.
            preparation: What makes the input of images in [-1, 1].
        """
        super().__init__()
        self.network = network
        self.preparation = preparation

    @property
    def side(self) -> int | None:
        """Side of images that need not be resized."""
        return self.preparation.side

    def tried(self) -> int:
        """Return how many features the network gives for an image of noise.

        One that draws at random, such as a masked autoencoder, is refused.
        """
        side = self.side or _USUAL_SIDE
        size, draws = (1, _COLORS, side, side), rng.stream(0, "noise to try")
        noise = 2 * torch.rand(size, generator=draws) - 1
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            first, again = self.eval()(noise), self(noise)
        if not torch.allclose(first, again):
            raise UsageError(
                "The network gives other features for the same image when asked again, "
                "so that nothing can be learned from them; choose another."
            )
        return int(first.shape[1])

    def forward(self, images: Tensor) -> Tensor:
        """Return what the network gives for images, shape (n, c, h, w)."""
        outputs: Tensor = self.network(self.preparation.of(images))
        return outputs
