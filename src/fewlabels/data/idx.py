"""The idx files of MNIST and Fashion-MNIST: a short header, then plain bytes."""

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.arrays import SplitArrays
from fewlabels.errors import DataError
from fewlabels.files import open_regular

_UNSIGNED_BYTE = 0x08
_MOST_BYTES, _MOST_ITEMS = 2**28, 2**20


def read_idx_folder(folder: Path) -> SplitArrays | None:
    """Return the four standard files, gzipped or not; None unless all are there."""
    paths = [
        _present(folder, f"{part}-{kind}")
        for part in ("train", "t10k")
        for kind in ("images-idx3-ubyte", "labels-idx1-ubyte")
    ]
    there = [path for path in paths if path is not None]
    if len(there) < len(paths):
        return None
    x_train, y_train, x_test, y_test = (
        read_idx(path, num_axes)
        for path, num_axes in zip(there, (3, 1, 3, 1), strict=True)
    )
    return SplitArrays(x_train, y_train, x_test, y_test)


def read_idx(path: Path, num_axes: int) -> NDArray[np.uint8]:
    """Return the array of one idx file of unsigned bytes, gzipped or not.

    It has 3 axes for images and 1 for labels. Another header or length is a
    :class:`DataError`.
    """
    try:
        with open_regular(path, 2 * _MOST_BYTES) as plain:
            file = gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
            header = file.read(4 + 4 * num_axes)
            shape = _shape(header, num_axes, path)
            body = bytearray(file.read(prod(shape) + 1))
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read: {error}. Fetch it again.") from error
    if len(body) != prod(shape):
        more = "more than " if len(body) > prod(shape) else ""
        raise DataError(
            f"{path} announces {shape} = {prod(shape):,} bytes and holds {more}"
            f"{min(len(body), prod(shape)):,}; it was cut off or damaged. Fetch it "
            "again."
        )
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _shape(header: bytes, num_axes: int, path: Path) -> tuple[int, ...]:
    """Check the header and return the shape it announces."""
    magic = bytes([0, 0, _UNSIGNED_BYTE, num_axes])
    if len(header) < 4 + 4 * num_axes or header[:4] != magic:
        raise DataError(
            f"{path} begins with {header[:4].hex() or 'nothing'}, an idx file of this "
            f"kind with {magic.hex()}. Fetch it again."
        )
    shape = struct.unpack(f">{num_axes}I", header[4:])
    if prod(shape) > _MOST_BYTES or shape[0] > _MOST_ITEMS:
        raise DataError(
            f"{path} announces {shape} = {prod(shape):,} bytes, more than any known "
            f"set ({_MOST_ITEMS:,} items, {_MOST_BYTES:,} bytes); its header is "
            "damaged. Fetch it again."
        )
    return shape


def _present(folder: Path, name: str) -> Path | None:
    """Return the file, plain or gzipped; None if there is neither."""
    choices = (folder / name, folder / f"{name}.gz")
    return next((path for path in choices if path.is_file()), None)
