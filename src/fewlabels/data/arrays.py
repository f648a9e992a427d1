"""Arrays in memory: images (N, H, W) and (N, H, W, C), or feature vectors (N, F)."""

import reprlib
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewlabels.errors import (
    DataError,
    LabelError,
    ShapeError,
    UsageError,
    check_distinct,
    check_finite_rows,
)
from fewlabels.files import digest_of
from fewlabels.pool import UNKNOWN, ArrayImages, Pool, Split, check_labels, to_numpy

Arrays = NDArray[Any] | Tensor
"""An array of either library."""

Labels = ArrayLike | Tensor
"""Class numbers or class names, one per item."""

_MANY_CLASSES = 1_000
"""Up to here there may be more classes than items."""


def pool_from_arrays(
    arrays: Mapping[str, NDArray[Any]],
    name: str,
    where: Path,
    classes: Sequence[str] | None = None,
) -> Pool:
    """Return a pool of the arrays of a data set.

    Args:
        arrays: ``x_train`` and, where known, ``y_train``, ``x_test``, ``y_test`` and
            ``classes``.
        name: How the ids begin.
        where: Where the arrays were read, for messages.
        classes: Names of the classes, where the arrays have none.

    Returns:
        The pool.
    """
    has_test = "x_test" in arrays
    if "x_train" not in arrays or has_test != ("y_test" in arrays):
        raise DataError(
            f"{where} holds the arrays {', '.join(sorted(arrays)) or 'none'}; it needs "
            "x_train, and x_test only together with y_test."
        )
    if "classes" in arrays:
        classes = list(map(str, _label_array(arrays["classes"].ravel()).tolist()))
    test = (arrays["x_test"], arrays["y_test"]) if has_test else None
    images, labels = arrays["x_train"], arrays.get("y_train")
    return array_pool(images, labels, name=name, classes=classes, test=test)


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
        images: Images, uint8, shape (N, H, W), (N, H, W, C), or (N, C, H, W) where that
            cannot be mistaken; or vectors, floating point, shape (N, F).
        labels: Class numbers or class names, shape (N,); None where nothing is known.
        name: How the ids begin.
        classes: Names of the classes; inferred from the labels where left out.
        test: Images and labels to measure on.

    Returns:
        The pool.
    """
    items = item_tensor(images)
    if classes is None:
        names = infer_classes(labels, None if test is None else test[1])
    else:
        names = tuple(map(str, classes))
    _label_array(names or ("",))  # raises if a name cannot be written down
    check_distinct("class", names)
    numbers = label_tensor(labels, names, len(items))
    split = None
    if test is not None:
        test_items = item_tensor(test[0])
        shape, test_shape = tuple(items.shape[1:]), tuple(test_items.shape[1:])
        if shape != test_shape:
            raise ShapeError(f"Test items have shape {test_shape}; give shape {shape}.")
        test_numbers = label_tensor(test[1], names, len(test_items))
        if bool((test_numbers == UNKNOWN).any()):
            raise LabelError("The test split has items without a label; drop them.")
        split = Split(ArrayImages(test_items), test_numbers)
    ids = item_ids(f"{name}/train", items)
    return Pool.build(ArrayImages(items), numbers, names, ids=ids, test=split)


def item_tensor(images: Arrays) -> Tensor:
    """Return images as uint8 (N, C, H, W), or vectors as they are.

    The tensor shares memory with the array where it can.
    """
    array = to_numpy(images) if torch.is_tensor(images) else images
    shape, is_vectors = array.shape, array.ndim == 2 and array.dtype.kind == "f"
    if not is_vectors and array.dtype != np.uint8:
        raise UsageError(
            f"Images have the type {array.dtype}. Pass uint8, from 0 to 255."
        )
    if not is_vectors and array.ndim not in {3, 4}:
        raise ShapeError(
            f"Images have the shape {shape}; pass (N, H, W) or (N, H, W, C)."
        )
    if array.ndim == 4 and shape[-1] not in {1, 3}:
        if shape[1] not in {1, 3}:
            raise ShapeError(
                f"Images have the shape {shape}; pass 1 or 3 channels in the last axis."
            )
        array = array.transpose(0, 2, 3, 1)
    if 0 in shape:
        raise ShapeError(f"Items have the shape {shape}: there is nothing to label.")
    if not is_vectors:
        stacked = array[..., None] if array.ndim == 3 else array
        channels_first = stacked.transpose(0, 3, 1, 2)
        return torch.from_numpy(np.require(channels_first, None, ["C", "W"]))
    bad = ~np.isfinite(array).all(axis=1)
    check_finite_rows("vectors", np.flatnonzero(bad), len(array))
    is_known = array.itemsize <= np.dtype(np.float64).itemsize
    dtype = array.dtype.newbyteorder("=") if is_known else np.dtype(np.float64)
    return torch.from_numpy(np.require(array, dtype, ["C", "W"]))


def item_ids(prefix: str, items: Tensor) -> tuple[str, ...]:
    """Return a name per item: prefix, position and a hash of its values."""
    rows = items.numpy().reshape(len(items), -1)
    return tuple(
        f"{prefix}/{position}@{digest_of(row.tobytes())}"
        for position, row in enumerate(rows)
    )


def label_tensor(labels: Labels | None, classes: Sequence[str], number: int) -> Tensor:
    """Return class numbers or names as class numbers, int64, shape (number,)."""
    if labels is None:
        return torch.full((number,), UNKNOWN, dtype=torch.int64)
    array = _label_array(labels)
    if array.shape != (number,):
        raise ShapeError(f"{number} images have labels of shape {array.shape}.")
    if array.dtype.kind == "U":
        number_of = {name: number for number, name in enumerate(classes)}
        unknown = sorted(set(array.tolist()) - set(number_of))
        if unknown:
            known = f"{len(classes)} classes: {reprlib.repr(classes)}"
            raise LabelError(f"The label '{unknown[0]}' is not among the {known}.")
        array = np.array([number_of[word] for word in array.tolist()], dtype=np.int64)
    numbers = torch.from_numpy(array)
    check_labels(numbers, len(classes))
    return numbers


def infer_classes(*labels: Labels | None) -> tuple[str, ...]:
    """Return names of the classes, inferred from class numbers or names.

    For numbers these are all names from "0" to the largest, which a :class:`LabelError`
    refuses if it cannot be that of a class.
    """
    arrays = [_label_array(given) for given in labels if given is not None]
    if not arrays:
        return ()
    if any(array.dtype.kind == "U" for array in arrays):
        from fewlabels.data.untrusted import natural_key

        words = {str(word) for array in arrays for word in array.tolist()}
        return tuple(sorted(words, key=natural_key))
    largest = max(int(array.max(initial=UNKNOWN)) for array in arrays)
    num_labels = sum(array.size for array in arrays)
    if largest >= max(num_labels, _MANY_CLASSES):
        raise LabelError(
            f"The largest of {num_labels:,} labels is {largest:,}; pass classes."
        )
    return tuple(map(str, range(largest + 1)))


def _label_array(labels: Labels) -> NDArray[Any]:
    """Return labels as a row of class numbers, int64, or of words."""
    try:
        array = to_numpy(labels) if torch.is_tensor(labels) else np.asarray(labels)
    except ValueError as error:  # lists of different lengths within each other
        raise ShapeError(f"Labels are no row of numbers or names: {error}.") from error
    if array.ndim != 1:
        raise ShapeError(f"Labels have the shape {array.shape}; give one per image.")
    if array.dtype.kind == "T" and all(isinstance(w, str) for w in array.tolist()):
        array = np.array(array.tolist(), dtype=np.str_)
    if array.dtype.kind == "U":
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        codes = array.view(np.uint32) if array.nbytes else np.zeros(0, np.uint32)
        is_surrogate = (codes >= 0xD800) & (codes < 0xE000)
        if (is_surrogate | (codes > sys.maxunicode)).any():
            raise LabelError("A label is not valid text; rename the classes.")
        return array
    if array.dtype.kind not in "iub":
        raise UsageError(
            f"Labels have the type {array.dtype}; pass class numbers as integers, or "
            "names, and -1 where an item has none."
        )
    largest = int(array.max(initial=0))
    if largest > np.iinfo(np.int64).max:
        raise LabelError(f"The largest label is {largest:,}; count from 0.")
    return array.astype(np.int64)
