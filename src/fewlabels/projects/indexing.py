"""The images of a project: listed where they are, each read once.

A project refers to images by their content: a file that moves keeps its label, a file
whose content changes is asked about anew, and exact copies are one image with several
names. Size and time of change say whether a file has to be read again.
"""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

from fewlabels.data.decode import ImageFile
from fewlabels.data.folder import image_names
from fewlabels.data.unreadable import left_out
from fewlabels.errors import DataError, UnreadableFile
from fewlabels.progress import track
from fewlabels.projects.fingerprint import fingerprint, image_file, is_current

UNSETTLED = -1
"""Time of change of a file that was changing just then; it is read again next time."""

_SETTLING_NS = 2_000_000_000  # the clocks of some file systems tick this slowly
_CHUNK = 1_024
_NUM_THREADS = min(8, 2 + (os.cpu_count() or 1))


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """An image file as it was when it was last read."""

    name: str
    """Path below the folder, with forward slashes."""
    size: int
    """Bytes."""
    mtime_ns: int
    """Time of the last change, or ``UNSETTLED``."""
    digest: str
    """Hash of the content: what a label belongs to."""
    fingerprint: bytes
    """What the picture looks like; see :mod:`fewlabels.projects.fingerprint`."""

    def file(self, folder: Path) -> ImageFile:
        """Return the file as pools take it, without opening it."""
        return image_file(self.name, folder / self.name, self.digest, self.fingerprint)


@dataclass(frozen=True)
class Index:
    """All images of a folder."""

    files: tuple[IndexedFile, ...]
    """The readable files, in natural order of their names."""
    unreadable: tuple[UnreadableFile, ...]
    """What looks like an image and is not one, by name and reason."""
    num_read: int
    """How many files had to be read; the others were known."""
    num_listed: int
    """How many there are, those included that were not to be looked at yet."""

    @cached_property
    def representative(self) -> Mapping[str, str]:
        """For each content hash the one that stands for its group of duplicates."""
        from fewlabels.projects.duplicates import representatives

        looks = {one.digest: one.fingerprint for one in self.files if one.fingerprint}
        alone = {one.digest: one.digest for one in self.files}
        return alone | dict(representatives(looks)) if looks else alone

    def groups(self) -> tuple[tuple[IndexedFile, ...], ...]:
        """Return the groups of more than one file: copies and near duplicates."""
        members: dict[str, list[IndexedFile]] = {}
        for file in self.files:
            members.setdefault(self.representative[file.digest], []).append(file)
        return tuple(tuple(group) for group in members.values() if len(group) > 1)


def scan(
    folder: Path,
    known: Mapping[str, IndexedFile] | None = None,
    *,
    without: str | None = None,
    most: int | None = None,
) -> Index:
    """Index the images below a folder.

    Args:
        folder: Where the images are; they stay there, untouched.
        known: What an earlier index found, by name. A file of the same name, size and
            time of change is not read again.
        without: A folder below, such as the project's own, that is passed over.
        most: Look at so many of the files only; their names decide which, as at random.

    Returns:
        The index.
    """
    known = known or {}
    names, unreadable = image_names(folder)
    if without is not None:
        names = [name for name in names if not name.startswith(f"{without}/")]
    num_listed = len(names)
    if most is not None and most < len(names):
        drawn = set(sorted(names, key=_as_drawn)[:most])
        names = [name for name in names if name in drawn]
    found: dict[str, IndexedFile] = {}
    unread = []
    for name in names:
        file = known.get(name)
        if file is not None and _is_unchanged(file, f"{folder}{os.sep}{name}"):
            found[name] = file
        else:
            unread.append(name)
    for one in _read(folder, unread):
        if isinstance(one, IndexedFile):
            found[one.name] = one
        else:
            unreadable.append(one)
    files = tuple(found[name] for name in names if name in found)
    return Index(
        files=files,
        unreadable=tuple(sorted(unreadable)),
        num_read=len(unread),
        num_listed=num_listed,
    )


def _as_drawn(name: str) -> bytes:
    """Return a number of a name that has nothing to do with what the file shows."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _is_unchanged(file: IndexedFile, path: str) -> bool:
    try:
        state = os.stat(path)  # noqa: PTH116 - a hundred thousand Paths take a second
    except OSError:
        return False  # reading it will tell why
    seen = (state.st_size, state.st_mtime_ns)
    return seen == (file.size, file.mtime_ns) and is_current(file.fingerprint)


def _read(folder: Path, names: Sequence[str]) -> Iterator[IndexedFile | UnreadableFile]:
    """Read files, several at a time; never more than a chunk is waiting."""
    if not names:
        return

    def read(name: str) -> IndexedFile | UnreadableFile:
        return _indexed(name, folder / name)

    with (
        ThreadPoolExecutor(_NUM_THREADS) as threads,
        track("Reading images", len(names)) as advance,
    ):
        for first in range(0, len(names), _CHUNK):
            for one in threads.map(read, names[first : first + _CHUNK]):
                advance(1)
                yield one


def _indexed(name: str, path: Path) -> IndexedFile | UnreadableFile:
    try:
        before = path.stat()  # so that a change while it is read is noticed next time
        file, taken = fingerprint(name, path)
    except DataError as error:
        return left_out(name, str(error))
    except OSError as error:
        return left_out(name, error.strerror or "cannot be read")
    is_settled = abs(time.time_ns() - before.st_mtime_ns) > _SETTLING_NS
    return IndexedFile(
        name=name,
        size=before.st_size,
        mtime_ns=before.st_mtime_ns if is_settled else UNSETTLED,
        digest=file.digest,
        fingerprint=taken,
    )
