"""The images of a project: listed where they are, each read once.

A project refers to images by their content: a file that moves keeps its label, a file
whose content changes is asked about anew, and exact copies are one image with several
names. Size and time of change say whether a file has to be read again.

A fingerprint of 299 bytes is kept of each image: its shape, the lightness of its 16 x
16 parts and the color of its 4 x 4 parts. It identifies near duplicates and holds all
that a pool has to know of a file before it is decoded.
"""

import os
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.decode import ImageFile, inspect_with_thumbnail
from fewlabels.data.folder import image_names
from fewlabels.data.untrusted import left_out
from fewlabels.errors import DataError, UnreadableFile
from fewlabels.progress import track
from fewlabels.projects.store import Item, ListedFile, Store

SIDE = 16
"""Side of the square whose lightness is kept."""

COLOR_SIDE = 4
"""Side of the square whose color is kept."""

VERSION = 1
"""Of what is kept."""

LAYOUT = np.dtype(
    [
        ("version", "u1"),
        ("is_grey", "u1"),
        ("orientation", "u1"),
        ("height", "<u4"),
        ("width", "<u4"),
        ("lightness", "u1", (SIDE, SIDE)),
        ("color", "u1", (COLOR_SIDE, COLOR_SIDE, 2)),
    ]
)


UNSETTLED = -1
"""Time of change of a file that was changing just then; it is read again next time."""

_SETTLING_NS = 2_000_000_000  # the clocks of some file systems tick this slowly
_CHUNK = 1_024
_NUM_THREADS = min(8, 2 + (os.cpu_count() or 1))


@dataclass(frozen=True)
class Index:
    """All images of a folder."""

    files: tuple[ListedFile, ...]
    """The readable files, in natural order of their names."""
    unreadable: tuple[UnreadableFile, ...]
    """What looks like an image and is not one, by name and reason."""
    num_read: int
    """How many files had to be read; the others were known."""
    num_listed: int
    """How many there are, those included that were not indexed yet."""

    @cached_property
    def representative(self) -> Mapping[str, str]:
        """For each content hash the one that stands for its group of duplicates."""
        fingerprints = {file.digest: fingerprint_of(file) for file in self.files}
        known = {digest: taken for digest, taken in fingerprints.items() if taken}
        return {digest: digest for digest in fingerprints} | representatives(known)

    def write(self, store: Store) -> None:
        """Bring the store's list of images up to date."""
        group_of = self.representative
        store.index(replace(file, group=group_of[file.digest]) for file in self.files)


def fingerprint_of(file: ListedFile) -> bytes:
    """Return the fingerprint of a picture; empty if there is no current one."""
    details: object = file.details  # whatever a damaged store holds
    text = details.get("fingerprint") if isinstance(details, Mapping) else None
    try:
        fingerprint = b64decode(text if isinstance(text, str) else "", validate=True)
    except ValueError:  # the picture is read anew
        return b""
    is_current = len(fingerprint) == LAYOUT.itemsize and fingerprint[0] == VERSION
    return fingerprint if is_current else b""


def stacked(
    taken: Iterable[bytes],
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.float64]]:
    """Return lightness (N, 256), color (N, 32) and aspect (N,) of N fingerprints."""
    records = np.frombuffer(b"".join(taken), dtype=LAYOUT)
    count = len(records)
    return (
        records["lightness"].reshape(count, -1),
        records["color"].reshape(count, -1),
        records["width"] / np.maximum(records["height"], 1),
    )


def representatives(fingerprints: Mapping[str, bytes]) -> dict[str, str]:
    """Return the representative of each image.

    The result depends on the contents alone, not on names or order.

    Args:
        fingerprints: A fingerprint for each content hash.

    Returns:
        For each content hash the one that represents its group: itself, for most, and
        for a group the first in the order of the hashes.
    """
    from fewlabels.projects.duplicates import find_first_alike

    digests = sorted(fingerprints)
    if len(digests) < 2:
        return dict(zip(digests, digests, strict=True))
    first = find_first_alike(*stacked(map(fingerprints.__getitem__, digests)))
    return {own: digests[place] for own, place in zip(digests, first, strict=True)}


def image_file(file: ListedFile, folder: Path) -> ImageFile:
    """Return an indexed file as pools take it, without opening it."""
    record = np.frombuffer(fingerprint_of(file), dtype=LAYOUT)[0]
    return ImageFile(
        name=file.path,
        path=folder / file.path,
        digest=file.digest,
        height=int(record["height"]),
        width=int(record["width"]),
        is_grey=bool(record["is_grey"]),
        orientation=int(record["orientation"]),
    )


def inside(folder: Path, images: Path) -> str | None:
    """Return the name of ``folder`` below ``images``; None if it is elsewhere."""
    inner, outer = folder.resolve(), images.resolve()
    return inner.relative_to(outer).as_posix() if outer in inner.parents else None


