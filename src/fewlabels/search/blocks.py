"""Kernel blocks of many rows, a part at a time.

A kernel computes a block from rows in double precision, and all rows of a large pool at
once do not fit.
"""

from torch import Tensor

from fewlabels.protocols import Kernel

_CHUNK_LENGTH = 8192


def fill_block(kernel: Kernel, rows: Tensor, columns: Tensor, target: Tensor) -> None:
    """Write k(i, j) of many rows and a few columns into ``target``.

    Args:
        kernel: The kernel.
        rows: Indices, shape (n,).
        columns: Indices, shape (c,).
        target: Where to write, shape (n, c).
    """
    for start in range(0, len(rows), _CHUNK_LENGTH):
        part = slice(start, start + _CHUNK_LENGTH)
        target[part] = kernel.block(rows[part], columns)
