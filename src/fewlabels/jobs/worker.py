"""A process of its own that does one call after another, started by ``processes``.

A call comes as a line of JSON, and so do the events that answer it. When the lines end,
since whoever wrote them has closed them or is dead, the process ends at once, and so do
those that it has started: all that is called here can bear that.
"""

import json
import os
import signal
import threading
import time
from functools import partial
from queue import SimpleQueue
from typing import Any, TextIO

from fewlabels import progress
from fewlabels.jobs.events import Event, Sender, outcome
from fewlabels.jobs.permission import permitted

_BEAT = 0.25  # seconds


class _Calls:
    """The calls of this process, one at a time."""

    def __init__(self, sender: Sender) -> None:
        self.orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._sender = sender
        self._number = 0
        self._canceled: set[int] = set()

    def do(self, order: dict[str, Any]) -> None:
        """Do a call and tell how it ended."""
        self._sender.send(outcome(partial(self._result, order)))

    def beat(self) -> None:
        """Say now and then that a call goes on; called by another thread."""
        while True:
            time.sleep(_BEAT)
            if self._number:
                self._sender.beat()

    def cancel(self, number: int) -> None:
        """End a call as Ctrl-C would, once; called by another thread."""
        is_known = number in self._canceled
        self._canceled.add(number)
        if is_known or number != self._number:
            return
        if hasattr(signal, "pthread_kill"):  # which ends waiting, too
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        else:
            signal.raise_signal(signal.SIGINT)

    def _result(self, order: dict[str, Any]) -> Any:
        interrupt = progress.Interrupt()
        signal.signal(signal.SIGINT, interrupt)
        self._number = order["number"]

        def is_stopped() -> bool:  # even if a library swallowed the interrupt
            return interrupt.is_asked or self._number in self._canceled

        try:
            if is_stopped():
                raise progress.Canceled
            function = permitted(order["call"], order["arguments"], order["allow_code"])
            with (
                progress.reporting(self._sender),
                progress.redirect_warnings(
                    lambda text: self._sender.send({"event": "note", "text": text})
                ),
                progress.stopping(is_stopped),
            ):
                return function()
        finally:
            self._number = 0
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


def main() -> None:
    """Do calls until there are no more."""
    orders, answers = _kept_apart()
    calls = _Calls(Sender(lambda event: _write(answers, event), has_beat=True))
    # In threads, so that a call neither keeps the end from being noticed nor is silent.
    threading.Thread(target=_listen, args=(orders, calls), daemon=True).start()
    threading.Thread(target=calls.beat, daemon=True).start()
    while True:
        calls.do(calls.orders.get())


def _kept_apart() -> tuple[TextIO, int]:
    """Return input and output for calls and events alone.

    What is printed meanwhile goes where errors go, and is no event; there is nothing
    that could be read.
    """
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):  # events end with this process, not a child
        unheard = os.open(os.devnull, os.O_WRONLY)
        os.register_at_fork(
            after_in_child=lambda: os.dup2(unheard, answers, inheritable=False)
        )
    return orders, answers


def _write(answers: int, event: Event) -> None:
    rest = json.dumps(event).encode() + b"\n"
    while rest:
        rest = rest[os.write(answers, rest) :]


def _listen(orders: TextIO, calls: _Calls) -> None:
    for line in orders:
        order = json.loads(line)
        if "cancel" in order:
            calls.cancel(order["cancel"])
        else:
            calls.orders.put(order)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with all that it has started
    os._exit(0)  # from a thread, nothing less ends the process


if __name__ == "__main__":
    main()
