"""How long-running work reports progress, and how it is stopped.

The inside of the package says *what* advances; the edge (a terminal, a file, a test)
says what to do with it by :func:`reporting`. Where nobody listens, nothing happens.

The other way round, the edge may ask the inside to stop, by :func:`stopping`. Most work
is simply interrupted. A training, which would lose what it has not saved, ends between
two of its steps: it says so by :func:`handle_cancellation` and asks :func:`is_stopped`.

Example:
    >>> seen = []
    >>> class Listener:
    ...     def start(self, task, total, done): seen.append((task, done, total))
    ...     def advance(self, handle, amount): seen.append(amount)
    ...     def tell(self, step, figures): seen.append((step, figures))
    ...     def finish(self, handle): seen.append("done")
    >>> with reporting(Listener()), track("Training", 2) as advance:
    ...     advance(1)
    ...     tell(1, {"loss": 0.5})
    ...     advance(1)
    >>> seen
    [('Training', 0, 2), 1, (1, {'loss': 0.5}), 1, 'done']
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Protocol, TextIO

from fewlabels.errors import FewlabelsWarning


class Reporter(Protocol):
    """Somebody who wants to know how long-running work advances."""

    def start(self, task: str, total: int, done: int) -> int:
        """Hear that a task begins, ``done`` of its ``total`` units done before.

        Returns:
            A handle for the task.
        """
        ...

    def advance(self, handle: int, amount: int) -> None:
        """Hear that ``amount`` more units are done."""
        ...

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Hear how the task that was started last fares at a step."""
        ...

    def finish(self, handle: int) -> None:
        """Hear that the task ended, done or not."""
        ...


class Advance(Protocol):
    """What :func:`track` hands out: call it as units get done."""

    def __call__(self, amount: int = 1) -> None:
        """Report ``amount`` more units."""
        ...


_reporters: ContextVar[tuple[Reporter, ...]] = ContextVar(
    "fewlabels_reporters", default=()
)
_part: ContextVar[str] = ContextVar("fewlabels_part", default="")
_asked: ContextVar[Callable[[], bool] | None] = ContextVar(
    "fewlabels_asked", default=None
)
_num_handling = 0  # of this process, as signals are


@contextmanager
def reporting(*reporters: Reporter) -> Iterator[None]:
    """Let ``reporters`` hear of all tracked work inside the block.

    Who listened before goes on listening.
    """
    token = _reporters.set(_reporters.get() + reporters)
    try:
        yield
    finally:
        _reporters.reset(token)


@contextmanager
def track(task: str, total: int, *, done: int = 0) -> Iterator[Advance]:
    """Announce a task of ``total`` units and hand out a function that advances it.

    Args:
        task: What is done, in a word or two, such as ``"Training"``.
        total: How many units there are.
        done: How many of them were done earlier, where work is taken up again.

    Yields:
        The function to call as units get done.
    """
    with ExitStack() as ends:
        begun = []
        for reporter in _reporters.get():
            handle = reporter.start(task, total, done)
            ends.callback(reporter.finish, handle)
            begun.append((reporter, handle))

        def advance(amount: int = 1) -> None:
            for reporter, handle in begun:
                reporter.advance(handle, amount)

        yield advance


@contextmanager
def redirect_warnings(say: Callable[[str], None]) -> Iterator[None]:
    """Hand the warnings of this package in the block to ``say``, in plain words."""

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, FewlabelsWarning):
            say(str(message))
        else:
            usual(message, category, filename, lineno, file, line)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FewlabelsWarning)
        usual = warnings.showwarning
        warnings.showwarning = show
        yield


def tell(step: int, figures: Mapping[str, float]) -> None:
    """Say how the task that was started last fares.

    Args:
        step: How far it is: the number of units done, earlier ones included.
        figures: What was measured, by name, such as ``{"loss": 0.5}``.
    """
    for reporter in _reporters.get():
        reporter.tell(step, figures)


@contextmanager
def part(name: str) -> Iterator[None]:
    """Name the part of the whole that the work inside the block belongs to.

    Args:
        name: A word that could name a folder, such as ``"round-003"``.

    Yields:
        Nothing.
    """
    token = _part.set(f"{_part.get()}/{name}".removeprefix("/"))
    try:
        yield
    finally:
        _part.reset(token)


def current_part() -> str:
    """Return the name of the part, for a reporter; parts inside parts as a path.

    Example:
        >>> with part("npc"), part("round-003"):
        ...     current_part()
        'npc/round-003'
    """
    return _part.get()


class Canceled(BaseException):
    """Work ends because somebody asked for it; what was saved is kept.

    No :class:`Exception`, so that nobody takes it for a failure.
    """


@dataclass
class Interrupt:
    """A handler of signals that stops work: at once, or between two steps.

    Where work handles the first signal itself and takes too long, a second one ends it
    at once.
    """

    is_asked: bool = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take a signal, as :func:`signal.signal` hands it out."""
        del number, frame
        if not _num_handling or self.is_asked:
            raise Canceled
        self.is_asked = True


@contextmanager
def stopping(is_asked: Callable[[], bool]) -> Iterator[None]:
    """Let the work inside the block know whom to ask whether it shall stop."""
    token = _asked.set(is_asked)
    try:
        yield
    finally:
        _asked.reset(token)


def is_stopped() -> bool:
    """Return whether the work was asked to stop."""
    asked = _asked.get()
    return asked is not None and asked()


@contextmanager
def handle_cancellation() -> Iterator[None]:
    """Promise that the work inside the block asks :func:`is_stopped` at each step.

    It is not interrupted otherwise. Whoever asked while nothing was left to do is heard
    at the end of the block.

    Yields:
        Nothing.

    Raises:
        Canceled: If the work was asked to stop.
    """
    global _num_handling  # noqa: PLW0603 - a signal handler has no other way to know
    _num_handling += 1
    try:
        yield
    finally:
        _num_handling -= 1
    if is_stopped():
        raise Canceled
