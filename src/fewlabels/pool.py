"""Pools of images or vectors, the labels so far, queries and answers.

An *index* is always a position in the whole pool. A label is a class number, or
``UNKNOWN`` (-1). All records are frozen: labeling a pool returns a new pool.

Vectors are :data:`Rows`: a tensor, or rows of a file (:class:`MappedRows`) that are
read only when they are used, for pools that do not fit into memory.
"""

import json
import mmap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from html import escape
from typing import Any, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.errors import (
    LabelError,
    StrategyError,
    UsageError,
    check_count,
    check_distinct,
)

UNKNOWN = -1
"""The label of an item whose class is not known."""

WITHHELD = -2
"""The label of an item that is labeled, where the caller did not say with what."""

Record = Mapping[str, Any]
"""A JSON object: what a strategy wants to be written down and to get back later."""

_CHUNK_BYTES = 32 * 2**20
_PAGE_BYTES = 2**16  # what the system maps around a byte that is read


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
        file = _file_of(self.array)
        with np.errstate(over="ignore"):  # callers check for infinity
            for places in self._chunks(flat):
                rows.numpy()[places] = self.array[flat[places]]
                if file is not None and hasattr(mmap, "MADV_DONTNEED"):
                    file.base.madvise(mmap.MADV_DONTNEED)
        if self.is_unit:
            rows = torch.nn.functional.normalize(rows.double()).to(self.dtype)
        return rows.reshape(*numbers.shape, self.shape[1])

    def part(self, items: Tensor) -> "MappedRows":
        """Return some of the rows, in this order, without reading them."""
        return replace(self, items=items if self.items is None else self.items[items])

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the place of the rows."""
        file = _file_of(self.array)
        if file is None:  # an array in memory
            return MappedRows, (np.array(self.array), self.items, self.is_unit)
        offset = _address(self.array) - _address(file) + file.offset
        layout = self.array.shape, self.array.dtype.str, offset, self.array.strides
        return _map_rows, (str(file.filename), layout, self.items, self.is_unit)

    def _chunks(self, numbers: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Split the places of ``numbers`` so that each part touches few pages."""
        order = np.argsort(numbers, kind="stable")  # no page is fetched twice
        stride = abs(self.array.strides[0])
        gaps = np.diff(numbers[order], prepend=-_PAGE_BYTES) * stride
        touched = np.minimum(gaps, _PAGE_BYTES).cumsum()
        ends = np.arange(_CHUNK_BYTES, touched[-1:].sum(), _CHUNK_BYTES)
        return np.split(order, np.searchsorted(touched, ends))


Rows = Tensor | MappedRows
"""One row per item, shape (N, F): a tensor on any device, or the rows of a file."""

Matrix = Rows | NDArray[Any]
"""The same, or an array or a memory map."""


class RowSource(Protocol):
    """One row per item, in memory or in a file; any library's array is one."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of items, and of numbers in a row."""
        ...

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def __getitem__(self, items: NDArray[np.int64], /) -> Any:
        """Return the rows of some items, shape (n, D)."""
        ...


def as_rows(matrix: Matrix) -> Rows:
    """Return a matrix as rows in floating point; those of a mapped file stay there.

    An array that torch cannot share memory with is copied.
    """
    if isinstance(matrix, Tensor | MappedRows):
        return matrix
    kind = matrix.dtype.kind
    if matrix.ndim == 2 and kind in "biuf" and _file_of(matrix) is not None:
        return MappedRows(matrix)
    is_known = kind == "f" and matrix.dtype.itemsize in {2, 4, 8}
    native = matrix.astype(
        matrix.dtype.newbyteorder("=") if is_known else np.float64, copy=False
    )
    can_share = native.flags.writeable and all(step >= 0 for step in native.strides)
    return torch.from_numpy(native if can_share else native.copy())


def take_rows(rows: Rows, items: Tensor) -> Rows:
    """Return the rows of some items; those of a file are not read yet."""
    return rows.part(items) if isinstance(rows, MappedRows) else rows[items]


def read_rows(rows: RowSource, items: NDArray[np.int64] | Tensor) -> Tensor:
    """Return some rows, from the disk or from memory, as float32 (n, D)."""
    return torch.as_tensor(rows[np.asarray(items)]).to("cpu", torch.float32)


