"""What an experiment is: conditions, strategies and seeds, as plain data."""

import math
import re
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from fewlabels import strategies, training
from fewlabels.experiments.bench.published import PublishedTable
from fewlabels.experiments.settings import Choice, RunSettings, made_changes

Scale = Literal["paper", "cpu"]
"""``"paper"``: the settings of the paper, for GPUs; ``"cpu"``: for two cores."""

Figure = Literal["accuracy", "overlap", "redundancy", "savings"]
"""What the report of an experiment is about."""

MOST_RUNS = 100_000
"""Runs that an experiment consists of at most; each is planned one by one."""

_LONGEST_NAME = 100  # bytes; file systems bear 255, with what is put behind it


class Footprint(BaseModel):
    """What one training costs, measured once, to say beforehand what all will cost."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    seconds_per_step: float = Field(ge=0, allow_inf_nan=False)
    """Seconds of one core for one optimizer step, all else of a round included."""
    megabytes: float = Field(ge=0, allow_inf_nan=False)
    """What a finished training keeps on the disk."""


class Condition(BaseModel):
    """The settings of some runs, but for strategy and seed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    """What tells it from the other conditions; empty where there is one only."""
    settings: RunSettings
    """Settings of its runs; strategy and seed are put in for each."""
    is_other_reading: bool = False
    """Whether it stands for a second way to understand what a paper left open, so that
    its runs are not among those that the paper did."""
    num_seeds: int | None = Field(default=None, ge=1)
    """With how many of the experiment's seeds, the first ones; None: with all."""
    own_pools: bool = False
    """Whether each seed draws a pool of its own from the data, as their ``counts`` say;
    else it draws the starting labels and all random numbers alone."""

    @property
    def bare(self) -> "Condition":
        """The condition, whatever its trainer came to."""
        return self.model_copy(update={"settings": self.settings.bare})

    def over(self, encoder: str) -> "Condition":
        """Return the condition with features of another encoder."""
        return self.model_copy(update={"settings": self.settings.over(encoder)})

    def of(self, strategy: Choice, seed: int) -> RunSettings:
        """Return the settings of the run of one strategy with one seed."""
        changes = {"strategy": strategy, "seed": seed}
        if self.own_pools:
            data = self.settings.data
            options = data.options | {"seed": seed}
            changes["data"] = data.model_copy(update={"options": options})
        return self.settings.model_copy(update=changes)


class Experiment(BaseModel):
    """Strategies compared under some conditions, with the same seeds for all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    """A word that can name a file."""
    title: str
    """Heading of its report."""
    about: str = ""
    """What it shows, and how it departs from what it stands for, in a few sentences."""
    scale: Scale = "cpu"
    conditions: tuple[Condition, ...]
    strategies: tuple[Choice, ...]
    """What is compared, in the order of the tables."""
    seeds: tuple[int, ...]
    """One run of each strategy under each condition for each of these, unless a
    condition takes fewer."""
    subject: str = ""
    """Name of the strategy that the headline is about; empty: all of them."""
    retrainings: int = Field(default=0, ge=0, le=MOST_RUNS)
    """Trainings on one label set of the budget's size, random and even over the
    classes, to see how much of the spread is the chance of training; 0: none."""
    figures: tuple[Figure, ...] = ("accuracy",)
    published: tuple[PublishedTable, ...] = ()
    """What the paper printed for it."""
    footprint: Footprint

    def seeds_of(self, condition: Condition) -> tuple[int, ...]:
        """Return the seeds of one condition."""
        return self.seeds[: condition.num_seeds]

    def continues(self, before: "Experiment") -> bool:
        """Return whether the runs of an earlier experiment belong to this one.

        Args:
            before: The earlier one.

        Returns:
            True if conditions are the same, and trainers came to the same where that
            was written down.
        """
        if len(self.conditions) != len(before.conditions):
            return False
        return all(
            one.bare == other.bare
            and not made_changes(one.settings.made, other.settings.made)
            for one, other in zip(before.conditions, self.conditions, strict=True)
        )

    @field_validator("name")
    @classmethod
    def _can_name_files(cls, name: str) -> str:
        if not re.fullmatch(r"\w[\w.-]*", name) or len(name.encode()) > _LONGEST_NAME:
            raise ValueError(
                "give letters, digits, '_', '-' and '.', since files are named by it, "
                f"and no more than {_LONGEST_NAME} bytes"
            )
        return name

    @model_validator(mode="after")
    def _tells_runs_apart(self) -> Self:
        """Refuse what would put two runs into one place of a table, or none."""
        parts: dict[str, list[str] | list[int]] = {
            "conditions": [condition.name for condition in self.conditions],
            "strategies": [strategy.label for strategy in self.strategies],
            "seeds": list(self.seeds),
        }
        for part, values in parts.items():
            if not values:
                raise ValueError(f"an experiment needs {part}, and none are given")
            if len(set(values)) < len(values):
                raise ValueError(
                    f"{part} are given twice: {values}. Tables could not tell them "
                    "apart; leave one out, or give another name"
                )
        num_runs = math.prod(map(len, parts.values()))
        if num_runs > MOST_RUNS:
            counts = ", ".join(
                f"{len(values):,} {part}" for part, values in parts.items()
            )
            msg = f"{counts} make {num_runs:,} runs; at most {MOST_RUNS:,} are planned"
            raise ValueError(msg)
        return self


def resolved(experiment: Experiment) -> Experiment:
    """Return an experiment that tells what its strategies and trainers come to.

    Results are then kept apart if a default changes in a later version, or if somebody
    edits a strategy or trainer of her own. What was told already stays.
    """
    conditions = [
        one.model_copy(update={"settings": _with_trainer(one.settings)})
        for one in experiment.conditions
    ]
    found = [
        one if one.made else one.as_made(strategies.resolve(one.name, one.options))
        for one in experiment.strategies
    ]
    changes = {"conditions": tuple(conditions), "strategies": tuple(found)}
    return experiment.model_copy(update=changes)


def _with_trainer(settings: RunSettings) -> RunSettings:
    chosen = settings.trainer
    if chosen.made:
        return settings
    trainer = chosen.as_made(training.resolve(chosen.name, chosen.options))
    return settings.model_copy(update={"trainer": trainer})
