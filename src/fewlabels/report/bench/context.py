"""An experiment as its report shows it, and what can be compared.

Shapes: S seeds, T numbers of labels at which accuracy was measured.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import count
from fewlabels.experiments.acquisition import query_size
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.bench.folder import ConditionResults, Results
from fewlabels.report.figures import hues
from fewlabels.report.page import data_name
from fewlabels.report.wording import file_word

OTHER_SCALE = "Not the paper's scale"
"""Part of the titles of experiments for two cores."""


@dataclass(frozen=True)
class Contender:
    """A strategy as it is shown everywhere in the report."""

    label: str
    name: str
    """Its name without options, as published tables have it."""
    short: str
    """Its name with the options that distinguish it from the others."""
    hue: int


def contenders(experiment: Experiment) -> tuple[Contender, ...]:
    """Return the strategies of an experiment."""
    colors = hues([choice.label for choice in experiment.strategies])
    shown = []
    for choice in experiment.strategies:
        peers = [other for other in experiment.strategies if other.name == choice.name]
        values = [
            str(value)
            for key, value in choice.options.items()
            if any(other.options.get(key) != value for other in peers)
        ]
        short = " ".join([choice.name, *values])
        shown.append(Contender(choice.label, choice.name, short, colors[choice.label]))
    return tuple(shown)


@dataclass(frozen=True, eq=False)
class ConditionContext:
    """One condition of an experiment, and what all strategies have measured there."""

    results: ConditionResults
    heading: str
    """Its name; empty where there is one only."""
    suffix: str
    """End of the names of its files; empty where there is one only."""
    experiment: Experiment
    contenders: tuple[Contender, ...]

    @property
    def name(self) -> str:
        """Its name in the data."""
        return self.results.condition.name

    @property
    def heading_entry(self) -> tuple[str, ...]:
        """Its name in a table of all conditions; nothing where it is alone."""
        return (self.heading,) if self.heading else ()

    @property
    def seeds(self) -> tuple[int, ...]:
        """Seeds that every strategy has finished, so that they can be paired."""
        return self.results.complete_seeds

    @cached_property
    def _is_measured(self) -> NDArray[np.bool_]:
        arrays = [
            self.results.accuracies(name, self.seeds)
            for name in self.results.strategies
        ]
        return np.asarray(np.isfinite(np.concatenate(arrays)).all(axis=0))

    @cached_property
    def num_labels(self) -> tuple[int, ...]:
        """Numbers of labels at which all of these seeds were measured."""
        numbers = np.array(self.results.num_labels, dtype=np.int64)
        return tuple(numbers[self._is_measured].tolist())

    @cached_property
    def accuracies(self) -> dict[str, NDArray[np.float64]]:
        """Their shares (S, T) by label of the strategy, all of them finite."""
        return {
            name: self.results.accuracies(name, self.seeds)[:, self._is_measured]
            for name in self.results.strategies
        }

    @property
    def can_be_tested(self) -> bool:
        """Whether there is something to compare, with at least two seeds."""
        has_pairs = len(self.seeds) > 1 and len(self.contenders) > 1
        return has_pairs and bool(self.num_labels)

    @property
    def has_curve(self) -> bool:
        """Whether there is more to see than the start and the end."""
        return bool(self.seeds) and len(self.num_labels) > 2

    @property
    def seeds_text(self) -> str:
        """How many seeds there are, and how many are not through yet."""
        planned, complete = len(self.results.seeds), len(self.seeds)
        if planned == complete:
            return count(planned, "seed")
        return (
            f"{count(planned, 'seed')} planned, {complete} finished by every strategy"
        )

    def file_name(self, name: str) -> str:
        """Return the name of one of its files."""
        return f"{name}-{self.suffix}" if self.suffix else name

    def caption(self, *sentences: str, is_of_all: bool = False) -> str:
        """Return the caption of a table: meaning, data, trainer, seeds, scale.

        The caption of a table of all conditions has what they have in common.
        """
        settings = self.results.condition.settings
        conditions = self.experiment.conditions
        trained = {(c.settings.trainer.label, c.num_seeds) for c in conditions}
        parts = list(sentences)
        if not is_of_all or len(trained) == 1:
            where = f"{self.heading}: d" if self.heading and not is_of_all else "D"
            text = (
                f"{where}ata {data_name(settings.model_dump())}, trainer "
                f"{settings.trainer.label}, {self.seeds_text}."
            )
            parts.insert(1, text[0].upper() + text[1:])
        if self.experiment.scale == "cpu":
            parts.append(f"{OTHER_SCALE}.")
        return " ".join(parts)


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

    @property
    def condition_column(self) -> tuple[str, ...]:
        """What heads the names of conditions; nothing where there is one only."""
        return ("Condition",) if len(self.conditions) > 1 else ()

    @property
    def references(self) -> tuple[Contender, ...]:
        """The strategies that others are compared with: the first of each name."""
        known = map(self.contender, ("random", "npc"))
        return tuple(who for who in known if who is not None)

    @property
    def has_single_queries(self) -> bool:
        """Whether it has several conditions of one query each, as in Table 3."""
        settings = [condition.settings for condition in self.experiment.conditions]
        return len(settings) > 1 and all(
            run.budget - run.start <= query_size(run.query, 0) for run in settings
        )

    def contender(self, name: str) -> Contender | None:
        """Return the first strategy of a name; None where there is none."""
        return next((who for who in self.contenders if who.name == name), None)


def context_of(results: Results) -> Context:
    """Return what the sections need to know of results."""
    strategies, experiment = contenders(results.experiment), results.experiment
    if len(results.conditions) == 1:
        case = ConditionContext(results.conditions[0], "", "", experiment, strategies)
        return Context(results, (case,), strategies)
    used, cases = set[str](), []
    for number, own in enumerate(results.conditions, start=1):
        name = own.condition.name
        suffix = file_word(name) or str(number)
        suffix = f"{suffix}-{number}" if suffix in used else suffix
        used.add(suffix)
        heading = name or f"condition {number}"
        cases.append(ConditionContext(own, heading, suffix, experiment, strategies))
    return Context(results, tuple(cases), strategies)
