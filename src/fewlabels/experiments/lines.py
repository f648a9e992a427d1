"""What the files of a run hold: its description, its start, its rounds."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, Self

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from fewlabels.experiments.settings import RunSettings
from fewlabels.names import Identity
from fewlabels.pool import UNKNOWN, Answers, Pool, Query, Round

SCHEMA = 3
"""Version of the files of a run; the first field of every line."""

Whole = Annotated[int, Field(ge=-(2**31), lt=2**31)]
"""A number that every library can hold."""
_Count = Annotated[int, Field(ge=0, lt=2**31)]


def _checked_share(value: float) -> float:
    if value < 0 or value > 1:  # NaN is neither: nothing could be measured
        raise ValueError("a share is a number from 0 to 1")
    return value


Share = Annotated[float, AfterValidator(_checked_share)]
"""Part of a whole."""


class RoundLine(BaseModel):
    """What is kept of a round. Labels are tied to ids; indices are for convenience."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: int = SCHEMA
    step: Whole
    num_labeled: Whole
    accuracy: Share | None
    median_accuracy: Share | None
    ids: tuple[str, ...]
    """The items asked about."""
    indices: tuple[Whole, ...]
    """Their positions in the pool when they were asked."""
    labels: tuple[Whole | None, ...]
    """Their answers: a class, -1 where the oracle skipped, None where it left open."""
    class_counts: tuple[Whole, ...]
    """Labels per class that the round was trained on."""
    kernel: str | None
    value: float | None
    ceiling: float | None
    tie: bool | None
    record: dict[str, Any]
    """Everything the strategy wanted written down."""

    @model_validator(mode="after")
    def _has_a_label_per_item(self) -> Self:
        if not len(self.ids) == len(self.indices) == len(self.labels):
            raise ValueError("ids, indices and labels are not equally many")
        return self

    @classmethod
    def of(cls, finished: Round, pool: Pool) -> Self:
        """Return the line of a round."""
        indices, answers = finished.query.indices.tolist(), finished.answers
        given = dict(
            zip(answers.indices.tolist(), answers.labels.tolist(), strict=True)
        )
        given |= dict.fromkeys(answers.skipped.tolist(), UNKNOWN)
        record = dict(finished.query.record)
        return cls(
            step=finished.step,
            num_labeled=finished.num_labeled,
            accuracy=finished.accuracy,
            median_accuracy=finished.median_accuracy,
            ids=tuple(pool.ids[index] for index in indices),
            indices=tuple(indices),
            labels=tuple(given.get(index) for index in indices),
            class_counts=finished.class_counts,
            kernel=record.get("kernel"),
            value=finished.query.value,
            ceiling=record.get("ceiling"),
            tie=record.get("tie"),
            record=record,
        )

    def to_json(self) -> str:
        """Return the line, without its end."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False)

    def to_round(self, positions: Mapping[str, int]) -> Round:
        """Return the round, its items found by id; items that are gone are left out."""
        found = [
            (positions[name], label)
            for name, label in zip(self.ids, self.labels, strict=True)
            if name in positions
        ]
        answered = [(i, label) for i, label in found if label not in {None, UNKNOWN}]
        return Round(
            step=self.step,
            num_labeled=self.num_labeled,
            class_counts=self.class_counts,
            accuracy=self.accuracy,
            median_accuracy=self.median_accuracy,
            query=Query(_numbers(i for i, _ in found), self.value, self.record),
            answers=Answers(
                _numbers(i for i, _ in answered),
                _numbers(label for _, label in answered),
                _numbers(i for i, label in found if label == UNKNOWN),
            ),
        )


class TimingLine(BaseModel):
    """What a line of ``timings.jsonl`` may hold: a moment, and numbers by name."""

    model_config = ConfigDict(frozen=True, extra="allow", allow_inf_nan=False)
    __pydantic_extra__: dict[str, float | None] = Field(init=False)

    step: Whole
    finished: datetime | None = None


class _DataFacts(BaseModel):
    num_items: _Count
    num_test: _Count
    classes: list[str]
    shape: list[_Count] = []


class RunDescription(BaseModel):
    """What ``run.json`` has to hold; there may be more."""

    kind: Literal["fewlabels run"]
    settings: RunSettings
    data: _DataFacts
    versions: dict[str, Any] = {}
    made: dict[str, Identity] = {}


class StartFile(BaseModel):
    """What ``start.json`` has to hold."""

    ids: tuple[str, ...]
    labels: tuple[Whole, ...]


def answers_of(written: Mapping[str, int], positions: Mapping[str, int]) -> Answers:
    """Return labels by position; those of items that are gone are left out."""
    there = {positions[n]: label for n, label in written.items() if n in positions}
    return Answers(_numbers(there), _numbers(there.values()))


def has_ended(lines: Sequence[RoundLine]) -> bool:
    """Return whether a run with these rounds is at its end: the last asks nothing."""
    return bool(lines) and not lines[-1].ids


def _numbers(values: Iterable[int | None]) -> Tensor:
    return torch.tensor(list(values), dtype=torch.int64)
