"""Images in files: listed, checked by several threads, decoded when they are read."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.data.decode import ImageFile, decode, inspect
from fewlabels.data.unreadable import left_out
from fewlabels.errors import DataError, UnreadableFile
from fewlabels.progress import track

NATIVE_LIMIT = 64
"""Longest side up to which images of one common size keep it."""

DEFAULT_SIZE = 32
"""Side of the square that all other images are brought to."""

_MEMORY = 2**29
_NUM_THREADS = min(8, 2 + (os.cpu_count() or 1))
_FEW = 8


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
        wanted = indices.tolist()
        if not wanted:
            return torch.empty((0, *self.shape), dtype=torch.uint8)
        if len(wanted) <= _FEW:
            return torch.from_numpy(np.stack([self._image(one) for one in wanted]))
        with ThreadPoolExecutor(_NUM_THREADS) as threads:
            return torch.from_numpy(np.stack(list(threads.map(self._image, wanted))))

    def digests(self, indices: Tensor) -> Sequence[str]:
        """Return the hash of the file of each item at ``indices``."""
        return [self.files[index].digest for index in indices.tolist()]

    def _image(self, index: int) -> NDArray[np.uint8]:
        remembered = self._decoded.get(index)
        if remembered is not None:
            return remembered
        file = self.files[index]
        try:
            pixels = decode(file, self.shape)
        except DataError as error:
            raise DataError(
                f"{file.path} was a good image when the pool was loaded and is not "
                f"anymore: {error}. Run the same command again; the file is then left "
                "out or read again."
            ) from error
        if (len(self._decoded) + 1) * pixels.nbytes <= _MEMORY:
            self._decoded[index] = pixels
        return pixels


def check_files(
    listed: Iterable[tuple[str, Path]],
) -> tuple[list[ImageFile], list[UnreadableFile]]:
    """Return the usable files, each checked to its last pixel, and the others."""
    pairs = list(listed)
    checked: list[ImageFile | UnreadableFile] = []
    with (
        ThreadPoolExecutor(_NUM_THREADS) as threads,
        track("Checking images", len(pairs)) as advance,
    ):
        for one in threads.map(_checked, pairs):
            checked.append(one)
            advance(1)
    usable = [one for one in checked if isinstance(one, ImageFile)]
    return usable, [one for one in checked if isinstance(one, UnreadableFile)]


def common_shape(files: Sequence[ImageFile], size: int | None) -> tuple[int, int, int]:
    """Return the channels, height and width that all images are brought to.

    One channel if every image is grey, else three. Without a size it is the native one
    if all images share one of at most ``NATIVE_LIMIT``, else ``DEFAULT_SIZE``.
    """
    channels = 1 if all(file.is_grey for file in files) else 3
    if size is not None:
        return channels, size, size
    sizes = {(file.height, file.width) for file in files}
    height, width = max(sizes)
    if len(sizes) > 1 or max(height, width) > NATIVE_LIMIT:
        return channels, DEFAULT_SIZE, DEFAULT_SIZE
    return channels, height, width


def _checked(pair: tuple[str, Path]) -> ImageFile | UnreadableFile:
    name, path = pair
    try:
        return inspect(name, path)
    except DataError as error:
        return left_out(name, str(error))
