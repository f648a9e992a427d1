"""Pools of image files: checked by several threads, decoded when they are read."""

import os
import warnings
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import errors
from fewlabels.data.decode import ImageFile, decode, inspect
from fewlabels.data.untrusted import MEASURED, TRAIN, left_out, natural_key
from fewlabels.pool import UNKNOWN, Pool, Split
from fewlabels.progress import track

NATIVE_LIMIT = 64
"""Longest side up to which images of one common size keep it."""

DEFAULT_SIZE = 32
"""Side of the square that all other images are brought to."""

_MEMORY = 2**29
_NUM_THREADS = min(8, 2 + (os.cpu_count() or 1))


@dataclass(frozen=True, eq=False)
class FileImages:
    """Images that stay in their files until they are read.

    What was decoded is remembered, up to half a gigabyte, so that a second reading
    costs no decoding.
    """

    files: tuple[ImageFile, ...]
    shape: tuple[int, int, int]
    """Channels, height and width of every image that is read."""
    _decoded: dict[int, NDArray[np.uint8]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.files)

    def read(self, indices: Tensor) -> Tensor:
        """Return the images at ``indices`` as a new uint8 tensor (n, *shape)."""
        if not len(indices):
            return torch.empty((0, *self.shape), dtype=torch.uint8)
        with ThreadPoolExecutor(_NUM_THREADS) as threads:
            images = list(threads.map(self._image, indices.tolist()))
        return torch.from_numpy(np.stack(images))

    def digests(self, indices: Tensor) -> Sequence[str]:
        """Return the hash of the file of each item at ``indices``."""
        return [self.files[index].digest for index in indices.tolist()]

    def _image(self, index: int) -> NDArray[np.uint8]:
        if index in self._decoded:
            return self._decoded[index]
        file = self.files[index]
        try:
            pixels = decode(file, self.shape)
        except errors.DataError as error:
            raise errors.DataError(
                f"{file.path} has changed since it was loaded: {error}. Load it again."
            ) from error
        if (len(self._decoded) + 1) * pixels.nbytes <= _MEMORY:
            self._decoded[index] = pixels
        return pixels


@dataclass(frozen=True)
class Listed:
    """A file in a list, with what is known of it."""

    name: str
    """Path below the folder, with forward slashes."""
    path: Path
    label: str | None = None
    split: str | None = None
    """One of ``TRAIN`` and ``MEASURED``, if known."""


def check_files(
    listed: Iterable[tuple[str, Path]],
) -> tuple[list[ImageFile], list[errors.UnreadableFile]]:
    """Return the usable files, each checked to its last pixel, and the others."""

    def check(pair: tuple[str, Path]) -> ImageFile | errors.UnreadableFile:
        try:
            return inspect(*pair)
        except errors.DataError as error:
            return left_out(pair[0], str(error))

    pairs, checked = list(listed), list[ImageFile | errors.UnreadableFile]()
    with (
        ThreadPoolExecutor(_NUM_THREADS) as threads,
        track("Checking images", len(pairs)) as advance,
    ):
        for file in threads.map(check, pairs):
            checked.append(file)
            advance(1)
    usable = [file for file in checked if isinstance(file, ImageFile)]
    return usable, [file for file in checked if isinstance(file, errors.UnreadableFile)]


def common_shape(files: Sequence[ImageFile], size: int | None) -> tuple[int, int, int]:
    """Return the channels, height and width that all images are converted to.

    One channel if every image is grey, else three. If ``size`` is None, images keep
    their size if all have the same and it is at most ``NATIVE_LIMIT``; otherwise they
    get ``DEFAULT_SIZE``.
    """
    channels = 1 if all(file.is_grey for file in files) else 3
    if size is not None:
        return channels, size, size
    sizes = {(file.height, file.width) for file in files}
    height, width = max(sizes)
    if len(sizes) > 1 or max(height, width) > NATIVE_LIMIT:
        return channels, DEFAULT_SIZE, DEFAULT_SIZE
    return channels, height, width


def file_pool(
    folder: Path,
    listed: Sequence[Listed],
    *,
    size: int | None,
    test_share: float,
    left_out: Sequence[errors.UnreadableFile] = (),
) -> Pool:
    """Return a pool of the listed files that are usable.

    Those in ``left_out`` were refused before, and are named in the same warning.
    """
    files, unreadable = check_files((entry.name, entry.path) for entry in listed)
    unreadable = sorted([*left_out, *unreadable])
    if not files:
        seen = [f"{len(unreadable)} cannot be used: {file}." for file in unreadable[:1]]
        words = [f"There is no image in {folder}.", *seen, "Give another folder."]
        raise errors.DataError(" ".join(words))
    if unreadable:
        warnings.warn(errors.UnreadableFilesWarning(folder, unreadable), stacklevel=2)
    by_name = {entry.name: entry for entry in listed}
    entries = [by_name[file.name] for file in files]
    # Classes whose files are all unreadable count, too.
    labels = {entry.label for entry in listed if entry.label is not None}
    classes = tuple(sorted(labels, key=natural_key))
    number_of: dict[str | None, int] = {name: i for i, name in enumerate(classes)}
    numbers = torch.tensor([number_of.get(entry.label, UNKNOWN) for entry in entries])
    has_labels = any(entry.label is not None for entry in entries)
    present = {entry.split for entry in entries if has_labels}
    measured = next((name for name in MEASURED if name in present), None)
    are_measured = [
        entry.split == measured
        if measured
        else entry.label is not None and is_held_out(file.digest, test_share)
        for file, entry in zip(files, entries, strict=True)
    ]
    is_test = torch.tensor(are_measured)
    bare = (is_test & (numbers == UNKNOWN)).nonzero().flatten().tolist()
    if bare:
        what, first = f"{len(bare)} images of '{measured}'", entries[bare[0]].name
        raise errors.LabelError(f"{what} have no label, such as {first}.")
    if is_test.all():
        raise errors.DataError(
            f"All {len(files)} images in {folder} are in the test split, where equal "
            f"images stay together. Put some into '{TRAIN}', or set test_share to 0."
        )
    shape = common_shape(files, size)
    kept, tested = (tuple(compress(files, mask)) for mask in (~is_test, is_test))
    ids, test_ids = (tuple(file.item_id for file in some) for some in (kept, tested))
    images, test_images = FileImages(kept, shape), FileImages(tested, shape)
    test = Split(test_images, numbers[is_test], test_ids) if tested else None
    return Pool.build(images, numbers[~is_test], classes, ids=ids, test=test)


def is_held_out(digest: str, test_share: float) -> bool:
    """Return whether an item is measured on, by its content alone.

    So adding or removing items moves no other between the splits, and equal images are
    always on the same side.
    """
    return int(digest, 16) < test_share * 16**16
