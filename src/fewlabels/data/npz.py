"""Arrays in .npz and .npy files, which are never unpickled."""

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.untrusted import ARRAY_BYTES, check_unpacked
from fewlabels.errors import DataError
from fewlabels.files import open_regular

_HEADER_BYTES = 1024  # eight times that of a plain array; long ones take seconds
_UNPACKED_RATIO = 32
_MANY_ITEMS = 2**18  # more rows than these take as many bytes in the file


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an ``.npz`` file by name, none of them pickled.

    A small file that would unpack to a large part of the memory is refused: arrays of
    the same byte shrink a thousandfold, those of images and features do not.
    """
    with _opened(path) as (file, num_bytes), zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        check_unpacked(unpacked, num_bytes, _UNPACKED_RATIO)
        arrays = {}
        for member in members:
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
    """Open a file and return its size too; damage becomes a :class:`DataError`."""
    try:
        with open_regular(path, ARRAY_BYTES) as file:
            yield file, os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise DataError(f"'{path}' does not exist.") from error
    except Exception as error:  # zipfile and NumPy raise anything on damaged bytes
        reason, kind = str(error), path.suffix.lower()
        if isinstance(error, zipfile.BadZipFile) and not zipfile.is_zipfile(path):
            reason = "it is not an archive"
        elif "Header info" in reason:
            reason = "the header of an array is too long"
        elif "pickle" in reason:  # NumPy advises to unpickle what nobody should
            reason = "it holds Python objects, not only numbers and text"
        raise DataError(
            f"{path} is not a whole {kind} file of plain arrays: {reason}."
        ) from error


def _read_array(content: IO[bytes], name: str, num_bytes: int) -> NDArray[Any]:
    """Read one array; refuse one that is longer than the file can hold."""
    array: NDArray[Any] = np.lib.format.read_array(
        content, allow_pickle=False, max_header_size=_HEADER_BYTES
    )
    if not array.itemsize or max(array.shape, default=0) > max(_MANY_ITEMS, num_bytes):
        raise ValueError(f"{name} announces the shape {array.shape} and holds less")
    return array
