"""Work on many rows, divided among the processes of an executor.

Deep inside, work is divided into independent parts and handed to :func:`each`. The
parts are the same whoever does them, and results are combined in their order; so an
executor changes when an answer is there, never the answer. As with
:mod:`fewlabels.progress`, the executor is set at the edge by :func:`shared`, and no
signature in between has to carry it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")


class Mapper(Protocol):
    """An executor of ``concurrent.futures``, or anything that maps as those do."""

    def map(
        self, function: Callable[[Any], Any], parts: Iterable[Any], /
    ) -> Iterable[Any]:
        """Return the results of ``function`` for each part, in their order."""
        ...


_executor: ContextVar[Mapper | None] = ContextVar("executor", default=None)


@contextmanager
def shared(executor: Mapper | None) -> Iterator[None]:
    """Let an executor do the parts of work inside the block; None: this thread."""
    token = _executor.set(executor)
    try:
        yield
    finally:
        _executor.reset(token)


def current_executor() -> Mapper | None:
    """Return the executor that does parts of work; None: this thread alone."""
    return _executor.get()


def each(function: Callable[[P], R], parts: Sequence[P]) -> Iterable[R]:
    """Return the results of ``function`` for each part, in their order.

    Args:
        function: What to do. Function and parts are sent to other processes, so rows
            should be those of a file, which are sent as its path.
        parts: Its arguments.

    Returns:
        Results as they come.
    """
    executor = _executor.get()
    if executor is None or len(parts) < 2:
        return map(function, parts)
    return executor.map(partial(call_alone, function), parts)


def call_alone(function: Callable[[P], R], part: P) -> R:
    """Return the result of a function that shares nothing, wherever it is called."""
    with shared(None):
        return function(part)
