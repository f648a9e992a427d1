"""One query per run under several conditions: the paper's Table 3."""

from itertools import chain

import numpy as np
from markupsafe import Markup

from fewlabels.integers import count
from fewlabels.report.bench.accuracy import entry_pair, measured, published
from fewlabels.report.bench.context import ConditionContext, Contender, Context
from fewlabels.report.bench.sections import Block, FigureFile, PanelRow, Section
from fewlabels.report.bench.strips import (
    Strip,
    StripPanel,
    page_strips,
    strips_figure,
)
from fewlabels.report.bench.tables import Column, Entry, Table

_MEANING = "accuracy at the end (%)"


def shots_section(context: Context) -> Section:
    """Return the section about accuracy at the end of each run of one query."""
    panels = [_panel(context, one) for one in context.conditions]
    drawn = [panel for panel in panels if panel.strips]
    ends = [share for one in drawn for strip in one.strips for share in strip.shares]
    limits = _limits(ends)
    return Section(
        anchor="accuracy",
        title="Accuracy after one query",
        notes=(
            "Each run makes one query. Every dot is a seed, the line is their mean; "
            "all conditions share one scale.",
        )
        if drawn
        else ("Nothing has been measured yet.",),
        blocks=(
            Block(
                tables=(shots_table(context),),
                rows=(PanelRow(_drawn(drawn, limits), kind="strips"),) if drawn else (),
            ),
        ),
        figures=(
            FigureFile("accuracy", lambda: strips_figure(drawn, limits, _MEANING)),
        )
        if drawn
        else (),
    )


def shots_table(context: Context) -> Table:
    """Return the table: column groups by condition, columns by number of labels."""
    columns = [Column("Strategy", is_text=True)]
    rows: list[list[Entry]] = [[Entry(who.label)] for who in context.contenders]
    for one in context.conditions:
        amount = one.results.condition.settings.budget
        found = {who.label: measured(one, who) for who in context.contenders}
        printed = published(context, one.results.condition)
        pairs = [entry_pair(who, amount, found, printed) for who in context.contenders]
        has_printed = any(labels == amount for _, labels in printed)
        group = group_of(one)
        columns.append(Column(f"{amount:,}", group))
        if has_printed:
            columns.append(Column(f"{amount:,}, paper", group, is_quiet=True))
        for row, pair in zip(rows, pairs, strict=True):
            row.extend(pair if has_printed else pair[:1])
    first = context.conditions[0]
    return Table(
        name="shots",
        caption=_caption(first),
        columns=tuple(columns),
        rows=tuple(tuple(row) for row in rows),
        fields=("condition", "strategy", "labels", "seeds", "mean", "deviation"),
        records=tuple(
            chain.from_iterable(
                _records(one, context.contenders) for one in context.conditions
            )
        ),
    )


def _drawn(
    panels: list[StripPanel], limits: tuple[float, float]
) -> tuple[tuple[str, Markup], ...]:
    return tuple(
        (one.heading, page_strips(one, limits, _MEANING, f"shots {number}"))
        for number, one in enumerate(panels)
    )


def group_of(one: ConditionContext) -> str:
    """Return what conditions of several numbers of labels have in common.

    It is the name without the number of labels, which heads the column.
    """
    labels = count(one.results.condition.settings.budget, "label")
    return ", ".join(part for part in one.heading.split(", ") if part != labels)


def _caption(first: ConditionContext) -> str:
    return first.caption(
        "Average accuracy (%) ± sample standard deviation after a single query, by "
        "number of labels.",
        "Bold: the highest mean.",
        has_heading=False,
    )


def _records(
    one: ConditionContext, contenders: tuple[Contender, ...]
) -> list[tuple[str | int | float | None, ...]]:
    amount = one.results.condition.settings.budget
    found = []
    for who in contenders:
        own = measured(one, who).get(amount)
        numbers = (own.num_seeds, own.mean, own.deviation) if own else (0, None, None)
        found.append((one.results.condition.name, who.label, amount, *numbers))
    return found


def _panel(context: Context, one: ConditionContext) -> StripPanel:
    amount = one.results.condition.settings.budget
    strips = []
    for who in context.contenders:
        reached = [run.accuracies.get(amount) for run in one.results.runs(who.label)]
        known = tuple(x for x in reached if x is not None and np.isfinite(x))
        if known:
            strips.append(Strip(who, known))
    return StripPanel(one.heading or count(amount, "label"), tuple(strips))


def _limits(shares: list[float]) -> tuple[float, float]:
    if not shares:
        return 0.0, 1.0
    room = max(0.05 * (max(shares) - min(shares)), 0.01)
    return max(0.0, min(shares) - room), min(1.0, max(shares) + room)
