"""How ``fewlabels bench`` reads what it is given and says what it does."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fewlabels import bench
from fewlabels.errors import UsageError
from fewlabels.runs import Choice

if TYPE_CHECKING:
    from fewlabels.bench import BenchFolder, Ended, Experiment, ExperimentCost

_UNITS = (
    (365.25 * 24, "years"),
    (24.0, "days"),
    (1.0, "hours"),
    (1 / 60, "minutes"),
)
_LEAST = 2.0  # of a unit, to be told in it
_GIGABYTE, _MEGABYTE = 1e9, 1e6
_HOUR = 3600.0
_MOST_SEEDS = 10_000
_POWERS = {2**power: f"2^{power}" for power in range(16, 31)}


def read_strategies(words: str, experiment: "Experiment") -> tuple[Choice, ...]:
    """Return strategies by name; those of the recipe as they are there."""
    found: list[Choice] = []
    for name in split_names(words):
        known = [one for one in experiment.strategies if one.name == name]
        found += known or [Choice(name=name)]
    return tuple(found)


def split_names(words: str) -> list[str]:
    """Return names that were written with commas."""
    return [word.strip() for word in words.split(",") if word.strip()]


def read_seeds(words: str) -> tuple[int, ...]:
    """Return seeds: the first so many, a range, or those that are listed.

    Example:
        >>> read_seeds("3"), read_seeds("5-7"), read_seeds("0,4")
        ((0, 1, 2), (5, 6, 7), (0, 4))
    """
    found: Sequence[int] = ()
    with suppress(ValueError):
        if "-" in words:
            first, last = map(int, words.split("-"))
            found = range(first, last + 1)
        elif "," in words:
            found = [int(word) for word in words.split(",") if word]
        else:
            found = range(int(words))
    if not found:
        raise UsageError(
            f"The seeds '{words}' cannot be read; give a number (3), a range (5-9) or "
            "a list (0,4)."
        )
    if found[_MOST_SEEDS:]:  # the length of a range may be too large for len
        raise UsageError(
            f"The seeds '{words}' are more than {_MOST_SEEDS:,}; give fewer. A comma "
            "makes a list: '7,' is seed 7 alone."
        )
    return tuple(found)


def cost_lines(experiment: "Experiment", cost: "ExperimentCost") -> Iterator[str]:
    """Say what an experiment will cost, before it begins."""
    other = ""
    if cost.num_other:
        other = f", {cost.num_other} of them for another reading of the paper"
    yield f"{experiment.name}: {experiment.title}"
    yield (
        f"  {cost.num_cells} runs with {cost.num_trainings} trainings of "
        f"{steps(cost.steps)}{other}"
    )
    yield (
        f"  finished: {cost.num_finished} of {cost.num_cells} runs; trainings left: "
        f"{cost.num_trainings_left}, about {duration(cost.hours)} with "
        f"{cost.num_workers} at a time "
        f"({duration(cost.seconds_per_training / _HOUR)} each, {cost.source}) "
        f"and {_size(cost.disk)} of disk"
    )


def space_lines(disk: float, free: float) -> Iterator[str]:
    """Say so where a disk is too small."""
    if disk > free:
        yield (
            f"Note: only {_size(free)} of disk space is free; {_size(disk)} is needed. "
            "Runs stop when the disk is full; resume them when there is space."
        )


def other_conditions_line(experiment: "Experiment") -> str:
    """Say that an experiment takes the place of another of its name."""
    return (
        f"Note: '{experiment.name}' had different conditions, or a different trainer "
        "of the same name, when it was last run. The report covers the current ones; "
        "the earlier runs are kept and reused if they are needed again. Choose another "
        "name to see both."
    )


def total_line(
    experiments: "Sequence[Experiment]", costs: "Sequence[ExperimentCost]"
) -> str:
    """Say what several experiments cost together; what they share counts once."""
    total = bench.num_trainings(experiments)
    own = bench.num_trainings(experiments, other_readings=False)
    lengths = {cost.steps for cost in costs}
    length = steps(lengths.pop()) if len(lengths) == 1 else "different lengths"
    other = f", and {total - own} for other readings" if total > own else ""
    return f"Total: {own} trainings of {length}{other}"


def duration(hours: float) -> str:
    """Return hours in the largest unit that gives a number of at least two.

    Example:
        >>> duration(0.5), duration(30), duration(100), duration(1e4), duration(1e5)
        ('30 minutes', '30 hours', '4.2 days', '417 days', '11 years')
        >>> duration(1.95), duration(0.6 / 3600)
        ('117 minutes', '0.6 seconds')
    """
    for size, unit in _UNITS:
        if hours >= _LEAST * size:
            return f"{_figures(hours / size)} {unit}"
    return f"{_figures(hours * _HOUR)} seconds"


def ended_line(ended: "Ended", folder: "BenchFolder", done: int, total: int) -> str:
    """Say in a line how a run ended."""
    told = f"failed: {ended.error}"
    if ended.error is None:
        accuracy = folder.run_folder(ended.cell).lines()[-1].accuracy
        told = "not measured" if accuracy is None else f"{100 * accuracy:.1f} %"
    return f"[{done}/{total}] {ended.cell.label}: {told}"


def _figures(number: float) -> str:
    """Return a number in two figures, or in as many as it has before the point."""
    return f"{number:.2g}" if number < 10 else f"{number:.0f}"


def steps(number: int | None) -> str:
    """Return a number of steps in words.

    Example:
        >>> steps(600), steps(2**20), steps(None)
        ('600 steps', '2^20 steps', 'unknown length')
    """
    if number is None:
        return "unknown length"
    return f"{_POWERS.get(number, f'{number:,}')} steps"


def _size(disk: float) -> str:
    if disk < _GIGABYTE:
        return f"{disk / _MEGABYTE:.0f} MB"
    return f"{disk / _GIGABYTE:.1f} GB"
