"""Minibatches made ahead, so that the network need not wait for them."""

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor

import torch

from fewlabels.training.minibatches import Minibatch


def prepared(
    make: Callable[[int], Minibatch], start: int, stop: int, depth: int
) -> Generator[Minibatch]:
    """Yield the minibatches of some steps, up to ``depth`` of them made ahead.

    A minibatch depends on its step alone, so that the depth changes nothing but time.
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
