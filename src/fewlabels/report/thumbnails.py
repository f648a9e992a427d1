"""Small pictures of items, inside the page."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fewlabels.errors import FewlabelsError

if TYPE_CHECKING:
    from fewlabels.pool import Images, Pool

_LARGEST = 128
LARGEST_LOSSLESS = 64
"""Longest side, in pixels, of images that are shown pixel by pixel."""

_LARGEST_TINY = 16
_READ_TOGETHER = 64


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Pictures of a pool's items by id; each is read once, however often shown."""

    pool: "Pool"
    _made: dict[str, str | None] = field(default_factory=dict)

    @property
    def size(self) -> Literal["tiny", "small", "large"]:
        """How large the images of the pool are."""
        side = max(self.pool.images.shape[-2:])
        if side > LARGEST_LOSSLESS:
            return "large"
        return "tiny" if side <= _LARGEST_TINY else "small"

    def prepare(self, ids: Iterable[str]) -> None:
        """Read the items that the page will show, some at a time."""
        positions = {name: index for index, name in enumerate(self.pool.ids)}
        wanted = [name for name in dict.fromkeys(ids) if name in positions]
        for begin in range(0, len(wanted), _READ_TOGETHER):
            names = wanted[begin : begin + _READ_TOGETHER]
            there = {name: positions[name] for name in names}
            self._made.update(_pictures(self.pool.images, there))

    def of(self, name: str) -> str | None:
        """Return a picture as a data URI; None where the item is gone or no image."""
        return self._made.get(name)


def _pictures(images: "Images", there: Mapping[str, int]) -> dict[str, str | None]:
    if len(images.shape) != 3 or not there:
        return {}
    import torch

    try:
        pixels = images.read(torch.tensor(list(there.values()), dtype=torch.int64))
    except (FewlabelsError, OSError):
        if len(there) == 1:
            return {}
        one_by_one = [_pictures(images, {name: there[name]}) for name in there]
        return {name: uri for found in one_by_one for name, uri in found.items()}
    shown = pixels.to(torch.uint8).numpy()
    return {name: data_uri(item) for name, item in zip(there, shown, strict=True)}


def encoded(pixels: NDArray[np.uint8], largest: int) -> tuple[str, bytes]:
    """Return an image (C, H, W) as type and bytes: PNG if small, else reduced JPEG."""
    channels_last = np.ascontiguousarray(pixels.transpose(1, 2, 0))
    grey = channels_last[:, :, 0]
    image = Image.fromarray(channels_last if channels_last.shape[2] == 3 else grey)
    is_small = max(image.size) <= LARGEST_LOSSLESS
    image.thumbnail((largest, largest))
    file = BytesIO()
    if is_small:
        image.save(file, "PNG", optimize=True)
    else:
        image.save(file, "JPEG", quality=85)
    return f"image/{'png' if is_small else 'jpeg'}", file.getvalue()


def data_uri(pixels: NDArray[np.uint8], largest: int = _LARGEST) -> str:
    """Return an image (C, H, W) as a data URI, as :func:`encoded` makes it."""
    kind, content = encoded(pixels, largest)
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
