"""How the project stands right now, for all who look: worked out once, told to many."""

import json
import logging
from collections.abc import Callable
from threading import Condition, Event, Thread
from typing import Any

from fewlabels.errors import FewlabelsError

_PAUSE = 0.2  # seconds between two looks, at least
_PATIENCE = 2.0  # seconds until a look at what other programs did

_log = logging.getLogger(__name__)


class Board:
    """The latest state, with a number that grows when it changes.

    Args:
        look: Works out the state.
        react: Is given each one, to see what has to be done.
    """

    def __init__(
        self,
        look: Callable[[], dict[str, Any]],
        react: Callable[[dict[str, Any]], object],
    ) -> None:
        self._look, self._react = look, react
        self._news, self._changed = Event(), Condition()
        self._version, self._text = 0, "{}"
        self._is_closed = False
        self.is_stopping: Callable[[], bool] = lambda: False
        """Whether the server wants to end, and waits for who listens."""
        self._thread = Thread(target=self._watch, daemon=True)

    def open(self) -> None:
        """Begin to look."""
        self._news.set()
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._is_closed = True
        self._news.set()

    def stir(self) -> None:
        """Say that something may be new."""
        self._news.set()

    @property
    def latest(self) -> tuple[int, str]:
        """Number and text of the latest state."""
        with self._changed:
            return self._version, self._text

    @property
    def is_closed(self) -> bool:
        """Whether nothing new will come."""
        return self._is_closed or self.is_stopping()

    def _watch(self) -> None:
        closing = Event()
        while not self._is_closed:
            self._news.wait(_PATIENCE)
            self._news.clear()
            try:
                state = self._look()
                self._react(state)
            # Such as a busy store, or no memory; the next look tells.
            except (FewlabelsError, OSError, RuntimeError) as error:
                _log.warning("%s", error)
            else:
                self._show(json.dumps(state))
            closing.wait(_PAUSE)

    def _show(self, text: str) -> None:
        with self._changed:
            if text != self._text:
                self._version, self._text = self._version + 1, text
