"""How ``fewlabels bench`` reads what it is given and says what it does."""

from collections.abc import Iterator

from fewlabels.bench import BenchFolder, Cost, Ended, Experiment
from fewlabels.errors import UsageError
from fewlabels.runs import Choice

_UNITS = (
    (365.25 * 24, "years"),
    (24.0, "days"),
    (1.0, "hours"),
    (1 / 60, "minutes"),
)
_LEAST = 2.0  # of a unit, to be told in it
_GIGABYTE = 1e9
_POWERS = {2**power: f"2^{power}" for power in range(16, 31)}


def read_strategies(words: str, experiment: Experiment) -> tuple[Choice, ...]:
    """Return strategies by name; one of the recipe's with the options it has there.

    Args:
        words: Names or import paths, with commas.
        experiment: The recipe.

    Returns:
        The strategies, in the order given.
    """
    known = {strategy.name: strategy for strategy in experiment.strategies}
    names = [word.strip() for word in words.split(",")]
    return tuple(known.get(name, Choice(name=name)) for name in names if name)


def read_seeds(words: str) -> tuple[int, ...]:
    """Return seeds: the first so many, a range, or those that are listed.

    Example:
        >>> read_seeds("3"), read_seeds("5-7"), read_seeds("0,4")
        ((0, 1, 2), (5, 6, 7), (0, 4))

    Args:
        words: What was written.

    Returns:
        The seeds.

    Raises:
        UsageError: If it is none of these.
    """
    try:
        if "-" in words:
            first, last = map(int, words.split("-"))
            found = tuple(range(first, last + 1))
        elif "," in words:
            found = tuple(map(int, words.split(",")))
        else:
            found = tuple(range(int(words)))
    except ValueError:
        found = ()
    if not found:
        msg = (
            f"The seeds '{words}' cannot be read; give how many (3), a range (5-9) or "
            "a list (0,4)."
        )
        raise UsageError(msg)
    return found


def cost_lines(experiment: Experiment, cost: Cost, free: float) -> Iterator[str]:
    """Say what an experiment will cost, before it begins.

    Args:
        experiment: What is done.
        cost: What was estimated.
        free: Free bytes of the disk.

    Yields:
        A line each.
    """
    yield f"{experiment.name}: {experiment.title}"
    yield (
        f"{cost.num_cells} runs with {cost.num_trainings} trainings{_steps(cost)}; "
        f"{cost.num_finished} runs are finished, {cost.num_trainings_left} trainings "
        "left"
    )
    yield (
        f"About {duration(cost.hours)} with {cost.num_workers} at a time "
        f"({cost.seconds_per_training:.3g} seconds a training, {cost.source}), "
        f"{cost.disk / _GIGABYTE:.1f} GB of disk"
    )
    if cost.disk > free:
        yield (
            f"Note: only {free / _GIGABYTE:.1f} GB of the disk are free. Runs stop "
            "when it is full, and go on when there is space again."
        )


def duration(hours: float) -> str:
    """Return hours in the largest unit that gives a number of at least two.

    Example:
        >>> duration(0.5), duration(30), duration(100), duration(1e5)
        ('30 minutes', '30 hours', '4.2 days', '11 years')
    """
    for size, unit in _UNITS:
        if hours >= _LEAST * size:
            return f"{hours / size:.2g} {unit}" if unit != "hours" else _hours(hours)
    return f"{hours * 3600:.0f} seconds"


def ended_line(ended: Ended, folder: BenchFolder, done: int, total: int) -> str:
    """Say in a line how a run ended."""
    told = f"failed: {ended.error}"
    if ended.error is None:
        accuracy = folder.run_folder(ended.cell).lines()[-1].accuracy
        told = "not measured" if accuracy is None else f"{100 * accuracy:.1f} %"
    return f"[{done}/{total}] {ended.cell.label}: {told}"


def _hours(hours: float) -> str:
    return f"{hours:.0f} hours" if hours >= 10 else f"{hours:.1f} hours"


def _steps(cost: Cost) -> str:
    if cost.steps is None:
        return ""
    return f" of {_POWERS.get(cost.steps, f'{cost.steps:,}')} steps"
