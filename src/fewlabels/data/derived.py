"""Pools derived from pools: fewer items, repeated items, smaller images; hashes.

Hashes of what items hold are equal for the same file or the same pixels.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import interpolate

from fewlabels.errors import (
    DataError,
    UnknownNameError,
    UsageError,
    check_count,
    check_range,
)
from fewlabels.pool import ArrayImages, Images, Pool, Split
from fewlabels.rng import fork, keyed_uniforms, stream

Counts = Sequence[int] | Mapping[str, int] | Mapping[int, int]
"""How many items: one number per class, or by class name, which may be a number."""

_WHITE = 255
_READ_AT_ONCE = 256


def digests_of(images: Images, indices: Tensor) -> Sequence[str]:
    """Return a hash of the content of each item at ``indices``.

    Args:
        images: The images. If they have a method ``digests``, its hashes are returned;
            otherwise the pixels are hashed.
        indices: The items, shape (n,).

    Returns:
        One hexadecimal hash per item, which depends on its content alone.
    """
    digests: Any = getattr(images, "digests", None)
    if digests is not None:
        return list(digests(indices))
    return [
        blake2b(item.tobytes(), digest_size=16).hexdigest()
        for part in torch.split(indices, _READ_AT_ONCE)
        for item in images.read(part).numpy()
    ]


def row_contents(images: Images) -> Iterator[bytes]:
    """Yield the bytes of vectors, a block at a time; nothing for images."""
    if len(images.shape) == 1:
        for some in torch.split(torch.arange(len(images)), _READ_AT_ONCE):
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


@dataclass(frozen=True, eq=False)
class ChosenImages:
    """Some of other images."""

    images: Images
    chosen: Tensor
    """Which of them, by index, shape (n,)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item."""
        return self.images.shape

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.chosen)

    def read(self, indices: Tensor) -> Tensor:
        """Return the items at ``indices``."""
        return self.images.read(self.chosen[indices])

    def digests(self, indices: Tensor) -> Sequence[str]:
        """Return a hash of the content of each item at ``indices``."""
        return digests_of(self.images, self.chosen[indices])


@dataclass(frozen=True, eq=False)
class RepeatedImages:
    """Every image several times; copy r of item i is at index ``r * len(images) + i``.

    The noise of a copy depends on its index and the seed only, not on when or beside
    what it is read.
    """

    images: Images
    times: int
    noise: float = 0.0
    seed: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item."""
        return self.images.shape

    def __len__(self) -> int:
        """Return the number of items, copies included."""
        return self.times * len(self.images)

    def read(self, indices: Tensor) -> Tensor:
        """Return the items at ``indices``, each with its own noise."""
        pixels = self.images.read(indices % len(self.images))
        if not self.noise:
            return pixels
        if pixels.dtype != torch.uint8:
            raise UsageError("Noise fits images only, not vectors; leave out noise.")
        key = fork(stream(self.seed, "noise of repeated items"))
        uniform = keyed_uniforms(key, indices.numpy(), int(np.prod(self.shape)))
        half_step = 2.0**-54  # the inverse of the normal distribution is infinite at 0
        normal: Tensor = torch.special.ndtri(torch.from_numpy(uniform + half_step))
        noise = self.noise * _WHITE * normal.reshape(pixels.shape)
        noisy = pixels.to(torch.float64) + noise
        return noisy.round_().clamp_(0, _WHITE).to(torch.uint8)


def subset(pool: Pool, counts: Counts, *, seed: int = 0, part: int = 0) -> Pool:
    """Keep some labeled items of each class, for example to make a pool imbalanced.

    Example:
        >>> from fewlabels.data.loading import digits_pool
        >>> subset(digits_pool(), {"3": 40, "8": 5}).class_counts
        (0, 0, 0, 40, 0, 0, 0, 0, 5, 0)

    Args:
        pool: What to choose from. Its test split stays whole, and its items without a
            label are left out.
        counts: How many items to keep: one number per class, or numbers by class name;
            a class that is not named keeps none.
        seed: Which items are kept. The items for a smaller count are among those for a
            larger one.
        part: With the same seed and counts, other parts keep other items.

    Returns:
        A new pool with the same classes, in the order of the old one.
    """
    check_range("part", part, at_least=0)
    if isinstance(counts, Mapping):
        by_name = {str(name): count for name, count in counts.items()}
        for name in by_name:
            if name not in pool.classes:
                raise UnknownNameError("class", name, pool.classes)
        wanted = [by_name.get(name, 0) for name in pool.classes]
    else:
        wanted = list(counts)
    check_count("counts", len(wanted), pool.num_classes, "class")
    if min(wanted, default=0) < 0 or sum(wanted) == 0:
        raise UsageError(f"counts are {wanted}; one must be above zero, none negative.")
    for name, there, count in zip(pool.classes, pool.class_counts, wanted, strict=True):
        if there < (part + 1) * count:
            raise DataError(
                f"The class '{name}' has {there} labeled items; ask for at most "
                f"{there // (part + 1)} for part {part}, not {count}."
            )
    kept = _choose_per_class(pool.labels, wanted, seed, part)
    return replace(
        pool,
        images=ChosenImages(pool.images, kept),
        ids=tuple(pool.ids[index] for index in kept.tolist()),
        labels=pool.labels[kept],
        candidates=torch.empty(0, dtype=torch.int64),
    )


