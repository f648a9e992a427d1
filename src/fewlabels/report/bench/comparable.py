"""What can be compared: measurements that every strategy has with the same seeds.

Shapes: S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fewlabels.bench.experiment import Experiment
from fewlabels.bench.results import ConditionResults
from fewlabels.runs import Choice

NUM_HUES = 10
"""Colors that the page has."""

_FIXED = {"random": 0, "npc": 1}


@dataclass(frozen=True)
class Contender:
    """A strategy as it is shown everywhere in the report."""

    label: str
    name: str
    """Its name without options, as published tables have it."""
    short: str
    """What figures call it: no longer than needed to tell it from the others."""
    hue: int
    number: int
    """Its place among the strategies; tells its marks apart without color."""


def contenders(experiment: Experiment) -> tuple[Contender, ...]:
    """Return the strategies: random is grey and NPC blue, as on every page."""
    found: list[Contender] = []
    given: set[int] = set()
    free = [hue for hue in range(NUM_HUES) if hue not in _FIXED.values()]
    for number, choice in enumerate(experiment.strategies):
        hue = _FIXED.get(choice.name, -1)
        if hue < 0 or hue in given:
            hue = free[len(given - set(_FIXED.values())) % len(free)]
        given.add(hue)
        short = short_name(choice, experiment.strategies)
        found.append(Contender(choice.label, choice.name, short, hue, number))
    return tuple(found)


def short_name(choice: Choice, among: Sequence[Choice]) -> str:
    """Return a name without options, or with as many as tell it from the others.

    Example:
        >>> one, other = (Choice(name="npc", options={"draws": n}) for n in (10, 99))
        >>> short_name(one, [one]), short_name(one, [one, other])
        ('npc', 'npc 10')
    """
    others = [one for one in among if one.name == choice.name and one != choice]
    values = [
        str(value)
        for key, value in choice.options.items()
        if any(one.options.get(key) != value for one in others)
    ]
    return " ".join([choice.name, *values])


@dataclass(frozen=True, eq=False)
class Comparable:
    """Accuracies of all strategies under one condition, on the same seeds."""

    seeds: tuple[int, ...]
    num_labels: tuple[int, ...]
    accuracies: dict[str, NDArray[np.float64]]
    """Shares (S, T) by label of the strategy, all of them finite."""

    @property
    def can_be_tested(self) -> bool:
        """Whether there is something to compare, with at least two seeds."""
        enough = len(self.seeds) >= 2 and len(self.accuracies) >= 2
        return enough and bool(self.num_labels)

    @property
    def has_curve(self) -> bool:
        """Whether there is more to see than the start and the end."""
        return bool(self.seeds) and len(self.num_labels) > 2


def comparable(results: ConditionResults) -> Comparable:
    """Return what every strategy has measured with each seed that all have finished."""
    seeds = results.complete_seeds
    if not seeds:
        return Comparable(
            (), (), {name: np.empty((0, 0)) for name in results.strategies}
        )
    found = {name: results.accuracies(name, seeds) for name in results.strategies}
    is_there_T = np.isfinite(np.concatenate(list(found.values()))).all(axis=0)
    num_labels = np.array(results.num_labels, dtype=np.int64)[is_there_T]
    return Comparable(
        seeds,
        tuple(num_labels.tolist()),
        {name: array[:, is_there_T] for name, array in found.items()},
    )


def label_of(experiment: Experiment, name: str) -> str | None:
    """Return the label of the first strategy of a name; None where there is none."""
    labels = [one.label for one in experiment.strategies if one.name == name]
    return labels[0] if labels else None
