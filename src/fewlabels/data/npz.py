"""Arrays in an .npz file."""

import os
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.arrays import array_pool
from fewlabels.data.labels import names_in
from fewlabels.errors import DataError
from fewlabels.files import open_regular
from fewlabels.pool import Pool

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
    try:
        with (
            open_regular(path, _MOST_BYTES) as file,
            zipfile.ZipFile(file) as archive,
        ):
            num_bytes = os.fstat(file.fileno()).st_size
            _check_unpacked(archive, num_bytes, path)
            return {
                member.filename.removesuffix(".npy"): _array(archive, member, num_bytes)
                for member in archive.infolist()
            }
    except _DAMAGE as error:
        raise DataError(
            f"{path} is not a whole .npz file of plain arrays: {_reason(path, error)}. "
            "Save it again with numpy.savez_compressed."
        ) from error


def read_npy(path: Path) -> NDArray[Any]:
    """Return the array of an ``.npy`` file, which is not pickled."""
    try:
        with open_regular(path, _MOST_BYTES) as file:
            return _plain_array(file, path.name, os.fstat(file.fileno()).st_size)
    except _DAMAGE as error:
        said = _without_advice(str(error))
        raise DataError(
            f"{path} is not a whole .npy file of a plain array: {said}. Save it again "
            "with numpy.save."
        ) from error


def _check_unpacked(archive: zipfile.ZipFile, num_bytes: int, path: Path) -> None:
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > max(_UNPACKED_BYTES, _UNPACKED_RATIO * num_bytes):
        raise DataError(
            f"{path} has {num_bytes:,} bytes and would unpack to {unpacked:,}; files "
            "that grow that much are made to exhaust memory. If its arrays are yours, "
            "save them again with numpy.savez, which does not compress."
        )


def _array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, num_bytes: int
) -> NDArray[Any]:
    with archive.open(member) as content:
        return _plain_array(content, member.filename, num_bytes)


def _plain_array(content: IO[bytes], name: str, num_bytes: int) -> NDArray[Any]:
    """Read one array; refuse one whose length nothing in the file vouches for."""
    array: NDArray[Any] = np.lib.format.read_array(
        content, allow_pickle=False, max_header_size=_LONGEST_HEADER
    )
    if not array.itemsize or max(array.shape, default=0) > max(_MANY_ITEMS, num_bytes):
        raise ValueError(f"{name} announces the shape {array.shape} and holds less")
    return array


def npz_pool(path: Path, name: str, classes: Sequence[str] | None = None) -> Pool:
    """Return a pool of ``x_train`` and, where known, of the other arrays of a file.

    They are ``y_train``, ``x_test``, ``y_test`` and ``classes``; the name is how ids
    begin.
    """
    arrays = read_npz(path)
    if "x_train" not in arrays or ("x_test" in arrays) != ("y_test" in arrays):
        raise DataError(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or 'none'}; a pool "
            "needs x_train, may have y_train and classes, and x_test only together "
            "with y_test."
        )
    has_test = "x_test" in arrays
    words = arrays.get("classes")
    return array_pool(
        arrays["x_train"],
        arrays.get("y_train"),
        name=name,
        classes=classes if words is None else names_in(words),
        test=(arrays["x_test"], arrays["y_test"]) if has_test else None,
    )


def _reason(path: Path, error: BaseException) -> str:
    """Say what is wrong, without NumPy's advice to unpickle what nobody should."""
    said = str(error)
    if isinstance(error, OSError):
        return said
    if not zipfile.is_zipfile(path):
        return "it is not an archive"
    return _without_advice(said)


def _without_advice(said: str) -> str:
    if "Header info" in said:
        return "the header of an array is too long"
    pickled = "it holds Python objects, not only numbers and text"
    return pickled if "pickle" in said else said
