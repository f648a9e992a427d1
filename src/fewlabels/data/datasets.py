"""Data sets that are objects: those of torch and torchvision, of Hugging Face, pools.

An item is an image or a vector, alone, with a label, or as a row with named columns.
All are read once, into memory.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from fewlabels.data.arrays import array_pool
from fewlabels.errors import DataError, UsageError
from fewlabels.names import import_object
from fewlabels.pool import UNKNOWN, Pool, to_numpy
from fewlabels.progress import track

_IMAGES = ("image", "img", "pixel_values", "features")
_LABELS = ("label", "labels", "fine_label", "target", "class")


def is_dataset(source: object) -> bool:
    """Return whether an object has a length and items by number."""
    return hasattr(source, "__len__") and hasattr(source, "__getitem__")


def dataset_pool(
    source: Any,
    *,
    test: Any = None,
    classes: Sequence[str] | None = None,
    size: int | None = None,
) -> Pool:
    """Return a pool of the items of a data set.

    Args:
        source: The data set; a pair of data sets is one to label and one to measure on;
            a pool comes back as it is. An import path names one of these, or a function
            that returns it.
        test: A data set to measure on.
        classes: Names of the classes; by default those that the data set names.
        size: Side of the square to bring images to; needed if theirs differ.

    Returns:
        The pool.
    """
    if isinstance(source, str):
        source = import_object("data set", source)
        source = source() if callable(source) else source
    if isinstance(source, Pool):
        return source
    if _is_pair(source):
        source, test = source
    if not is_dataset(source):
        kind = type(source).__name__
        raise UsageError(f"A {kind} cannot be loaded; give a name, a path or an array.")
    items, labels = _read(source, size)
    classes = classes or _class_names(source)
    tested = None if test is None else _read(test, size)
    return array_pool(items, labels, name="dataset", classes=classes, test=tested)


def _is_pair(source: Any) -> bool:
    """Return whether these are two data sets, and not two items of one."""
    if not isinstance(source, tuple | list) or len(source) != 2:
        return False
    is_item = (tuple, list, Mapping, np.ndarray, torch.Tensor, Image.Image)
    holds_items = any(isinstance(part, is_item) for part in source)
    is_clear = isinstance(source, tuple) or not holds_items
    return is_clear and all(map(is_dataset, source))


def _read(source: Any, size: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the items and labels of a data set, -1 where there is none."""
    items, labels = list[NDArray[Any]](), list[Any]()
    with track("Reading", len(source)) as advance:
        for number in range(len(source)):
            item, label = _pair(source[number])
            items.append(_array(item, number, size))
            labels.append(UNKNOWN if label is None else label)
            advance()
    shapes = sorted({item.shape for item in items})
    if len(shapes) != 1:
        raise DataError(
            f"The items of the data set have {len(shapes)} shapes, such as "
            f"{shapes[:2]}; give size to bring images to one."
        )
    return np.stack(items), np.asarray(labels)


def _pair(item: Any) -> tuple[Any, Any]:
    """Return the image and the label of an item; None where it has no label."""
    if isinstance(item, Mapping):
        image, label = (
            next((name for name in names if name in item), None)
            for names in (_IMAGES, _LABELS)
        )
        if image is None:
            seen = ", ".join(map(str, item))
            raise DataError(
                f"A row of the data set has the columns {seen}; rename the one with "
                f"images to '{_IMAGES[0]}'."
            )
        return item[image], None if label is None else item[label]
    if isinstance(item, tuple | list):
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _array(item: Any, number: int, size: int | None) -> NDArray[Any]:
    """Return an image as bytes, channels last, or a vector of numbers."""
    if isinstance(item, Image.Image):
        image = item.convert("L" if item.mode in {"1", "L"} else "RGB")
        return np.asarray(image if size is None else image.resize((size, size)))
    try:
        array = to_numpy(item) if torch.is_tensor(item) else np.asarray(item)
    except ValueError as error:
        seen = f"Item {number} of the data set is a {type(item).__name__}"
        raise UsageError(f"{seen} of uneven rows. Give images or vectors.") from error
    if array.ndim == 3 and array.shape[0] in {1, 3} and array.shape[2] not in {1, 3}:
        array = array.transpose(1, 2, 0)
    if array.ndim == 1 or array.dtype == np.uint8:
        return array.astype(np.float32) if array.ndim == 1 else array
    low, high = float(array.min(initial=0)), float(array.max(initial=0))
    if array.dtype.kind != "f" or low < 0 or high > 1:
        raise UsageError(
            f"Item {number} of the data set is of type {array.dtype}, from {low:g} to "
            f"{high:g}; give bytes, or numbers from 0 to 1 (without Normalize)."
        )
    return np.round(array * 255).astype(np.uint8)


def _class_names(source: Any) -> Sequence[str] | None:
    """Return the names of the classes that a data set has; None if it names none."""
    features = getattr(source, "features", None)
    if isinstance(features, Mapping):
        named = (getattr(features.get(name), "names", None) for name in _LABELS)
        return next((names for names in named if names), None)
    classes = getattr(source, "classes", None)
    return list(map(str, classes)) if isinstance(classes, list | tuple) else None
