"""How alike the picks of two strategies are (Fig. 1 of the paper)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from fewlabels.bench.results import CellResult
from fewlabels.evaluation import (
    chance_overlap,
    overlap_across_trials,
    overlap_of_unions,
    overlap_per_trial,
)
from fewlabels.integers import count
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.heatmaps import Heatmap, heatmaps_figure, page_heatmap
from fewlabels.report.bench.sections import Block, FigureFile, PanelRow, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import in_percent
from fewlabels.report.wording import MISSING

_MOST = 3
"""Numbers of labels that are shown."""

_FEW = 3
"""Strategies up to which a table of pairs says it all."""

_ABOUT_MAPS = (
    "The dashed diagonal of the fair comparison is a strategy against itself on "
    "different seeds. Panels in a row share one color scale."
)
_PAPER = "As in the paper: unions, starting labels left in"
_FAIR = "Fair: trial by trial, starting labels left out"


@dataclass(frozen=True, eq=False)
class Overlap:
    """The overlaps at one number of labels, as shares."""

    num_labels: int
    num_trials: int
    unions: NDArray[np.float64]
    """The paper's: of the unions over all trials, (A, A)."""
    fair: NDArray[np.float64]
    """Trial by trial, without the start, (A, A); on the diagonal a strategy against
    itself with other seeds, NaN with a single trial."""
    unions_chance: float | None
    """What random picks would come to; None where the size of the pool is unknown."""
    fair_chance: float | None


def overlap_section(context: Context) -> Section | None:
    """Return the section about overlaps; None with a single strategy."""
    if len(context.contenders) < 2:
        return None
    is_asked = "overlap" in context.experiment.figures
    most = _MOST if is_asked else 1
    found = [
        (one, overlaps_of(one, most))
        for one in context.conditions
        if not one.results.condition.own_pools  # they share some images only
    ]
    found = [(one, overlaps) for one, overlaps in found if overlaps]
    if not found:
        return None
    is_small = not is_asked and len(context.contenders) <= _FEW
    return Section(
        anchor="overlap",
        title="Overlap of the picks",
        notes=(
            "Intersection over union, in percent, of the images labeled for two "
            "strategies. The paper compares the unions over all trials, starting "
            "labels included; that grows with the number of trials and with the "
            "labels both started with. The fair comparison is trial by trial and only "
            "of the acquired labels: compare it with the chance level, the overlap "
            "expected of two random choices.",
            *(() if is_small else (_ABOUT_MAPS,)),
        ),
        blocks=(Block(tables=(_pair_table(context, found),)),)
        if is_small
        else tuple(_block(one, overlaps) for one, overlaps in found),
        figures=()
        if is_small
        else tuple(_figure(one, overlaps) for one, overlaps in found),
    )


def overlaps_of(one: ConditionContext, most: int) -> tuple[Overlap, ...]:
    """Return the overlaps at no more than so many numbers of labels."""
    results = one.results
    amounts = sorted(
        {
            line.num_labeled
            for cell in results.cells
            for line in cell.lines
            if cell.acquired(line.num_labeled)
        }
    )
    found = []
    for amount in _some(amounts, most):
        trials = [
            seed
            for seed in results.seeds
            if all(_has(results.of(name, seed), amount) for name in results.strategies)
        ]
        if trials:
            found.append(_overlap(one, amount, trials))
    return tuple(found)


