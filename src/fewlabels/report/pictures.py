"""Small pictures of items inside a page, and galleries of them."""

import base64
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fewlabels.errors import FewlabelsError

if TYPE_CHECKING:
    from fewlabels.data.decode import ImageFile
    from fewlabels.pool import Images, Pool

LARGEST_LOSSLESS = 64
"""Longest side, in pixels, of images that are shown pixel by pixel."""

_LARGEST = 128
_LARGEST_TINY = 16


@dataclass(frozen=True)
class GalleryItem:
    """One image with its label."""

    name: str
    picture: str | None
    """A data URI; None where the item is gone."""
    caption: str
    """Its class, or that it has none."""
    state: str = "labeled"
    """"labeled", "skipped" or "open"."""


@dataclass(frozen=True)
class Gallery:
    """Images that were labeled together."""

    heading: str
    detail: str
    items: Sequence[GalleryItem]
    num_more: int
    """How many there are besides those shown."""


def readable_name(name: str) -> str:
    """Return the id of an item without the hash of its content."""
    return name.rpartition("@")[0] or name


def image_size(images: "Images") -> Literal["tiny", "small", "large"]:
    """Return how a page shows the images: the small ones enlarged pixel by pixel."""
    side = max(images.shape[-2:])
    if side > LARGEST_LOSSLESS:
        return "large"
    return "tiny" if side <= _LARGEST_TINY else "small"


def pictures_of(pool: "Pool", ids: Iterable[str]) -> dict[str, str]:
    """Return items as data URIs by id, without those that are gone or no image."""
    import torch

    wanted, pictures = set(ids), dict[str, str]()
    places = {name: index for index, name in enumerate(pool.ids) if name in wanted}
    for name, index in places.items() if len(pool.images.shape) == 3 else ():
        with suppress(FewlabelsError, OSError):
            (pixels,) = pool.images.read(torch.tensor([index]))
            pictures[name] = data_uri(pixels.to(torch.uint8).numpy())
    return pictures


def decode_within(file: "ImageFile", side: int) -> NDArray[np.uint8]:
    """Return an image (C, H, W) in its own proportions, no side longer than given."""
    from fewlabels.data.decode import decode

    scale = min(1.0, side / max(file.height, file.width))
    height, width = (max(1, round(scale * s)) for s in (file.height, file.width))
    return decode(file, (1 if file.is_grey else 3, height, width))


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
