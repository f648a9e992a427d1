"""A worker process of this machine: does the runs that it is told of, one at a time.

A run comes as one line of JSON, and so does the answer. When the lines end, since the
engine has closed them or is dead, the worker ends at once: a run can bear that.
"""

import json
import os
import sys
from queue import SimpleQueue
from threading import Thread
from typing import TextIO

from fewlabels.naming import imported


def main() -> None:
    """Do runs until there are no more; the argument says with which function."""
    orders, answers = _kept_apart()
    queue: SimpleQueue[str] = SimpleQueue()
    # In a thread of its own, so that the end is noticed in the middle of a run.
    Thread(target=_listen, args=(orders, queue), daemon=True).start()
    work = imported("function that does a run", sys.argv[1])
    while True:
        error = work(**json.loads(queue.get()))
        answers.write(json.dumps(error) + "\n")
        answers.flush()


def _kept_apart() -> tuple[TextIO, TextIO]:
    """Return input and output for the engine alone.

    What a strategy prints goes where errors go, and is no answer; there is nothing that
    it could read.
    """
    orders = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    return orders, answers


def _listen(orders: TextIO, queue: SimpleQueue[str]) -> None:
    for line in orders:
        queue.put(line)
    os._exit(0)  # from a thread, nothing less ends the process


if __name__ == "__main__":
    main()