def scan(
    folder: Path,
    known: Mapping[str, ListedFile] | None = None,
    *,
    without: str | None = None,
    most: int | None = None,
) -> Index:
    """Index the images below a folder.

    Args:
        folder: Where the images are; they stay there, untouched.
        known: Files of an earlier index, by name. A file of the same name, size and
            time of change is not read again.
        without: A folder below, such as the project's own, that is ignored.
        most: Index only so many of the files; hashes of their names decide which.

    Returns:
        The index.
    """

    def name_hash(name: str) -> bytes:  # independent of what the file shows
        return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()

    names, unreadable = image_names(folder)
    if without is not None:
        names = [name for name in names if not name.startswith(f"{without}/")]
    num_listed = len(names)
    if most is not None and most < len(names):
        drawn = set(sorted(names, key=name_hash)[:most])
        names = [name for name in names if name in drawn]
    files: dict[str, ListedFile] = {}
    changed = []
    for name in names:
        file = (known or {}).get(name)
        if file is not None and _is_unchanged(file, f"{folder}{os.sep}{name}"):
            files[name] = file
        else:
            changed.append(name)
    for result in _read(folder, changed):
        if isinstance(result, ListedFile):
            files[result.path] = result
        else:
            unreadable.append(result)
    listed = tuple(files[name] for name in names if name in files)
    return Index(listed, tuple(sorted(unreadable)), len(changed), num_listed)


def _is_unchanged(file: ListedFile, path: str) -> bool:
    try:
        state = os.stat(path)  # noqa: PTH116 - a hundred thousand Paths take a second
    except OSError:
        return False  # reading it will tell why
    now = (state.st_size, state.st_mtime_ns)
    return now == (file.size, file.mtime_ns) and bool(fingerprint_of(file))


def _read(folder: Path, names: Sequence[str]) -> Iterator[ListedFile | UnreadableFile]:
    """Read files, several at a time; never more than a chunk is waiting."""
    if not names:
        return

    def read(name: str) -> ListedFile | UnreadableFile:
        path = folder / name
        try:
            state = path.stat()  # a change while it is read is noticed next time
            file, picture = fingerprint_file(name, path)
        except DataError as error:
            return left_out(name, str(error))
        except OSError as error:
            return left_out(name, error.strerror or "cannot be read")
        is_settled = abs(time.time_ns() - state.st_mtime_ns) > _SETTLING_NS
        return ListedFile(
            path=name,
            digest=file.digest,
            size=state.st_size,
            mtime_ns=state.st_mtime_ns if is_settled else UNSETTLED,
            details={"fingerprint": b64encode(picture).decode("ascii")},
        )

    with (
        ThreadPoolExecutor(_NUM_THREADS) as threads,
        track("Reading images", len(names)) as advance,
    ):
        for first in range(0, len(names), _CHUNK):
            for result in threads.map(read, names[first : first + _CHUNK]):
                advance(1)
                yield result


def fingerprint_file(name: str, path: Path) -> tuple[ImageFile, bytes]:
    """Return the record of a file, checked to its last pixel, and its fingerprint.

    A damaged file raises :class:`fewlabels.errors.DataError`.
    """
    file, thumbnail = inspect_with_thumbnail(name, path, SIDE)
    step = SIDE // COLOR_SIDE
    parts = thumbnail[..., 1:].reshape(COLOR_SIDE, step, COLOR_SIDE, step, -1)
    record = np.zeros((), dtype=LAYOUT)
    record["version"] = VERSION
    record["is_grey"] = file.is_grey
    record["orientation"] = file.orientation if 1 <= file.orientation <= 8 else 1
    record["height"], record["width"] = file.height, file.width
    record["lightness"] = thumbnail[..., 0]
    record["color"] = parts.mean(axis=(1, 3)).round()
    return file, record.tobytes()


def thumbnails(items: Sequence[Item]) -> NDArray[np.float32]:
    """Return the lightness of 8 x 8 parts, standardized, so that products correlate.

    Args:
        items: Images; one whose picture is plain or unknown correlates with none.

    Returns:
        Shape (n, 64).
    """
    blank = bytes(LAYOUT.itemsize)
    lightness, *_ = stacked(fingerprint_of(item) or blank for item in items)
    half = SIDE // 2
    parts = lightness.reshape(-1, half, 2, half, 2).mean(axis=(2, 4))
    parts = parts.reshape(-1, half**2)
    parts -= parts.mean(axis=1, keepdims=True)
    norms = np.linalg.norm(parts, axis=1, keepdims=True)
    return np.asarray(parts / np.maximum(norms, 1e-6), dtype=np.float32)
