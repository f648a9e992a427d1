"""Work on many rows, shared: whoever listens at the edge brings an executor.

Deep inside, work is cut into parts that have nothing to do with each other, and handed
to :func:`each`. The parts are the same whoever does them, and what they come to is put
together in their order; so an executor changes when an answer is there, never the
answer. As with :mod:`fewlabels.progress`, no signature between the edge and the
innermost loop has to carry it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")


class Mapper(Protocol):
    """Those of ``concurrent.futures``, or anything that maps as executors do."""

    def map(
        self, function: Callable[[Any], Any], parts: Iterable[Any], /
    ) -> Iterable[Any]:
        """Return what ``function`` makes of each part, in their order."""
        ...


_helper: ContextVar[Mapper | None] = ContextVar("helper", default=None)


@contextmanager
def shared(executor: Mapper | None) -> Iterator[None]:
    """Let an executor do what is cut into parts inside of the block; None: nobody."""
    token = _helper.set(executor)
    try:
        yield
    finally:
        _helper.reset(token)


def helper() -> Mapper | None:
    """Return who does what is cut into parts; None: this thread alone."""
    return _helper.get()


def each(function: Callable[[P], R], parts: Sequence[P]) -> Iterable[R]:
    """Return what ``function`` makes of each part, in their order.

    Args:
        function: What is to be done. Function and parts travel to other processes, so
            rows should be those of a file, which travel as its path.
        parts: What it is to be done with.

    Returns:
        Results as they come.
    """
    executor = _helper.get()
    if executor is None or len(parts) < 2:
        return map(function, parts)
    return executor.map(Alone(function), parts)


@dataclass(frozen=True)
class Alone(Generic[P, R]):
    """A function that hands nothing on, wherever it is called."""

    function: Callable[[P], R]

    def __call__(self, part: P) -> R:
        """Return what the function makes of a part."""
        with shared(None):
            return self.function(part)
