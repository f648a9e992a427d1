"""How long-running work reports progress, is stopped, and is shared.

Work calls :func:`track` and :func:`tell`; a terminal, a file or a test receives the
reports by :func:`reporting`. Without a reporter, runs and benchmarks show a line in a
notebook or terminal, except inside :func:`quiet`; other work shows nothing.

Callers stop work by :func:`stopping`. Most work is simply interrupted. A training,
which would lose what it has not saved, stops between two steps: it runs inside
:func:`handle_cancellation` and asks :func:`is_stopped`.

Work on many rows is divided into independent parts and handed to :func:`each`. The
parts are the same whoever does them, and results are combined in their order; so an
executor changes when an answer is there, never the answer. Callers set it by
:func:`shared`, and no signature in between has to carry it.

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

import math
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Protocol, TypeVar

from fewlabels.errors import FewlabelsWarning

T = TypeVar("T")
P = TypeVar("P")
R = TypeVar("R")


class Reporter(Protocol):
    """A receiver of progress reports."""

    def start(self, task: str, total: int, done: int) -> int:
        """Take note that a task begins, with ``done`` of ``total`` units done before.

        Returns:
            A handle for the task.
        """

    def advance(self, handle: int, amount: int) -> None:
        """Take note that ``amount`` more units are done."""

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Take note of figures of the task that was started last."""

    def finish(self, handle: int) -> None:
        """Take note that the task ended, done or not."""


class Advance(Protocol):
    """What :func:`track` hands out: call it as units get done."""

    def __call__(self, amount: int = 1) -> None:
        """Report ``amount`` more units."""


