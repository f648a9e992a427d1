"""What items hold, told by a hash of each: equal for the same file or pixels."""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from fewlabels.pool import Images

_CHUNK = 256


@runtime_checkable
class Digested(Protocol):
    """Images that know what their items hold without reading a pixel."""

    def digests(self, indices: Tensor) -> Sequence[str]:
        """Return a hash per item, which decides its pixels given ``shape``."""
        ...


def digests_of(images: Images, indices: Tensor) -> Sequence[str]:
    """Return a hash of the content of each item at ``indices``.

    Args:
        images: The images; where they are not :class:`Digested`, pixels are hashed.
        indices: The items, shape (n,).

    Returns:
        Hexadecimal numbers. Names, positions and other items have no say in them.
    """
    if isinstance(images, Digested):
        return images.digests(indices)
    return [
        blake2b(item.tobytes(), digest_size=16).hexdigest()
        for part in torch.split(indices, _CHUNK)
        for item in images.read(part).numpy()
    ]
