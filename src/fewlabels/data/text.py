"""Names of files, classes and splits: their order, and whether they can be written."""

import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from fewlabels.errors import UnreadableFile, UnreadableFilesWarning

TRAIN = "train"
"""The split whose items may be asked about."""

MEASURED = ("test", "val", "validation", "valid")
"""Names of splits to measure on; the first one that is present is taken."""

MANIFESTS = frozenset({".csv", ".jsonl", ".parquet"})
"""Endings of files that list images."""

FILE_COLUMNS = ("file_name", "path", "filename")
"""Columns of a table that may name a file; the first one that is present is taken."""

_DIGITS = re.compile(r"(\d+)")
_MOST_DIGITS = 1_000  # Python refuses to read numbers of several thousand digits
_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""How Python writes the bytes of a name that are not UTF-8."""


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
    """Return whether a name can be written into a file of text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """Return a name with everything escaped that cannot be printed."""
    letters = []
    for letter in name:
        if letter.isprintable():
            letters.append(letter)
        elif ord(letter) in _ESCAPED_BYTES:
            letters.append(f"\\x{ord(letter) - 0xDC00:02x}")
        else:
            letters.append(letter.encode("unicode_escape").decode())
    return "".join(letters)


def left_out(name: str, reason: str) -> UnreadableFile:
    r"""Return the record of a file that cannot be used, its name made printable.

    Example:
        >>> print(left_out("new\nline.png", "empty"))
        new\nline.png (empty)
    """
    return UnreadableFile(printable(name), reason)


def warn_of(folder: Path, files: Sequence[UnreadableFile]) -> None:
    """Give one warning that names the files, if there are any."""
    if files:
        warnings.warn(UnreadableFilesWarning(folder, files), stacklevel=2)
