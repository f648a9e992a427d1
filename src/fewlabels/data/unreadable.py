"""Files that are left out: their names made printable, and one warning for all."""

import warnings
from collections.abc import Sequence
from pathlib import Path

from fewlabels.errors import UnreadableFile, UnreadableFilesWarning

_ESCAPED_BYTES = range(0xDC80, 0xDD00)
"""How Python writes the bytes of a name that are not UTF-8."""


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


def is_utf8(name: str) -> bool:
    """Return whether a name can be written into a file of text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """Return a name with everything escaped that cannot be printed."""
    return "".join(map(_printable, name))


def _printable(letter: str) -> str:
    if letter.isprintable():
        return letter
    if ord(letter) in _ESCAPED_BYTES:
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode()
