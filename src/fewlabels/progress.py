"""How long work tells that it goes on, without printing.

The inside of the package says *what* advances; the edge (a terminal, a page, a test)
says what to do with it by :func:`reporting`. Where nobody listens, nothing happens.

Example:
    >>> seen = []
    >>> class Listener:
    ...     def start(self, task, total): seen.append((task, total)); return 0
    ...     def advance(self, handle, amount, note): seen.append(amount)
    ...     def finish(self, handle): seen.append("done")
    >>> with reporting(Listener()), track("Training", 2) as advance:
    ...     advance(1)
    ...     advance(1)
    >>> seen
    [('Training', 2), 1, 1, 'done']
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Reporter(Protocol):
    """Somebody who wants to know how long work advances."""

    def start(self, task: str, total: int) -> int:
        """Hear that a task of ``total`` units begins; return a handle for it."""
        ...

    def advance(self, handle: int, amount: int, note: str) -> None:
        """Hear that ``amount`` more units are done, with a short remark."""
        ...

    def finish(self, handle: int) -> None:
        """Hear that the task ended, done or not."""
        ...


class Advance(Protocol):
    """What :func:`track` hands out: call it as units get done."""

    def __call__(self, amount: int = 1, *, note: str = "") -> None:
        """Report ``amount`` more units, with a short remark."""
        ...


_reporter: ContextVar[Reporter | None] = ContextVar("fewlabels_reporter", default=None)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Let ``reporter`` hear of all tracked work inside the block."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)


@contextmanager
def track(task: str, total: int) -> Iterator[Advance]:
    """Announce a task of ``total`` units and hand out a function that advances it.

    Args:
        task: What is done, in a word or two, such as ``"Training"``.
        total: How many units there are.

    Yields:
        The function to call as units get done.
    """
    reporter = _reporter.get()
    if reporter is None:
        yield _ignored
        return
    handle = reporter.start(task, total)

    def advance(amount: int = 1, *, note: str = "") -> None:
        reporter.advance(handle, amount, note)

    try:
        yield advance
    finally:
        reporter.finish(handle)


def _ignored(amount: int = 1, *, note: str = "") -> None:
    """Do nothing: nobody listens."""
    del amount, note
