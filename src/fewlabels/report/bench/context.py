"""What every section needs to know of an experiment, and what can be compared.

Shapes: S seeds, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fewlabels.bench.experiment import Experiment
from fewlabels.bench.results import ConditionResults, Results
from fewlabels.evaluation import Noise, retraining_noise
from fewlabels.integers import count
from fewlabels.loop import query_size
from fewlabels.report.bench.wording import word
from fewlabels.report.recorded import data_name
from fewlabels.runs import Choice

OTHER_SCALE = "Not the paper's scale"
"""What titles say of an experiment that is made for two cores."""

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


@dataclass(frozen=True, eq=False)
class ConditionContext:
    """One condition of an experiment."""

    results: ConditionResults
    heading: str
    """Its name; empty where there is one only."""
    suffix: str
    """What tells its files apart; empty where there is one only."""
    experiment: Experiment

    @cached_property
    def comparable(self) -> Comparable:
        """What all strategies have measured."""
        return comparable(self.results)

    @cached_property
    def short_names(self) -> dict[str, str]:
        """What figures call strategies, by label."""
        return {who.label: who.short for who in contenders(self.experiment)}

    def file_name(self, name: str) -> str:
        """Return the name of one of its files."""
        return f"{name}-{self.suffix}" if self.suffix else name

    def caption(self, meaning: str, *sentences: str, has_heading: bool = True) -> str:
        """Return the caption of a table: data, trainer, seeds, meaning, scale."""
        settings = self.results.condition.settings
        conditions = self.experiment.conditions
        trained = {(one.settings.trainer.label, one.num_seeds) for one in conditions}
        is_of_all = has_heading or len(trained) == 1
        where = f"{self.heading}: " if self.heading and has_heading else ""
        made = (
            f"{where}data {data_name(settings.model_dump())}, trainer "
            f"{settings.trainer.label}, {self.seeds_text}."
        )
        made = made[0].upper() + made[1:]
        scale = f"{OTHER_SCALE}." if self.experiment.scale == "cpu" else ""
        return " ".join(
            part
            for part in (meaning, made if is_of_all else "", *sentences, scale)
            if part
        )

    @property
    def seeds_text(self) -> str:
        """How many seeds there are, and how many are not through yet."""
        planned, complete = len(self.results.seeds), len(self.comparable.seeds)
        if planned == complete:
            return count(planned, "seed")
        return (
            f"{count(planned, 'seed')} planned, {complete} finished by every strategy"
        )


@dataclass(frozen=True, eq=False)
class Context:
    """The whole experiment."""

    results: Results
    conditions: tuple[ConditionContext, ...]
    contenders: tuple[Contender, ...]

    @property
    def experiment(self) -> Experiment:
        """What was asked for."""
        return self.results.experiment

    @cached_property
    def noise(self) -> Noise | None:
        """How far trainings on one label set differ; None with fewer than two."""
        known = [one for one in self.results.noise if np.isfinite(one)]
        return retraining_noise(known) if len(known) > 1 else None

    @property
    def references(self) -> tuple[str, ...]:
        """Labels of the strategies that others are compared with."""
        found = (label_of(self.experiment, name) for name in ("random", "npc"))
        return tuple(label for label in found if label is not None)

    @property
    def has_single_queries(self) -> bool:
        """Whether it has several conditions of one query each, as in Table 3."""
        settings = [one.settings for one in self.experiment.conditions]
        return len(settings) > 1 and all(
            one.budget - one.start <= query_size(one.query, 0) for one in settings
        )

    def contender(self, label: str) -> Contender:
        """Return a strategy by its label."""
        return next(one for one in self.contenders if one.label == label)


def context_of(results: Results) -> Context:
    """Return what the sections need to know of results."""
    is_alone = len(results.conditions) == 1
    used: set[str] = set()
    found = []
    for number, one in enumerate(results.conditions):
        name = one.condition.name
        suffix = word(name) or str(number + 1)
        suffix = f"{suffix}-{number + 1}" if suffix in used else suffix
        used.add(suffix)
        found.append(
            ConditionContext(
                results=one,
                heading="" if is_alone else name or f"condition {number + 1}",
                suffix="" if is_alone else suffix,
                experiment=results.experiment,
            )
        )
    return Context(results, tuple(found), contenders(results.experiment))
