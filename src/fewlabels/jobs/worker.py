"""A process of its own that does one call after another, started by ``processes``.

A call comes as a line of JSON, and so do the events that answer it. When the lines end,
since their writer has closed them or is dead, the process ends at once, and so do those
that it has started: everything that is called here tolerates that.
"""

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TextIO

from fewlabels import progress
from fewlabels.jobs.events import Event, Sender, call_permitted, outcome

_BEAT = 0.25  # seconds


class _Calls:
    """The calls of this process, one at a time."""

    def __init__(self, sender: Sender) -> None:
        self._orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._sender = sender
        self._number = 0
        self._canceled: set[int] = set()

    def run(self) -> None:
        """Do calls as they come, and report how each ended."""
        while True:
            order = self._orders.get()
            self._sender.send(outcome(partial(self._result, order)))

    def listen(self, lines: TextIO) -> None:
        """Take orders and cancellations; in a thread, so that a call delays no end."""
        for line in lines:
            order = json.loads(line)
            if "cancel" in order:
                self._cancel(order["cancel"])
            else:
                self._orders.put(order)
        if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
            os.killpg(0, signal.SIGKILL)  # with all that it has started
        os._exit(0)  # from a thread, nothing less ends the process

    def beat(self) -> None:
        """Report now and then that a call goes on; in a thread."""
        while True:
            time.sleep(_BEAT)
            if self._number:
                self._sender.beat()

    def _cancel(self, number: int) -> None:
        """End a call as Ctrl-C would, once."""
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

        def note(text: str) -> None:
            self._sender.send({"event": "note", "text": text})

        try:
            if is_stopped():
                raise progress.Canceled
            with (
                progress.reporting(self._sender),
                progress.redirect_warnings(note),
                progress.stopping(is_stopped),
            ):
                call, arguments = order["call"], order["arguments"]
                return call_permitted(call, arguments, allowed=order["allow_code"])
        finally:
            self._number = 0
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to stop


def main(gives_way: int = 0) -> None:
    """Do calls until there are no more; see :class:`Worker` for ``gives_way``.

    Standard input and output are kept for calls and events: what is printed meanwhile
    goes where errors go, and there is nothing to be read.
    """
    if gives_way and hasattr(os, "nice"):
        os.nice(gives_way)
        with suppress(OSError):  # Linux weighs sessions before their processes
            Path("/proc/self/autogroup").write_text(str(gives_way), "ascii")
    orders, answers = os.fdopen(os.dup(0), encoding="utf-8"), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):  # events end with this process, not a child
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.register_at_fork(
            after_in_child=lambda: os.dup2(nowhere, answers, inheritable=False)
        )

    def write(event: Event) -> None:
        rest = json.dumps(event).encode() + b"\n"
        while rest:
            rest = rest[os.write(answers, rest) :]

    calls = _Calls(Sender(write, has_beat=True))
    threading.Thread(target=calls.listen, args=(orders,), daemon=True).start()
    threading.Thread(target=calls.beat, daemon=True).start()
    calls.run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
