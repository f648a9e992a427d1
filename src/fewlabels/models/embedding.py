"""Every image once through an encoder: the images themselves, or views of them.

Images are read, varied and embedded in blocks of 256, so that memory does not grow with
the pool. A row depends on what its item holds and on nothing else: the draws of a view
are named by the item, not by its position, and views are of 32 images at a time, empty
ones where there are fewer, because sums of other numbers round differently.

Shapes: N items, n items of a block, V views, D draws, F features.
"""

from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels import rng
from fewlabels.data import augment
from fewlabels.data.augment import Strong, WeakAugment
from fewlabels.data.derived import digests_of
from fewlabels.errors import NotFiniteError, ShapeError, check_range
from fewlabels.models.cache import BLOCK, CONTENT, Contents, FeatureCache, FeatureRows
from fewlabels.models.encoders import Encoder
from fewlabels.pool import Images, read_rows
from fewlabels.progress import track

Precision = Literal["float16", "float32"]
"""How rows are kept; half precision takes half the space."""

_VIEWS_AT_A_TIME = 32


@dataclass(frozen=True, eq=False)
class StoredViews:
    """Rows of several views of each item."""

    arrays: tuple[FeatureRows, ...]
    """Rows (N, F) of each view."""

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


def embedded(
    images: Images,
    encoder: Encoder,
    *,
    cache: FeatureCache | None = None,
    dtype: Precision = "float16",
) -> FeatureRows:
    """Return the features of all images.

    A file that has changed or become unreadable since the pool was loaded stops the
    work with a :class:`fewlabels.errors.DataError`.

    Args:
        images: The images.
        encoder: What embeds them.
        cache: Where rows are kept, item by item; None: in memory only.
        dtype: How rows are kept, with and without a cache.

    Returns:
        One row per image, shape (N, F); read from the disk where there is a cache.
    """
    return _Embedder(images, encoder, cache, dtype).rows(None)


def num_missing(images: Images, encoder: Encoder, cache: FeatureCache) -> int:
    """Return how many images :func:`embedded` would embed, not finding their rows.

    Args:
        images: The images.
        encoder: What embeds them.
        cache: Where rows are kept.

    Returns:
        Equal images count once, and damaged rows as missing.
    """
    embedder = _Embedder(images, encoder, cache, "float16")
    return cache.num_missing(embedder.facts(None), embedder.contents)


def embedded_views(
    images: Images,
    encoder: Encoder,
    *,
    settings: WeakAugment | Strong,
    num_views: int,
    key: int,
    cache: FeatureCache | None = None,
    dtype: Precision = "float16",
) -> StoredViews:
    """Return the features of random views of all images, each computed once.

    More views begin with the fewer. The views of an item are the same in every pool;
    equal items have equal views.

    Args:
        images: The images.
        encoder: What embeds the views.
        settings: How images are varied; they say whether views are weak or strong.
        num_views: How many views of each image (V).
        key: What distinguishes these views from others of the same kind.
        cache: Where rows are kept, item by item; None: in memory only.
        dtype: How rows are kept, with and without a cache.

    Returns:
        Rows of all views, shape (N, V, F).
    """
    check_range("num_views", num_views, at_least=1)
    embedder = _Embedder(images, encoder, cache, dtype)
    views = (_RandomView(settings, key, number) for number in range(num_views))
    return StoredViews(tuple(map(embedder.rows, views)))


