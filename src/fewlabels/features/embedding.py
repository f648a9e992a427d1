"""Every image once through an encoder: the images themselves, or views of them.

Images are read, varied and embedded in blocks of 256, so that memory does not grow with
the pool, and random draws are named by block: how far a process got before it died, and
how it goes on, changes no number.

Shapes: N items, n items of a block, V views, F features.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor

from fewlabels import rng
from fewlabels.augment import Strong, WeakAugment, strong, weak
from fewlabels.errors import NotFiniteError, ShapeError, UsageError
from fewlabels.features.cache import BLOCK, FeatureCache, Rows, Subject
from fewlabels.features.encoders import Encoder
from fewlabels.pool import Images
from fewlabels.progress import track

Precision = Literal["float16", "float32"]
"""How rows are kept; half precision takes half the space."""

_HASHED_ID = re.compile(r"@[0-9a-f]{16}(#\d+)?$")
_NUM_PROBES = 16
_CLEAN = {"view": "clean"}


@dataclass(frozen=True, eq=False)
class StoredViews:
    """Rows of several views of each item."""

    arrays: tuple[Rows, ...]
    """One array (N, F) per view; memory maps where there is a cache."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Number of items, of views and of features: (N, V, F)."""
        num_items, feature_size = self.arrays[0].shape
        return num_items, len(self.arrays), feature_size

    def read(self, indices: Tensor, numbers: Tensor) -> Tensor:
        """Return the chosen view of each of some items.

        Args:
            indices: The items, shape (n,).
            numbers: Which view of each item, from 0 to V - 1, shape (n,).

        Returns:
            float32, shape (n, F).
        """
        rows_nF = torch.empty(len(indices), self.shape[2], dtype=torch.float32)
        for number, array in enumerate(self.arrays):
            chosen = numbers == number
            rows_nF[chosen] = read_rows(array, indices[chosen])
        return rows_nF


def read_rows(rows: Rows, indices: Tensor) -> Tensor:
    """Return some rows of an array, memory-mapped or not, as float32 (n, F)."""
    return torch.from_numpy(np.asarray(rows[indices.numpy()])).to(torch.float32)


def embedded(
    images: Images,
    ids: Sequence[str],
    encoder: Encoder,
    *,
    cache: FeatureCache | None = None,
    dtype: Precision = "float16",
) -> Rows:
    """Return the features of all images.

    A file that has become unreadable since the pool was made stops the work with the
    :class:`fewlabels.errors.DataError` of whoever reads it.

    Args:
        images: The images.
        ids: A name per image that holds a hash of its content, as in a pool; empty
            where there are none: the pixels of all images are then hashed instead.
        encoder: What embeds them.
        cache: Where rows are kept and found again; None: in memory only.
        dtype: How rows are kept, with and without a cache.

    Returns:
        One row per image, shape (N, F); a read-only memory map where there is a cache.
    """
    work = _Work(images, ids, encoder, cache, dtype)
    return work.rows(images.read, _CLEAN)


def is_embedded(
    images: Images, ids: Sequence[str], encoder: Encoder, cache: FeatureCache
) -> bool:
    """Tell whether :func:`embedded` would find all rows in a cache.

    Args:
        images: The images.
        ids: As in :func:`embedded`.
        encoder: What embeds them.
        cache: Where rows are kept.

    Returns:
        False also where some blocks of rows are there, or damaged ones.
    """
    work = _Work(images, ids, encoder, cache, "float16")
    return not len(images) or cache.holds(work.subject(images.read, _CLEAN))


