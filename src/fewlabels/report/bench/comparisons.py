"""Who is better: paired tests over the seeds that all strategies have finished."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from fewlabels.evaluation import PairedTest, area_under_curve, corrected, paired_tests
from fewlabels.integers import count
from fewlabels.report.bench.context import Comparable, ConditionContext, Context
from fewlabels.report.bench.sections import Block, Section
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import p_text, signed
from fewlabels.report.wording import listed

LEVEL = 0.05
"""Level of the tests."""

END, AREA = "the end", "AUBC"
"""What strategies are compared by."""

_NUMBERS = (
    "difference", "low", "high", "effect_size", "t_p", "t_holm", "wilcoxon_p",
    "wilcoxon_holm", "wins", "losses",
)  # fmt: skip
"""What a test comes to, by its names in the data, which are those of the test."""

Values = Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, eq=False)
class Comparison:
    """A test under one condition, corrected for those of all conditions."""

    condition: ConditionContext
    measure: str
    """By what: :data:`END` or :data:`AREA`."""
    test: PairedTest

    @property
    def measure_text(self) -> str:
        """By what, with the number of labels."""
        labels = count(self.condition.comparable.num_labels[-1], "label")
        return f"at {labels}" if self.measure == END else self.measure

    @property
    def is_significant(self) -> bool:
        """Whether the t-test says so after Holm's correction."""
        return self.test.t_holm < LEVEL


def compared(context: Context, against: str, measure: str) -> tuple[Comparison, ...]:
    """Return tests of all strategies against one, by one measure, under all conditions.

    Holm's correction is over all of them together. There are none of conditions with
    fewer than two seeds that all have finished, nor of strategies that differ by the
    same on every seed.
    """
    return tuple(one for one in _tests(context, against, measure) if one.test.is_made)


def areas(one: Comparable) -> Values:
    """Return areas under the curves (S,) of each strategy."""
    return {
        name: area_under_curve(one.num_labels, array)
        for name, array in one.accuracies.items()
    }


def comparison_section(context: Context) -> Section | None:
    """Return the section of paired tests; None without two strategies."""
    if len(context.contenders) < 2 or not context.references:
        return None
    several = " under all conditions" if len(context.conditions) > 1 else ""
    tables = [_table(context, against) for against in context.references]
    return Section(
        anchor="comparison",
        title="Paired comparison",
        notes=(
            "Differences in accuracy, in percentage points, seed by seed: for one "
            "seed, all strategies start with the same labels and train with the same "
            "random numbers. Only seeds that every strategy has finished count. The "
            "interval is Student's, for the mean difference; d is that mean divided "
            "by the deviation of the differences. Holm's correction covers the "
            f"comparisons with one reference by one measure{several}. Bold: below "
            "0.05 after correction.",
        ),
        blocks=(
            Block(
                tables=tuple(table for table in tables if table.rows),
                notes=(*_too_few(context), *_untested(context)),
            ),
        ),
    )


def _values(one: Comparable, measure: str) -> Values:
    if not one.can_be_tested or (measure == AREA and not one.has_curve):
        return {}
    if measure == AREA:
        return areas(one)
    return {name: array[:, -1] for name, array in one.accuracies.items()}


@lru_cache(maxsize=8)  # several sections of a page speak of the same tests
def _tests(context: Context, against: str, measure: str) -> tuple[Comparison, ...]:
    """Return a test for each strategy, also where none could be made."""
    found = [
        Comparison(one, measure, test)
        for one in context.conditions
        if against in (values := _values(one.comparable, measure))
        for test in paired_tests(values, against=against)
    ]
    tests = corrected([one.test for one in found])
    return tuple(
        replace(one, test=test) for one, test in zip(found, tests, strict=True)
    )


def _table(context: Context, against: str) -> Table:
    by = {measure: compared(context, against, measure) for measure in (END, AREA)}
    found = [one for comparisons in by.values() for one in comparisons]
    has_conditions = len(context.conditions) > 1
    pairs = sorted({one.test.num_pairs for one in found})
    amounts = " to ".join(map(str, pairs[:1] + pairs[1:][-1:]))
    return Table(
        name=f"tests-{context.contender(against).name}",
        caption=context.conditions[0].caption(
            f"Difference from {against} in percentage points, on {amounts} paired "
            "seeds.",
            has_heading=False,
        ),
        columns=(
            *([Column("Condition", is_text=True)] if has_conditions else []),
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
            (*([Entry(one.condition.heading)] if has_conditions else []), *_row(one))
            for one in found
        ),
        breaks=(len(by[END]),),
        fields=("condition", "strategy", "against", "measure", "pairs", *_NUMBERS),
        records=tuple(map(_record, found)),
    )


def _row(one: Comparison) -> tuple[Entry, ...]:
    test = one.test
    low, high = signed(100 * test.low), signed(100 * test.high)
    return (
        Entry(one.condition.short_names[test.name]),
        Entry(one.measure_text),
        Entry(signed(100 * test.difference), one.is_significant),
        Entry(f"{low} to {high}"),
        Entry(signed(test.effect_size)),
        Entry(p_text(test.t_p)),
        Entry(p_text(test.t_holm), one.is_significant),
        Entry(p_text(test.wilcoxon_p)),
        Entry(p_text(test.wilcoxon_holm), test.wilcoxon_holm < LEVEL),
        Entry(f"{test.wins} of {test.num_pairs}"),
    )


def _record(one: Comparison) -> tuple[str | int | float | None, ...]:
    test = one.test
    who = (one.condition.results.condition.name, test.name, test.against)
    numbers = [getattr(test, field) for field in _NUMBERS]
    return (*who, one.measure_text, test.num_pairs, *numbers)


def _too_few(context: Context) -> Iterable[str]:
    """Say where there are too few seeds for a test."""
    for one in context.conditions:
        if not one.comparable.can_be_tested:
            seeds = count(len(one.comparable.seeds), "seed is", "seeds are")
            where = f"{one.heading}: " if one.heading else ""
            yield (
                f"{where}{seeds} finished and measured by every strategy; a test needs "
                "at least two, so none is possible yet."
            )


def _untested(context: Context) -> Iterable[str]:
    """Say which strategies differ by the same on every seed, so that no test fits."""
    for one in context.conditions:
        where = f" under {one.heading}" if one.heading else ""
        for against in context.references:
            for measure in (END, AREA):
                left = [
                    found.test.name
                    for found in _tests(context, against, measure)
                    if found.condition is one and not found.test.is_made
                ]
                if left:
                    yield (
                        f"{listed(left)}: the difference from {against}{where} (by "
                        f"{measure}) is the same on every seed, so no test is possible."
                    )
