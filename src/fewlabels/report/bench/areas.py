"""Whole curves in a number: the area under them."""

from fewlabels.integers import count
from fewlabels.report.bench.accuracy import spread_of
from fewlabels.report.bench.comparisons import areas
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import decimal, spread


def area_section(context: Context) -> Section | None:
    """Return the section about whole curves; None where there is no curve."""
    found = [one for one in context.conditions if one.comparable.has_curve]
    if not found:
        return None
    return Section(
        anchor="area",
        title="Area under the curve",
        notes=(
            "AUBC is the area under the curve of accuracy over labels, by the "
            "trapezoid rule, with the labels scaled from 0 to 1: the mean accuracy "
            "over the entire range.",
        ),
        blocks=tuple(
            Block(heading=one.heading, tables=(_area_table(context, one),))
            for one in found
        ),
    )


def _area_table(context: Context, one: ConditionContext) -> Table:
    bands = {name: spread_of(values) for name, values in areas(one.comparable).items()}
    best = max(mean for _, mean, *_ in bands.values())
    numbers = one.comparable.num_labels
    return Table(
        name=one.file_name("aubc"),
        caption=one.caption(
            f"AUBC (%) from {numbers[0]:,} to {numbers[-1]:,} labels ± sample standard "
            f"deviation over {count(len(one.comparable.seeds), 'seed')}."
        ),
        columns=(
            Column("Strategy", is_text=True),
            Column("AUBC"),
            Column("95 % interval"),
        ),
        rows=tuple(
            (
                Entry(who.short),
                Entry(spread(mean, deviation), len(bands) > 1 and mean == best),
                Entry(f"{decimal(100 * low)} to {decimal(100 * high)}"),
            )
            for who in context.contenders
            for _, mean, deviation, low, high in (bands[who.label],)
        ),
        fields=("condition", "strategy", "seeds", "mean", "deviation", "low", "high"),
        records=tuple(
            (one.results.condition.name, name, *band) for name, band in bands.items()
        ),
    )
