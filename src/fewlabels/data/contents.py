"""Hashes of what items hold: equal for the same file or the same pixels."""

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fewlabels.pool import Images

_CHUNK = 256
_ROWS_AT_ONCE = 2048


@runtime_checkable
class Digested(Protocol):
    """Images that know a hash of each item without reading a pixel."""

    def digests(self, indices: Tensor) -> Sequence[str]:
        """Return a hash per item, which decides its pixels given ``shape``."""
        ...


def digests_of(images: Images, indices: Tensor) -> Sequence[str]:
    """Return a hash of the content of each item at ``indices``.

    Args:
        images: The images; where they are not :class:`Digested`, pixels are hashed.
        indices: The items, shape (n,).

    Returns:
        Hexadecimal numbers, which depend on nothing but the content.
    """
    if isinstance(images, Digested):
        return images.digests(indices)
    return [
        blake2b(item.tobytes(), digest_size=16).hexdigest()
        for part in torch.split(indices, _CHUNK)
        for item in images.read(part).numpy()
    ]


def row_contents(images: Images) -> Iterator[bytes]:
    """Yield the bytes of vectors, a block at a time; nothing for images."""
    if len(images.shape) == 1:
        for some in torch.split(torch.arange(len(images)), _ROWS_AT_ONCE):
            yield images.read(some).numpy().tobytes()


def row_digest(*parts: Images) -> str:
    """Return one hash of what all vectors hold; empty if the items are images."""
    if all(len(images.shape) > 1 for images in parts):
        return ""
    digest = blake2b(digest_size=16)
    for images in parts:
        for content in row_contents(images):
            digest.update(content)
    return digest.hexdigest()
