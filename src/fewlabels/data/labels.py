"""Labels as people give them, numbers or words, made class numbers."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewlabels.data.order import natural_key
from fewlabels.errors import LabelError, NotFiniteError, ShapeError, UsageError
from fewlabels.matrices import numpy_of
from fewlabels.pool import UNKNOWN, check_labels

Labels = ArrayLike | Tensor
"""Class numbers or class names, one per item."""

_MANY_CLASSES = 1_000
"""Up to here there may be more classes than items."""

_MOST_NAMED = 100


def label_tensor(
    labels: Labels | None, classes: Sequence[str], num_items: int
) -> Tensor:
    """Return class numbers or names as class numbers, int64, shape (num_items,)."""
    if labels is None:
        return torch.full((num_items,), UNKNOWN, dtype=torch.int64)
    array = _label_array(labels)
    if array.shape != (num_items,):
        raise ShapeError(
            f"{num_items} images came with labels of shape {array.shape}; give exactly "
            f"one label per image, shape ({num_items},)."
        )
    if array.dtype.kind == "U":
        array = _numbers_of(array, classes)
    numbers = torch.from_numpy(array)
    check_labels(numbers, len(classes))
    return numbers


def class_names(*labels: Labels | None) -> tuple[str, ...]:
    """Return names of the classes, made up from class numbers or names.

    For numbers these are all names from "0" to the largest, which a :class:`LabelError`
    refuses if it cannot be that of a class.
    """
    arrays = [_label_array(one) for one in labels if one is not None]
    if not arrays:
        return ()
    if any(array.dtype.kind == "U" for array in arrays):
        words = {str(word) for array in arrays for word in array.tolist()}
        return tuple(sorted(words, key=natural_key))
    largest = max(int(array.max(initial=UNKNOWN)) for array in arrays)
    num_labels = sum(array.size for array in arrays)
    if largest >= max(num_labels, _MANY_CLASSES):
        raise LabelError(
            f"The largest label is {largest:,}, which would make {largest + 1:,} "
            f"classes for {num_labels:,} labels. Class numbers count from 0 without "
            "gaps; renumber the classes, or name them in classes."
        )
    return tuple(map(str, range(largest + 1)))


def names_in(words: NDArray[Any]) -> list[str]:
    """Return the names of classes that an array holds, as text or numbers."""
    return [str(word) for word in _label_array(words.ravel()).tolist()]


def _label_array(labels: Labels) -> NDArray[Any]:
    """Return labels as a row of class numbers, int64, or of words."""
    array = _array(labels)
    if array.ndim != 1:
        raise ShapeError(
            f"Labels have the shape {array.shape}; give exactly one label per image, "
            "shape (N,)."
        )
    if array.dtype.kind in "UT":
        return _words(array)
    if array.dtype.kind in "iub":
        return _whole(array)
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        num_bad = int((~np.isfinite(array)).sum())
        raise NotFiniteError(
            f"{num_bad} of {array.size} labels are NaN or infinite; write {UNKNOWN} "
            "where the class is not known."
        )
    raise UsageError(_wrong_type(str(array.dtype)))


def _array(labels: Labels) -> NDArray[Any]:
    if torch.is_tensor(labels):
        return numpy_of(labels)
    try:
        return np.asarray(labels)
    except ValueError as error:  # lists of different lengths within each other
        raise UsageError(_wrong_type("list of lists")) from error


def _wrong_type(kind: str) -> str:
    return (
        f"Labels have the type {kind}; pass class numbers as integers, or class names "
        "as strings."
    )


def _whole(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return whole numbers of any type as int64; refuse those that it cannot hold."""
    largest = int(array.max(initial=0))
    if largest > np.iinfo(np.int64).max:
        raise LabelError(
            f"The largest label is {largest:,}, which is not a class number: they "
            f"count from 0, and {UNKNOWN} stands for an unknown class. Correct it."
        )
    return array.astype(np.int64)


def _words(array: NDArray[Any]) -> NDArray[np.str_]:
    """Return texts of any type as NumPy's; refuse what cannot be written down."""
    if array.dtype.kind == "T":
        given = array.tolist()
        if not all(isinstance(word, str) for word in given):
            raise UsageError(_wrong_type("text with missing values"))
        array = np.array(given, dtype=np.str_)
    native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
    codes = native.view(np.uint32) if native.nbytes else np.zeros(0, np.uint32)
    if (codes > sys.maxunicode).any() or ((codes >= 0xD800) & (codes < 0xE000)).any():
        raise LabelError(
            "A label is not valid text: it has characters that cannot be written to "
            "any file. Rename the classes."
        )
    return native


def _numbers_of(words: NDArray[Any], classes: Sequence[str]) -> NDArray[np.int64]:
    number_of = {name: number for number, name in enumerate(classes)}
    strange = sorted(set(words.tolist()) - set(number_of))
    if strange:
        raise LabelError(
            f"The label '{strange[0]}' is not among the {len(classes)} classes: "
            f"{_listed(classes)}. Correct it or add it to the classes."
        )
    return np.array([number_of[word] for word in words.tolist()], dtype=np.int64)


def _listed(classes: Sequence[str]) -> str:
    rest = len(classes) - _MOST_NAMED
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(classes[:_MOST_NAMED]) + more
