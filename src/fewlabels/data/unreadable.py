"""Files that were left out, by name and with the reason."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewlabels.errors import UnreadableFilesWarning

_MOST_NAMED = 20


@dataclass(frozen=True, order=True)
class UnreadableFile:
    """A file that could not be used."""

    name: str
    """Path below the folder that was read, with forward slashes."""
    reason: str
    """What is wrong with it, in a few words."""

    def __str__(self) -> str:
        """Return name and reason in one line."""
        return f"{self.name} ({self.reason})"


class FilesLeftOutWarning(UnreadableFilesWarning):
    """Some files were left out; ``files`` holds all of them, the message at most 20."""

    def __init__(self, folder: Path, files: Sequence[UnreadableFile]) -> None:
        """Name the files.

        Args:
            folder: What was read.
            files: All files that were left out.
        """
        self.folder = folder
        self.files = tuple(files)
        named = "; ".join(map(str, self.files[:_MOST_NAMED]))
        rest = len(self.files) - _MOST_NAMED
        more = f"; and {rest} more" if rest > 0 else ""
        one = len(self.files) == 1
        super().__init__(
            f"{len(self.files)} {'file' if one else 'files'} in {folder} cannot be "
            f"used and {'was' if one else 'were'} left out: {named}{more}."
        )


def warn_of(folder: Path, files: Sequence[UnreadableFile]) -> None:
    """Give one warning that names the files, if there are any."""
    if files:
        warnings.warn(FilesLeftOutWarning(folder, files), stacklevel=2)
