"""Who is better: paired tests, and areas under the curves."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import UsageError
from fewlabels.evaluation import (
    PairedTest,
    area_under_curve,
    curve_band,
    paired_tests,
)
from fewlabels.report.bench.comparable import Comparable
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import (
    decimal,
    p_text,
    signed,
    spread,
)
from fewlabels.report.wording import count, listed

LEVEL = 0.05
"""Level of the tests."""

Values = Mapping[str, NDArray[np.float64]]


def at_the_end(one: Comparable) -> Values:
    """Return accuracies (S,) of each strategy at the last number of labels."""
    return {name: array[:, -1] for name, array in one.accuracies.items()}


def areas(one: Comparable) -> Values:
    """Return areas under the curves (S,) of each strategy."""
    return {
        name: area_under_curve(one.num_labels, array)
        for name, array in one.accuracies.items()
    }


def tests_of(values: Values, against: str) -> tuple[PairedTest, ...]:
    """Return the tests of all strategies whose differences can be tested."""
    kept = {against: values[against]}
    for name in values:
        if name != against:
            with suppress(UsageError):  # differences without any spread
                paired_tests(
                    {name: values[name], against: kept[against]}, against=against
                )
                kept[name] = values[name]
    return paired_tests(kept, against=against) if len(kept) > 1 else ()


def measures(one: Comparable) -> dict[str, Values]:
    """Return what strategies are compared by, by its name."""
    found = {f"at {count(one.num_labels[-1], 'label')}": at_the_end(one)}
    if len(one.num_labels) > 1:
        found["AUBC"] = areas(one)
    return found


def comparison_section(context: Context) -> Section | None:
    """Return the section of paired tests; None without two strategies."""
    if len(context.contenders) < 2 or not context.references:
        return None
    return Section(
        anchor="comparison",
        title="Paired comparison",
        notes=(
            "Differences in accuracy, in percentage points, seed by seed: with one "
            "seed all strategies begin with the same labels and train with the same "
            "random numbers. Only seeds that every strategy has finished count. In "
            "brackets is Student's 95 % interval of the mean difference; d is that "
            "mean over the deviation of the differences. Holm's correction is over "
            "the comparisons of one measure with one reference. Bold: below 0.05 after "
            "it.",
        ),
        blocks=tuple(_test_block(context, one) for one in context.conditions),
    )


def area_section(context: Context) -> Section | None:
    """Return the section about whole curves; None where there is no curve."""
    found = [one for one in context.conditions if len(one.comparable.num_labels) > 1]
    if not found:
        return None
    return Section(
        anchor="area",
        title="Whole curves",
        notes=(
            "AUBC is the area under the curve of accuracy over labels, by the "
            "trapezoid rule and with the labels scaled to 0 to 1: the mean accuracy "
            "over the whole range.",
        ),
        blocks=tuple(
            Block(heading=one.heading, tables=(_area_table(context, one),))
            for one in found
        ),
    )


def _test_block(context: Context, one: ConditionContext) -> Block:
    pairs = len(one.comparable.seeds)
    if not one.comparable.can_be_tested:
        return Block(
            heading=one.heading,
            notes=(
                f"{count(pairs, 'seed is', 'seeds are')} finished by every strategy; "
                "a test needs at least two, so none is possible yet.",
            ),
        )
    tables = [_test_table(context, one, against) for against in context.references]
    return Block(
        heading=one.heading,
        tables=tuple(table for table in tables if table.rows),
        notes=tuple(_untested(context, one)),
    )


def _test_table(context: Context, one: ConditionContext, against: str) -> Table:
    found = {
        measure: tests_of(values, against)
        for measure, values in measures(one.comparable).items()
    }
    return Table(
        name=one.file_name(f"tests-{context.contender(against).name}"),
        caption=one.caption(
            f"Difference to {against} in percentage points, on "
            f"{count(len(one.comparable.seeds), 'pair')}."
        ),
        columns=(
            Column("Strategy", is_text=True),
            Column("Measure", is_text=True),
            Column("Difference"),
            Column("95 % interval"),
            Column("d"),
            Column("p", "t-test"),
            Column("Holm", "t-test"),
            Column("p", "Wilcoxon"),
            Column("Holm", "Wilcoxon"),
            Column("Won"),
        ),
        rows=tuple(
            _test_row(measure, test) for measure, tests in found.items() for test in tests
        ),
        fields=(
            "condition", "strategy", "against", "measure", "pairs", "difference", "low",
            "high", "effect_size", "t_p", "t_holm", "wilcoxon_p", "wilcoxon_holm",
            "wins", "losses",
        ),
        records=tuple(
            (
                one.results.condition.name, test.name, test.against, measure,
                test.num_pairs, test.difference, test.low, test.high, test.effect_size,
                test.t_p, test.t_holm, test.wilcoxon_p, test.wilcoxon_holm, test.wins,
                test.losses,
            )
            for measure, tests in found.items()
            for test in tests
        ),
    )  # fmt: skip


def _test_row(measure: str, test: PairedTest) -> tuple[Entry, ...]:
    low, high = signed(100 * test.low), signed(100 * test.high)
    return (
        Entry(test.name),
        Entry(measure),
        Entry(signed(100 * test.difference), test.t_holm < LEVEL),
        Entry(f"{low} to {high}"),
        Entry(signed(test.effect_size)),
        Entry(p_text(test.t_p)),
        Entry(p_text(test.t_holm), test.t_holm < LEVEL),
        Entry(p_text(test.wilcoxon_p)),
        Entry(p_text(test.wilcoxon_holm), test.wilcoxon_holm < LEVEL),
        Entry(f"{test.wins} of {test.num_pairs}"),
    )


def _untested(context: Context, one: ConditionContext) -> Iterable[str]:
    """Say which strategies differ by the same on every seed, so that no test fits."""
    for against in context.references:
        for measure, values in measures(one.comparable).items():
            tested = {test.name for test in tests_of(values, against)}
            left = [name for name in values if name not in tested and name != against]
            if left:
                yield (
                    f"{listed(left)}: the difference to {against} ({measure}) is the "
                    "same on every seed, so that no test is possible."
                )


def _area_table(context: Context, one: ConditionContext) -> Table:
    found = areas(one.comparable)
    bands = {name: curve_band(values[:, None]) for name, values in found.items()}
    best = max(float(band.mean[0]) for band in bands.values())
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
                Entry(who.label),
                Entry(
                    spread(float(band.mean[0]), float(band.deviation[0])),
                    len(bands) > 1 and float(band.mean[0]) == best,
                ),
                Entry(
                    f"{decimal(100 * float(band.low[0]))} to "
                    f"{decimal(100 * float(band.high[0]))}"
                ),
            )
            for who in context.contenders
            for band in (bands[who.label],)
        ),
        fields=("condition", "strategy", "seeds", "mean", "deviation", "low", "high"),
        records=tuple(
            (
                one.results.condition.name,
                name,
                len(found[name]),
                float(band.mean[0]),
                float(band.deviation[0]),
                float(band.low[0]),
                float(band.high[0]),
            )
            for name, band in bands.items()
        ),
    )
