"""``load``: a pool of a named set, a folder, a manifest, a file, an array or an object.

Named sets are read from the disk, or downloaded first. The reader of a kind of file is
imported when such a file is given.
"""

from collections.abc import Sequence
from functools import cache
from itertools import compress
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.data.arrays import (
    Arrays,
    Labels,
    array_pool,
    item_ids,
    item_tensor,
    pool_from_arrays,
)
from fewlabels.data.derived import Counts, limit_tests, repeated, resize_images, subset
from fewlabels.errors import DataError, UnknownNameError, UsageError, check_range
from fewlabels.names import is_code_path
from fewlabels.pool import ArrayImages, Pool, Split

Loadable = str | PathLike[str] | NDArray[Any] | Tensor | Any
"""A data set's name, a path, images in memory, or a data set that is an object."""

_NUM_TEST_DIGITS = (50, 51, 49, 51, 50, 51, 50, 50, 48, 50)
"""Digits of each class to measure on, its share of 500; the others are the pool."""

_NAMES = (
    *("cifar10", "cifar100", "cifar20", "digits", "fashion-mnist", "mnist"),
    *("repeated-mnist", "stl10", "svhn"),
)


def load(
    source: Loadable,
    labels: Labels | Literal["none"] | None = None,
    *,
    classes: Sequence[str] | None = None,
    test: tuple[Arrays, Labels] | Any = None,
    vectors: str | PathLike[str] | None = None,
    size: int | None = None,
    counts: Counts | None = None,
    times: int | None = None,
    noise: float | None = None,
    test_share: float = 0.2,
    tests: int | None = None,
    part: int = 0,
    seed: int = 0,
) -> Pool:
    """Load images and what is known about them.

    All labels that are known are in the pool; a run hides them and plays the oracle
    with them. A name in :func:`names` wins over a path of the same name; write
    ``./digits`` for a folder called ``digits``.

    Example:
        >>> pool = load("digits")
        >>> len(pool), len(pool.test), pool.images.shape
        (1297, 500, (1, 8, 8))

    Args:
        source: A data set's name; a folder, a tree with a folder per class, a manifest
            (.csv, .jsonl, .parquet) or an .npz file; an array of images, uint8, shape
            (N, H, W) or (N, H, W, C), or of vectors, shape (N, F); a data set of torch,
            torchvision or Hugging Face; or ``"package.module:name"``, which is one of
            these objects or a function that returns it, a pair of them, or a pool.
        labels: Class numbers or names for an array. ``"none"``: take no labels from
            the folders' names or the manifest.
        classes: Names of the classes of an array or a data set.
        test: What to measure on: images and labels beside an array, a data set beside
            a data set.
        vectors: A file of rows (.npy, .npz, .parquet) that are seen in the place of the
            images: matched by file name or, where the rows have no names, by order.
        size: Side of the square to bring images to. None: the native size of a data
            set, an array, or files that share one of at most 64 pixels; else 32.
        counts: How many items of each class to keep; see :func:`subset`.
        times: How often to repeat each item; see :func:`repeated`. ``repeated-mnist``
            has 3 by default.
        noise: Standard deviation of the noise on repeated items, as a share of 255.
            ``repeated-mnist`` has 0.1 by default.
        test_share: Share of the labeled files to measure on where no split is given.
        tests: How many items of each class to measure on; None: all of the split.
        part: Which part of the data ``counts`` takes: pools of the same seed and counts
            and different parts share no item.
        seed: Decides which items ``counts`` and ``tests`` keep, and the noise.

    Returns:
        The pool.
    """
    if isinstance(source, str) and source == "repeated-mnist":
        # As in BatchBALD (Kirsch, van Amersfoort and Gal, 2019).
        times = 3 if times is None else times
        noise = 0.1 if noise is None else noise
    if noise is not None and times is None:
        raise UsageError("noise is for repeated items; give times as well.")
    check_range("size", 1 if size is None else size, at_least=1)
    check_range("test_share", test_share, at_least=0, below=1)
    ignores_labels = isinstance(labels, str) and labels == "none"
    given: Any = None if ignores_labels else labels
    if isinstance(source, np.ndarray) or torch.is_tensor(source):
        pool = array_pool(source, given, classes=classes, test=test)
    elif not isinstance(source, str | PathLike) or is_code_path(source):
        from fewlabels.data.datasets import dataset_pool

        if labels is not None:
            raise UsageError("labels are for arrays; a data set has its own.")
        pool = dataset_pool(source, test=test, classes=classes, size=size)
    else:
        if any(value is not None for value in (given, classes, test)):
            raise UsageError("labels, classes and test are for arrays; leave them out.")
        pool = _load_name_or_path(
            source, use_labels=not ignores_labels, size=size, test_share=test_share
        )
    if vectors is not None:
        from fewlabels.data.vectors import with_vectors

        pool = with_vectors(pool, Path(vectors))
    if size is not None:
        pool = resize_images(pool, size)
    if counts is not None:
        pool = subset(pool, counts, seed=seed, part=part)
    if tests is not None:
        pool = limit_tests(pool, tests, seed=seed)
    if times is not None:
        pool = repeated(pool, times, noise=noise or 0.0, seed=seed)
    return pool


