"""Calls by name, and the events that they report: plain values that JSON can hold.

:class:`Sender` turns the progress of one process into events, and :class:`Replay` turns
them into progress again in another.
"""

import json
import traceback
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from threading import RLock
from typing import Any, TypeVar

from fewlabels import progress
from fewlabels.errors import FewlabelsError, UsageError
from fewlabels.names import AllowCode, import_object

Event = dict[str, Any]
"""What happened: ``"event"`` says of which kind, and the other keys depend on that."""

_Function = TypeVar("_Function", bound=Callable[..., Any])
_MARK = "is_startable"


def startable(function: _Function) -> _Function:
    """Mark a function of this package as one that jobs may call by its name.

    The job hands it ``allow_code``, which nobody can give as an argument: the function
    imports nothing that its other arguments name unless that allows it.

    Returns:
        The function.
    """
    function.__dict__[_MARK] = True
    return function


def call_permitted(
    call: str, arguments: Mapping[str, Any], *, allowed: AllowCode
) -> Any:
    """Call a function by its name, if that is permitted, and return its result.

    Args:
        call: ``"module:function"``: one of this package that is marked as
            :func:`startable`, or one that was allowed.
        arguments: Its arguments.
        allowed: Which other import paths may be called, or named by the arguments of
            one that is marked: any (True), these, or none.

    Returns:
        The result of the call.

    Raises:
        UsageError: If it is not allowed. At most a module of this package was imported
            by then, to see whether its function is marked.
    """
    is_allowed = allowed is True or call in (allowed or ())
    if is_allowed or call.startswith("fewlabels."):
        function: Callable[..., Any] = import_object("function to call in a job", call)
        if getattr(function, _MARK, False) is True:
            if "allow_code" in arguments:
                raise UsageError(f"Leave allow_code out of the arguments of '{call}'.")
            return function(**arguments, allow_code=allowed)
        if is_allowed:
            return function(**arguments)
    raise UsageError(f"'{call}' may not be called in a job without allow_code.")


def outcome(call: Callable[[], Any]) -> Event:
    """Do a call and return its last event; raise nothing."""
    try:
        end: Event = {"event": "done", "result": call()}
        json.dumps(end)  # what cannot be sent has failed
    except progress.Canceled:
        end = {"event": "canceled"}
    except Exception as error:  # noqa: BLE001 - sent to whoever asked for the call
        kind, reason, trace = type(error).__name__, str(error), ""
        if not isinstance(error, FewlabelsError):
            reason = f"{kind}: {' '.join(reason.split())}"
            trace = "".join(traceback.format_exception(error))
        end = {"event": "failed", "error": kind, "reason": reason, "traceback": trace}
    return end


class Sender:
    """A reporter of progress that sends it as events.

    Args:
        send: Takes an event; called by one thread at a time.
        has_beat: Whether :meth:`beat` is called now and then; how far tasks are is sent
            then, and not whenever they advance.
    """

    def __init__(
        self, send: Callable[[Event], None], *, has_beat: bool = False
    ) -> None:
        self._send, self._has_beat = send, has_beat
        self._tasks: dict[int, Event] = {}
        self._late: set[int] = set()
        self._numbers = count(1)
        self._is_quiet = True
        self._lock = RLock()

    def start(self, task: str, total: int, done: int) -> int:
        """Send that a task begins."""
        number = next(self._numbers)
        event = {"event": "progress", "id": number, "task": task, "done": done}
        event |= {"total": total, "part": progress.current_part(), "is_over": False}
        self._tasks[number] = event
        self.send(event)
        return number

    def advance(self, handle: int, amount: int) -> None:
        """Note how much of a task is done."""
        with self._lock:
            self._tasks[handle]["done"] += amount
            self._late.add(handle)
            if not self._has_beat:
                self.beat()

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Send measurements of the task that was started last."""
        event = {"event": "figures", "step": step, "figures": dict(figures)}
        self.send(event | {"part": progress.current_part()})

    def finish(self, handle: int) -> None:
        """Send that a task ended."""
        with self._lock:
            self._late.discard(handle)
            self.send({**self._tasks.pop(handle), "is_over": True})

    def send(self, event: Event) -> None:
        """Send an event."""
        with self._lock:
            self._is_quiet = False
            self._send(dict(event))

    def beat(self) -> None:
        """Send how far tasks are, or ``alive`` if nothing else was sent."""
        with self._lock:
            late, self._late = self._late, set()
            for number in sorted(late):
                self.send(self._tasks[number])
            if self._is_quiet:
                self.send({"event": "alive"})
            self._is_quiet = True


class Replay:
    """Reports progress here that events bring from elsewhere."""

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[ExitStack, progress.Advance, int]] = {}

    def receive(self, event: Event) -> None:
        """Take an event; one that is not about progress changes nothing."""
        if event["event"] == "figures":
            progress.tell(event["step"], event["figures"])
        if event["event"] != "progress":
            return
        number, done = event["id"], event["done"]
        if number not in self._tasks:
            stack = ExitStack()
            track = progress.track(event["task"], event["total"], done=done)
            self._tasks[number] = stack, stack.enter_context(track), done
        stack, advance, before = self._tasks[number]
        if done > before:
            advance(done - before)
        self._tasks[number] = stack, advance, done
        if event["is_over"]:
            stack.close()

    def close(self) -> None:
        """End the tasks whose end was not heard."""
        for stack, *_ in reversed(self._tasks.values()):
            stack.close()