def repeated(pool: Pool, times: int, *, noise: float = 0.0, seed: int = 0) -> Pool:
    """Repeat every item, exactly or with a little Gaussian noise.

    A strategy that asks about copies wastes labels. In BatchBALD (Kirsch, van
    Amersfoort and Gal, 2019), MNIST is repeated three times and each copy, the first
    one too, gets its own noise. Departs from there: the noise is added to pixels as a
    share of their range and rounded, not to standardized images.

    Example:
        >>> from fewlabels.data.loading import digits_pool
        >>> pool = repeated(digits_pool(), 2)
        >>> len(pool), pool.ids[1297].endswith("#2")
        (2594, True)

    Args:
        pool: What to repeat. Its test split stays as it is.
        times: How often each item appears, at least once.
        noise: Standard deviation of the noise, as a share of 255.
        seed: Decides the noise.

    Returns:
        A new pool. Copy r of item i has the index ``(r - 1) * len(pool) + i`` and the
        id of the item with ``#r`` behind.
    """
    check_range("times", times, at_least=1)
    check_range("noise", noise, at_least=0, at_most=1)
    copies = range(1, times + 1)
    shifts = [pool.candidates + (copy - 1) * len(pool) for copy in copies]
    return replace(
        pool,
        images=RepeatedImages(pool.images, times, noise, seed),
        ids=tuple(f"{name}#{copy}" for copy in copies for name in pool.ids),
        labels=pool.labels.repeat(times),
        candidates=torch.cat(shifts),
    )


def resize_images(pool: Pool, size: int) -> Pool:
    """Return a pool whose images are brought, in memory, to squares of this size."""
    shape = pool.images.shape
    if len(shape) != 3:
        raise UsageError(f"Vectors of {shape[0]} features have no size; leave it out.")
    if shape[1:] == (size, size):
        return pool

    def resize(images: Images) -> ArrayImages:
        parts = []
        for chunk in torch.split(torch.arange(len(images)), _READ_AT_ONCE):
            pixels = images.read(chunk).float()
            levels = interpolate(pixels, (size, size), mode="bilinear", antialias=True)
            parts.append(levels.round_().clamp_(0, _WHITE).to(torch.uint8))
        return ArrayImages(torch.cat(parts))

    test = pool.test and replace(pool.test, images=resize(pool.test.images))
    return replace(pool, images=resize(pool.images), test=test)


def limit_tests(pool: Pool, count: int, *, seed: int = 0) -> Pool:
    """Return the pool with ``count`` items of each class in its test split.

    The seed decides which ones; every class needs as many.
    """
    test = pool.test
    counts = [0] if test is None else torch.bincount(test.labels).tolist()
    if test is None or not 1 <= count <= min(counts):
        raise UsageError(
            f"tests is {count}; give 1 to {min(counts)}, the size of the rarest class."
        )
    kept = _choose_per_class(test.labels, [count] * pool.num_classes, seed, 0)
    ids = tuple(test.ids[index] for index in kept.tolist()) if test.ids else ()
    smaller = Split(ChosenImages(test.images, kept), test.labels[kept], ids)
    return replace(pool, test=smaller)


def _choose_per_class(
    labels: Tensor, counts: Sequence[int], seed: int, part: int
) -> Tensor:
    """Return some items of each class, ascending; other parts have other items."""
    chosen = []
    for number, count in enumerate(counts):
        members = torch.nonzero(labels == number).flatten()
        order = torch.randperm(len(members), generator=stream(seed, "subset", number))
        chosen.append(members[order[part * count : (part + 1) * count]])
    return torch.cat(chosen).sort().values
