"""What a pretrained network wants of images: size, crop, interpolation, mean, spread.

Shapes: n images, c channels, h and w pixels.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch.nn.functional as F
from torch import Tensor, nn

from fewlabels.errors import UsageError

Interpolation = Literal["nearest", "bilinear", "bicubic"]

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colors of ImageNet, which most networks are told to expect."""

_COLORS = 3
_HIGHEST = 255.0


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
    is_bgr: bool = False
    """Whether the network wants blue first."""
    rounds_up: bool = False
    """Which pixel a center between two goes to: timm's, or that of transformers."""

    def __post_init__(self) -> None:
        """Check what files may say."""
        if self.interpolation not in get_args(Interpolation):
            raise UsageError(
                f"Images would have to be resized by '{self.interpolation}', which is "
                f"not known here. Known: {', '.join(get_args(Interpolation))}."
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
        levels = levels.flip(1) if self.is_bgr else levels
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
        resized = F.interpolate(levels, scale, mode=self.interpolation, antialias=True)
        return resized.round().clamp(0, _HIGHEST)

    def _cropped(self, levels: Tensor) -> Tensor:
        if self.crop is None:
            return levels
        (height, width), (tall, wide) = levels.shape[2:], self.crop
        top, left = (self._middle(height - tall), self._middle(width - wide))
        return levels[:, :, top : top + tall, left : left + wide]

    def _middle(self, left_over: int) -> int:
        return round(left_over / 2) if self.rounds_up else left_over // 2


class Prepared(nn.Module):
    """A network together with the preparation of its images."""

    def __init__(self, network: nn.Module, preparation: Preparation) -> None:
        """Put both together.

        Args:
            network: Gives rows, or maps, of its input.
            preparation: What makes the input of images in [-1, 1].
        """
        super().__init__()
        self.network = network
        self.preparation = preparation

    def forward(self, images: Tensor) -> Tensor:
        """Return what the network gives for images, shape (n, c, h, w)."""
        outputs: Tensor = self.network(self.preparation.of(images))
        return outputs
