"""How it was made: settings, versions, notes, files and words."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from fewlabels.report.bench.context import Context
from fewlabels.report.bench.sections import Section
from fewlabels.report.facts import FactGroup, class_list, environment_facts, fact_rows
from fewlabels.report.recorded import setting_text
from fewlabels.report.wording import MISSING, count, listed

_SETTINGS = {
    "data": "Data set",
    "trainer": "Trainer",
    "start": "Labels at the start",
    "query": "Labels per query",
    "budget": "Labels at the end",
    "seeds": "Seeds of single purposes",
    "initial_models": "Starting sets tried",
    "zero_shot": "First query by an untrained network",
    "threads": "Threads",
}
_NOT_OF_A_CONDITION = {"strategy", "seed"}
_MOST_NOTES = 20

GLOSSARY = (
    (
        "sample standard deviation",
        "The square root of the sum of squared deviations from the mean, divided by "
        "one less than the number of seeds.",
    ),
    (
        "95 % interval",
        "By Student's t: it covers the true mean in 95 of 100 such experiments, if "
        "accuracies are normal.",
    ),
    (
        "paired t-test",
        "Asks whether the mean difference over seeds is zero, given their spread.",
    ),
    (
        "Wilcoxon",
        "The signed rank test: the same question by ranks, without normality; with "
        "few seeds it cannot become small (five: never below 0.0625).",
    ),
    (
        "Holm",
        "p values made larger so that in at most 5 % of experiments any of the "
        "comparisons together is called significant wrongly.",
    ),
    (
        "d",
        "Effect size of paired differences: their mean divided by their standard "
        "deviation.",
    ),
    ("AUBC", "Area under the budget curve: mean accuracy over the range of labels."),
    (
        "penalty",
        "How often a strategy is beaten significantly, averaged over the others.",
    ),
    (
        "labels saved",
        "Labels that random would need beyond those of a strategy for the same mean "
        "accuracy.",
    ),
    ("coverage", "Share of the classes that have at least one label."),
    ("balance", "Entropy of the labels over the classes; 1 is even, 0 is one class."),
    ("overlap", "Intersection over union (IoU) of two sets of labeled images."),
    ("chance level", "The overlap expected of two independent random choices."),
)
"""Each statistic in a sentence."""


def facts(context: Context) -> tuple[FactGroup, ...]:
    """Return settings of the conditions, data and versions."""
    columns = [
        _settings(one.bare.settings.model_dump())
        for one in context.experiment.conditions
    ]
    shared = {
        "Strategies": listed([who.label for who in context.contenders]),
        "Seeds": ", ".join(map(str, context.experiment.seeds)),
        "Scale": "the paper's" if context.experiment.scale == "paper" else "two cores",
    }
    groups = {
        "Experiment": [shared] * len(columns),
        "Settings": columns,
        "Data": [_data(one.results.cells) for one in context.conditions],
        "Made with": [_environments(one.results.cells) for one in context.conditions],
    }
    return tuple(
        FactGroup(name, rows)
        for name, group in groups.items()
        if (rows := fact_rows(group))
    )


def notes_section(context: Context) -> Section | None:
    """Return what the runs had to say; None if nothing."""
    noted = Counter(note for cell in context.results.cells for note in cell.notes)
    if not noted:
        return None
    ranked = sorted(noted.items(), key=lambda one: (-one[1], one[0]))
    notes = [f"{text} ({count(times, 'run')})" for text, times in ranked[:_MOST_NOTES]]
    if len(ranked) > _MOST_NOTES:
        notes.append(f"{len(ranked) - _MOST_NOTES:,} more notes.")
    return Section(anchor="noted", title="What the runs noted", notes=tuple(notes))


def _settings(settings: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for key, value in settings.items():
        if key not in _NOT_OF_A_CONDITION:
            found[_SETTINGS.get(key, key)] = _text(value)
    return found


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping) and set(value) != {"name", "options"}:
        given = {key: one for key, one in value.items() if one is not None}
        pairs = [f"{key} = {setting_text(one)}" for key, one in given.items()]
        return ", ".join(pairs) or "that of the run"
    return setting_text(value)


def _data(cells: Any) -> dict[str, str]:
    described = [cell.description["data"] for cell in cells if cell.description]
    if not described:
        return {}
    data = described[0]
    found = {}
    if "num_items" in data:
        found["Images to choose from"] = count(data["num_items"])
    if data.get("num_test"):
        found["Held-out images"] = count(data["num_test"])
    if data.get("classes"):
        found["Classes"] = class_list(data["classes"])
    if "hash" in data:
        hashes = dict.fromkeys(str(one.get("hash", MISSING)) for one in described)
        found["Hash of names and contents"] = ", ".join(hashes)
    return found


def _environments(cells: Any) -> dict[str, str]:
    """Return versions and platforms; where runs differ, with how many had each."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for name, value in environment_facts(cell.description).items():
            found.setdefault(name, Counter())[value] += 1
    return {
        name: next(iter(values))
        if len(values) == 1
        else ", ".join(
            f"{value} ({count(n, 'run')})" for value, n in sorted(values.items())
        )
        for name, values in found.items()
    }
