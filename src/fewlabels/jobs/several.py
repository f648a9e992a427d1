"""Calls side by side in processes of this machine."""

from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack, closing
from queue import SimpleQueue
from typing import Any, NamedTuple

from fewlabels.jobs.events import Event
from fewlabels.jobs.processes import Worker
from fewlabels.jobs.surroundings import ONE_THREAD


class Ended(NamedTuple):
    """A call that some process is through with."""

    number: int
    """Which of the orders it was."""
    event: Event
    """How it ended."""
    times: int
    """How often it was begun."""


def side_by_side(
    call: str, orders: Sequence[Mapping[str, Any]], num_workers: int, *, retries: int
) -> Generator[Ended]:
    """Do the same call with many arguments, each worker with one thread.

    A process that is killed is replaced, and its call begun again. What is called was
    allowed by whoever planned it.

    Args:
        call: What to call, as ``"module:function"``.
        orders: The arguments of each call.
        num_workers: How many at a time.
        retries: How often a call is begun again whose process was killed.

    Yields:
        Each call as it ends.
    """
    with ExitStack() as ends:
        idle: SimpleQueue[Worker] = SimpleQueue()
        for _ in range(min(num_workers, len(orders))):
            worker = Worker(environment=ONE_THREAD, allow_code=True)
            idle.put(ends.enter_context(closing(worker)))
        # One thread for each worker, to wait for it.
        threads = ThreadPoolExecutor(num_workers)
        ends.callback(threads.shutdown, wait=False, cancel_futures=True)
        doing = {
            threads.submit(_ended, idle, call, order, retries): number
            for number, order in enumerate(orders)
        }
        for future in as_completed(doing):
            yield Ended(doing[future], *future.result())


def _ended(
    idle: SimpleQueue[Worker], call: str, order: Mapping[str, Any], retries: int
) -> tuple[Event, int]:
    """Do a call, again if its process dies; return how it ended, and how often."""
    worker, times = idle.get(), 0
    try:
        while True:
            times += 1
            end = worker.start(call, order).wait()
            assert end is not None
            if end["event"] in {"done", "failed"} or times > retries:
                return end, times
    finally:
        idle.put(worker)
