"""One row per item: in memory, or in a file that is read as rows are asked for.

Shapes: N items, n items asked for, F numbers per row.

A memory map costs no memory until it is touched, but every page that was touched is
counted as resident until the system wants it back, so a pass over a large file would
fill what the machine has. Rows of a file are therefore read in pieces, whose pages are
given back.
"""

import mmap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.errors import UsageError

_PIECE_BYTES = 32 * 2**20
_FAULT_BYTES = 2**16  # what the system maps around a byte that is read
_TYPES = {2: torch.float16, 4: torch.float32, 8: torch.float64}


@dataclass(frozen=True, eq=False)
class MappedRows:
    """Rows of a file by number; pickled as the file's path, not as its contents."""

    array: NDArray[Any]
    """The memory map, shape (N, F): numbers of any type."""
    items: Tensor | None = None
    """Which of its rows these are; None: all."""
    is_unit: bool = False
    """Whether each row is scaled to length one as it is read; zeros stay zeros."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows, and their length."""
        num_rows = len(self.array) if self.items is None else len(self.items)
        return num_rows, int(self.array.shape[1])

    @property
    def ndim(self) -> int:
        """Two, as of every matrix."""
        return 2

    @property
    def dtype(self) -> torch.dtype:
        """Type of the rows that are read: single precision for float32 or less."""
        is_single = self.array.dtype.kind == "f" and self.array.dtype.itemsize <= 4
        return torch.float32 if is_single else torch.float64

    @property
    def device(self) -> torch.device:
        """Where rows are read to."""
        return torch.device("cpu")

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.shape[0]

    def __getitem__(self, which: Tensor | NDArray[np.int64] | slice) -> Tensor:
        """Return the rows of these numbers, (..., n) to (..., n, F), read anew."""
        if isinstance(which, slice):
            which = torch.arange(*which.indices(len(self)))
        which = torch.as_tensor(which, device="cpu")
        numbers = which if self.items is None else self.items[which]
        flat = numbers.flatten().numpy()
        rows = torch.empty(len(flat), self.shape[1], dtype=self.dtype)
        with np.errstate(over="ignore"):  # whoever takes the rows looks for infinity
            for places in self._in_pieces(flat):
                rows.numpy()[places] = self.array[flat[places]]
                self._give_back()
        if self.is_unit:
            rows = torch.nn.functional.normalize(rows.double()).to(self.dtype)
        return rows.reshape(*numbers.shape, self.shape[1])

    def part(self, items: Tensor) -> "MappedRows":
        """Return some of the rows, in this order, without reading them."""
        return replace(self, items=items if self.items is None else self.items[items])

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to another process as the place of the rows."""
        file = _file_of(self.array)
        if file is None:  # made by hand, of an array in memory
            return MappedRows, (np.array(self.array), self.items, self.is_unit)
        offset = _address(self.array) - _address(file) + file.offset
        place = (str(file.filename), offset, self.array.shape, self.array.strides)
        return _opened, (*place, self.array.dtype.str, self.items, self.is_unit)

    def _in_pieces(self, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Cut the places of ``numbers`` into parts that touch a bounded piece each."""
        order = np.argsort(numbers, kind="stable")  # no page is fetched twice
        gaps = np.diff(numbers[order], prepend=-_FAULT_BYTES) * abs(
            self.array.strides[0]
        )
        touched = np.minimum(gaps, _FAULT_BYTES).cumsum()
        cuts = np.searchsorted(
            touched, np.arange(_PIECE_BYTES, touched[-1:].sum(), _PIECE_BYTES)
        )
        return np.split(order, cuts)

    def _give_back(self) -> None:
        file = _file_of(self.array)
        if file is not None and hasattr(mmap, "MADV_DONTNEED"):
            file.base.madvise(mmap.MADV_DONTNEED)


Rows = Tensor | MappedRows
"""One row per item, shape (N, F): a tensor on any device, or the rows of a file."""

Matrix = Rows | NDArray[Any]
"""The same, or an array or a memory map."""


def rows_of(matrix: Matrix) -> Rows:
    """Return a matrix as rows: those of a mapped file stay where they are.

    Args:
        matrix: Numbers; of an array that torch cannot look into, a copy is made.

    Returns:
        Rows in floating point.
    """
    if isinstance(matrix, Tensor | MappedRows):
        return matrix
    if (
        matrix.ndim == 2
        and matrix.dtype.kind in "biuf"
        and _file_of(matrix) is not None
    ):
        return MappedRows(matrix)
    is_known = matrix.dtype.kind == "f" and matrix.dtype.itemsize in _TYPES
    kind = matrix.dtype.newbyteorder("=") if is_known else np.float64
    native = matrix.astype(kind, copy=False)
    has_usual_order = all(stride >= 0 for stride in native.strides)
    is_plain = native.flags.writeable and has_usual_order
    return torch.from_numpy(native if is_plain else native.copy())


def rows_at(rows: Rows, items: Tensor) -> Rows:
    """Return the rows of some items; those of a file are not read yet."""
    return rows.part(items) if isinstance(rows, MappedRows) else rows[items]


def cut(rows: Rows, parts: Sequence[slice]) -> list[Rows]:
    """Return slices of rows: views, or places in a file that is not read yet."""
    return [
        rows[part]
        if isinstance(rows, Tensor)
        else rows.part(torch.arange(*part.indices(len(rows))))
        for part in parts
    ]


def pieces(rows: Rows) -> Iterator[Tensor]:
    """Yield all rows in order: as they are, or in pieces where they are in a file."""
    if isinstance(rows, Tensor):
        yield rows
        return
    step = max(1, _PIECE_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1])))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def numpy_of(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor of any layout as an array; of bfloat16, as float32."""
    dense = tensor.detach().cpu()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    if dense.dtype == torch.bfloat16:  # NumPy has no such type
        dense = dense.float()
    return dense.resolve_conj().resolve_neg().numpy()


def _file_of(array: Any) -> Any:
    """Return the memory map that an array looks into; None if that is not a file's own.

    Changes to a map that copies on write are in no file.
    """
    while array is not None and not isinstance(getattr(array, "base", None), mmap.mmap):
        array = getattr(array, "base", None)
    is_file = isinstance(array, np.memmap) and array.filename is not None
    return array if is_file and array.mode != "c" else None


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _opened(
    path: str,
    offset: int,
    shape: tuple[int, int],
    strides: tuple[int, int],
    kind: str,
    items: Tensor | None,
    is_unit: bool,  # noqa: FBT001 - as it was pickled
) -> MappedRows:
    """Return the rows of a file, in a process that got its path."""
    try:
        file = np.memmap(path, dtype=np.uint8, mode="r")
        array = np.ndarray(shape, kind, buffer=file, offset=offset, strides=strides)
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(
            f"The features are rows of '{path}', and this process cannot read them "
            f"there ({error}). Put the file where all processes find it, or pass the "
            "features in memory."
        ) from error
    return MappedRows(array, items, is_unit)
