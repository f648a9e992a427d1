"""Feature rows [h; 1] by index, from memory or from a file.

Shapes: N items in the pool, n items asked for, F penultimate features.

Rows are converted to float64 as they are taken, so a pool of float16 or float32 rows,
or a memory map that does not fit into memory, costs no more than what is asked for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.errors import ShapeError
from fewlabels.jobs.sharing import current_executor
from fewlabels.pool import MappedRows, Matrix, Rows, as_rows, take_rows

_CHUNK_BYTES = 32 * 2**20
_MOST_CONVERTED = 256 * 2**20  # bytes of double rows that are kept
_SHORTEST = 1e-12  # as torch.nn.functional.normalize has it
_FEW_COLUMNS = 64
_SPREAD = 1.25  # rows to read in one piece, for each that is asked for


@dataclass(frozen=True, eq=False)
class DoubleRows:
    """Rows in double precision, on the device of the features."""

    features: Rows
    """Shape (N, F), any floating type."""
    has_bias: bool = False
    """Whether a 1 is appended to each row."""
    is_normalized: bool = False
    """Whether each row, with its 1, is scaled to length one."""
    name: str = "features"
    """What to call the rows in a message."""
    center: Tensor | None = None
    """What is subtracted from each row first, shape (F,), float64."""

    def __post_init__(self) -> None:
        """Check that there is one row per item."""
        if self.features.ndim != 2:
            raise ShapeError(
                f"{self.name} have shape {tuple(self.features.shape)}; give one row "
                "per item, shape (N, F)."
            )

    @property
    def num_items(self) -> int:
        """Size of the whole pool."""
        return len(self.features)

    @property
    def device(self) -> torch.device:
        """Where the rows are, or are read to."""
        return self.features.device

    @property
    def width(self) -> int:
        """Length of a row."""
        return int(self.features.shape[1]) + self.has_bias

    def take(self, items: Tensor) -> Tensor:
        """Return the rows of ``items``, (..., n) to (..., n, width)."""
        rows = self._read(items)
        if self.has_bias:
            rows = torch.cat([rows, rows.new_ones(*rows.shape[:-1], 1)], dim=-1)
        if self.is_normalized:
            rows = torch.nn.functional.normalize(rows, dim=-1)
        return rows

    def logits(self, logits: Matrix) -> "DoubleRows":
        """Return the logits (N, C) of the same items as plain rows, without a 1."""
        outputs = DoubleRows(as_rows(logits), name="logits")
        if self.num_items != outputs.num_items:
            raise ShapeError(
                f"features have {self.num_items} rows and logits {outputs.num_items}; "
                "give one row per item of the whole pool in both."
            )
        return outputs

    def products(self, rows: Tensor, columns: Tensor) -> Tensor:
        """Return the inner products of rows, (..., r) and (..., c) to (..., r, c).

        The appended 1 is added and lengths are divided out afterwards, which spares a
        copy of all rows. For a few columns even gathering the rows would cost more than
        their products: rows that lie close together are then read as one piece.
        """
        piece = self._piece(rows, columns)
        if piece is not None:
            left = self.features[piece].to(torch.float64)
            left = left if self.center is None else left - self.center
            products = self._products(left, self._read(columns))
            return products[rows.to(self.device) - piece.start]
        left = self._read(rows)
        return self._products(left, left if columns is rows else self._read(columns))

    def _products(self, left: Tensor, right: Tensor) -> Tensor:
        is_tall = right.shape[-2] <= _FEW_COLUMNS < left.shape[-2]
        # Of few columns, libraries take twice as long the one way as the other.
        products = (right @ left.mT).mT if is_tall else left @ right.mT
        if self.has_bias:
            products += 1
        if self.is_normalized:
            products /= self._lengths(left)[..., :, None]
            products /= self._lengths(right)[..., None, :]
        return products

    def squared_lengths(self, items: Tensor) -> Tensor:
        """Return the squared length of each row, in the shape of ``items``.

        Rows are taken in chunks: the lengths of a whole pool may fit into memory where
        its rows do not.
        """
        return self._of_each(items, lambda part: self.take(part).square().sum(-1))

    def self_products(self, items: Tensor) -> Tensor:
        """Return what :meth:`products` gives for an item and itself, streamed."""
        if self.is_normalized:
            return self.squared_lengths(items)
        return self._of_each(items, lambda part: self._squares(self._read(part)))

    def _of_each(self, items: Tensor, number: Callable[[Tensor], Tensor]) -> Tensor:
        """Return a number for each item, a chunk at a time, in the shape of ``items``.

        The output is allocated first: results that are allocated between chunks would
        fragment the memory that the chunks use.
        """
        numbers = torch.empty(items.numel(), dtype=torch.float64, device=self.device)
        start = 0
        for part in self.chunks(items):
            numbers[start : start + len(part)] = number(part)
            start += len(part)
        return numbers.reshape(items.shape)

    def _squares(self, plain_nF: Tensor) -> Tensor:
        return plain_nF.square().sum(dim=-1) + float(self.has_bias)

    def _lengths(self, plain_nF: Tensor) -> Tensor:
        return self._squares(plain_nF).sqrt().clamp_min(_SHORTEST)

    def chunks(self, items: Tensor) -> Iterator[Tensor]:
        """Yield ``items``, flattened, in parts whose rows fit into bounded memory."""
        length = max(1, _CHUNK_BYTES // (8 * self.width))
        yield from torch.split(items.flatten(), length)

    def array(self) -> NDArray[np.floating] | MappedRows | None:
        """Return the features without a copy as an array or a file, if possible."""
        known = {torch.float32, torch.float64}
        is_plain = self.device.type == "cpu" and self.features.dtype in known
        if self.center is not None or not is_plain:
            return None
        if isinstance(self.features, MappedRows):
            return self.features
        return self.features.detach().numpy()

    def row_scales(self) -> NDArray[np.float64]:
        """Return what each row is multiplied by: 1, or the inverse of its length."""
        if not self.is_normalized:
            return np.ones(self.num_items)
        every = torch.arange(self.num_items)
        lengths = self._of_each(every, lambda part: self._lengths(self._read(part)))
        return (1 / lengths).cpu().numpy()

    def mean(self) -> Tensor:
        """Return the mean of all rows, streamed; zero where there are none."""
        total = torch.zeros(self.width, dtype=torch.float64, device=self.device)
        for part in self.chunks(torch.arange(self.num_items)):
            total += self.take(part).sum(dim=0)
        return total / max(1, self.num_items)

    def part(self, items: Tensor) -> "DoubleRows":
        """Return the rows of some items alone; those of a file are not read yet."""
        return replace(self, features=take_rows(self.features, items))

    def in_double(self) -> "DoubleRows":
        """Return the same rows, converted and scaled once where they are few."""
        if self.num_items * self.features.shape[1] * 8 > _MOST_CONVERTED:
            return self
        if current_executor() is not None and isinstance(self.features, MappedRows):
            return self  # which travel as a path
        rows = self._read(torch.arange(self.num_items))
        is_normalized = self.is_normalized and self.has_bias  # else from here on
        if self.is_normalized and not self.has_bias:
            for part in torch.split(rows, _FEW_COLUMNS):
                part.div_(self._lengths(part)[:, None])
        return replace(self, features=rows, center=None, is_normalized=is_normalized)

    def _piece(self, rows: Tensor, columns: Tensor) -> slice | None:
        """Return the piece of the pool that holds ``rows``, if it is hardly longer."""
        if rows.ndim > 1 or columns.ndim > 1:
            return None
        if not len(columns) <= _FEW_COLUMNS < len(rows):
            return None
        low, high = map(int, torch.aminmax(rows))
        piece = slice(low, high + 1)
        return piece if high + 1 - low <= _SPREAD * len(rows) else None

    def _read(self, items: Tensor) -> Tensor:
        rows = self.features[items.to(self.device)].to(torch.float64)
        return rows if self.center is None else rows.sub_(self.center)