@dataclass(frozen=True)
class _RandomView:
    """Images that are varied, each by draws of its own."""

    settings: WeakAugment | Strong
    key: int
    number: int

    @property
    def _name(self) -> str:
        kind = "weak" if isinstance(self.settings, WeakAugment) else "strong"
        return f"{kind} view {self.number} of key {self.key}"

    def facts(self, shape: tuple[int, ...]) -> dict[str, str]:
        """Return what decides the view of images of a shape.

        Views change with the code that makes them, which no setting shows: those of a
        few fixed images do.
        """
        size, draws = (_VIEWS_AT_A_TIME, *shape), rng.stream(0, "images to compare")
        images = torch.randint(256, size, generator=draws, dtype=torch.uint8)
        views = self.apply(images, np.arange(len(images)).astype(CONTENT))
        code = blake2b(views.numpy().tobytes(), digest_size=8).hexdigest()
        return {"view": self._name, "settings": repr(self.settings), "code": code}

    def apply(self, images: Tensor, contents: Contents) -> Tensor:
        """Return the view of each image; no image changes that of another."""
        key = rng.fork(rng.stream(self.key, self._name))
        numbers = contents.view(np.int64).reshape(len(images), -1)[:, 0]
        width = augment.num_draws(self.settings)
        draws_nD = torch.from_numpy(rng.keyed_uniforms(key, numbers, width))
        views = torch.empty_like(images)
        for part in torch.split(torch.arange(len(images)), _VIEWS_AT_A_TIME):
            padded = images.new_zeros(_VIEWS_AT_A_TIME, *images.shape[1:])
            draws = draws_nD.new_zeros(_VIEWS_AT_A_TIME, width)
            padded[: len(part)], draws[: len(part)] = images[part], draws_nD[part]
            views[part] = augment.view(padded, draws, self.settings)[: len(part)]
        return views


@dataclass(frozen=True, eq=False)
class _Embedder:
    """Images, the encoder that embeds them, and where the rows are kept."""

    images: Images
    encoder: Encoder
    cache: FeatureCache | None
    dtype: Precision

    @cached_property
    def contents(self) -> Contents:
        """A hash of the content of each item."""
        digests = digests_of(self.images, torch.arange(len(self.images)))
        hashes = (blake2b(text.encode(), digest_size=16).digest() for text in digests)
        return np.frombuffer(b"".join(hashes), dtype=CONTENT)

    def facts(self, view: _RandomView | None) -> dict[str, str]:
        """Return what decides the rows of a view; None: of images as they are."""
        shape = self.images.shape
        facts = {"encoder": self.encoder.name, "images": "x".join(map(str, shape))}
        facts |= {"view": "clean"} if view is None else view.facts(shape)
        return facts | {"dtype": self.dtype}

    def rows(self, view: _RandomView | None) -> FeatureRows:
        """Embed a view of all images, through a cache or in memory."""
        num_items = len(self.images)
        if not num_items:
            return np.empty((0, self.encoder.feature_size), dtype=self.dtype)
        if self.cache is not None:
            rows_of = partial(self._embed, view)
            return self.cache.rows(self.facts(view), self.contents, rows_of)
        items = np.arange(num_items)
        if num_items <= BLOCK:  # callers with few images show progress of their own
            return self._embed(view, items)
        parts = []
        with track("Embedding", num_items) as advance:
            for block in np.split(items, range(BLOCK, num_items, BLOCK)):
                parts.append(self._embed(view, block))
                advance(len(block))
        return np.concatenate(parts)

    def _embed(self, view: _RandomView | None, items: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of some items in the precision they are kept in."""
        images, encoder = self.images.read(torch.from_numpy(items)), self.encoder
        if view is not None:
            images = view.apply(images, self.contents[items])
        rows_nF = encoder.embed(images)
        seen, wanted = tuple(rows_nF.shape), (len(images), encoder.feature_size)
        if seen != wanted:
            raise ShapeError(f"'{encoder.name}' gave shape {seen}, not {wanted}.")
        with np.errstate(over="ignore"):
            rows: NDArray[Any] = rows_nF.numpy().astype(self.dtype)
        num_bad = int((~np.isfinite(rows)).any(axis=1).sum())
        if num_bad:
            raise NotFiniteError(
                f"The encoder '{encoder.name}' gave NaN, infinity or numbers beyond "
                f"the range of {self.dtype} for {num_bad} of {len(images)} images."
            )
        return rows
