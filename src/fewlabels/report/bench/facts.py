"""How it was made: settings, versions, notes, files and words."""

from collections import Counter
from typing import Any

from fewlabels.integers import count
from fewlabels.report.bench.context import Context
from fewlabels.report.bench.sections import Section
from fewlabels.report.facts import (
    HASH,
    FactGroup,
    data_facts,
    environment_facts,
    grouped,
    settings_facts,
)
from fewlabels.report.wording import MISSING, listed

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
        "accuracies are normally distributed.",
    ),
    (
        "paired t-test",
        "Asks whether the mean difference over seeds is zero, given their spread.",
    ),
    (
        "Wilcoxon",
        "The signed-rank test: the same question by ranks, without assuming "
        "normality; with few seeds p cannot be small (with five, never below 0.0625).",
    ),
    (
        "Holm",
        "p-values adjusted so that in at most 5 % of experiments any of the "
        "comparisons is wrongly called significant.",
    ),
    (
        "d",
        "Effect size of paired differences: their mean divided by their standard "
        "deviation.",
    ),
    ("AUBC", "Area under the budget curve: mean accuracy over the range of labels."),
    (
        "penalty",
        "How often a strategy is significantly beaten, averaged over the others.",
    ),
    (
        "labels saved",
        "How many random labels reach the same mean accuracy, and so are saved.",
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
        settings_facts(
            one.bare.settings.model_dump(mode="json", exclude=_NOT_OF_A_CONDITION)
        )
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
        "Created with": [
            _environments(one.results.cells) for one in context.conditions
        ],
    }
    return grouped(groups)


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


def _data(cells: Any) -> dict[str, str]:
    described = [cell.description["data"] for cell in cells if cell.description]
    found = data_facts(described[0]) if described else {}
    if HASH in found:
        hashes = dict.fromkeys(str(one.get("hash", MISSING)) for one in described)
        found[HASH] = ", ".join(hashes) if len(hashes) < 4 else f"{len(hashes)} of them"
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
