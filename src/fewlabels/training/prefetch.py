"""Minibatches made ahead, so that the network need not wait for them."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from fewlabels.training.views import Minibatch


def prepared(
    make: Callable[[int], Minibatch], start: int, stop: int, depth: int
) -> Generator[Minibatch]:
    """Yield the minibatches of some steps, up to ``depth`` of them made ahead.

    A minibatch depends on its step alone, so that the depth changes nothing but time.

    Args:
        make: Makes the minibatch of a step.
        start: The first step.
        stop: The first step that is not wanted.
        depth: How many minibatches a thread makes ahead; 0: none, without a thread.

    Yields:
        The minibatches, in order.
    """
    if depth == 0:
        yield from map(make, range(start, stop))
        return
    # A thread begins with the number of cores; it shall keep to ours.
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(
        1, "minibatches", initializer=torch.set_num_threads, initargs=(threads,)
    ) as worker:
        waiting: deque[Future[Minibatch]] = deque()
        try:
            for step in range(start, stop):
                waiting.append(worker.submit(make, step))
                if len(waiting) > depth:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