def slice_rows(rows: Rows, parts: Sequence[slice]) -> list[Rows]:
    """Return slices of rows: views, or places in a file that is not read yet."""
    if isinstance(rows, Tensor):
        return [rows[part] for part in parts]
    return [rows.part(torch.arange(*part.indices(len(rows)))) for part in parts]


def row_chunks(rows: Rows) -> Iterator[Tensor]:
    """Yield all rows in order: a tensor at once, rows of a file in chunks."""
    if isinstance(rows, Tensor):
        yield rows
        return
    step = max(1, _CHUNK_BYTES // (rows.dtype.itemsize * max(1, rows.shape[1])))
    for start in range(0, len(rows), step):
        yield rows[start : start + step]


def to_numpy(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor of any layout as an array; of bfloat16, as float32."""
    dense = tensor.detach().cpu()
    if dense.layout != torch.strided:
        dense = dense.to_dense()
    if dense.dtype == torch.bfloat16:  # NumPy has no such type
        dense = dense.float()
    return dense.resolve_conj().resolve_neg().numpy()


def _file_of(array: Any) -> Any:
    """Return the memory map that an array is a view of; None if there is none.

    A map that copies on write does not count, since its changes are in no file.
    """
    while array is not None and not isinstance(getattr(array, "base", None), mmap.mmap):
        array = getattr(array, "base", None)
    is_file = isinstance(array, np.memmap) and array.filename is not None
    return array if is_file and array.mode != "c" else None


def _address(array: NDArray[Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _map_rows(path: str, layout: tuple[Any, ...], *options: Any) -> MappedRows:
    """Return the rows of a file, in a process that got its path and their layout."""
    try:
        file = np.memmap(path, dtype=np.uint8, mode="r")
        shape, kind, *place = layout
        array = np.ndarray(shape, kind, file, *place)
    except (OSError, TypeError, ValueError) as error:
        raise UsageError(
            f"The rows in '{path}' cannot be read by this process: {error}."
        ) from error
    return MappedRows(array, *options)


class Images(Protocol):
    """Items that are read on demand; nothing is decoded before it is needed."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item: (channels, height, width), or (features,) of a vector."""

    def __len__(self) -> int:
        """Return the number of items."""

    def read(self, indices: Tensor) -> Tensor:
        """Return the items at ``indices`` as a new (n, *shape), images as uint8."""


@dataclass(frozen=True)
class ArrayImages:
    """Images (N, C, H, W) in memory, or vectors (N, F) in memory or in a file."""

    items: Rows

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one item."""
        return tuple(self.items.shape[1:])

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.items)

    def read(self, indices: Tensor) -> Tensor:
        """Return a copy of the items at ``indices``."""
        return self.items[indices]


@dataclass(frozen=True, eq=False)
class Split:
    """Labeled images that are kept apart, for measuring only."""

    images: Images = field(repr=False)
    labels: Tensor
    """Class numbers, shape (n,)."""
    ids: tuple[str, ...] = field(default=(), repr=False)
    """Names of the items where they have some, to notice when they change."""

    def __post_init__(self) -> None:
        """Check that there is one label per image."""
        check_count("labels", len(self.labels), len(self.images), "image")

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.labels)


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Pool:
    """Images, their names, the labels so far and the items that may be asked about.

    ``candidates`` is not simply "unlabeled": an item of an audit slice, one that a
    person skipped or that is leased to somebody else, and the copies of a grouped
    duplicate are unlabeled, and yet not asked about.
    """

    images: Images
    ids: Sequence[str]
    """A name per item that outlives its position: relative path and content hash."""
    labels: Tensor
    """Class numbers, shape (N,); ``UNKNOWN`` where no label is known."""
    classes: tuple[str, ...]
    """Names of the classes, in the order of the class numbers."""
    candidates: Tensor
    """Indices that a strategy may choose from, ascending, shape (n,)."""
    test: Split | None = None
    """What accuracy is measured on; no strategy and no trainer sees it."""
    budget: int | None = None
    """How many labels there will be at the end, where that is known."""
    are_distinct: InitVar[bool] = False
    """Whether ids are known to differ: looking for copies takes time and memory."""

    def __post_init__(self, are_distinct: bool) -> None:
        """Check that the parts belong together."""
        check_count("ids", len(self.ids), len(self.images), "image")
        check_count("labels", len(self.labels), len(self.images), "image")
        if not are_distinct:
            check_distinct("id", self.ids)
        check_labels(self.labels, len(self.classes))
        check_indices(self.candidates, len(self), "candidates")
        labeled = self.candidates[self.labels[self.candidates] != UNKNOWN]
        if len(labeled):
            first = int(labeled[0])
            raise UsageError(
                f"{len(labeled)} candidates are labeled, the first at index {first}."
            )

    @classmethod
    def build(
        cls,
        images: Images,
        labels: Tensor,
        classes: Sequence[str],
        *,
        ids: Sequence[str] | None = None,
        test: Split | None = None,
    ) -> Self:
        """Return a pool in which every unlabeled item is a candidate.

        Args:
            images: The items.
            labels: Class numbers, shape (N,); ``UNKNOWN`` where no label is known.
            classes: Names of the classes.
            ids: A name per item; the position, where there is no better one.
            test: What to measure on.

        Returns:
            A new pool.
        """
        return cls(
            images=images,
            ids=tuple(map(str, range(len(images))) if ids is None else ids),
            labels=labels,
            classes=tuple(classes),
            candidates=torch.nonzero(labels == UNKNOWN).flatten(),
            test=test,
            are_distinct=ids is None,
        )

    def __repr__(self) -> str:
        shape, tests = tuple(self.images.shape), len(self.test or ())
        names = f"{self.num_classes} classes ({', '.join(self.classes):.60})"
        items = f"{len(self)} items of shape {shape}, {len(self.labeled)} labeled"
        return f"Pool({items}, {names}, {tests} to measure on)"

    def _repr_html_(self) -> str:
        counts = zip(self.classes, self.class_counts, strict=True)
        rows = (f"<tr><th>{escape(name)}</th><td>{n}</td></tr>" for name, n in counts)
        head = "<tr><th>class</th><td>labeled</td></tr>"
        return f"<p>{escape(repr(self))}</p><table>{head}{''.join(rows)}</table>"

    def __len__(self) -> int:
        """Return the number of items, labeled or not."""
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def labeled(self) -> Tensor:
        """Indices whose label is known, ascending."""
        return torch.nonzero(self.labels != UNKNOWN).flatten()

    @property
    def unlabeled(self) -> Tensor:
        """Indices whose label is not known, ascending; candidates and others."""
        return torch.nonzero(self.labels == UNKNOWN).flatten()

    @property
    def class_counts(self) -> tuple[int, ...]:
        """Number of labeled items in each class."""
        known = self.labels[self.labels >= 0]
        return tuple(torch.bincount(known, minlength=self.num_classes).tolist())

    def with_answers(self, answers: "Answers") -> Self:
        """Return the pool that knows these answers and asks no skipped item again."""
        labels = self.labels.clone()
        labels[answers.indices] = answers.labels
        done = torch.cat([answers.indices, answers.skipped])
        candidates = self.candidates[~torch.isin(self.candidates, done)]
        return replace(self, labels=labels, candidates=candidates, are_distinct=True)


def _empty() -> Tensor:
    return torch.empty(0, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class Query:
    """The items asked about together, and why."""

    indices: Tensor = field(default_factory=_empty)
    """Distinct candidates, shape (q,)."""
    value: float | None = None
    """Value of the set where the strategy has one; larger is better."""
    record: Record = field(default_factory=dict)
    """What the strategy wants written into the round; it comes back through history."""

    def __len__(self) -> int:
        """Return the number of items asked about."""
        return len(self.indices)


@dataclass(frozen=True, eq=False)
class Answers:
    """What an oracle answered; items that it left open stay candidates."""

    indices: Tensor = field(default_factory=_empty)
    """Items that were labeled, shape (n,)."""
    labels: Tensor = field(default_factory=_empty)
    """Their class numbers, shape (n,)."""
    skipped: Tensor = field(default_factory=_empty)
    """Items that the oracle does not want to see again, without a label."""

    def __post_init__(self) -> None:
        """Check that there is one label per answered item."""
        check_count("labels", len(self.labels), len(self.indices), "item")


@dataclass(frozen=True, eq=False, kw_only=True)
class Round:
    """One turn of the loop: trained, measured, asked, answered."""

    step: int
    """Number of the round, from zero."""
    num_labeled: int
    """Labels that the classifier of this round was trained on."""
    class_counts: tuple[int, ...]
    """How these labels spread over the classes."""
    accuracy: float | None
    """Share of the test split classified rightly; None without a test split."""
    query: Query
    """What was asked after training; empty in the last round."""
    answers: Answers
    """What was answered; possibly fewer items than were asked."""
    median_accuracy: float | None = None
    """Median of the training's last evaluations; None where none were made."""
    calibration_error: float | None = None
    """How far confidence is from accuracy on the test split, over 15 equal bins."""
    brier_score: float | None = None
    """Mean squared error of the probabilities on the test split, 0 to 2."""
    classifier: Any = field(default=None, repr=False)
    """The classifier of this round if it was asked for; never pickled."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave the classifier out."""
        return vars(self) | {"classifier": None}


def check_labels(labels: Tensor, num_classes: int) -> None:
    """Raise unless every label is a class number or ``UNKNOWN``."""
    wrong = torch.nonzero((labels < WITHHELD) | (labels >= num_classes)).flatten()
    if len(wrong):
        first = int(wrong[0])
        raise LabelError(
            f"{len(wrong)} labels are outside the {num_classes} classes, the first is "
            f"{int(labels[first])} at position {first}; {UNKNOWN} means unknown."
        )


def check_indices(indices: Tensor, num_items: int, name: str) -> None:
    """Raise unless ``indices`` are distinct positions in a pool of ``num_items``.

    Args:
        indices: Positions, shape (n,).
        num_items: Size of the pool.
        name: What to call them in the message.

    Raises:
        UsageError: If one is out of range or appears twice.
    """
    if not len(indices):
        return
    low, high = int(indices.min()), int(indices.max())
    if low < 0 or high >= num_items:
        raise UsageError(
            f"{name} run from {low} to {high}, but the pool has {num_items} items."
        )
    if bool((indices[1:] > indices[:-1]).all()):  # ascending, as they mostly are
        return
    distinct = len(torch.unique(indices))
    if distinct < len(indices):
        raise UsageError(
            f"{name} hold {len(indices)} indices, but only {distinct} distinct ones."
        )


def check_query(query: Query, pool: Pool, size: int) -> None:
    """Raise unless a query asks about ``size`` distinct candidates, and can be kept.

    Args:
        query: What a strategy returned.
        pool: The pool it was given.
        size: How many items it was to choose.

    Raises:
        StrategyError: If it chose another number, an item twice or no candidate, or
            if its value or record cannot be written down.
    """
    check_form(query)
    check_record(query)
    distinct = torch.unique(query.indices)
    others = distinct[~torch.isin(distinct, pool.candidates)]
    if len(query) == len(distinct) == size and not len(others):
        return
    first = f", such as {int(others[0])}" if len(others) else ""
    raise StrategyError(
        f"The strategy returned {len(query)} items, {len(distinct)} distinct and "
        f"{len(others)} no candidates{first}; choose {size} of pool.candidates."
    )


def check_form(query: object) -> None:
    """Raise unless this is a query whose indices are a flat tensor of integers."""
    if not isinstance(query, Query):
        kind = type(query).__name__
        raise StrategyError(f"The strategy returned a {kind}; return a Query.")
    indices: object = query.indices
    seen = type(indices).__name__
    if isinstance(indices, Tensor):
        if indices.ndim == 1 and indices.dtype == torch.int64:
            return
        seen = f"tensor of shape {tuple(indices.shape)} and type {indices.dtype}"
    raise StrategyError(
        f"The strategy's indices are a {seen}; return an int64 tensor of shape (size,)."
    )


def check_record(query: Query) -> None:
    """Raise unless value and record can be written as JSON."""
    value: object = query.value
    record = query.record
    if not isinstance(value, int | float | None):
        kind = type(value).__name__
        raise StrategyError(f"The strategy's value is a {kind}; give a number or None.")
    try:
        json.dumps(dict(record))
        is_plain = all(isinstance(key, str) for key in record)
    except (TypeError, ValueError, RecursionError):
        is_plain = False
    if not is_plain:
        raise StrategyError(
            f"The strategy's record is {record!r:.200}; give a dictionary of words "
            "with plain numbers, words and lists."
        )
