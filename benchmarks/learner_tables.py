"""The tables of docs/learners.md, from the record of ``benchmarks/learners.py``."""

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean, stdev

from benchmarks.learners import (
    POOLS,
    RECORD,
    RIVAL,
    SOURCES,
    TIMES,
    Source,
    place_of,
    recorded,
    rows,
)

from fewlabels.experiments import evaluation

Found = Mapping[tuple[str, str, int], Mapping[str, Mapping[int, float]]]
"""Percentages by data, pool and number of labels, then by learner and seed."""
_FEWEST_TO_TEST = 3
_COMMON_SEEDS = range(5)
_NUM_IN_SHORT = 8
_ALWAYS_IN_SHORT = {"fixmatch", "supervised"}


def parts(path: Path = RECORD) -> dict[str, Callable[[], str]]:
    """Return what makes each part of the page, by the name in its mark."""
    found = found_in(path)
    tables: dict[str, Callable[[], str]] = {
        f"learners on {source.name.replace('-', ' ')}": partial(
            by_labels, found, source
        )
        for source in SOURCES
    }
    return {
        "learners in short": lambda: in_short(found),
        "learners missing": lambda: missing(found),
        **tables,
    }


def found_in(path: Path) -> Found:
    """Return what the record says."""
    found: dict[tuple[str, str, int], dict[str, dict[int, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for line in recorded(path):
        *column, learner, seed = place_of(line)
        found[tuple(column)][learner][seed] = 100 * line["accuracy"]
    return found


def missing(found: Found) -> str:
    """Return how much of the plan has been done."""
    planned = sum(
        len(POOLS) * len(source.num_labels) * row.num_seeds
        for source in SOURCES
        for row in rows(source)
    )
    done = sum(len(seeds) for column in found.values() for seeds in column.values())
    if done == planned:
        return f"All {planned:,} trainings are in the record."
    return (
        f"**So far {done:,} of {planned:,} trainings are in the record**: learners "
        "that take steps have fewer than five seeds in many places."
    )


def in_short(found: Found) -> str:
    """Return means at the middle number of labels, even / long-tailed, and seconds.

    Rows are the learners that do best over all columns, those that are best in one, and
    the baselines.
    """
    columns = [(one.name, pool, one.num_labels[1]) for one in SOURCES for pool in POOLS]
    means = [
        {
            name: mean(seeds[seed] for seed in _COMMON_SEEDS)
            for name, seeds in found.get(column, {}).items()
            if seeds.keys() >= set(_COMMON_SEEDS)
        }
        for column in columns
    ]
    labels = dict.fromkeys(row.label for source in SOURCES for row in rows(source))
    seconds = json.loads(TIMES.read_text())["seconds"]
    times = [seconds[name] for name in ("digits", "cifar10")]
    heads = [f"{one.name}, {one.num_labels[1]}" for one in SOURCES]
    heads.append("seconds")
    lines = [f"| learner | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
    ranked = sorted(labels, key=partial(standing, means), reverse=True)
    for rank, name in enumerate(ranked):
        values = [shown(own, name) for own in means]
        values += [f"{own[name]:.2g}" if name in own else "" for own in times]
        is_best = any("**" in cell for cell in values)
        if rank >= _NUM_IN_SHORT and not is_best and name not in _ALWAYS_IN_SHORT:
            continue
        cells = [paired(*pair) for pair in zip(values[::2], values[1::2], strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def standing(means: Sequence[Mapping[str, float]], name: str) -> tuple[bool, float]:
    """Return whether a learner was tried where the rival was, and how it did there.

    How it did: how far it is above the mean of all that were.
    """
    tried = [own for own in means if RIVAL in own]
    if not all(name in own for own in tried):
        return False, 0.0
    return True, mean(own[name] - mean(own.values()) for own in tried)


def paired(first: str, second: str) -> str:
    """Return two numbers that stay on one line; one that is missing is a dash."""
    return f"{first or '–'}/{second or '–'}"


def shown(means: Mapping[str, float], name: str) -> str:
    """Return a mean, in bold type if it is the highest; nothing if there is none."""
    if name not in means:
        return ""
    percent = f"{means[name]:.1f}"
    return f"**{percent}**" if means[name] == max(means.values()) else percent


def by_labels(found: Found, source: Source) -> str:
    """Return the two tables of a data set: mean, deviation and worst."""
    lines: list[str] = []
    for pool in POOLS:
        columns = [
            found.get((source.name, pool, number), {}) for number in source.num_labels
        ]
        marked = [significant(column) for column in columns]
        heads = [f"{number} labels" for number in source.num_labels]
        lines += ["", f"{pool.capitalize()} pools:", ""]
        lines += [f"| learner | {' | '.join(heads)} |", "|---" * (1 + len(heads)) + "|"]
        for name in (row.label for row in rows(source)):
            if not any(name in column for column in columns):
                continue
            cells = [
                summary(list(column.get(name, {}).values())) + marks.get(name, "")
                for column, marks in zip(columns, marked, strict=True)
            ]
            lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines[1:])


def significant(found: Mapping[str, Mapping[int, float]]) -> dict[str, str]:
    """Mark learners that differ from the rival by paired t tests and Holm."""
    rival = found.get(RIVAL, {})
    tests = {}
    for name in found.keys() - {RIVAL}:
        seeds = sorted(found[name].keys() & rival.keys())
        if len(seeds) >= _FEWEST_TO_TEST:
            pair = {name: found[name], RIVAL: rival}
            values = {one: [own[seed] for seed in seeds] for one, own in pair.items()}
            tests[name] = evaluation.paired_tests(values, against=RIVAL)[0]
    corrected = evaluation.holm([one.t_p for one in tests.values()])
    return {
        name: " ▲" if one.difference > 0 else " ▼"
        for (name, one), p in zip(tests.items(), corrected, strict=True)
        if p < 0.05
    }


def summary(values: Sequence[float]) -> str:
    """Return mean, standard deviation and worst of some accuracies."""
    if len(values) < 2:
        return ""
    return f"{mean(values):.1f} ± {stdev(values):.1f} ({min(values):.1f})"
