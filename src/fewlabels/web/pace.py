"""When to choose what people label next, so that nobody waits for it."""

import time
from collections.abc import Callable, Mapping
from typing import Any

AHEAD = 5
"""Images left of a round at which the next one is chosen: it knows most labels then."""
MOST_AHEAD = 10
"""The same where choosing takes long. Tabs hold as many, so that none is lost."""
FIRST_SECONDS = 10.0
"""What choosing takes, until it was timed: it begins with importing torch."""


class Pace:
    """How fast people label, and how long it takes to choose what they label next."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._number, self._since, self._open = -1, 0.0, 0
        self._begun, self._seconds = 0.0, FIRST_SECONDS

    def begin(self) -> None:
        """Note that images are being chosen."""
        self._begun = self._clock()

    def end(self) -> None:
        """Note that they were."""
        self._seconds = self._clock() - self._begun

    def see(self, asked: Mapping[str, Any] | None) -> None:
        """Note when a round was first seen."""
        if asked is not None and asked["number"] != self._number:
            self._number, self._open = asked["number"], asked["open"]
            self._since = self._clock()

    def is_time(self, asked: Mapping[str, Any]) -> bool:
        """Whether somebody is at work on a round, and will soon be done with it."""
        answered, passed = self._open - asked["open"], self._clock() - self._since
        soon = self._seconds * answered / passed if answered > 0 and passed > 0 else 0
        few = min(max(AHEAD, round(1.5 * soon)), MOST_AHEAD, asked["size"] // 2)
        return bool(asked["open"] < asked["size"] and asked["open"] <= few)