_reporters: ContextVar[tuple[Reporter, ...]] = ContextVar(
    "fewlabels_reporters", default=()
)
_part: ContextVar[str] = ContextVar("fewlabels_part", default="")
_asked: ContextVar[Callable[[], bool] | None] = ContextVar(
    "fewlabels_asked", default=None
)
_UNITS = {"year": 31_557_600, "day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_num_handling = 0  # of this process, as signals are


@contextmanager
def _assigned(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def reporting(*reporters: Reporter) -> AbstractContextManager[None]:
    """Send reports of all work inside the block to ``reporters`` too."""
    return _assigned(_reporters, _reporters.get() + reporters)


@contextmanager
def track(task: str, total: int, *, done: int = 0) -> Iterator[Advance]:
    """Announce a task of ``total`` units, and yield a function that advances it.

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
def redirect_warnings(show: Callable[[str], None]) -> Iterator[None]:
    """Pass the text of this package's warnings in the block to ``show``."""

    def receive(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, FewlabelsWarning):
            show(str(message))
        else:
            usual(message, category, *place)

    with warnings.catch_warnings():
        warnings.simplefilter("always", FewlabelsWarning)
        usual = warnings.showwarning
        warnings.showwarning = receive  # type: ignore[assignment] # called by position
        yield


def tell(step: int, figures: Mapping[str, float]) -> None:
    """Report figures of the task that was started last.

    Args:
        step: How far it is: the number of units done, earlier ones included.
        figures: What was measured, by name, such as ``{"loss": 0.5}``.
    """
    for reporter in _reporters.get():
        reporter.tell(step, figures)


def part(name: str) -> AbstractContextManager[None]:
    """Name the part of a run that the work in the block belongs to: "round-003"."""
    return _assigned(_part, f"{_part.get()}/{name}".removeprefix("/"))


def current_part() -> str:
    """Return the name of the part, for a reporter; parts inside parts as a path.

    Example:
        >>> with part("npc"), part("round-003"):
        ...     current_part()
        'npc/round-003'
    """
    return _part.get()


class Canceled(BaseException):
    """Work ends on request; what was saved is kept.

    Not an :class:`Exception`, so that nobody handles it as a failure.
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


def stopping(is_asked: Callable[[], bool]) -> AbstractContextManager[None]:
    """Set the function by which work inside the block learns that it shall stop."""
    return _assigned(_asked, is_asked)


def is_stopped() -> bool:
    """Return whether the work was asked to stop."""
    asked = _asked.get()
    return asked is not None and asked()


@contextmanager
def handle_cancellation() -> Iterator[None]:
    """Promise that the work inside the block asks :func:`is_stopped` at each step.

    A first signal then interrupts nothing. A request that comes after the last step is
    answered at the end of the block.

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


class Mapper(Protocol):
    """An executor of ``concurrent.futures``, or anything that maps as those do."""

    def map(
        self, function: Callable[[Any], Any], parts: Iterable[Any], /
    ) -> Iterable[Any]:
        """Return the results of ``function`` for each part, in their order."""
        ...


_executor: ContextVar[Mapper | None] = ContextVar("executor", default=None)


def shared(executor: Mapper | None) -> AbstractContextManager[None]:
    """Let an executor do the parts of work inside the block; None: this thread."""
    return _assigned(_executor, executor)


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


def duration(seconds: float) -> str:
    """Return a time in words.

    Example:
        >>> duration(0.2), duration(61), duration(7000)
        ('a second', 'about 1 minute', 'about 1.9 hours')
        >>> duration(4e5), duration(4e8)
        ('about 4.6 days', 'about 12.7 years')
    """
    if seconds <= 1:
        return "a second"
    unit, length = next(unit for unit in _UNITS.items() if seconds >= unit[1])
    number = f"{seconds / length:.1f}"
    if unit in {"second", "minute"}:
        number = f"{math.ceil(seconds / length - 0.5)}"
    return f"about {number} {unit}{'' if number in {'1', '1.0'} else 's'}"


# --------------------------------------------------------- notebooks and scripts

_SECONDS = 0.2  # between two changes of the line


class CellLine:
    """Shows the running tasks, and the latest figures, in a line below the cell."""

    def __init__(self) -> None:
        self._tasks: dict[int, list[Any]] = {}
        self._figures, self._shown_at = dict[str, float](), 0.0
        self._display: Any = None

    def start(self, task: str, total: int, done: int) -> int:
        """Show a task; the first one gets a line of its own."""
        if not self._tasks:
            self._display, self._figures = None, {}
        handle = 1 + max(self._tasks, default=0)
        self._tasks[handle] = [task, done, total]
        self._show(is_due=True)
        return handle

    def advance(self, handle: int, amount: int) -> None:
        """Show how far a task is."""
        self._tasks[handle][1] += amount
        self._show(is_due=False)

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Show figures with the next change of the line."""
        del step
        self._figures |= {name: float(value) for name, value in figures.items()}

    def finish(self, handle: int) -> None:
        """Show where a task ended, and forget it."""
        self._show(is_due=True)
        del self._tasks[handle]

    def _show(self, *, is_due: bool) -> None:
        if not is_due and time.monotonic() - self._shown_at < _SECONDS:
            return
        self._shown_at = time.monotonic()
        parts = [f"{task} {done}/{total}" for task, done, total in self._tasks.values()]
        parts += [f"{name} {value:.3g}" for name, value in self._figures.items()]
        self._write(" · ".join(parts))

    def _write(self, line: str) -> None:
        from IPython.display import display

        if self._display is None:
            self._display = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._display.update({"text/plain": line}, raw=True)


class TerminalLine(CellLine):
    """The same in the last line of a terminal, which is wiped at the end."""

    def finish(self, handle: int) -> None:
        """Forget a task, and wipe the line after the last one."""
        super().finish(handle)
        if not self._tasks:
            self._write("")

    def _write(self, line: str) -> None:
        # The cursor waits at the start, so that what a script prints replaces the line.
        room = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r{line[:room]:<{room}}\r")
        sys.stderr.flush()


_CELL, _TERMINAL = CellLine(), TerminalLine()
_is_quiet: ContextVar[bool] = ContextVar("fewlabels_quiet", default=False)


def quiet() -> AbstractContextManager[None]:
    """Show no progress of the block by itself; see :func:`shown`."""
    return _assigned(_is_quiet, value=True)


def shown() -> AbstractContextManager[None]:
    """Show progress of the block in a notebook or terminal, unless it is already."""
    if _reporters.get() or _is_quiet.get():
        return nullcontext()
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if getattr(shell, "kernel", None) is not None:
        return reporting(_CELL)
    if sys.stderr is None or not sys.stderr.isatty() or os.getenv("TERM") == "dumb":
        return nullcontext()
    return reporting(_TERMINAL)
