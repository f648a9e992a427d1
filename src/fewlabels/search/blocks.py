"""Many rows, a part at a time: chunks of bounded memory, and kernel blocks by chunks.

A kernel computes a block from rows in double precision, and all rows of a large pool at
once do not fit.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from fewlabels.protocols import Kernel

_CHUNK_LENGTH = 8192


def chunks(length: int, width: int, num_entries: int = 2**18) -> list[slice]:
    """Return slices of a range whose rows, so many numbers wide, fit some memory.

    Example:
        >>> chunks(5, width=10, num_entries=20)
        [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, num_entries // max(1, width))
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def gathered(parts: Iterable[Tensor], num_items: int) -> Tensor:
    """Return one number per item from parts that follow each other, shape (N,).

    Parts are copied to one place as they come: kept one by one, they would lie in
    memory between the rows that they were made of, which could not be used again.
    """
    values, start = torch.empty(num_items, dtype=torch.float64), 0
    for part in parts:
        values = values.to(part.device)
        values[start : start + len(part)] = part
        start += len(part)
    return values


def fill_block(kernel: Kernel, rows: Tensor, columns: Tensor, target: Tensor) -> None:
    """Write k(i, j) of many rows and a few columns into ``target``."""
    for start in range(0, len(rows), _CHUNK_LENGTH):
        part = slice(start, start + _CHUNK_LENGTH)
        target[part] = kernel.block(rows[part], columns)
