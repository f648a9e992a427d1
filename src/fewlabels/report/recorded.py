"""What the folders of runs hold, read once and given the names of the page."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from fewlabels.errors import UsageError
from fewlabels.runs import Choice, RoundLine, RunFolder, has_ended

NUM_HUES = 6
"""Colors to tell strategies apart; see ``style.css``."""

_FIXED_HUES = {"random": 0, "npc": 1}


@dataclass(frozen=True)
class RecordedRun:
    """One run as its folder describes it."""

    name: str
    """What the page calls it: its strategy, and what else tells it from the others."""
    hue: int
    """Number of its color; the same for all runs of a strategy."""
    description: Mapping[str, Any]
    """Content of ``run.json``."""
    start: Mapping[str, int]
    """Ids and labels that the run began with."""
    lines: tuple[RoundLine, ...]
    """The finished rounds."""
    timings: Mapping[int, Mapping[str, Any]]
    """What was measured of each round, by its number."""

    @property
    def settings(self) -> Mapping[str, Any]:
        """Settings of the run."""
        settings: Mapping[str, Any] = self.description["settings"]
        return settings

    @property
    def data(self) -> Mapping[str, Any]:
        """Facts about the data set; empty where none were written down."""
        facts: Mapping[str, Any] = self.description.get("data", {})
        return facts

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""
        return tuple(map(str, self.data.get("classes", ())))

    @property
    def num_test(self) -> int:
        """Number of held-out images that accuracy is measured on."""
        return int(self.data.get("num_test", 0))

    @property
    def is_finished(self) -> bool:
        """Whether the last round asked nothing more."""
        return has_ended(self.lines)

    @property
    def measured(self) -> tuple[tuple[int, float], ...]:
        """Number of labels and accuracy of each round that was measured, ascending."""
        found = {
            line.num_labeled: line.accuracy
            for line in self.lines
            if line.accuracy is not None
        }
        return tuple(sorted(found.items()))

    def class_name(self, label: int) -> str:
        """Return the name of a class, or its number where it has no name."""
        return self.classes[label] if label < len(self.classes) else str(label)


def read_runs(folders: Sequence[RunFolder]) -> tuple[RecordedRun, ...]:
    """Return what the folders of some runs hold, in the order given."""
    if not folders:
        raise UsageError("There is no run to report on; give at least one folder.")
    descriptions = [folder.description() for folder in folders]
    settings = [description["settings"] for description in descriptions]
    hues = _hues([chosen_name(one, "strategy") for one in settings])
    names = _names(settings, [folder.path.name for folder in folders])
    return tuple(
        RecordedRun(
            name=name,
            hue=hue,
            description=description,
            start=folder.start() or {},
            lines=tuple(folder.lines()),
            timings={entry["step"]: entry for entry in folder.timings()},
        )
        for folder, description, name, hue in zip(
            folders, descriptions, names, hues, strict=True
        )
    )


def chosen_name(settings: Mapping[str, Any], key: str) -> str:
    """Return the name of what was chosen: a data set, a strategy or a trainer."""
    chosen = settings.get(key, "unknown")
    return str(chosen["name"] if isinstance(chosen, Mapping) else chosen)


def data_name(settings: Mapping[str, Any]) -> str:
    """Return a short name of the data set; for a path its last part."""
    given = chosen_name(settings, "data")
    return PurePosixPath(given.replace("\\", "/")).name or given


def setting_text(value: Any) -> str:
    """Return a setting as text: a name with its options, a number, anything else.

    Example:
        >>> setting_text({"name": "npc", "options": {"draws": 100}})
        'npc (draws = 100)'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and set(value) == {"name", "options"}:
        return Choice.model_validate(value).label
    if isinstance(value, Mapping):
        given = {key: one for key, one in value.items() if one is not None}
        pairs = [f"{key} = {setting_text(one)}" for key, one in given.items()]
        return ", ".join(pairs) or "that of the run"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _names(settings: Sequence[Mapping[str, Any]], folders: Sequence[str]) -> list[str]:
    """Name runs by strategy; where that is not enough, add what they differ in."""
    names = [chosen_name(one, "strategy") for one in settings]
    full = [setting_text(one.get("strategy", "unknown")) for one in settings]
    names = _told_apart(names, full)
    for key in (key for key in settings[0] if key not in {"strategy", "data"}):
        texts = [setting_text(one.get(key)) for one in settings]
        if len(set(texts)) > 1:
            word = "" if key == "trainer" else f"{key.replace('_', ' ')} "
            added = [f"{n}, {word}{t}" for n, t in zip(names, texts, strict=True)]
            names = _told_apart(names, added)
    added = [f"{n} ({f})" for n, f in zip(names, folders, strict=True)]
    return _told_apart(names, added)


def _told_apart(names: Sequence[str], longer: Sequence[str]) -> list[str]:
    """Return the longer name where the shorter one names several runs."""
    times = Counter(names)
    return [
        long if times[name] > 1 else name
        for name, long in zip(names, longer, strict=True)
    ]


def _hues(strategies: Sequence[str]) -> list[int]:
    """Give each strategy a color: random is grey, NPC is blue, on every page."""
    given = dict(_FIXED_HUES)
    free = NUM_HUES - len(_FIXED_HUES)
    for strategy in strategies:
        num_others = len(given) - len(_FIXED_HUES)
        given.setdefault(strategy, len(_FIXED_HUES) + num_others % free)
    return [given[strategy] for strategy in strategies]
