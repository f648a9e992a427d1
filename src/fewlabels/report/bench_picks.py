"""Sections about what was asked for: overlap of the picks, and copies among them.

Shapes: A strategies.
"""

from collections.abc import Sequence
from itertools import chain
from math import isfinite, nan
from statistics import mean
from typing import NamedTuple

import numpy as np

from fewlabels.experiments import evaluation
from fewlabels.experiments.bench.folder import CellResult
from fewlabels.experiments.evaluation.comparisons import Array
from fewlabels.report.bench_sections import ConditionContext, Context
from fewlabels.report.figures import evenly_spaced
from fewlabels.report.page import Block, Column, Entry, Row, Section, Table
from fewlabels.report.wording import in_percent

_FAIR = "Trial by trial, starting labels left out"
_PAPER = "As in the paper: unions over the trials, starting labels left in"


class Overlap(NamedTuple):
    """How alike the picks of strategies are at one number of labels, as shares."""

    num_labels: int
    shares: Array
    """Of each two strategies, (A, A); on the diagonal a strategy against itself with
    other seeds, NaN where that is not known."""
    chance: float | None
    """Overlap of random picks; None where so many cannot be picked."""


def overlap_section(context: Context) -> Section:
    """Return how alike the picks of two strategies are (Fig. 1 of the paper)."""
    most = 3 if "overlap" in context.experiment.figures else 1
    blocks = []
    for case in context.conditions if len(context.contenders) > 1 else ():
        # With pools of their own, seeds share some images only.
        overlaps = [] if case.condition.own_pools else overlaps_of(case, most)
        if overlaps:
            fair, unions = zip(*overlaps, strict=True)
            tables = [
                _overlap_table(case, "overlap", _FAIR, fair),
                _overlap_table(case, "overlap-unions", _PAPER, unions),
            ]
            blocks.append(Block(heading=case.heading, tables=tables))
    return Section("overlap", "Overlap of the picks", blocks)


def overlaps_of(case: ConditionContext, most: int) -> list[tuple[Overlap, Overlap]]:
    """Return the overlaps at no more than so many numbers of labels.

    The first of each two is trial by trial, without the start; the other one is the
    paper's, of the unions over all trials.
    """
    reached = {
        cell: {row.num_labeled for row in cell.lines if cell.acquired(row.num_labeled)}
        for cell in case.cells
    }
    amounts = sorted(set().union(*reached.values()))
    overlaps = []
    for amount in evenly_spaced(amounts, most):
        trials = [
            seed
            for seed in case.seeds
            if all(amount in reached[case.of(name, seed)] for name in case.strategies)
        ]
        if trials:
            overlaps.append(_overlap(case, amount, trials))
    return overlaps


def redundancy_section(context: Context) -> Section:
    """Return the copies among the picks, where the experiment is about them."""
    blocks = []
    is_shown = "redundancy" in context.experiment.figures
    for case in context.conditions if is_shown else ():
        runs = [copies_in(case.runs(who.label)) for who in context.contenders]
        means = [mean(share for _, share in own) if own else nan for own in runs]
        least = min(filter(isfinite, means), default=nan)
        rows = list[Row]()
        for who, own, average in zip(context.contenders, runs, means, strict=True):
            share = Entry(in_percent(average), average == least)
            worst = in_percent(max((share for _, share in own), default=nan))
            num_picks = sum(picks for picks, _ in own)
            rows.append([who.short, share, worst, f"{num_picks:,}", f"{len(own):,}"])
        table = Table(
            ["Strategy", "Mean", "Worst seed", "Picks", "Seeds"],
            rows,
            name=case.file_name("redundancy"),
            caption=case.caption(
                "Picks that are copies of each other or of a labeled image (%). Bold: "
                "the fewest."
            ),
        )
        if any(runs):
            blocks.append(Block(heading=case.heading, tables=[table]))
    return Section("redundancy", "Copies among the picks", blocks)


def copies_in(runs: Sequence[CellResult]) -> list[tuple[int, float]]:
    """Return the picks and the share of copies of each run with picks.

    A pick is a copy of another, or of something labeled, if their names differ behind
    the last "#" only.
    """
    shares = []
    for run in runs:
        picks = {name for line in run.lines for name in line.ids}.difference(run.start)
        picked, labeled = (
            {name.rpartition("#")[0] or name for name in names}
            for names in (picks, run.start)
        )
        if picks:
            num_copies = len(picks) - len(picked - labeled)
            shares.append((len(picks), num_copies / len(picks)))
    return shares


def _overlap(
    case: ConditionContext, amount: int, trials: Sequence[int]
) -> tuple[Overlap, Overlap]:
    numbers: dict[str, int] = {}

    def numbered(names: Sequence[str]) -> set[int]:
        return {numbers.setdefault(name, len(numbers)) for name in names}

    starts, sets, size = [], [], len(case.strategies)
    for name in case.strategies:
        runs = [case.of(name, seed) for seed in trials]
        starts.append([numbered(run.start) for run in runs])
        sets.append([numbered((*run.start, *run.acquired(amount))) for run in runs])
    fair, unions = np.full((2, size, size), np.nan)
    for i, j in np.ndindex(size, size):
        one, other = sets[i], sets[j]
        shared = [a & b for a, b in zip(starts[i], starts[j], strict=True)]
        if i != j:
            unions[i, j] = evaluation.overlap_of_unions(one, other)
            fair[i, j] = evaluation.overlap_per_trial(one, other, starts=shared).mean()
        elif len(trials) > 1:
            fair[i, j] = evaluation.overlap_across_trials(one, other, starts=shared)
    fair_chance = unions_chance = None
    described = next(cell.description for cell in case.cells if cell.description)
    pool_size = described["data"]["num_items"]
    start, begun = max(map(len, starts[0])), len(set().union(*chain(*starts)))
    picked, rest = amount - start, pool_size - begun
    if 0 < picked <= min(pool_size - start, rest):
        joined = round(rest * (1 - (1 - picked / rest) ** len(trials)))
        fair_chance = evaluation.chance_overlap(pool_size - start, picked, picked)
        unions_chance = evaluation.chance_overlap(rest, joined, joined, shared=begun)
    return Overlap(amount, fair, fair_chance), Overlap(amount, unions, unions_chance)


def _overlap_table(
    case: ConditionContext, name: str, meaning: str, overlaps: Sequence[Overlap]
) -> Table:
    """Return overlaps of strategies at some numbers of labels, darker for more."""
    largest = max(1e-9, *(float(np.nanmax(overlap.shares)) for overlap in overlaps))
    rows, size = list[Row](), len(case.contenders)
    for amount, shares, chance in overlaps:
        for who, values in zip(case.contenders, shares.tolist(), strict=True):
            entries = [
                Entry(in_percent(v), share=v / largest if isfinite(v) else None)
                for v in values
            ]
            rows.append([f"{amount:,}", who.short, *entries, in_percent(chance)])
    return Table(
        [
            "Labels",
            Column("Strategy", is_text=True),
            *(who.short for who in case.contenders),
            Column("chance", is_quiet=True),
        ],
        rows,
        name=case.file_name(name),
        caption=case.caption(f"Overlap (IoU, %) of the picks. {meaning}."),
        breaks=range(size, len(rows), size),
    )
