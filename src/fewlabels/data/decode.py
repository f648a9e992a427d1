"""One image file: checked once, then decoded whenever it is needed.

No file is trusted. Bytes are read only from regular files up to ``MAX_BYTES``, only
the formats in ``FORMATS`` are tried, only by decoders written in C, and the sizes in
the header, of the image and of the tiles of a TIFF file, are compared with
``MAX_PIXELS`` before a pixel is decoded. All threads together hold no more bytes and
pixels than one file may have; 80 million pixels take about a gigabyte.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from threading import Condition

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

from fewlabels.data.untrusted import DAMAGE
from fewlabels.errors import DataError
from fewlabels.files import digest_of, open_regular

Pixels = NDArray[np.uint8]
Shape = tuple[int, int, int]
"""Channels, height and width."""

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""The image formats that are read, by their names in Pillow."""

MAX_PIXELS = 80_000_000
"""Largest image that is decoded; Pillow begins to warn a little above."""

MAX_BYTES = 512 * 2**20
"""Largest file that is read."""

# Pillow takes memory in blocks of 16 MB, and what a thread returns of such blocks the C
# library may keep for that thread. Larger ones go back to the system at once.
Image.core.set_block_size(2**26)  # type: ignore[attr-defined] # documented, not typed

_JPEG, _SCAN = b"\xff\xd8", b"\xff\xda"
_MOST_PASSES = 10
"""How often the tiles of an image may cover it, and its bytes may be read."""
_TILE_SIDES, _TILE_BYTES = (322, 323), (279, 325)
"""Tags of TIFF: width and height of tiles; sizes in bytes of strips and of tiles."""
_TIFF_HEADERS = {b"II*\0": "<4xI", b"MM\0*": ">4xI", b"II+\0": "<8xQ"}
_BAND = 2**20
"""Pixels whose values are looked at together."""

_GREY_MODES = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N"})
_TURN = Image.Transpose
_TURNS = (  # by the numbers of EXIF, from 0; from 5 on, width and height change places
    *(None, None, _TURN.FLIP_LEFT_RIGHT, _TURN.ROTATE_180, _TURN.FLIP_TOP_BOTTOM),
    *(_TURN.TRANSPOSE, _TURN.ROTATE_270, _TURN.TRANSVERSE, _TURN.ROTATE_90),
)


class MemoryBudget:
    """An amount of memory for all threads; a thread waits until enough is free.

    Example:
        >>> budget = MemoryBudget(10)
        >>> with budget.reserve(7), budget.reserve(3):
        ...     print("full")
        full
    """

    def __init__(self, size: int) -> None:
        """Begin with all of it free."""
        self._size = self._free = size
        self._changed = Condition()

    @contextmanager
    def reserve(self, amount: int) -> Iterator[None]:
        """Reserve some of it while the block runs; more than all counts as all."""
        needed = min(amount, self._size)
        with self._changed:
            self._changed.wait_for(lambda: self._free >= needed)
            self._free -= needed
        try:
            yield
        finally:
            with self._changed:
                self._free += needed
                self._changed.notify_all()


_BYTES, _PIXELS = MemoryBudget(MAX_BYTES), MemoryBudget(MAX_PIXELS)


@dataclass(frozen=True)
class ImageFile:
    """What is known of an image file after it was checked."""

    name: str
    """Path below the folder that was read, with forward slashes."""
    path: Path
    digest: str
    """Hash of the file's bytes, 16 hexadecimal digits."""
    height: int
    width: int
    is_grey: bool
    orientation: int
    """How the camera was held, as EXIF numbers it; height and width are upright."""

    @property
    def item_id(self) -> str:
        """A name that outlives the position: relative path and content hash."""
        return f"{self.name}@{self.digest}"


def inspect(name: str, path: Path) -> ImageFile:
    """Return what is known of a file, after checking it down to its last pixel.

    Anything but a whole image in a known format raises :class:`DataError`.
    """
    with _opened(path) as (image, digest):
        return _checked(image, name, path, digest, draft_side=1)


def inspect_with_thumbnail(
    name: str, path: Path, side: int
) -> tuple[ImageFile, Pixels]:
    """Return what :func:`inspect` does, and a thumbnail.

    Every pixel of the thumbnail is a weighted mean of the area around it, so that the
    same picture in another size gives nearly the same: (side, side, 3), upright, as
    lightness and two color differences (YCbCr).
    """
    with _opened(path) as (image, digest):
        file = _checked(image, name, path, digest, draft_side=8 * side)
        flat = _converted(_turned(_eight_bit(image), file.orientation), "RGB")
        small = flat.resize((side, side), Image.Resampling.BILINEAR)
        return file, np.asarray(small.convert("YCbCr"), dtype=np.uint8)


