"""What every section needs to know of an experiment."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fewlabels.bench.experiment import Experiment
from fewlabels.bench.results import ConditionResults, Results
from fewlabels.evaluation import Noise, retraining_noise
from fewlabels.report.bench.comparable import (
    Comparable,
    Contender,
    comparable,
    contenders,
    label_of,
)
from fewlabels.report.bench.wording import word
from fewlabels.report.recorded import data_name
from fewlabels.report.wording import count

OTHER_SCALE = "Not the paper's scale"
"""What titles say of an experiment that is made for two cores."""


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
        where = f"{self.heading}: " if self.heading and has_heading else ""
        made = (
            f"{where}data {data_name(settings.model_dump())}, trainer "
            f"{settings.trainer.label}, {self.seeds_text}."
        )
        made = made[0].upper() + made[1:]
        scale = f"{OTHER_SCALE}." if self.experiment.scale == "cpu" else ""
        return " ".join(part for part in (meaning, made, *sentences, scale) if part)

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
            one.budget - one.start <= one.query for one in settings
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
