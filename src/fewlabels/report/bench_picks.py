"""Sections about what was asked for: overlap of the picks, and copies among them.

Shapes: A strategies.
"""

from collections.abc import Sequence
from itertools import chain
from math import isfinite, nan
from statistics import mean
from typing import NamedTuple

import numpy as np

from fewlabels.experiments.bench.folder import CellResult
from fewlabels.experiments.evaluation import (
    chance_overlap,
    overlap_across_trials,
    overlap_of_unions,
    overlap_per_trial,
    redundant_share,
)
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
        own_pools = case.results.condition.own_pools
        overlaps = [] if own_pools else overlaps_of(case, most)
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
    results, overlaps = case.results, []
    amounts = {
        line.num_labeled
        for cell in results.cells
        for line in cell.lines
        if cell.acquired(line.num_labeled)
    }
    for amount in evenly_spaced(sorted(amounts), most):
        trials = [
            seed
            for seed in results.seeds
            if all(
                any(line.num_labeled == amount for line in results.of(name, seed).lines)
                for name in results.strategies
            )
        ]
        if trials:
            overlaps.append(_overlap(case, amount, trials))
    return overlaps


def redundancy_section(context: Context) -> Section:
    """Return the copies among the picks, where the experiment is about them."""
    blocks = []
    is_shown = "redundancy" in context.experiment.figures
    for case in context.conditions if is_shown else ():
        runs = {
            who: copies_in(case.results.runs(who.label)) for who in context.contenders
        }
        averages = {
            who: mean(share for *_, share in copies) if copies else nan
            for who, copies in runs.items()
        }
        least = min(filter(isfinite, averages.values()), default=nan)
        table = Table(
            ["Strategy", "Mean", "Worst seed", "Picks", "Seeds"],
            [
                [
                    who.short,
                    Entry(in_percent(averages[who]), averages[who] == least),
                    in_percent(max((share for *_, share in copies), default=nan)),
                    f"{sum(picks for _, picks, _ in copies):,}",
                    f"{len(copies):,}",
                ]
                for who, copies in runs.items()
            ],
            name=case.file_name("redundancy"),
            caption=case.caption(
                "Picks that are copies of each other or of a labeled image (%). Bold: "
                "the fewest."
            ),
        )
        if any(runs.values()):
            blocks.append(Block(heading=case.heading, tables=[table]))
    return Section("redundancy", "Copies among the picks", blocks)


def copies_in(runs: Sequence[CellResult]) -> list[tuple[int, int, float]]:
    """Return the seed, the picks and the share of copies of each run with picks.

    A pick is a copy of another, or of something labeled, if their names differ behind
    the last "#" only.
    """
    shares = []
    for run in runs:
        labeled, copies, num_picks = list(run.start), 0.0, 0
        for line in run.lines:
            known = set(labeled)
            picks = [name for name in dict.fromkeys(line.ids) if name not in known]
            if picks:
                names = labeled + picks
                originals = [name.rpartition("#")[0] or name for name in names]
                groups = np.unique(originals, return_inverse=True)[1].tolist()
                old = range(len(labeled))
                new = range(len(labeled), len(names))
                copies += len(picks) * redundant_share(new, old, groups)
                num_picks += len(picks)
                labeled = names
        if num_picks:
            shares.append((run.cell.settings.seed, num_picks, copies / num_picks))
    return shares


def _overlap(
    case: ConditionContext, amount: int, trials: Sequence[int]
) -> tuple[Overlap, Overlap]:
    results = case.results
    numbers: dict[str, int] = {}

    def numbered(names: Sequence[str]) -> set[int]:
        return {numbers.setdefault(name, len(numbers)) for name in names}

    starts, sets = [], []
    for name in results.strategies:
        runs = [results.of(name, seed) for seed in trials]
        starts.append([numbered(run.start) for run in runs])
        sets.append([numbered((*run.start, *run.acquired(amount))) for run in runs])
    size = len(results.strategies)
    fair, unions = np.full((size, size), np.nan), np.full((size, size), np.nan)
    for i in range(size):
        for j in range(size):
            shared = [a & b for a, b in zip(starts[i], starts[j], strict=True)]
            if i != j:
                unions[i, j] = overlap_of_unions(sets[i], sets[j])
                fair[i, j] = overlap_per_trial(sets[i], sets[j], starts=shared).mean()
            elif len(trials) > 1:
                fair[i, j] = overlap_across_trials(sets[i], sets[j], starts=shared)
    fair_chance = unions_chance = None
    described = next(cell.description for cell in results.cells if cell.description)
    pool_size = described["data"]["num_items"]
    start, begun = max(map(len, starts[0])), len(set().union(*chain(*starts)))
    picked, rest = amount - start, pool_size - begun
    if 0 < picked <= min(pool_size - start, rest):
        joined = round(rest * (1 - (1 - picked / rest) ** len(trials)))
        fair_chance = chance_overlap(pool_size - start, picked, picked)
        unions_chance = chance_overlap(rest, joined, joined, shared=begun)
    return Overlap(amount, fair, fair_chance), Overlap(amount, unions, unions_chance)


def _overlap_table(
    case: ConditionContext, name: str, meaning: str, overlaps: Sequence[Overlap]
) -> Table:
    """Return overlaps of strategies at some numbers of labels, darker for more."""
    largest = max(1e-9, *(float(np.nanmax(overlap.shares)) for overlap in overlaps))

    def entry(share: float) -> Entry:
        shade = share / largest if isfinite(share) else None
        return Entry(in_percent(share), share=shade)

    rows: list[Row] = [
        [
            f"{overlap.num_labels:,}",
            who.short,
            *map(entry, shares),
            in_percent(overlap.chance),
        ]
        for overlap in overlaps
        for who, shares in zip(case.contenders, overlap.shares.tolist(), strict=True)
    ]
    size = len(case.contenders)
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
