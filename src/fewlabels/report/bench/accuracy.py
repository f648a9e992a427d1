"""Accuracy by number of labels: curves, and the paper's table beside ours."""

from collections.abc import Iterable
from dataclasses import astuple, dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from fewlabels.bench.experiment import Condition
from fewlabels.bench.published import (
    TABLE_3_ZERO_SHOT,
    PublishedCell,
    PublishedTable,
    passive_tests,
)
from fewlabels.evaluation import curve_band
from fewlabels.integers import count
from fewlabels.report.bench.context import ConditionContext, Contender, Context
from fewlabels.report.bench.sections import Block, FigureFile, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import p_text, spread
from fewlabels.report.curves import Curve, Panel, Point, curves_figure, page_curves
from fewlabels.report.wording import MISSING, listed

_FIELDS = (
    "condition", "strategy", "labels", "seeds", "mean", "deviation", "low", "high",
    "published_mean", "published_deviation",
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Accuracy of one strategy at one number of labels, over its seeds."""

    num_labels: int
    num_seeds: int
    mean: float
    deviation: float
    low: float
    high: float


def measured(one: ConditionContext, contender: Contender) -> dict[int, Measured]:
    """Return mean and spread of a strategy by number of labels, where known."""
    found = {}
    accuracies_ST = one.results.accuracies(contender.label)
    for amount, column_S in zip(one.results.num_labels, accuracies_ST.T, strict=True):
        known = column_S[np.isfinite(column_S)]
        if amount and len(known):  # nothing is learnt from no labels
            found[amount] = Measured(amount, *spread_of(known))
    return found


def spread_of(values: NDArray[np.float64]) -> tuple[int, float, float, float, float]:
    """Return how many values there are, their mean, deviation and interval."""
    band = curve_band(values[:, None])
    numbers = (band.mean, band.deviation, band.low, band.high)
    mean, deviation, low, high = (float(number[0]) for number in numbers)
    return len(values), mean, deviation, low, high


def accuracy_section(context: Context) -> Section:
    """Return the section about accuracy: curves and tables, condition by condition."""
    panels = [(one, _panel(context, one)) for one in context.conditions]
    drawn = tuple(panel for _, panel in panels if panel.curves)
    return Section(
        anchor="accuracy",
        title="Accuracy",
        notes=(
            "Share of held-out images classified correctly, in percent, against the "
            "number of labels: mean over the seeds. The shaded band is Student's 95 % "
            "interval of the mean at each number of labels. Overlapping bands do not "
            "show that two strategies are alike: all of them had the same seeds, so "
            "their differences are more certain than their means. Deviations in "
            "tables are sample standard deviations: they divide by one less than the "
            "number of seeds.",
            *_noise_notes(context),
            *_printed_notes(context),
        ),
        blocks=tuple(
            Block(
                heading=one.heading,
                drawings=page_curves(panel, f"accuracy {number}")
                if panel.curves
                else (),
                tables=(accuracy_table(context, one).turned,) if panel.curves else (),
                notes=() if panel.curves else ("Nothing has been measured yet.",),
            )
            for number, (one, panel) in enumerate(panels)
        ),
        figures=(FigureFile("curves", lambda: curves_figure(drawn)),) if drawn else (),
    )


def accuracy_table(context: Context, one: ConditionContext) -> Table:
    """Return the table of one condition: rows strategies, columns numbers of labels."""
    amounts = [amount for amount in one.results.num_labels if amount]
    found = {who.label: measured(one, who) for who in context.contenders}
    printed = published(context, one.results.condition)
    columns = [Column("Strategy", is_text=True)]
    for amount in amounts:
        group = count(amount, "label")
        if not printed:
            columns.append(Column(f"{amount:,}", "Labels"))
        else:
            columns.append(Column("ours", group))
        if any(labels == amount for _, labels in printed):
            columns.append(Column("paper", group, is_quiet=True))
    rows = [
        (Entry(who.short), *chain(*(_entries(who, n, found, printed) for n in amounts)))
        for who in context.contenders
    ]
    return Table(
        name=one.file_name("accuracy"),
        caption=one.caption(
            "Average accuracy (%) ± sample standard deviation.",
            *_few_seeds(found),
            "Bold: the highest mean, which need not be significant.",
            *(_published_sentence(context) if printed else ()),
        ),
        columns=tuple(columns),
        rows=tuple(rows),
        fields=_FIELDS,
        records=tuple(_records(one, context.contenders, amounts, found, printed)),
    )


def published(
    context: Context, condition: Condition
) -> dict[tuple[str, int], PublishedCell]:
    """Return what the paper prints for a condition, by strategy and labels."""
    tables = context.experiment.published
    if len(tables) > 1:
        tables = tuple(table for table in tables if _is_of(table, condition))
    return {
        (cell.strategy, cell.num_labels): cell
        for table in tables
        for cell in table.cells
    }


def entry_pair(
    who: Contender,
    amount: int,
    found: dict[str, dict[int, Measured]],
    printed: dict[tuple[str, int], PublishedCell],
) -> tuple[Entry, Entry]:
    """Return ours and the paper's number of a strategy at a number of labels."""
    own = found[who.label].get(amount)
    means = [one[amount].mean for one in found.values() if amount in one]
    is_best = own is not None and min(means) < own.mean == max(means)
    ours = MISSING if own is None else spread(own.mean, own.deviation)
    cell = printed.get((who.name, amount))
    theirs = MISSING if cell is None else f"{cell.mean:.2f} ± {cell.deviation:.2f}"
    return Entry(ours, is_best), Entry(theirs)


def _entries(
    who: Contender,
    amount: int,
    found: dict[str, dict[int, Measured]],
    printed: dict[tuple[str, int], PublishedCell],
) -> tuple[Entry, ...]:
    pair = entry_pair(who, amount, found, printed)
    return pair if any(labels == amount for _, labels in printed) else pair[:1]


def _records(
    one: ConditionContext,
    contenders: Iterable[Contender],
    amounts: Iterable[int],
    found: dict[str, dict[int, Measured]],
    printed: dict[tuple[str, int], PublishedCell],
) -> Iterable[tuple[str | int | float | None, ...]]:
    for who in contenders:
        for amount in amounts:
            own = found[who.label].get(amount)
            cell = printed.get((who.name, amount))
            yield (
                one.results.condition.name,
                who.label,
                *(astuple(own) if own else (amount, 0, None, None, None, None)),
                round(cell.mean / 100, 6) if cell else None,
                round(cell.deviation / 100, 6) if cell else None,
            )


def _panel(context: Context, one: ConditionContext) -> Panel:
    curves = []
    for who in context.contenders:
        points = tuple(
            Point(
                own.num_labels,
                own.mean,
                own.low if own.num_seeds > 1 else None,
                own.high if own.num_seeds > 1 else None,
            )
            for own in measured(one, who).values()
        )
        if points:
            curves.append(Curve(who.short, who.hue, points, who.number))
    is_first = one is context.conditions[0]  # the one that was trained again
    return Panel(tuple(curves), one.heading, context.noise if is_first else None)


def _is_of(table: PublishedTable, condition: Condition) -> bool:
    """Return whether a table is about the same way to ask as a condition."""
    settings = condition.settings
    is_untrained = settings.zero_shot or settings.start == 0
    return (table == TABLE_3_ZERO_SHOT) == is_untrained


def _few_seeds(found: dict[str, dict[int, Measured]]) -> tuple[str, ...]:
    """Say so where a number rests on fewer seeds than others do."""
    numbers = {own.num_seeds for by in found.values() for own in by.values()}
    if len(numbers) < 2:
        return ()
    return (
        "Not finished: the means are over different numbers of seeds, from "
        f"{min(numbers)} to {max(numbers)}.",
    )


def _published_sentence(context: Context) -> tuple[str, ...]:
    trials = {table.trials for table in context.experiment.published}
    return (
        f"Paper: as printed by Kong et al. (2022), {min(trials)} trials, WRN-28-2 on "
        "the data of the paper.",
    )


def _printed_notes(context: Context) -> Iterable[str]:
    """Say what the paper's own numbers show of npc against random."""
    for table in context.experiment.published:
        if {"npc", "random"} <= set(table.strategies):
            tests = passive_tests(table)
            words = [f"{p_text(one.p)} at {labels:,}" for labels, one in tests.items()]
            yield (
                f"For the paper's printed results ({table.trials} trials, not paired "
                f"here), Welch's test of npc against random gives p = {listed(words)} "
                "labels, if the printed deviations are sample standard deviations."
            )


def _noise_notes(context: Context) -> tuple[str, ...]:
    noise = context.noise
    if noise is None:
        return ()
    return (
        "The gray whisker is the noise of training: one standard deviation "
        f"({100 * noise.deviation:.2f} points) to either side, over "
        f"{count(noise.num_trainings, 'training')} on the same label set.",
    )
