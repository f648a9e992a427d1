"""One image file: checked once, then decoded whenever it is needed.

Nothing here trusts a file. The bytes are read only from regular files of bearable size,
only the formats in ``FORMATS`` are tried, and the size in the header is compared with
``MAX_PIXELS`` before a single pixel is decoded.
"""

import stat
import struct
import zlib
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from fewlabels.errors import DataError

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF", "PPM")
"""The image formats that are read, by their names in Pillow."""

MAX_PIXELS = 80_000_000
"""Largest image that is decoded; Pillow begins to warn a little above."""

MAX_BYTES = 512 * 2**20
"""Largest file that is read."""

_GREY_MODES = frozenset({"1", "L", "LA", "La", "I", "I;16", "I;16B", "I;16L", "I;16N"})
_ORIENTATION_TAG = 0x0112
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = frozenset({5, 6, 7, 8})

# What Pillow's decoders raise on damaged bytes. Warnings are among them because they
# are errors where the caller's filters say so.
_DAMAGE = (
    OSError,
    SyntaxError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    NotImplementedError,
    OverflowError,
    MemoryError,
    EOFError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
    Warning,
)

# What they raise where a file begins like theirs and is another's.
_NOT_THIS_FORMAT = (SyntaxError, IndexError, TypeError, struct.error)
_PREFIX = 16


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


def digest_of(content: bytes | memoryview) -> str:
    """Return a short hash of some bytes: 16 hexadecimal digits."""
    return blake2b(content, digest_size=8).hexdigest()


def inspect(name: str, path: Path) -> ImageFile:
    """Check a file down to its last pixel.

    What is not a whole image in a known format raises :class:`DataError` that says why.

    Args:
        name: What to call it.
        path: Where it is.

    Returns:
        What is known of it.
    """
    return _examined(name, path, draft_side=1)[0]


def inspect_with_thumbnail(
    name: str, path: Path, side: int
) -> tuple[ImageFile, NDArray[np.uint8]]:
    """Check a file down to its last pixel and make a small picture of it.

    The file is read once. Every pixel of the thumbnail is a weighted mean of the
    area around it, so that the same picture in another size gives nearly the same.

    Args:
        name: What to call it.
        path: Where it is.
        side: Side of the square thumbnail.

    Returns:
        What is known of the file; pixels (side, side, 3), upright, as lightness and
        two color differences (YCbCr).

    Raises:
        DataError: If it is not a whole image in a known format; says why.
    """
    file, image = _examined(name, path, draft_side=8 * side)
    try:
        flat = _turned(_eight_bit(image), file.orientation).convert("RGB")
        small = flat.resize((side, side), Image.Resampling.BILINEAR)
    except _DAMAGE as error:
        raise DataError(f"damaged: {_sentence(error)}") from error
    return file, np.asarray(small.convert("YCbCr"), dtype=np.uint8)


def _examined(
    name: str, path: Path, *, draft_side: int
) -> tuple[ImageFile, Image.Image]:
    """Decode a file whole; a JPEG no larger than it takes to cover ``draft_side``."""
    content = _content(path)
    try:
        image = _opened(content)
        width, height = image.size
        orientation = int(image.getexif().get(_ORIENTATION_TAG, 1))
        is_grey = image.mode in _GREY_MODES
        image.draft(image.mode, (draft_side, draft_side))
        image.load()
        if image.mode[0] in "IF":  # the range is known from the pixels only
            _eight_bit(image)
    except _DAMAGE as error:
        raise DataError(f"damaged: {_sentence(error)}") from error
    if orientation in _SIDEWAYS:
        width, height = height, width
    file = ImageFile(
        name, path, digest_of(content), height, width, is_grey, orientation
    )
    return file, image


def decode(file: ImageFile, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Decode a file that was checked before.

    Args:
        file: The file.
        shape: Channels (1 or 3), height and width to bring it to.

    Returns:
        Pixels of that shape.

    Raises:
        DataError: If the file is no longer what it was.
    """
    channels, height, width = shape
    content = _content(file.path)
    try:
        image = _opened(content)
        if (height, width) != (file.height, file.width):
            image.draft(image.mode, (2 * max(shape), 2 * max(shape)))
        upright = _turned(_eight_bit(image), file.orientation)
        flat = upright.convert("L" if channels == 1 else "RGB")
        sized = flat.resize((width, height), Image.Resampling.BILINEAR)
    except _DAMAGE as error:
        raise DataError(f"damaged: {_sentence(error)}") from error
    pixels = np.asarray(sized, dtype=np.uint8).reshape(height, width, channels)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _content(path: Path) -> bytes:
    """Return the bytes of a regular file of bearable size."""
    try:
        state = path.stat()
        if stat.S_ISDIR(state.st_mode):
            raise DataError("a folder, not a file")
        if not stat.S_ISREG(state.st_mode):
            raise DataError("not a regular file")
        if not state.st_size:
            raise DataError("empty: 0 bytes")
        if state.st_size > MAX_BYTES:
            raise DataError(f"{state.st_size:,} bytes; at most {MAX_BYTES:,}")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(_why_unread(path, error)) from error


def _why_unread(path: Path, error: OSError | ValueError) -> str:
    """Say in a few words why the bytes of a file could not be had."""
    if isinstance(error, ValueError):  # a NUL, or letters that no file system has
        return "no file can have this name"
    if isinstance(error, FileNotFoundError):
        return "a link to a missing file" if path.is_symlink() else "not found"
    if isinstance(error, PermissionError):
        return "no permission to read it"
    return error.strerror or "cannot be read"


def _opened(content: bytes) -> Image.Image:
    """Open an image and refuse it by its header if it is too large."""
    image = _identified(content)
    if image is None:
        raise DataError(f"not an image of a known format: {', '.join(FORMATS)}")
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{width} x {height} is more than {MAX_PIXELS:,} pixels")
    return image


def _identified(content: bytes) -> Image.Image | None:
    """Read the header by the first format that knows it; None if there is none."""
    # Image.open does the same and also warns of large images. A warning can be silenced
    # for all threads at once only, so it is better not to cause it.
    Image.init()
    for name in FORMATS:
        read, accepts = Image.OPEN[name]
        with suppress(*_NOT_THIS_FORMAT):
            if accepts is None or accepts(content[:_PREFIX]) is True:
                return read(BytesIO(content), "")
    return None


def _eight_bit(image: Image.Image) -> Image.Image:
    """Return the image with 8 bits a channel and transparency laid over white."""
    if image.mode == "F":
        raise DataError("floating-point pixels have no fixed range")
    if image.mode.startswith("I"):
        values = np.asarray(image).astype(np.int64)
        if values.min() < 0 or values.max() > np.iinfo(np.uint16).max:
            raise DataError("more than 16 bits a pixel")
        return Image.fromarray((values >> 8).astype(np.uint8))
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA"))
    return image


def _turned(image: Image.Image, orientation: int) -> Image.Image:
    """Return the image upright."""
    turn = _TURNS.get(orientation)
    return image if turn is None else image.transpose(turn)


def _sentence(error: BaseException) -> str:
    """Return what a decoder says, on one line."""
    return " ".join(str(error).split())[:120] or type(error).__name__
