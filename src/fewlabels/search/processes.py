"""A race spread over processes; draws are keyed, so the result is the same."""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import reduce
from itertools import pairwise
from multiprocessing import get_context

import torch

from fewlabels.search.refutation import Race, SearchProblem, race


def in_processes(problem: SearchProblem, numbers: range, processes: int) -> Race:
    """Return the outcome of a race over these draw numbers.

    Args:
        problem: What is searched.
        numbers: The draw numbers.
        processes: How many processes share them.

    Returns:
        The same survivors whatever the number of processes.
    """
    if processes == 1:
        return race(problem, numbers)
    parts = _parts(numbers, min(processes, len(numbers)))
    # A forked child shares the features; elsewhere they are sent to it.
    context = get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(
        len(parts), mp_context=context, initializer=torch.set_num_threads, initargs=(1,)
    ) as pool:
        races = list(pool.map(race, [problem] * len(parts), parts))
    return reduce(lambda one, other: one.joined(problem, other), races)


def _parts(numbers: range, count: int) -> list[range]:
    """Cut a range into ``count`` pieces of nearly equal length."""
    cuts = [numbers.start + len(numbers) * i // count for i in range(count + 1)]
    return [range(a, b) for a, b in pairwise(cuts) if a < b]
