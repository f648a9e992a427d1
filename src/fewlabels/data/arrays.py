"""Arrays in memory: images (N, H, W) and (N, H, W, C), or feature vectors (N, F)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.data.decode import digest_of
from fewlabels.data.labels import Labels, class_names, label_tensor
from fewlabels.data.unreadable import is_utf8
from fewlabels.errors import LabelError, NotFiniteError, ShapeError, UsageError
from fewlabels.matrices import numpy_of
from fewlabels.pool import UNKNOWN, ArrayImages, Pool, Split

Arrays = NDArray[Any] | Tensor
"""An array of either library."""

_CHANNELS = frozenset({1, 3})


@dataclass(frozen=True, eq=False)
class SplitArrays:
    """A standard data set as its files hold it."""

    x_train: NDArray[np.uint8]
    y_train: NDArray[np.integer[Any]]
    x_test: NDArray[np.uint8]
    y_test: NDArray[np.integer[Any]]
    classes: tuple[str, ...] = ()
    """Names of the classes; empty where the files hold none."""


def array_pool(
    images: Arrays,
    labels: Labels | None = None,
    *,
    name: str = "array",
    classes: Sequence[str] | None = None,
    test: tuple[Arrays, Labels] | None = None,
) -> Pool:
    """Make a pool of arrays; position i of the array is index i of the pool.

    Args:
        images: Images, uint8, shape (N, H, W) or (N, H, W, C); or vectors, floating
            point, shape (N, F).
        labels: Class numbers or class names, shape (N,); None where nothing is known.
        name: How the ids begin.
        classes: Names of the classes; made up from the labels where left out.
        test: Images and labels to measure on.

    Returns:
        The pool.
    """
    items = item_tensor(images)
    given = (labels, None if test is None else test[1])
    names = class_names(*given) if classes is None else _distinct(classes)
    numbers = label_tensor(labels, names, len(items))
    return Pool.build(
        ArrayImages(items),
        numbers,
        names,
        ids=item_ids(f"{name}/train", items),
        test=None if test is None else _split(test, names, items),
    )


def item_tensor(images: Arrays) -> Tensor:
    """Return images as uint8 (N, C, H, W), or vectors as they are.

    The tensor shares memory with the array where it can.
    """
    array = numpy_of(images) if torch.is_tensor(images) else images
    if array.ndim == 2 and np.issubdtype(array.dtype, np.floating):
        return _vectors(array)
    if array.dtype != np.uint8:
        raise UsageError(
            f"Images have the type {array.dtype}; their scale is then a guess. Pass "
            "uint8 from 0 to 255, such as (x * 255).round().astype('uint8')."
        )
    _check_image_shape(array.shape)
    stacked = array[..., None] if array.ndim == 3 else array
    return torch.from_numpy(np.require(stacked.transpose(0, 3, 1, 2), None, ["C", "W"]))


def item_ids(prefix: str, items: Tensor) -> tuple[str, ...]:
    """Return a name per item: prefix, position and a hash of its values."""
    rows = items.numpy().reshape(len(items), -1)
    return tuple(
        f"{prefix}/{position}@{digest_of(row.tobytes())}"
        for position, row in enumerate(rows)
    )


def _distinct(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the classes; refuse a name that stands there twice."""
    names = tuple(map(str, classes))
    unwritable = [name for name in names if not is_utf8(name)]
    if unwritable:
        raise UsageError(
            f"The class {unwritable[0]!a} is not valid text and cannot be written to "
            "any file. Rename it."
        )
    if len(set(names)) < len(names):
        twice, count = Counter(names).most_common(1)[0]
        raise UsageError(
            f"classes has {len(names)} names, and {count} of them are '{twice}'; that "
            "label would mean several classes. Name each class once."
        )
    return names


def _split(test: tuple[Arrays, Labels], classes: Sequence[str], items: Tensor) -> Split:
    test_items = item_tensor(test[0])
    if test_items.shape[1:] != items.shape[1:]:
        raise ShapeError(
            f"Items of the pool have the shape {tuple(items.shape[1:])}, those of the "
            f"test split {tuple(test_items.shape[1:])}; one network cannot read both. "
            "Give them the same shape."
        )
    numbers = label_tensor(test[1], classes, len(test_items))
    if bool((numbers == UNKNOWN).any()):
        raise LabelError(
            "The test split has items without a label; accuracy needs all of them. "
            "Take these items out of the test split."
        )
    return Split(ArrayImages(test_items), numbers)


def _vectors(array: NDArray[Any]) -> Tensor:
    if 0 in array.shape:
        msg = f"Vectors have the shape {array.shape}: there is nothing to label."
        raise ShapeError(msg)
    if not np.isfinite(array).all():
        num_bad = int((~np.isfinite(array)).any(axis=1).sum())
        raise NotFiniteError(
            f"{num_bad} of {len(array)} vectors hold NaN or infinity; no distance to "
            "them means anything. Replace or leave out these rows."
        )
    is_known = array.itemsize <= np.dtype(np.float64).itemsize
    dtype = array.dtype.newbyteorder("=") if is_known else np.dtype(np.float64)
    return torch.from_numpy(np.require(array, dtype, ["C", "W"]))


def _check_image_shape(shape: tuple[int, ...]) -> None:
    if len(shape) not in {3, 4}:
        raise ShapeError(
            f"Images have the shape {shape}; pass (N, H, W) for gray images or (N, H, "
            "W, C) for color images."
        )
    if len(shape) == 4 and shape[-1] not in _CHANNELS:
        first = shape[1] in _CHANNELS
        hint = (
            "The channels seem to come first: pass x.transpose(0, 2, 3, 1)."
            if first
            else "Leave out alpha and other channels."
        )
        msg = f"Images have {shape[-1]} channels in shape {shape}, not 1 or 3. {hint}"
        raise ShapeError(msg)
    if 0 in shape:
        raise ShapeError(f"Images have the shape {shape}: there is nothing to label.")
