"""Arrays in memory: images (N, H, W) and (N, H, W, C), or feature vectors (N, F)."""

import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from fewlabels.data.decode import digest_of
from fewlabels.data.order import natural_key
from fewlabels.errors import (
    DataError,
    LabelError,
    NotFiniteError,
    ShapeError,
    UsageError,
)
from fewlabels.pool import UNKNOWN, ArrayImages, Pool, Split, check_labels

Arrays = NDArray[Any] | Tensor
"""An array of either library."""

_CHANNELS = frozenset({1, 3})


def array_pool(
    images: Arrays,
    labels: ArrayLike | Tensor | None = None,
    *,
    name: str = "array",
    classes: Sequence[str] | None = None,
    test: tuple[Arrays, ArrayLike | Tensor] | None = None,
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
    names = tuple(classes) if classes is not None else class_names(labels, test)
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

    Args:
        images: What a user gave.

    Returns:
        The tensor; it shares memory with the array where it can.
    """
    array = images.detach().cpu().numpy() if torch.is_tensor(images) else images
    if array.ndim == 2 and np.issubdtype(array.dtype, np.floating):
        return _vectors(array)
    if array.dtype != np.uint8:
        msg = (
            f"Images have the type {array.dtype}; their scale is then a guess. Pass "
            "uint8 from 0 to 255, such as (x * 255).round().astype('uint8')."
        )
        raise UsageError(msg)
    _check_image_shape(array.shape)
    stacked = array[..., None] if array.ndim == 3 else array
    return torch.from_numpy(np.ascontiguousarray(stacked.transpose(0, 3, 1, 2)))


def label_tensor(
    labels: ArrayLike | Tensor | None, classes: Sequence[str], num_items: int
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


def class_names(
    labels: ArrayLike | Tensor | None,
    test: tuple[Arrays, ArrayLike | Tensor] | None = None,
) -> tuple[str, ...]:
    """Make up the names of the classes from the labels.

    Args:
        labels: Class numbers or class names; None where nothing is known.
        test: Images and labels of the test split, whose classes count as well.

    Returns:
        Sorted names; for numbers all names from "0" to the largest.
    """
    given = [labels] if test is None else [labels, test[1]]
    arrays = [_label_array(one) for one in given if one is not None]
    if not arrays:
        return ()
    if any(array.dtype.kind == "U" for array in arrays):
        words = {str(word) for array in arrays for word in array}
        return tuple(sorted(words, key=natural_key))
    largest = max(int(array.max(initial=UNKNOWN)) for array in arrays)
    return tuple(map(str, range(largest + 1)))


def item_ids(prefix: str, items: Tensor) -> tuple[str, ...]:
    """Return a name per item: prefix, position and a hash of its values."""
    rows = items.numpy().reshape(len(items), -1)
    return tuple(
        f"{prefix}/{position}@{digest_of(row.tobytes())}"
        for position, row in enumerate(rows)
    )


def read_npz(path: Path) -> dict[str, NDArray[Any]]:
    """Read all arrays of an ``.npz`` file, none of them pickled.

    Args:
        path: The file.

    Returns:
        The arrays by name.

    Raises:
        DataError: If it is not such a file.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (
        OSError,
        ValueError,
        EOFError,
        AttributeError,
        zipfile.BadZipFile,
        zlib.error,
    ) as error:
        msg = (
            f"{path} is not a whole .npz file of plain arrays ({error}); save it again "
            "with numpy.savez_compressed."
        )
        raise DataError(msg) from error


def npz_pool(path: Path, name: str, classes: Sequence[str] | None = None) -> Pool:
    """Make a pool of an ``.npz`` file.

    Args:
        path: A file with ``x_train`` and, where known, ``y_train``, ``x_test``,
            ``y_test`` and ``classes``.
        name: How the ids begin.
        classes: Names of the classes where the file has none.

    Returns:
        The pool.

    Raises:
        DataError: If an array is missing.
    """
    arrays = read_npz(path)
    if "x_train" not in arrays or ("x_test" in arrays) != ("y_test" in arrays):
        msg = (
            f"{path} holds the arrays {', '.join(sorted(arrays)) or 'none'}; a pool "
            "needs x_train, may have y_train and classes, and x_test only together "
            "with y_test."
        )
        raise DataError(msg)
    has_test = "x_test" in arrays
    words = arrays.get("classes")
    return array_pool(
        arrays["x_train"],
        arrays.get("y_train"),
        name=name,
        classes=classes if words is None else [str(word) for word in words.ravel()],
        test=(arrays["x_test"], arrays["y_test"]) if has_test else None,
    )


def _split(
    test: tuple[Arrays, ArrayLike | Tensor], classes: Sequence[str], items: Tensor
) -> Split:
    test_items = item_tensor(test[0])
    if test_items.shape[1:] != items.shape[1:]:
        msg = (
            f"Items of the pool have the shape {tuple(items.shape[1:])}, those of the "
            f"test split {tuple(test_items.shape[1:])}; one network cannot read both. "
            "Bring them to one shape."
        )
        raise ShapeError(msg)
    numbers = label_tensor(test[1], classes, len(test_items))
    if bool((numbers == UNKNOWN).any()):
        raise LabelError(
            "The test split has items without a label; accuracy needs all of them. "
            "Take these items out of the test split."
        )
    return Split(ArrayImages(test_items), numbers)


def _vectors(array: NDArray[Any]) -> Tensor:
    if not np.isfinite(array).all():
        num_bad = int((~np.isfinite(array)).any(axis=1).sum())
        msg = (
            f"{num_bad} of {len(array)} vectors hold NaN or infinity; no distance to "
            "them means anything. Replace or leave out these rows."
        )
        raise NotFiniteError(msg)
    return torch.from_numpy(np.ascontiguousarray(array))


def _check_image_shape(shape: tuple[int, ...]) -> None:
    if len(shape) not in {3, 4}:
        msg = (
            f"Images have the shape {shape}; pass (N, H, W) for grey images or "
            "(N, H, W, C) for coloured ones."
        )
        raise ShapeError(msg)
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


def _label_array(labels: ArrayLike | Tensor) -> NDArray[Any]:
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
