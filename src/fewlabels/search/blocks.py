"""Work on many rows: in blocks of bounded memory, by threads or by processes.

A kernel computes a block from rows in double precision, and all rows of a large pool at
once do not fit.

Small work goes to one thread. Handing it to more costs more than it saves, and on a
machine whose cores are busy they wait for each other: that took five times as long.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from multiprocessing import get_context
from typing import TypeVar

import torch
from torch import Tensor

from fewlabels.progress import Mapper, current_executor, each, shared
from fewlabels.protocols import Kernel

_CHUNK_LENGTH = 8192
_WORTH_SHARING = 1e8  # numbers to compute, about half a second
_MOST_PARTS = 16

T = TypeVar("T")


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


@contextmanager
def threads_for(work: float) -> Iterator[int]:
    """Let torch use one thread inside the block where work is small.

    Args:
        work: About how many numbers are computed.

    Yields:
        How many threads torch had before.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if work >= _WORTH_SHARING else 1)
    try:
        yield before
    finally:
        torch.set_num_threads(before)


def map_ranges(
    function: Callable[[range], T], ranges: list[range], work: float, num_threads: int
) -> Iterator[tuple[range, T]]:
    """Yield ranges with what ``function`` returns for them, in order.

    Args:
        function: What is to be done.
        ranges: Ranges that follow each other; for an executor, neighbors are joined.
        work: About how many numbers are computed for all of them.
        num_threads: How many threads do it where work is large and no executor is set.

    Yields:
        A range and its result.
    """
    executor = current_executor()
    if executor is not None:
        step = -(-len(ranges) // _MOST_PARTS)
        groups = [ranges[first : first + step] for first in range(0, len(ranges), step)]
        ranges = [range(group[0].start, group[-1].stop) for group in groups]
    is_small = num_threads == 1 or work < _WORTH_SHARING
    with ThreadPoolExecutor(num_threads) as team:  # without threads until it has work
        with shared(team if executor is None and not is_small else executor):
            results = each(function, ranges)
        yield from zip(ranges, results, strict=True)


def local_processes(count: int) -> AbstractContextManager[Mapper | None]:
    """Return an executor of ``count`` processes, or None if ``count`` is one."""
    if count == 1:
        return nullcontext()
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    start = context, torch.set_num_threads, (1,)
    return ProcessPoolExecutor(min(count, _MOST_PARTS), *start)