def _load_name_or_path(
    source: str | PathLike[str], *, use_labels: bool, **options: Any
) -> Pool:
    """Return the pool of a named set, a folder, a manifest or a file of arrays."""
    is_name = source in _NAMES
    if source == "digits" and use_labels:
        return digits_pool()
    if is_name and use_labels:
        from fewlabels.data.official import named_pool

        return named_pool(str(source))
    from fewlabels.data.untrusted import MANIFESTS, is_utf8, printable, read_npz

    try:
        path = Path(source).expanduser()
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, RuntimeError) as error:
        raise UnknownNameError("data set", str(source)[:100], names()) from error
    if not is_utf8(str(path)):
        raise DataError(f"The name {printable(str(path))} is not UTF-8. Rename it.")
    kind = path.suffix.lower()
    if not is_name and (is_folder or (is_file and kind in MANIFESTS)):
        from fewlabels.data.folder import folder_pool
        from fewlabels.data.manifest import manifest_pool

        pool_from = folder_pool if is_folder else manifest_pool
        return pool_from(path, use_labels=use_labels, **options)
    if not use_labels:
        raise UsageError("labels='none' is for folders and manifests; leave it out.")
    if is_file and kind == ".npz":
        return pool_from_arrays(read_npz(path), path.stem, path)
    if is_file:
        known = ", ".join(sorted([*MANIFESTS, ".npz"]))
        raise DataError(f"{path} is not a file that can be loaded; known: {known}.")
    raise UnknownNameError("file, folder or data set", str(source), names())


def names() -> tuple[str, ...]:
    """Return the names of the built-in data sets, sorted."""
    return _NAMES


@cache
def digits_pool() -> Pool:
    """Return scikit-learn's digits, split once and for all: 1,297 items, 500 to test.

    The set has no official split. Each class gives its share of the test split: those
    items whose content hashes come first. No seed has a say in it.
    """
    from sklearn.datasets import load_digits  # slow to import, and seldom needed

    bunch = load_digits()
    items = item_tensor(np.round(bunch.images * (255 / 16)).astype(np.uint8))
    ids = item_ids("digits", items)
    is_test = torch.zeros(len(items), dtype=torch.bool)
    for number, quota in enumerate(_NUM_TEST_DIGITS):
        members = np.flatnonzero(bunch.target == number).tolist()
        members.sort(key=lambda index: ids[index].partition("@")[2])
        is_test[members[:quota]] = True
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    test = Split(ArrayImages(items[is_test]), labels[is_test])
    images, kept = ArrayImages(items[~is_test]), tuple(compress(ids, ~is_test))
    return Pool.build(images, labels[~is_test], "0123456789", ids=kept, test=test)
