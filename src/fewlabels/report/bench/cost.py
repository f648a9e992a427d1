"""What it costs: time and memory; and how far trainings differ by chance."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from statistics import median
from typing import Any

from fewlabels.bench.results import CellResult
from fewlabels.integers import count
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import in_percent, spread
from fewlabels.report.wording import MISSING, seconds


@dataclass(frozen=True)
class StrategyCost:
    """What the runs of one strategy took; None where nobody measured.

    In the order of the fields of its data.
    """

    num_queries: int
    query: float | None
    """Median of the seconds of a query."""
    slowest: float | None
    """The longest query."""
    peak: float | None
    """The largest peak of memory of a query, in megabytes."""
    training: float | None
    """Median of the seconds of a training, but for the first one, which is shared."""


def cost_section(context: Context) -> Section | None:
    """Return the section about time and memory; None where nothing was measured."""
    found = [
        one
        for one in context.conditions
        if any(cell.timings for cell in one.results.cells)
    ]
    if not found:
        return None
    return Section(
        anchor="cost",
        title="Time and memory",
        notes=(
            "For queries: the median and the longest time over all rounds and seeds, "
            "and the peak memory if it was measured. For training: the median time, "
            "without the first training of a run, which strategies share. The "
            "machines were doing other work too, so small differences mean nothing.",
        ),
        blocks=(Block(tables=(_table(context, found),)),),
    )


def noise_section(context: Context) -> Section | None:
    """Return the section about retraining; None where the experiment has none."""
    if not context.experiment.retrainings:
        return None
    noise, planned = context.noise, context.experiment.retrainings
    done = len(context.results.noise)
    if noise is None:
        return Section(
            anchor="noise",
            title="Noise of training",
            notes=(
                f"{done} of {count(planned, 'training')} on one label set are "
                "finished; two are needed to see how much they differ.",
            ),
        )
    first = context.conditions[0].results.condition.settings
    return Section(
        anchor="noise",
        title="Noise of training",
        notes=(
            f"{count(noise.num_trainings, 'training')} on the same "
            f"{count(first.budget, 'label')}, random and even over the classes, reach "
            f"{spread(noise.mean, noise.deviation)} % (mean ± sample standard "
            f"deviation). The true deviation is between {in_percent(noise.low, 2)} "
            f"and {in_percent(noise.high, 2)} points (95 % interval). A smaller "
            "difference between single runs may come from training alone, whatever "
            "was labeled.",
        ),
    )


def cost_of(runs: Sequence[CellResult]) -> StrategyCost:
    """Return what some runs took."""
    timings = [timing for run in runs for timing in run.timings]
    queries = _numbers(timings, "query_seconds")
    peaks = _numbers(timings, "query_peak_mb")
    later = [timing for timing in timings if timing.get("step", 0) > 0]
    trainings = _numbers(later or timings, "train_seconds")
    return StrategyCost(
        num_queries=len(queries),
        query=median(queries) if queries else None,
        slowest=max(queries, default=None),
        peak=max(peaks, default=None),
        training=median(trainings) if trainings else None,
    )


def _table(context: Context, conditions: Sequence[ConditionContext]) -> Table:
    costs = [
        (one, who.label, cost_of(one.results.runs(who.label)))
        for one in conditions
        for who in context.contenders
    ]
    has_conditions = len(context.conditions) > 1
    size = len(context.contenders)
    return Table(
        name="cost",
        caption=conditions[0].caption("Time and memory.", has_heading=False),
        columns=(
            *([Column("Condition", is_text=True)] if has_conditions else []),
            Column("Strategy", is_text=True),
            Column("Median", "Query"),
            Column("Longest", "Query"),
            Column("Peak memory", "Query"),
            Column("Queries", "Query"),
            Column("Median", "Training"),
        ),
        rows=tuple(
            (
                *([Entry(one.heading)] if has_conditions else []),
                Entry(one.short_names[name]),
                Entry(seconds(cost.query)),
                Entry(seconds(cost.slowest)),
                Entry(_megabytes(cost.peak)),
                Entry(count(cost.num_queries)),
                Entry(seconds(cost.training)),
            )
            for one, name, cost in costs
        ),
        breaks=tuple(range(size, len(costs), size)),
        fields=(
            "condition", "strategy", "queries", "query_seconds",
            "longest_query_seconds", "query_peak_mb", "train_seconds",
        ),
        records=tuple(
            (one.results.condition.name, name, *astuple(cost))
            for one, name, cost in costs
        ),
    )  # fmt: skip


def _numbers(timings: Sequence[dict[str, Any]], key: str) -> list[float]:
    found = (timing.get(key) for timing in timings)
    return [float(one) for one in found if isinstance(one, int | float) and one == one]


def _megabytes(amount: float | None) -> str:
    if amount is None:
        return MISSING
    return f"{amount:,.0f}\N{NO-BREAK SPACE}MB" if amount >= 1 else "< 1 MB"
