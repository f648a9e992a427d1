"""Who does the work of a search: this thread, several, or the processes of others.

Small work goes to one thread. Handing it to more costs more than it saves, and on a
machine whose cores are busy they wait for each other: that took five times as long.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Self, TypeVar

import torch

from fewlabels.errors import UsageError, whole_number
from fewlabels.jobs.sharing import Alone, Mapper, helper

_WORTH_SHARING = 1e8  # numbers to compute, about half a second
_MOST_PARTS = 16

T = TypeVar("T")


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


class Workers:
    """Those who share a search, and a block in which torch has the right threads."""

    def __init__(self, executor: Mapper | None, work: float = 0) -> None:
        """Take an executor, and what torch itself has to do.

        Without one it is the edge's, and where that has none, threads.
        """
        if executor is not None and not callable(getattr(executor, "map", None)):
            raise UsageError(
                f"executor is of type {type(executor).__name__}, which has no map; "
                "give one such as concurrent.futures.ProcessPoolExecutor(4), or leave "
                "it out."
            )
        self._executor = helper() if executor is None else executor
        self._work = work
        self._threads: ThreadPoolExecutor | None = None
        self._stack = ExitStack()
        self._num_threads = 1

    def __enter__(self) -> Self:
        """Keep torch to one thread where its work is small."""
        self._num_threads = self._stack.enter_context(threads_for(self._work))
        return self

    def __exit__(self, *error: object) -> None:
        """Let torch have its threads again."""
        self._stack.close()

    def each(
        self, function: Callable[[range], T], parts: list[range], work: float
    ) -> Iterable[tuple[range, T]]:
        """Yield ranges with what ``function`` makes of them, in order.

        Args:
            function: What is to be done.
            parts: Ranges that follow each other.
            work: About how many numbers are computed for all of them.

        Returns:
            The ranges as given, or joined where each costs a way to another process.
        """
        executor = self._executor
        if executor is not None:
            parts = _joined(parts)
        elif self._num_threads > 1 and work >= _WORTH_SHARING:
            executor = self._team()
        if executor is None or len(parts) == 1:
            return ((part, function(part)) for part in parts)
        return zip(parts, executor.map(Alone(function), parts), strict=True)

    def _team(self) -> Mapper:
        if self._threads is None:
            team = ThreadPoolExecutor(self._num_threads)
            self._threads = self._stack.enter_context(team)
        return self._threads


@contextmanager
def local_processes(count: int) -> Iterator[Mapper | None]:
    """Yield an executor of so many processes; none where one is enough."""
    if count == 1:
        yield None
        return
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(
        min(count, _MOST_PARTS),
        mp_context=context,
        initializer=torch.set_num_threads,
        initargs=(1,),
    ) as executor:
        yield executor


def check_processes(processes: int) -> None:
    """Raise unless at least one process works."""
    if whole_number("processes", processes) < 1:
        raise UsageError(f"processes is {processes}; at least one has to work.")


def _joined(parts: list[range]) -> list[range]:
    """Join neighboring ranges until few enough are left."""
    each = -(-len(parts) // _MOST_PARTS)
    return [
        range(parts[first].start, parts[min(first + each, len(parts)) - 1].stop)
        for first in range(0, len(parts), each)
    ]