def embedded_views(
    images: Images,
    ids: Sequence[str],
    encoder: Encoder,
    *,
    settings: WeakAugment | Strong,
    num_views: int,
    key: int,
    cache: FeatureCache | None = None,
    dtype: Precision = "float16",
) -> StoredViews:
    """Return the features of random views of all images, each made once.

    More views begin with the fewer.

    Args:
        images: The images.
        ids: As in :func:`embedded`.
        encoder: What embeds the views.
        settings: How images are varied; they say whether views are weak or strong.
        num_views: How many views of each image (V).
        key: What distinguishes these views from others of the same kind.
        cache: Where rows are kept and found again; None: in memory only.
        dtype: How rows are kept, with and without a cache.

    Returns:
        Rows of all views, shape (N, V, F).
    """
    if num_views < 1:
        raise UsageError(f"num_views is {num_views}; make at least one of each image.")
    work = _Work(images, ids, encoder, cache, dtype)
    kind = "weak" if isinstance(settings, WeakAugment) else "strong"

    def view(number: int) -> Rows:
        def read(block: Tensor) -> Tensor:
            name = (f"{kind} view", number, int(block[0]) // BLOCK)
            return _varied(images.read(block), rng.stream(key, *name), settings)

        name = f"{kind} view {number} of key {key}"
        return work.rows(read, {"view": name, "settings": repr(settings)})

    return StoredViews(tuple(view(number) for number in range(num_views)))


def content_key(images: Images, ids: Sequence[str] = ()) -> str:
    """Return a hash of the content of images.

    Where every id holds a hash of its item's content, ids stand for pixels; those of a
    few items are hashed all the same, because ids know nothing of the size that images
    are brought to or of noise that was added. Else the pixels of all items are hashed.

    Args:
        images: The images.
        ids: A name per image, or none.

    Returns:
        A hexadecimal number of 32 digits.
    """
    names = ids if ids and all(map(_HASHED_ID.search, ids)) else ()
    found = blake2b(repr((len(images), images.shape)).encode(), digest_size=16)
    found.update("\0".join(names).encode())
    looked_at = _probes(len(images)) if names else torch.arange(len(images))
    for part in torch.split(looked_at, BLOCK):
        found.update(images.read(part).numpy().tobytes())
    return found.hexdigest()


def _probes(num_items: int) -> Tensor:
    """Return some positions, spread evenly."""
    return torch.linspace(0, num_items - 1, min(_NUM_PROBES, num_items)).long()


@dataclass(frozen=True, eq=False)
class _Work:
    """Images to embed, by what, and where the rows go."""

    images: Images
    ids: Sequence[str]
    encoder: Encoder
    cache: FeatureCache | None
    dtype: Precision

    def __post_init__(self) -> None:
        if self.ids and len(self.ids) != len(self.images):
            msg = (
                f"There are {len(self.images)} images and {len(self.ids)} ids; give "
                "one id per image, or none."
            )
            raise ShapeError(msg)

    @cached_property
    def _content(self) -> str:
        return content_key(self.images, self.ids)

    def rows(self, read: Callable[[Tensor], Tensor], facts: dict[str, str]) -> Rows:
        """Embed what ``read`` gives for each block, through a cache or in memory."""
        num_items = len(self.images)
        if not num_items:
            return np.empty((0, self.encoder.feature_size), dtype=self.dtype)

        def block_of(number: int) -> Rows:
            items = torch.arange(number * BLOCK, min((number + 1) * BLOCK, num_items))
            rows_nF = self.encoder.embed(read(items))
            _check_rows(rows_nF, len(items), self.encoder)
            return _rounded(rows_nF, self.encoder, self.dtype)

        if self.cache is None:
            return _in_memory(num_items, block_of)
        return self.cache.rows(self.subject(read, facts), block_of)

    def subject(
        self, read: Callable[[Tensor], Tensor], facts: dict[str, str]
    ) -> Subject:
        """Return what the rows of what ``read`` gives are called in a cache."""
        num_items = len(self.images)
        content = {
            "encoder": self.encoder.name,
            "content": self._content,
            # Views change with the code that makes them, which no setting tells.
            "first block": _digest(read(torch.arange(min(BLOCK, num_items)))),
        }
        return Subject({**facts, **content}, num_items, self.dtype)


def _varied(images: Tensor, draws: Generator, settings: WeakAugment | Strong) -> Tensor:
    if isinstance(settings, WeakAugment):
        return weak(images, draws, settings)
    return strong(images, draws, settings)


def _digest(images: Tensor) -> str:
    return blake2b(images.numpy().tobytes(), digest_size=16).hexdigest()


def _in_memory(num_items: int, block_of: Callable[[int], Rows]) -> Rows:
    first = block_of(0)
    rows_NF = np.empty((num_items, first.shape[1]), dtype=first.dtype)
    with track("Embedding", num_items) as advance:
        for start in range(0, num_items, BLOCK):
            rows = block_of(start // BLOCK) if start else first
            rows_NF[start : start + BLOCK] = rows
            advance(len(rows))
    return rows_NF


def _check_rows(rows_nF: Tensor, num_items: int, encoder: Encoder) -> None:
    """Raise unless an encoder gave one finite row per image."""
    if rows_nF.shape != (num_items, encoder.feature_size):
        msg = (
            f"The encoder '{encoder.name}' gave shape {tuple(rows_nF.shape)} for "
            f"{num_items} images; it says that it has {encoder.feature_size} features. "
            "Mend the encoder."
        )
        raise ShapeError(msg)
    if not bool(rows_nF.isfinite().all()):
        num_bad = int((~rows_nF.isfinite()).any(dim=1).sum())
        msg = (
            f"The encoder '{encoder.name}' gave NaN or infinity for {num_bad} of "
            f"{num_items} images; no distance to them means anything. Mend the encoder."
        )
        raise NotFiniteError(msg)


def _rounded(rows_nF: Tensor, encoder: Encoder, dtype: Precision) -> Rows:
    """Bring rows to the precision they are kept in."""
    with np.errstate(over="ignore"):
        rows: Rows = rows_nF.numpy().astype(dtype)
    if not np.isfinite(rows).all():
        msg = (
            f"The encoder '{encoder.name}' gave numbers up to "
            f"{float(rows_nF.abs().max()):g}, and {dtype} ends at "
            f"{np.finfo(dtype).max:g}. Keep them as float32."
        )
        raise NotFiniteError(msg)
    return rows
