"""What a job tells while it goes on, as plain values that JSON can hold.

:class:`Sender` makes events of the progress in one process, and :class:`Replay` makes
progress of them again in another.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count
from threading import RLock
from typing import Any

from fewlabels import progress

Event = dict[str, Any]
"""What happened: ``"event"`` says of which kind, and the other keys depend on that."""

_QUIET = 0.5  # seconds


class Sender:
    """A listener that makes events of what it hears.

    Args:
        send: Takes an event; called by one thread at a time.
        pace: Seconds between two reports on the same task. What happens between them is
            told with the next one; nothing is left out but values that were replaced.
    """

    def __init__(self, send: Callable[[Event], None], pace: float = 0.0) -> None:
        self._send, self._pace = send, pace
        self._tasks: dict[int, Event] = {}
        self._numbers = count(1)
        self._waiting: dict[str, Event] = {}
        self._at = time.monotonic()
        self._lock = RLock()

    def start(self, task: str, total: int, done: int) -> int:
        """Tell that a task begins."""
        number = next(self._numbers)
        self._tasks[number] = {
            "event": "progress",
            "id": number,
            "task": task,
            "done": done,
            "total": total,
            "part": progress.current_part(),
            "is_over": False,
        }
        self._tell(str(number), self._tasks[number], at_once=True)
        return number

    def advance(self, handle: int, amount: int) -> None:
        """Tell how much of a task is done."""
        self._tasks[handle]["done"] += amount
        self._tell(str(handle), self._tasks[handle])

    def tell(self, step: int, figures: Mapping[str, float]) -> None:
        """Tell how the task that was started last fares."""
        with self._lock:
            kept = self._waiting.get("figures", {}).get("figures", {})
            part = progress.current_part()
            told = {"step": step, "figures": {**kept, **figures}, "part": part}
            self._tell("figures", {"event": "figures", **told})

    def finish(self, handle: int) -> None:
        """Tell that a task ended."""
        self._tell(
            str(handle), {**self._tasks.pop(handle), "is_over": True}, at_once=True
        )

    def send(self, event: Event) -> None:
        """Send an event, after all that happened before."""
        with self._lock:
            self._flush()
            self._send(event)

    def beat(self) -> None:
        """Say what waits, or that all is well if nothing was said for a while."""
        with self._lock:
            if self._waiting:
                self._flush()
            elif time.monotonic() - self._at >= _QUIET:
                self._at = time.monotonic()
                self._send({"event": "alive"})

    def _tell(self, key: str, event: Event, *, at_once: bool = False) -> None:
        with self._lock:
            self._waiting[key] = event
            if at_once or time.monotonic() - self._at >= self._pace:
                self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, {}
        self._at = time.monotonic()
        for event in waiting.values():
            self._send(dict(event))


class Replay:
    """Tells those who listen here of the progress that events bring from elsewhere."""

    def __init__(self) -> None:
        self._tasks: dict[int, tuple[ExitStack, progress.Advance]] = {}
        self._done: dict[int, int] = {}

    def hear(self, event: Event) -> None:
        """Take an event; one that is not about progress changes nothing."""
        if event["event"] == "figures":
            progress.tell(event["step"], event["figures"])
        elif event["event"] == "progress":
            self._go_on(event["id"], event)

    def close(self) -> None:
        """End the tasks whose end was not heard."""
        for stack, _ in reversed(self._tasks.values()):
            stack.close()
        self._tasks.clear()

    def _go_on(self, number: int, event: Event) -> None:
        if number not in self._tasks:
            track = progress.track(event["task"], event["total"], done=event["done"])
            stack = ExitStack()
            self._tasks[number] = stack, stack.enter_context(track)
            self._done[number] = event["done"]
        stack, advance = self._tasks[number]
        if event["done"] > self._done[number]:
            advance(event["done"] - self._done[number])
            self._done[number] = event["done"]
        if event["is_over"]:
            stack.close()
            del self._tasks[number]
