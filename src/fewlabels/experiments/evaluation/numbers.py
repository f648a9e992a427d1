"""Checks that the statistics of a comparison share."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewlabels.errors import ShapeError, UsageError, whole_number


def finite(name: str, values: ArrayLike, shape: str) -> NDArray[np.float64]:
    """Return numbers as an array, if they are finite and have the axes wanted.

    Args:
        name: What to call them in the message.
        values: What was given.
        shape: Names of the axes, such as ``"(seeds, measurements)"``; the last one of
            ``"(..., measurements)"`` is wanted, with any before it.

    Returns:
        The numbers, with at least one along each axis.

    Raises:
        ShapeError: If the axes are others, or there is no number.
        UsageError: If something is not a finite number.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{name} cannot be read as numbers of shape {shape}: {error}"
        ) from error
    num_axes = shape.count(",") + (not shape.endswith(",)"))
    fits = array.ndim >= 1 if "..." in shape else array.ndim == num_axes
    if not fits or array.size == 0:
        raise ShapeError(
            f"{name} has shape {array.shape}; give numbers of shape {shape}."
        )
    num_bad = int((~np.isfinite(array)).sum())
    if num_bad:
        raise UsageError(
            f"{num_bad} of {array.size} numbers in {name} are NaN or infinite; leave "
            "out what was not measured."
        )
    return array


def rising(name: str, values: ArrayLike) -> NDArray[np.float64]:
    """Return numbers of labels (T,), if whole and each above the one before."""
    array = finite(name, values, "(measurements,)")
    if (np.diff(array) <= 0).any() or array[0] < 0 or (array % 1).any():
        raise UsageError(
            f"{name} is {array.tolist()}; give whole numbers of labels in rising "
            "order, each once and none below zero."
        )
    return array


def positions(name: str, items: Iterable[int]) -> set[int]:
    """Return positions as a set of plain numbers.

    Two elements of tensors are never the same to a set, so that sets of them would not
    overlap at all.
    """
    return {whole_number(f"An item of {name}", item) for item in items}


def check_same_length(
    names: tuple[str, str], arrays: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> None:
    """Refuse two arrays of which the last axes differ in length."""
    one, other = (array.shape[-1] for array in arrays)
    if one != other:
        raise ShapeError(
            f"{names[0]} has {one} measurements and {names[1]} {other}; give one "
            "number for each."
        )
