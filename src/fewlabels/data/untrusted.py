"""Untrusted files: bounds on what is read, arrays without pickles, names of files.

Readers of tables and arrays open their files by :func:`open_untrusted`. They refuse
what is far larger unpacked than packed, by :func:`check_unpacked`, before they unpack
it. Arrays are never unpickled. Image files have bounds of their own; see
:mod:`fewlabels.data.decode`.
"""

import csv
import lzma
import os
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import DataError, FewlabelsError, UnreadableFile
from fewlabels.files import open_regular

MANIFEST_BYTES, MANIFEST_ROWS, MANIFEST_LINE = 2**28, 2**22, 2**20
"""Most bytes and rows of a table of files, and most characters of a line of it."""

ARRAY_BYTES = 2**40
"""Most bytes of a file of arrays or of a shard; they are read in parts."""

UNPACKED_BYTES = 2**28
"""What may be unpacked from any file, however small."""

TRAIN = "train"
"""The split whose items may be asked about."""

MEASURED = ("test", "val", "validation", "valid")
"""Names of splits to measure on; the first one that is present is taken."""

MANIFESTS = frozenset({".csv", ".jsonl", ".parquet"})
"""Endings of files that list images."""

FILE_COLUMNS = ("file_name", "path", "filename")
"""Columns of a table that may name a file; the first one that is present is taken."""

DAMAGE = (
    *(ArithmeticError, AttributeError, EOFError, LookupError, MemoryError, OSError),
    *(RuntimeError, SyntaxError, TypeError, UserWarning, ValueError),
    *(lzma.LZMAError, struct.error, tokenize.TokenError, zipfile.BadZipFile),
    zlib.error,
)
"""What Pillow, NumPy and zipfile raise while they read damaged bytes."""

_UNREADABLE = (OSError, ValueError, EOFError, csv.Error, zlib.error)
_PLAIN = "Save plain arrays of numbers and text."
_HEADER_BYTES = 1024  # eight times that of a plain array; long ones take seconds
_UNPACKED_RATIO = 32
_MANY_ITEMS = 2**18  # more rows than these take as many bytes in the file
_DIGITS = re.compile(r"(\d+)")
_MOST_DIGITS = 1_000  # Python refuses to read numbers of several thousand digits
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""How Python writes the bytes of a name that are not UTF-8."""


@contextmanager
def open_untrusted(
    path: Path,
    most_bytes: int,
    advice: str = "Save it again.",
    damage: tuple[type[Exception], ...] = _UNREADABLE,
) -> Iterator[BufferedReader]:
    """Open a file; errors while it is read become a :class:`DataError` that names it.

    Args:
        path: The file.
        most_bytes: A larger file is refused.
        advice: What to do about an error, as a sentence.
        damage: Errors that damaged content causes.

    Yields:
        The open file.
    """
    try:
        with open_regular(path, most_bytes) as file:
            yield file
    except FewlabelsError:
        raise
    except FileNotFoundError as error:
        raise DataError(f"'{path}' does not exist.") from error
    except damage as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        line = reason.partition("\n")[0].rstrip(".")
        raise DataError(f"'{path}' cannot be read: {line}. {advice}") from error


def check_unpacked(num_bytes: int, packed: int, ratio: int) -> None:
    """Raise a :class:`ValueError` if a file unpacks to far more than it has.

    Args:
        num_bytes: Size in memory.
        packed: Size of the file.
        ratio: How many bytes each byte of a large file may become.
    """
    most = max(UNPACKED_BYTES, ratio * packed)
    if num_bytes > most:
        raise ValueError(
            f"it would unpack to {num_bytes:,} bytes; at most {most:,} are read"
        )


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Return all arrays of an ``.npz`` file by name, none of them pickled.

    A small file that would unpack to a large part of the memory is refused: arrays of
    the same byte shrink a thousandfold, those of images and features do not.
    """
    with (
        open_untrusted(path, ARRAY_BYTES, _PLAIN, DAMAGE) as file,
        zipfile.ZipFile(file) as archive,
    ):
        num_bytes, members = os.fstat(file.fileno()).st_size, archive.infolist()
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
    with open_untrusted(path, ARRAY_BYTES, _PLAIN, DAMAGE) as file:
        return _read_array(file, path.name, os.fstat(file.fileno()).st_size)


def _read_array(content: IO[bytes], name: str, num_bytes: int) -> NDArray[Any]:
    """Read one array; refuse one that is longer than the file can hold."""
    try:
        array: NDArray[Any] = np.lib.format.read_array(
            content, allow_pickle=False, max_header_size=_HEADER_BYTES
        )
    except ValueError as error:  # whose own words advise to unpickle
        raise ValueError(f"{name} is not a whole array without objects") from error
    if not array.itemsize or max(array.shape, default=0) > max(_MANY_ITEMS, num_bytes):
        raise ValueError(f"{name} announces the shape {array.shape} and holds less")
    return array


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts "9" before "10" and "img2" before "img10".

    Example:
        >>> sorted(["10", "9", "cat"], key=natural_key)
        ['9', '10', 'cat']
    """
    parts = [part for part in _DIGITS.split(name) if part]
    key = [(0, int(p[:_MOST_DIGITS]), p) if p.isdecimal() else (1, 0, p) for p in parts]
    return tuple(key)


def is_utf8(name: str) -> bool:
    """Return whether a name can be encoded as UTF-8."""
    return re.search("[\ud800-\udfff]", name) is None


def printable(name: str) -> str:
    """Return a name with everything escaped that cannot be printed."""

    def escape(letter: str) -> str:
        if ord(letter) in _ESCAPED_BYTES:
            return f"\\x{ord(letter) - 0xDC00:02x}"
        return letter.encode("unicode_escape").decode()

    return "".join(part if part.isprintable() else escape(part) for part in name)


def left_out(name: str, reason: str) -> UnreadableFile:
    r"""Return the record of a file that cannot be used, its name made printable.

    Example:
        >>> print(left_out("new\nline.png", "empty"))
        new\nline.png (empty)
    """
    return UnreadableFile(printable(name), reason)
