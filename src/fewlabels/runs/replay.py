"""The rounds of a run once more: what was labeled when, found by id."""

from collections.abc import Iterator, Mapping

import torch

from fewlabels.loop import hidden, without
from fewlabels.pool import Answers, Pool
from fewlabels.runs.folder import RunFolder
from fewlabels.runs.lines import RoundLine


def replayed(
    folder: RunFolder, pool: Pool, budget: int
) -> Iterator[tuple[RoundLine, Pool]]:
    """Yield each finished round of a run, and the pool that it was trained on.

    Yields:
        A line and a pool.
    """
    positions = {name: index for index, name in enumerate(pool.ids)}
    start = answers_of(folder.start() or {}, positions)
    known = hidden(pool, budget)
    is_withheld = folder.description()["settings"].get("zero_shot", False)
    known = without(known, start) if is_withheld else known.with_answers(start)
    for line in folder.lines():
        yield line, known
        known = known.with_answers(line.to_round(positions).answers)
        known = known.with_answers(start)


def answers_of(written: Mapping[str, int], positions: Mapping[str, int]) -> Answers:
    """Return labels by position; those of items that are gone are left out."""
    there = {positions[n]: label for n, label in written.items() if n in positions}
    return Answers(
        torch.tensor(list(there), dtype=torch.int64),
        torch.tensor(list(there.values()), dtype=torch.int64),
    )
