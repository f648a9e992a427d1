"""Arrays in an .npz file."""

import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.arrays import array_pool
from fewlabels.errors import DataError
from fewlabels.pool import Pool

# What broken bytes make zipfile and NumPy raise.
_DAMAGE = (
    OSError,
    ValueError,
    EOFError,
    TypeError,
    RuntimeError,  # an encrypted file, or an unknown compression
    MemoryError,  # a header that announces too much
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
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
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except _DAMAGE as error:
        msg = (
            f"{path} is not a whole .npz file of plain arrays: {_reason(path, error)}. "
            "Save it again with numpy.savez_compressed."
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


def _reason(path: Path, error: BaseException) -> str:
    """Say what is wrong, without NumPy's advice to unpickle what nobody should."""
    if isinstance(error, OSError):
        return str(error)
    if not zipfile.is_zipfile(path):
        return "it is no archive at all"
    if "pickle" in str(error):
        return "it holds Python objects, not only numbers and text"
    return str(error)
