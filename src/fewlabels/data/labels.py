"""Labels as people give them, numbers or words, made class numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewlabels.data.order import natural_key
from fewlabels.errors import LabelError, NotFiniteError, ShapeError, UsageError
from fewlabels.pool import UNKNOWN, check_labels

Labels = ArrayLike | Tensor
"""Class numbers or class names, one per item."""

_MANY_CLASSES = 1_000
"""Up to here there may be more classes than items."""


def label_tensor(
    labels: Labels | None, classes: Sequence[str], num_items: int
) -> Tensor:
    """Return labels as class numbers.

    Args:
        labels: Class numbers or class names; None where nothing is known.
        classes: Names of the classes.
        num_items: How many labels there must be.

    Returns:
        Class numbers, int64, shape (num_items,).
    """
    if labels is None:
        return torch.full((num_items,), UNKNOWN, dtype=torch.int64)
    array = _label_array(labels)
    if array.shape != (num_items,):
        msg = (
            f"{num_items} images came with labels of shape {array.shape}; give exactly "
            f"one label per image, shape ({num_items},)."
        )
        raise ShapeError(msg)
    if array.dtype.kind == "U":
        array = _numbers_of(array, classes)
    numbers = torch.from_numpy(array.astype(np.int64))
    check_labels(numbers, len(classes))
    return numbers


def class_names(*labels: Labels | None) -> tuple[str, ...]:
    """Make up the names of the classes from the labels.

    Args:
        *labels: Class numbers or class names, for example of the pool and of the test
            split; None where nothing is known.

    Returns:
        Sorted names; for numbers all names from "0" to the largest.

    Raises:
        LabelError: If the largest number cannot be that of a class.
    """
    arrays = [_label_array(one) for one in labels if one is not None]
    if not arrays:
        return ()
    if any(array.dtype.kind == "U" for array in arrays):
        words = {str(word) for array in arrays for word in array}
        return tuple(sorted(words, key=natural_key))
    largest = max(int(array.max(initial=UNKNOWN)) for array in arrays)
    num_labels = sum(array.size for array in arrays)
    if largest >= max(num_labels, _MANY_CLASSES):
        msg = (
            f"The largest label is {largest:,}, which would make {largest + 1:,} "
            f"classes for {num_labels:,} labels. Class numbers count from 0 without "
            "gaps; number the classes anew, or name them in classes."
        )
        raise LabelError(msg)
    return tuple(map(str, range(largest + 1)))


def _label_array(labels: Labels) -> NDArray[Any]:
    """Return labels as an array of integers or of words."""
    given = labels.detach().cpu().numpy() if torch.is_tensor(labels) else labels
    array = np.asarray(given)
    if array.dtype.kind in "UT":
        return array.astype(np.str_)
    if array.dtype.kind in "iub":
        return array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        num_bad = int((~np.isfinite(array)).sum())
        msg = (
            f"{num_bad} of {array.size} labels are NaN or infinite; write {UNKNOWN} "
            "where the class is not known."
        )
        raise NotFiniteError(msg)
    msg = (
        f"Labels have the type {array.dtype}; pass class numbers as integers, or class "
        "names as strings."
    )
    raise UsageError(msg)


def _numbers_of(words: NDArray[Any], classes: Sequence[str]) -> NDArray[np.int64]:
    number_of = {name: number for number, name in enumerate(classes)}
    strange = sorted(set(words.tolist()) - set(number_of))
    if strange:
        msg = (
            f"The label '{strange[0]}' is not among the {len(classes)} classes: "
            f"{', '.join(classes)}. Correct it or add it to the classes."
        )
        raise LabelError(msg)
    return np.array([number_of[word] for word in words.tolist()], dtype=np.int64)
