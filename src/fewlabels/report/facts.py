"""Settings, data and versions of runs as rows of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fewlabels.integers import count
from fewlabels.report.recorded import RecordedRun, setting_text
from fewlabels.report.wording import MISSING
from fewlabels.runs import made_of

_SETTINGS = {
    "data": "Data set",
    "strategy": "Strategy",
    "trainer": "Trainer",
    "start": "Labels at the start",
    "query": "Labels per query",
    "budget": "Labels at the end",
    "seed": "Seed",
    "seeds": "Separate seeds",
    "initial_models": "Starting sets tried",
    "zero_shot": "First query by an untrained network",
    "threads": "Threads",
}
HASH = "Hash of names and contents"
"""What the fact about the identity of data is called."""

_LARGEST_CLASS_LIST = 10


@dataclass(frozen=True)
class FactRow:
    """One thing that is known of every run."""

    name: str
    values: tuple[str, ...]
    """One value per run, or a single one that is true of all."""
    is_code: bool = False
    """Whether the values are meant for machines: hashes and the like."""


@dataclass(frozen=True)
class FactGroup:
    """Rows under one heading."""

    name: str
    rows: tuple[FactRow, ...]


def fact_groups(runs: Sequence[RecordedRun]) -> tuple[FactGroup, ...]:
    """Return all that is known of the runs, by subject."""
    groups = {
        "Settings": [settings_facts(run.settings) for run in runs],
        "Data": [data_facts(run.data) for run in runs],
        "Created with": [_environment(run) for run in runs],
    }
    return grouped(groups)


def grouped(
    groups: Mapping[str, Sequence[Mapping[str, str]]],
) -> tuple[FactGroup, ...]:
    """Return facts by subject, a column each; subjects without a fact are left out."""
    return tuple(
        FactGroup(name, rows)
        for name, columns in groups.items()
        if (rows := fact_rows(columns))
    )


def fact_rows(columns: Sequence[Mapping[str, str]]) -> tuple[FactRow, ...]:
    """Put the columns side by side; what is the same everywhere is said once."""
    rows = []
    for name in dict.fromkeys(name for column in columns for name in column):
        values = tuple(column.get(name, MISSING) for column in columns)
        said = values[:1] if len(set(values)) == 1 else values
        rows.append(FactRow(name, said, is_code="hash" in name.lower()))
    return tuple(rows)


def settings_facts(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return settings as people read them."""
    return {_SETTINGS.get(key, key): setting_text(settings[key]) for key in settings}


def data_facts(data: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run wrote down of its data."""
    found = {}
    if "num_items" in data:
        found["Images to choose from"] = count(data["num_items"])
    if "num_test" in data:
        found["Held-out images"] = (
            count(data["num_test"]) if data["num_test"] else "none"
        )
    if data.get("classes"):
        found["Classes"] = class_list(list(map(str, data["classes"])))
    if "shape" in data:
        found["Image shape"] = " × ".join(map(str, data["shape"]))
    if "hash" in data:
        found[HASH] = str(data["hash"])
    return found


def class_list(classes: Sequence[str]) -> str:
    """Return how many classes there are, and the first of them by name."""
    shown = ", ".join(classes[:_LARGEST_CLASS_LIST])
    more = len(classes) - _LARGEST_CLASS_LIST
    rest = f" and {more:,} more" if more > 0 else ""
    return f"{len(classes):,}: {shown}{rest}"


def _environment(run: RecordedRun) -> dict[str, str]:
    found = environment_facts(run.description)
    for part, made in made_of(run.description, {}).items():
        for module, source in made.source.items():
            found[f"Source hash of '{module}' ({part})"] = source
    finished = [t["finished"] for t in run.timings.values() if "finished" in t]
    if finished:
        found["Last round finished"] = str(finished[-1])
    return found


def environment_facts(description: Mapping[str, Any]) -> dict[str, str]:
    """Return versions and platform, where they were written down."""
    versions: Mapping[str, Any] = description.get("versions", {})
    found = {name: str(version) for name, version in versions.items()}
    if "platform" in description:
        found["Platform"] = str(description["platform"])
    return found
