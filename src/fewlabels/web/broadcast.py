"""The state of a project, computed once and sent to all tabs."""

import json
import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

from fewlabels.errors import FewlabelsError

_PAUSE = 0.2  # seconds between two reads, at least
_INTERVAL = 2.0  # seconds after which changes by other programs are read

_log = logging.getLogger(__name__)


class StateBroadcaster:
    """The latest state, with a version that grows when it changes.

    Args:
        read_state: Computes the state.
        react: Called with each state, to start what has to be done.
    """

    def __init__(
        self,
        read_state: Callable[[], dict[str, Any]],
        react: Callable[[dict[str, Any]], object],
    ) -> None:
        self._read_state, self._react = read_state, react
        self._is_due, self._is_closed = Event(), False
        self.latest = (0, "{}")
        """Version and text of the latest state."""
        self.is_stopping: Callable[[], bool] = lambda: False
        """Whether the server is shutting down, and waits for open connections."""
        self._thread = Thread(target=self._watch, daemon=True)

    def open(self) -> None:
        """Start to read the state."""
        self._is_due.set()
        self._thread.start()

    def close(self) -> None:
        """Stop to read the state."""
        self._is_closed = True
        self._is_due.set()

    def notify(self) -> None:
        """Read the state soon, since it may have changed."""
        self._is_due.set()

    @property
    def is_closed(self) -> bool:
        """Whether there will be no new state."""
        return self._is_closed or self.is_stopping()

    def _watch(self) -> None:
        while not self._is_closed:
            self._is_due.wait(_INTERVAL)
            self._is_due.clear()
            try:
                state = self._read_state()
                self._react(state)
            # Such as a busy store, or no memory; the state is read again later.
            except (FewlabelsError, OSError, RuntimeError) as error:
                _log.warning("%s", error)
            else:
                version, text = self.latest
                new = json.dumps(state)
                if new != text:
                    self.latest = (version + 1, new)
            time.sleep(_PAUSE)
