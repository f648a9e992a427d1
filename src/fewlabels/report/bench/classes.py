"""How the labels spread over the classes."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import nan
from statistics import mean

from fewlabels.evaluation import class_balance, class_coverage
from fewlabels.report.bench.context import ConditionContext, Contender, Context
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import decimal, in_percent

_FIELDS = (
    "condition", "strategy", "labels", "seeds", "coverage", "worst_coverage", "balance",
)  # fmt: skip


@dataclass(frozen=True)
class Spread:
    """Labels of one strategy over the classes, mean over its seeds; NaN without any.

    In the order of the fields of its data.
    """

    num_labels: int
    num_seeds: int
    coverage: float
    worst_coverage: float
    balance: float


def classes_section(context: Context) -> Section | None:
    """Return the section about classes; None before anything was labeled."""
    found = [one for one in context.conditions if _amounts(one)]
    if not found:
        return None
    blocks = (
        [Block(tables=(_end_table(context, found),))]
        if context.has_single_queries
        else [
            Block(heading=one.heading, tables=(_table(context, one).turned,))
            for one in found
        ]
    )
    return Section(
        anchor="classes",
        title="Classes among the labels",
        notes=(
            "Mean over the seeds, of all labels so far. Coverage is the percentage of "
            "the classes that have a label at all; balance is the entropy of the "
            "labels over the classes divided by its maximum, 1 if all classes have "
            "equally many.",
        ),
        blocks=tuple(blocks),
    )


def class_spread(one: ConditionContext, who: Contender, num_labels: int) -> Spread:
    """Return how the labels of a strategy spread at a number of labels."""
    counts = [
        line.class_counts
        for run in one.results.runs(who.label)
        for line in run.lines
        if line.num_labeled == num_labels and any(line.class_counts)
    ]
    coverages = [class_coverage(counted) for counted in counts]
    return Spread(
        num_labels,
        len(counts),
        mean(coverages) if counts else nan,
        min(coverages, default=nan),
        mean(map(class_balance, counts)) if counts else nan,
    )


def _amounts(one: ConditionContext) -> tuple[int, ...]:
    """Return the numbers of labels that a round was trained on, ascending."""
    found = {
        line.num_labeled
        for cell in one.results.cells
        for line in cell.lines
        if any(line.class_counts)
    }
    return tuple(sorted(found))


def _table(context: Context, one: ConditionContext) -> Table:
    amounts = _amounts(one)
    found = {
        who.label: [class_spread(one, who, amount) for amount in amounts]
        for who in context.contenders
    }
    return Table(
        name=one.file_name("classes"),
        caption=one.caption("Classes among the labels, mean over the seeds."),
        columns=(
            Column("Strategy", is_text=True),
            *(Column(f"{amount:,}", "Coverage (%) by labels") for amount in amounts),
            *(Column(f"{amount:,}", "Balance by labels") for amount in amounts),
        ),
        rows=tuple(
            (
                Entry(one.short_names[name]),
                *(Entry(in_percent(spread.coverage)) for spread in spreads),
                *(Entry(decimal(spread.balance)) for spread in spreads),
            )
            for name, spreads in found.items()
        ),
        fields=_FIELDS,
        records=tuple(
            (one.results.condition.name, name, *astuple(spread))
            for name, spreads in found.items()
            for spread in spreads
        ),
    )


def _end_table(context: Context, conditions: Sequence[ConditionContext]) -> Table:
    """Return one table of the ends of all conditions."""
    found = [
        (one, who.label, class_spread(one, who, _amounts(one)[-1]))
        for one in conditions
        for who in context.contenders
    ]
    size = len(context.contenders)
    return Table(
        name="classes",
        caption=conditions[0].caption(
            "Classes among the labels at the end, mean over the seeds.",
            has_heading=False,
        ),
        columns=(
            Column("Condition", is_text=True),
            Column("Strategy", is_text=True),
            Column("Labels"),
            Column("Coverage (%)"),
            Column("Balance"),
        ),
        rows=tuple(
            (
                Entry(one.heading),
                Entry(one.short_names[name]),
                Entry(f"{spread.num_labels:,}"),
                Entry(in_percent(spread.coverage)),
                Entry(decimal(spread.balance)),
            )
            for one, name, spread in found
        ),
        breaks=tuple(range(size, len(found), size)),
        fields=_FIELDS,
        records=tuple(
            (one.results.condition.name, name, *astuple(spread))
            for one, name, spread in found
        ),
    )
