"""Files that somebody else wrote: how much of them is read, and errors in words.

Readers of tables and arrays open their files by :func:`open_untrusted`. They refuse
what is far larger unpacked than packed, by :func:`check_unpacked`, before they unpack
it. Image files have bounds of their own; see :mod:`fewlabels.data.decode`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from fewlabels.errors import DataError, FewlabelsError
from fewlabels.files import open_regular

MANIFEST_BYTES, MANIFEST_ROWS, MANIFEST_LINE = 2**28, 2**22, 2**20
"""Most bytes and rows of a table of files, and most characters of a line of it."""

PUBLISHED_BYTES, PUBLISHED_ITEMS = 2**28, 2**20
"""Most bytes and items of an official file of a data set."""

ARRAY_BYTES = 2**40
"""Most bytes of a file of arrays or of a shard; they are read in parts."""

UNPACKED_BYTES = 2**28
"""What may be unpacked from any file, however small."""

TEXT_BYTES = 2**17
"""Longest text in a table: as long as a cell of a CSV table may be."""


@contextmanager
def open_untrusted(
    path: Path,
    most_bytes: int,
    what: str,
    advice: str,
    *,
    damage: tuple[type[Exception], ...] = (OSError, ValueError),
) -> Iterator[BufferedReader]:
    """Open a file; errors while it is read become a :class:`DataError` that names it.

    Args:
        path: The file.
        most_bytes: A larger file is refused.
        what: What the file is, as a sentence about it begins.
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
    except damage as error:
        reason = getattr(error, "strerror", None) or error
        message = f"{what} '{path}' cannot be read: {reason}. {advice}"
        raise DataError(message) from error


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
