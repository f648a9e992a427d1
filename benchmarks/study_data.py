"""The record of the study, as numbers that can be compared."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import mean
from typing import Any

from benchmarks.study import AGAIN, AT_ONCE, HEADS, ORACLE, RECORD, SELECTORS, SOURCES

EACH = (1, 2, 4)
"""Labels for each class at which strategies are compared."""

COMPARED = HEADS[:3]
"""Learners that strategies are compared with; the fourth serves one question only."""

Scores = dict[tuple[str, int], float]
"""Percentages by data set and pool."""


@dataclass(frozen=True)
class Study:
    """The record of one stage."""

    scores: Mapping[tuple[str, str, str, int], Scores]
    """By learner, strategy, way of asking, and labels for each class."""
    retrained: Mapping[tuple[str, str], Sequence[float]]
    """Percentages of trainings on one label set, by learner and data set."""
    lines: Sequence[Mapping[str, Any]]
    """The record itself, of runs that ask."""
    names: Sequence[str] = tuple(one.name for one in SOURCES if not one.is_slow)
    """Data sets that count; slow ones have fewer pools and stand by themselves."""

    @classmethod
    def read(cls, stage: str, path: Path = RECORD) -> "Study":
        """Return what is in the record of a stage."""
        classes = {one.name: one.num_classes for one in SOURCES}
        scores: dict[tuple[str, str, str, int], Scores] = defaultdict(dict)
        retrained: dict[tuple[str, str], list[float]] = defaultdict(list)
        lines = []
        for text in path.read_text().splitlines() if path.exists() else ():
            line = json.loads(text)
            if line["stage"] != stage:
                continue
            if line["selector"] == AGAIN:
                found = retrained[line["head"], line["data"]]
                found.append(100 * line["accuracy"][-1])
                continue
            lines.append(line)
            each = classes[line["data"]]
            way = "at once" if line["query"] == AT_ONCE * each else "loop"
            for number, accuracy in zip(line["labels"], line["accuracy"], strict=True):
                place = (line["head"], line["selector"], way, number // each)
                scores[place][line["data"], line["pool"]] = 100 * accuracy
        return cls(scores, retrained, lines)

    @cached_property
    def heads(self) -> list[str]:
        """The learners of which there is something."""
        there = {head for head, *_ in self.scores}
        return [head for head in HEADS if head in there]

    def selectors(self, head: str) -> list[str]:
        """Return the strategies that were tried with a learner."""
        there = {name for own, name, *_ in self.scores if own == head}
        return [name for name in (*SELECTORS, ORACLE) if name in there]

    def each(self, head: str) -> list[int]:
        """Return at how many labels for each class a learner was measured."""
        there = {number for own, _, _, number in self.scores if own == head}
        return [number for number in EACH if number in there]

    def data(self, head: str) -> list[str]:
        """Return the data sets that every strategy was tried on with a learner."""
        found = [
            {data for data, _ in self.scores[head, name, "loop", 2]}
            for name in self.selectors(head)
        ]
        shared = set.intersection(*found) if found else set()
        return [name for name in self.names if name in shared]

    def pools(self, head: str, data: Sequence[str]) -> list[int]:
        """Return the pools on which all strategies are whole on some data sets."""
        found = [
            {pool for _, pool in scores if all((one, pool) in scores for one in data)}
            for (own, _, way, each), scores in self.scores.items()
            if own == head and way == "loop" and each in EACH
        ]
        return sorted(set.intersection(*found)) if found else []

    def shared_pools(self, heads: Sequence[str], data: Sequence[str]) -> list[int]:
        """Return the pools that are whole with each of some learners."""
        found = [set(self.pools(head, data)) for head in heads]
        return sorted(set.intersection(*found))

    def means(
        self,
        head: str,
        name: str,
        each: int,
        data: Sequence[str],
        way: str = "loop",
        *,
        pools: Sequence[int] | None = None,
    ) -> list[float]:
        """Return the mean over data sets on each pool that is whole, or on some."""
        scores = self.scores[head, name, way, each]
        some = self.pools(head, data) if pools is None else pools
        return [mean(scores[one, pool] for one in data) for pool in some]


def whole(study: Study, heads: Sequence[str] = COMPARED) -> dict[str, list[str]]:
    """Return learners whose runs can be compared, and their data sets."""
    found = {head: study.data(head) for head in study.heads if head in heads}
    return {
        head: data
        for head, data in found.items()
        if data and len(study.pools(head, data)) > 1
    }


def described(study: Study) -> str:
    """Say how many pools and data sets stand behind the numbers."""
    alike: dict[str, list[str]] = defaultdict(list)
    for head, data in whole(study).items():
        told = f"{len(study.pools(head, data))} pools of {' / '.join(data)}"
        alike[told].append(head)
    return "; ".join(f"{' and '.join(heads)}: {told}" for told, heads in alike.items())