def _overlap(one: ConditionContext, amount: int, trials: Sequence[int]) -> Overlap:
    results = one.results
    numbers: dict[str, int] = {}

    def numbered(names: Sequence[str]) -> set[int]:
        return {numbers.setdefault(name, len(numbers)) for name in names}

    runs = {
        name: [results.of(name, seed) for seed in trials] for name in results.strategies
    }
    starts = {
        name: [numbered(run.start) for run in cells] for name, cells in runs.items()
    }
    sets = {
        name: [
            start | numbered(run.acquired(amount))
            for run, start in zip(cells, starts[name], strict=True)
        ]
        for name, cells in runs.items()
    }
    size = len(results.strategies)
    unions, fair = np.full((size, size), np.nan), np.full((size, size), np.nan)
    for i, first in enumerate(results.strategies):
        for j, second in enumerate(results.strategies):
            shared = [a & b for a, b in zip(starts[first], starts[second], strict=True)]
            unions[i, j] = overlap_of_unions(sets[first], sets[second])
            if i != j:
                fair[i, j] = overlap_per_trial(
                    sets[first], sets[second], starts=shared
                ).mean()
            elif len(trials) > 1:
                fair[i, j] = overlap_across_trials(
                    sets[first], sets[second], starts=shared
                )
    begun = set().union(*(start for name in starts for start in starts[name]))
    one_start = max(len(start) for start in next(iter(starts.values())))
    pool_size = _pool_size(runs)
    return Overlap(
        amount,
        len(trials),
        unions,
        fair,
        *_chances(pool_size, amount - one_start, one_start, len(begun), len(trials)),
    )


def _chances(
    pool_size: int | None, acquired: int, start: int, begun: int, num_trials: int
) -> tuple[float | None, float | None]:
    """Return what random picks would come to, for unions and trial by trial."""
    if pool_size is None or not 0 < acquired <= pool_size - max(start, begun):
        return None, None
    rest = pool_size - begun
    joined = round(rest * (1 - (1 - acquired / rest) ** num_trials))
    return (
        chance_overlap(rest, joined, joined, shared=begun),
        chance_overlap(pool_size - start, acquired, acquired),
    )


def _block(one: ConditionContext, overlaps: Sequence[Overlap]) -> Block:
    paper, fair = _heatmaps(one, overlaps)
    rows = [
        PanelRow(
            tuple(
                (
                    f"{heatmap.heading}, {heatmap.detail}",
                    page_heatmap(
                        heatmap,
                        f"{heading}. {_words(heatmap)}",
                        f"{one.suffix} {heading} {number}",
                    ),
                )
                for number, heatmap in enumerate(heatmaps)
            ),
            heading,
        )
        for heading, heatmaps in ((_PAPER, paper), (_FAIR, fair))
    ]
    return Block(heading=one.heading, rows=tuple(rows), hidden=(_table(one, overlaps),))


def _figure(one: ConditionContext, overlaps: Sequence[Overlap]) -> FigureFile:
    paper, fair = _heatmaps(one, overlaps)
    return FigureFile(
        one.file_name("overlap"),
        lambda: heatmaps_figure([(_PAPER, paper), (_FAIR, fair)]),
    )


def _heatmaps(
    one: ConditionContext, overlaps: Sequence[Overlap]
) -> tuple[list[Heatmap], list[Heatmap]]:
    names = tuple(one.short_names[label] for label in one.results.strategies)
    off = ~np.eye(len(names), dtype=bool)
    largest = max(float(overlap.unions[off].max()) for overlap in overlaps)
    fair = np.concatenate([overlap.fair.ravel() for overlap in overlaps])
    largest_fair = float(np.nanmax(fair)) if np.isfinite(fair).any() else 0.0
    paper, fairly = [], []
    for overlap in overlaps:
        labels = count(overlap.num_labels, "label")
        chance, fair_chance = overlap.unions_chance, overlap.fair_chance
        shares = np.where(off, overlap.unions, np.nan)
        paper.append(Heatmap(labels, _chance_text(chance), names, shares, largest))
        fairly.append(
            Heatmap(
                labels,
                _chance_text(fair_chance),
                names,
                overlap.fair,
                largest_fair,
                outlines_diagonal=True,
            )
        )
    return paper, fairly


