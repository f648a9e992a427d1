"""Arrays in .npz and .npy files, which are never unpickled."""

import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import DataError
from fewlabels.files import open_regular

# What broken bytes make zipfile and NumPy raise.
_DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    LookupError,
    ArithmeticError,
    SyntaxError,  # the header of an array is Python
    RuntimeError,  # an encrypted file, or an unknown compression
    MemoryError,  # a header that announces too much
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)

_MOST_BYTES = 2**40
_LONGEST_HEADER = 1024
"""Eight times what a plain array takes; NumPy takes seconds to refuse a long one."""

_UNPACKED_BYTES, _UNPACKED_RATIO = 2**28, 32
"""What may be unpacked from any file, and from each byte of a large one."""

_MANY_ITEMS = 2**18
"""Up to here an array may have more rows than its file has bytes."""


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an ``.npz`` file by name, none of them pickled.

    A small file that would unpack to a large part of the memory is refused: arrays of
    the same byte shrink a thousandfold, those of images and features do not.
    """
    with _opened(path) as (file, num_bytes), zipfile.ZipFile(file) as archive:
        unpacked = sum(member.file_size for member in archive.infolist())
        if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * num_bytes):
            raise DataError(
                f"{path} has {num_bytes:,} bytes and would unpack to {unpacked:,}, "
                "which could exhaust memory. If it is yours, save it with numpy.savez."
            )
        arrays = {}
        for member in archive.infolist():
            with archive.open(member) as content:
                name = member.filename.removesuffix(".npy")
                arrays[name] = _read_array(content, name, num_bytes)
        return arrays


def read_npy(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file, which is not pickled."""
    with _opened(path) as (file, num_bytes):
        return _read_array(file, path.name, num_bytes)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], int]]:
    """Hand out a file and its size; damage becomes a sentence about the file."""
    try:
        with open_regular(path, _MOST_BYTES) as file:
            yield file, os.fstat(file.fileno()).st_size
    except _DAMAGE as error:
        reason, kind = str(error), path.suffix.lower()
        if isinstance(error, zipfile.BadZipFile) and not zipfile.is_zipfile(path):
            reason = "it is not an archive"
        elif "Header info" in reason:
            reason = "the header of an array is too long"
        elif "pickle" in reason:  # NumPy advises to unpickle what nobody should
            reason = "it holds Python objects, not only numbers and text"
        raise DataError(
            f"{path} is not a whole {kind} file of plain arrays: {reason}. Save it "
            "again with NumPy."
        ) from error


def _read_array(content: IO[bytes], name: str, num_bytes: int) -> NDArray[Any]:
    """Read one array; refuse one whose length nothing in the file vouches for."""
    array: NDArray[Any] = np.lib.format.read_array(
        content, allow_pickle=False, max_header_size=_LONGEST_HEADER
    )
    if not array.itemsize or max(array.shape, default=0) > max(_MANY_ITEMS, num_bytes):
        raise ValueError(f"{name} announces the shape {array.shape} and holds less")
    return array