def _checked(
    image: Image.Image, name: str, path: Path, digest: str, *, draft_side: int
) -> ImageFile:
    """Decode an image whole; a JPEG no larger than it takes to cover ``draft_side``."""
    width, height = image.size
    orientation = int(image.getexif().get(ExifTags.Base.Orientation, 1))
    is_grey = image.mode in _GREY_MODES
    image.draft(image.mode, (draft_side, draft_side))
    image.load()
    if image.mode == "P" and image.palette is None:
        raise DataError("damaged: the palette is missing")
    if image.mode[0] in "IF":  # the range is known from the pixels only
        _eight_bit(image)
    if orientation in range(5, 9):
        width, height = height, width
    return ImageFile(name, path, digest, height, width, is_grey, orientation)


def decode(file: ImageFile, shape: Shape) -> Pixels:
    """Return the pixels of a file that was checked before, brought to a shape.

    The shape is channels (1 or 3), height and width. A file that has changed since
    raises :class:`DataError`.
    """
    with _opened(file.path) as (image, digest):
        if digest != file.digest:
            raise DataError("its content has changed")
        if shape[1:] != (file.height, file.width):
            image.draft(image.mode, (2 * max(shape), 2 * max(shape)))
        image.load()  # only then it is known what a palette holds
        return _fitted(image, file.orientation, shape)


def decode_once(source: Path | bytes, shape: Shape) -> Pixels:
    """Return the pixels of a file or its bytes, checked and brought to a shape at once.

    The result is that of :func:`inspect` followed by :func:`decode`.
    """
    with _opened(source) as (image, digest):
        file = _checked(image, "", Path(), digest, draft_side=2 * max(shape))
        return _fitted(image, file.orientation, shape)