def _table(one: ConditionContext, overlaps: Sequence[Overlap]) -> Table:
    names = one.results.strategies
    pairs = [(i, j) for i in range(len(names)) for j in range(i, len(names))]
    last = overlaps[-1]
    return Table(
        name=one.file_name("overlap"),
        caption=one.caption(
            f"Overlap (IoU, %) of the picks at {count(last.num_labels, 'label')}, "
            "trial by trial and without the starting labels; on the diagonal a "
            "strategy against itself on different seeds; "
            f"{_chance_text(last.fair_chance)}."
        ),
        columns=(Column("", is_text=True), *(Column(name) for name in names)),
        rows=tuple(
            (
                Entry(name),
                *(Entry(in_percent(float(share))) for share in last.fair[row]),
            )
            for row, name in enumerate(names)
        ),
        fields=(
            "condition", "labels", "trials", "strategy", "other", "unions", "fair",
            "chance_of_unions", "chance",
        ),
        records=tuple(
            (
                one.results.condition.name, overlap.num_labels, overlap.num_trials,
                names[i], names[j], float(overlap.unions[i, j]),
                float(overlap.fair[i, j]), overlap.unions_chance, overlap.fair_chance,
            )
            for overlap in overlaps
            for i, j in pairs
        ),
    )  # fmt: skip


def _pair_table(
    context: Context,
    found: Sequence[tuple[ConditionContext, Sequence[Overlap]]],
) -> Table:
    """Return the overlaps of a few strategies, pair by pair."""
    has_conditions = len(context.conditions) > 1
    rows: list[tuple[Entry, ...]] = []
    for one, overlaps in found:
        names = one.results.strategies
        for overlap in overlaps:
            rows.extend(
                (
                    *([Entry(one.heading)] if has_conditions else []),
                    Entry(f"{names[i]} and {names[j]}"),
                    Entry(f"{overlap.num_labels:,}"),
                    Entry(in_percent(float(overlap.fair[i, j]))),
                    Entry(_chance(overlap.fair_chance)),
                    Entry(in_percent(float(overlap.unions[i, j]))),
                    Entry(_chance(overlap.unions_chance)),
                )
                for i, j in combinations(range(len(names)), 2)
            )
    tables = [_table(one, overlaps) for one, overlaps in found]
    return Table(
        name="overlap",
        caption=found[0][0].caption(
            "Overlap (IoU, %) of the picks: trial by trial without the starting "
            "labels, and of the unions over the trials with them, as in the paper.",
            has_heading=False,
        ),
        columns=(
            *([Column("Condition", is_text=True)] if has_conditions else []),
            Column("Strategies", is_text=True),
            Column("Labels"),
            Column("IoU", "Trial by trial"),
            Column("chance", "Trial by trial", is_quiet=True),
            Column("IoU", "Unions"),
            Column("chance", "Unions", is_quiet=True),
        ),
        rows=tuple(rows),
        fields=tables[0].fields,
        records=tuple(record for table in tables for record in table.records),
    )


def _has(run: CellResult, amount: int) -> bool:
    return any(line.num_labeled == amount for line in run.lines)


def _pool_size(runs: dict[str, list[CellResult]]) -> int | None:
    for cells in runs.values():
        for run in cells:
            size = run.description.get("data", {}).get("num_items")
            if isinstance(size, int):
                return size
    return None


def _some(amounts: Sequence[int], most: int) -> list[int]:
    """Return a few numbers of labels spread over all, the last one among them."""
    places = np.linspace(len(amounts) - 1, 0, min(most, len(amounts))).round()[::-1]
    return [amounts[place] for place in places.astype(int).tolist()]


def _chance(chance: float | None) -> str:
    return MISSING if chance is None else in_percent(chance)


def _chance_text(chance: float | None) -> str:
    return "chance unknown" if chance is None else f"chance {_chance(chance)} %"


def _words(heatmap: Heatmap) -> str:
    known = [
        f"{heatmap.names[i]} and {heatmap.names[j]} {in_percent(float(share))} %"
        for i, row in enumerate(heatmap.shares)
        for j, share in enumerate(row[: i + 1])
        if np.isfinite(share)
    ]
    return f"{heatmap.heading}, {heatmap.detail}: {', '.join(known) or MISSING}."
