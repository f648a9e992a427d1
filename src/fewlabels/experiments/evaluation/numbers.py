"""Checks that the statistics of a comparison share."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fewlabels.errors import ShapeError, UsageError, check_count

Array = NDArray[np.float64]


def finite(name: str, values: ArrayLike, shape: str) -> Array:
    """Return values as an array of finite numbers with the given axes.

    Args:
        name: Name of the argument, for the message.
        values: The values.
        shape: Names of the axes, such as ``"(seeds, measurements)"``;
            ``"(..., measurements)"`` allows any axes before the last one.

    Returns:
        The array, with at least one entry along each axis.

    Raises:
        ShapeError: If the array is empty or has other axes.
        UsageError: If a value is not a finite number.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        text = f"{name} cannot be read as numbers of shape {shape}: {error}"
        raise ShapeError(text) from error
    num_axes = shape.count(",") + (not shape.endswith(",)"))
    fits = array.ndim >= 1 if "..." in shape else array.ndim == num_axes
    if not fits or array.size == 0:
        raise ShapeError(f"{name} has shape {array.shape}; give shape {shape}.")
    num_bad = int((~np.isfinite(array)).sum())
    if num_bad:
        raise UsageError(f"{num_bad} of {array.size} numbers in {name} are not finite.")
    return array


def curves(
    labels_name: str, num_labels: ArrayLike, name: str, values: ArrayLike, shape: str
) -> tuple[Array, Array]:
    """Return rising numbers of labels (T,), and what was measured there (..., T)."""
    labels_T = finite(labels_name, num_labels, "(measurements,)")
    if (np.diff(labels_T) <= 0).any() or labels_T[0] < 0 or (labels_T % 1).any():
        raise UsageError(
            f"{labels_name} is {labels_T.tolist()}; give rising whole numbers from 0."
        )
    array = finite(name, values, shape)
    check_count(name, array.shape[-1], len(labels_T), f"entry of {labels_name}")
    return labels_T, array