def _fitted(image: Image.Image, orientation: int, shape: Shape) -> Pixels:
    """Return the pixels of an image that was loaded: upright, of a shape."""
    channels, height, width = shape
    upright = _turned(_eight_bit(image), orientation)
    flat = _converted(upright, "L" if channels == 1 else "RGB")
    sized = flat.resize((width, height), Image.Resampling.BILINEAR)
    pixels = np.asarray(sized, dtype=np.uint8).reshape(height, width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


@contextmanager
def _opened(source: Path | bytes) -> Iterator[tuple[Image.Image, str]]:
    """Yield an image that is not decoded yet, and the digest of its bytes."""
    with _content(source) as content:
        try:
            image = _identified(content)
            tile_size = _tile_size(image, content)
            _check_effort(image, tile_size, content)
            with _PIXELS.reserve(max(prod(image.size), prod(tile_size))):
                yield image, digest_of(content)
        except DataError:
            raise
        except (*DAMAGE, Image.DecompressionBombError) as error:
            reason = " ".join(str(error).split())[:120] or type(error).__name__
            raise DataError(f"damaged: {reason}") from error


def _check_effort(image: Image.Image, tile: tuple[int, int], content: bytes) -> None:
    """Refuse too many pixels, and pixels that are decoded again and again.

    A progressive JPEG goes over its pixels about ten times, and a few bytes are enough
    for one more scan. Decoders in Python take seconds for a few kilobytes (run-length
    encoded BMP, PPM as text), and block all other threads.
    """
    for words, size in ("", image.size), ("a tile of ", tile):
        if prod(size) > MAX_PIXELS:
            seen = f"{words}{size[0]} x {size[1]}"
            raise DataError(f"{seen} is more than {MAX_PIXELS:,} pixels")
    num_scans = content.count(_SCAN) if content.startswith(_JPEG) else 0
    if num_scans * prod(image.size) > 50 * MAX_PIXELS:
        raise DataError(f"{num_scans:,} scans of {image.width} x {image.height} pixels")
    passes = 0
    for name, (left, top, right, bottom), *_ in getattr(image, "tile", ()):
        if name in Image.DECODERS:
            raise DataError(f"its encoding ({name}) is not supported; save it as PNG")
        passes += (right - left) * (bottom - top)
    if passes > _MOST_PASSES * image.width * image.height:
        raise DataError("damaged: its tiles overlap")


def _tile_size(image: Image.Image, content: bytes) -> tuple[int, int]:
    """Return width and height of the tiles of a TIFF file; zeros if it has none.

    A tile is decoded whole, however small the image that is cut out of it. Pillow and
    the library that decodes may differ about a tag that is listed twice, or is of a
    type that only one of them knows: such files are refused.
    """
    if image.format != "TIFF":
        return 0, 0
    layout = _TIFF_HEADERS.get(content[:4])
    if layout is None:
        raise DataError("its kind of TIFF is not supported; save it as PNG")
    order, is_big = layout[0], layout[-1] == "Q"
    (start,) = struct.unpack_from(layout, content)
    (num_tags,) = struct.unpack_from(order + ("Q" if is_big else "H"), content, start)
    start, step = (start + 8, 20) if is_big else (start + 2, 12)
    end = min(start + step * num_tags, len(content) - 1)
    listed = [
        struct.unpack_from(f"{order}H", content, i)[0] for i in range(start, end, step)
    ]
    tags = image.tag_v2  # type: ignore[attr-defined]
    if any(listed.count(tag) != (tag in tags) for tag in (*_TILE_SIDES, *_TILE_BYTES)):
        raise DataError("damaged: its tags contradict each other")
    if sum(sum(tags.get(tag, ())) for tag in _TILE_BYTES) > _MOST_PASSES * len(content):
        raise DataError("damaged: its tiles have more bytes than the file")
    width, height = (tags.get(tag, 0) for tag in _TILE_SIDES)
    if not (isinstance(width, int) and isinstance(height, int)):
        raise DataError("damaged: the size of its tiles is not a number")
    return width, height


@contextmanager
def _content(path: Path | bytes) -> Iterator[bytes]:
    """Yield the bytes of a regular file, as soon as there is memory for them."""
    if isinstance(path, bytes):
        if not path:
            raise DataError("empty, or not whole")
        yield path
        return
    try:
        with open_regular(path, MAX_BYTES) as file:
            num_bytes = os.fstat(file.fileno()).st_size
            if not num_bytes:
                raise DataError("empty: 0 bytes")
            with _BYTES.reserve(num_bytes):
                yield file.read(num_bytes)
    except ValueError as error:  # a NUL, or letters that no file system has
        raise DataError("no file can have this name") from error
    except FileNotFoundError as error:
        raise DataError("not found") from error
    except OSError as error:
        raise DataError(error.strerror or "cannot be read") from error


def _identified(content: bytes) -> Image.Image:
    """Read the header by the first format that accepts it."""
    # Image.open does the same and also warns of large images. A warning can be silenced
    # for all threads at once only, so it is better not to cause it.
    Image.init()
    for name in FORMATS:
        read, accepts = Image.OPEN[name]
        # Raised for files that begin like a format and are of another one.
        with suppress(SyntaxError, IndexError, TypeError, struct.error):
            if accepts is None or accepts(content[:16]) is True:
                return read(BytesIO(content), "")
    raise DataError(f"not an image of a known format: {', '.join(FORMATS)}")


def _eight_bit(image: Image.Image) -> Image.Image:
    """Return the image with 8 bits a channel and transparency laid over white."""
    is_deep = image.mode.startswith("I")
    if image.mode == "F":
        raise DataError("floating-point pixels have no fixed range")
    if not is_deep and not image.has_transparency_data:
        return image
    changed = Image.new("L" if is_deep else "RGB", image.size)
    num_rows = max(1, _BAND // image.width)  # only a band is in memory several times
    for top in range(0, image.height, num_rows):
        box = (0, top, image.width, min(top + num_rows, image.height))
        band = image.crop(box)
        if is_deep:
            values = np.asarray(band)
            if values.min() < 0 or values.max() > np.iinfo(np.uint16).max:
                raise DataError("more than 16 bits a pixel")
            changed.paste(Image.fromarray((values >> 8).astype(np.uint8)), box)
        else:
            white = Image.new("RGBA", band.size, "white")
            flat = Image.alpha_composite(white, band.convert("RGBA"))
            changed.paste(flat.convert("RGB"), box)
    return changed


def _converted(image: Image.Image, mode: str) -> Image.Image:
    return image if image.mode == mode else image.convert(mode)  # which would copy


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    """Return the image upright."""
    turn = _TURNS[orientation] if orientation in range(9) else None
    return image if turn is None else image.transpose(turn)
