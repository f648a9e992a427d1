"""Tables and pictures of docs/experiments.md, made of records of finished benchmarks.

``make study-report`` writes them between their marks; :mod:`benchmarks.study_report`
calls this module.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.study import RESULTS
from matplotlib.figure import Figure

from fewlabels.experiments.bench import published

Run = Mapping[str, Any]
_PAPER = (published.TABLE_3_ZERO_SHOT, None, published.TABLE_3_SINGLE_SHOT)
"""What the paper has to say about each way of asking once."""


def runs_of(name: str) -> dict[str, list[Run]]:
    """Return the runs of a record by strategy, in the order of the record."""
    found: dict[str, list[Run]] = {}
    for text in (RESULTS / f"{name}.jsonl").read_text().splitlines():
        line = json.loads(text)
        found.setdefault(line["strategy"], []).append(line)
    return found


def copies() -> str:
    """Return who asks for copies, in Markdown."""
    rows = [
        "| strategy | redundant picks (%) | worst seed | accuracy at 30 labels "
        "| at 50 labels |",
        "|---" * 5 + "|",
    ]
    for name, runs in runs_of("repeated_mnist").items():
        shares = [100 * _redundant(run) for run in runs]
        reached = [_spread(_accuracies(runs, number)) for number in (30, 50)]
        cells = (f"{mean(shares):.1f}", f"{max(shares):.1f}", *reached)
        rows.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join([*rows, ""])


def _redundant(run: Run) -> float:
    """Return which share of a run's picks repeats what was picked or labeled."""
    seen = {name.rpartition("#")[0] for name in run["start"]}
    picks = [name.rpartition("#")[0] for one in run["rounds"] for name in one["ids"]]
    num_new = len(seen | set(picks)) - len(seen)
    return 1 - num_new / len(picks)


def _accuracies(runs: Sequence[Run], number: int) -> list[float]:
    return [
        100 * one["accuracy"]
        for run in runs
        for one in run["rounds"]
        if one["num_labeled"] == number
    ]


def _spread(numbers: Sequence[float], digits: int = 1) -> str:
    return f"{mean(numbers):.{digits}f} ± {stdev(numbers):.{digits}f}"


def draw_copies(path: Path) -> None:
    """Draw the share of redundant picks of every seed."""
    found = runs_of("repeated_mnist")
    figure = Figure(figsize=(6.4, 2.2), layout="constrained")
    axes = figure.subplots()
    for place, runs in enumerate(reversed(found.values())):
        shares = [100 * _redundant(run) for run in runs]
        axes.plot(shares, [place] * len(shares), "o", color="#3f6fb0", alpha=0.4, ms=6)
    axes.set_yticks(range(len(found)), reversed(found), fontsize=9)
    axes.set_xlim(-3, 103)
    axes.set_ylim(-0.6, len(found) - 0.4)
    axes.set_xlabel("redundant picks, percent; one dot per seed", fontsize=9)
    axes.tick_params(axis="x", labelsize=8)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#e6e6e6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def shots() -> str:
    """Return what one query is worth, and what the paper prints, in Markdown."""
    found = runs_of("digits_shots")
    ways = ("zero-shot, all asked for", "zero-shot, ten given", "single-shot")
    heads = " | | ".join(ways)
    labels = " | ".join("40 | 60" for _ in ways)
    rows = [f"| | {heads} | |", "|---" * 7 + "|", f"| labels | {labels} |"]
    for name, runs in found.items():
        cells = [
            _spread(
                _accuracies([one for one in runs if one["condition"] == wanted], n), 2
            )
            for way in ways
            for n in (40, 60)
            for wanted in (f"{way}, {n} labels",)
        ]
        rows.append(f"| {name} | {' | '.join(cells)} |")
    for name in found:
        rows.append(f"| *{name}, paper* | {' | '.join(_printed(name))} |")
    return "\n".join([*rows, ""])


def _printed(name: str) -> Iterator[str]:
    for table in _PAPER:
        for number in (40, 60):
            if table is None:
                yield ""
            else:
                one = table.cell(name, number)
                yield f"*{one.mean:.2f} ± {one.deviation:.2f}*"
