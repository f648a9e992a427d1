"""What is kept of a picture, so that it need not be opened again.

A fingerprint is 299 bytes: the shape of the image, the lightness of its 16 x 16 parts
and the color of its 4 x 4 parts. It tells near duplicates apart and holds all that a
pool has to know of a file before it is decoded.
"""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.decode import ImageFile, inspect_with_thumbnail

SIDE = 16
"""Side of the square whose lightness is kept."""

_COLOR_SIDE = 4
_VERSION = 1
_LAYOUT = np.dtype(
    [
        ("version", "u1"),
        ("is_grey", "u1"),
        ("orientation", "u1"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("lightness", "u1", (SIDE, SIDE)),
        ("color", "u1", (_COLOR_SIDE, _COLOR_SIDE, 2)),
    ]
)

UNKNOWN = bytes(_LAYOUT.itemsize)
"""Stands for the fingerprint of a picture of which nothing is kept."""


def fingerprint(name: str, path: Path) -> tuple[ImageFile, bytes]:
    """Return what is known of a file, checked to its last pixel, and its fingerprint.

    A damaged file raises :class:`fewlabels.errors.DataError`.
    """
    file, thumbnail = inspect_with_thumbnail(name, path, SIDE)
    record = np.zeros((), dtype=_LAYOUT)
    record["version"] = _VERSION
    record["is_grey"] = file.is_grey
    record["orientation"] = file.orientation if 1 <= file.orientation <= 8 else 1
    record["height"], record["width"] = file.height, file.width
    record["lightness"] = thumbnail[..., 0]
    record["color"] = _means(thumbnail[..., 1:])
    return file, record.tobytes()


def is_current(taken: bytes) -> bool:
    """Return whether a fingerprint was taken as this version takes them."""
    return len(taken) == _LAYOUT.itemsize and taken[0] == _VERSION


def image_file(name: str, path: Path, digest: str, taken: bytes) -> ImageFile:
    """Return what is known of a file by its fingerprint, without opening it."""
    record = np.frombuffer(taken, dtype=_LAYOUT)[0]
    return ImageFile(
        name=name,
        path=path,
        digest=digest,
        height=int(record["height"]),
        width=int(record["width"]),
        is_grey=bool(record["is_grey"]),
        orientation=int(record["orientation"]),
    )


def unpacked(
    taken: Iterable[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float64]]:
    """Return lightness (N, 256), color (N, 32) and aspect (N,) of N fingerprints."""
    records = np.frombuffer(b"".join(taken), dtype=_LAYOUT)
    count = len(records)
    return (
        records["lightness"].reshape(count, -1),
        records["color"].reshape(count, -1),
        records["width"] / np.maximum(records["height"], 1),
    )


def _means(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the means of the 4 x 4 parts of a square of pixels."""
    step = SIDE // _COLOR_SIDE
    parts = pixels.reshape(_COLOR_SIDE, step, _COLOR_SIDE, step, -1)
    return np.asarray(parts.mean(axis=(1, 3)).round(), dtype=np.uint8)
