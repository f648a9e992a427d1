"""An experiment as its report shows it, and its first sections: accuracy, tests.

Shapes: S seeds, A strategies, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Hashable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import chain, compress, product
from math import isfinite, nan
from typing import NamedTuple

import numpy as np

from fewlabels.errors import count
from fewlabels.experiments import evaluation
from fewlabels.experiments.acquisition import query_size
from fewlabels.experiments.bench.experiment import Experiment
from fewlabels.experiments.bench.folder import ConditionResults, Results
from fewlabels.experiments.bench.published import TABLE_3_ZERO_SHOT
from fewlabels.experiments.evaluation.comparisons import LEVEL, Array
from fewlabels.report import wording
from fewlabels.report.figures import Curve, Point, draw_curves, hues
from fewlabels.report.page import Block, Column, Entry, Row, Section, Table

OTHER_SCALE = "Not the paper's scale"
"""Part of the titles of experiments for two cores."""

END, AREA = "the end", "AUBC"
"""What strategies are compared by."""


class Contender(NamedTuple):
    """A strategy as it is shown everywhere in the report."""

    label: str
    name: str
    """Its name without options, as published tables have it."""
    short: str
    """Its name with the options that distinguish it from the others."""
    hue: int


class Measured(NamedTuple):
    """Accuracy of one strategy at one number of labels, over its seeds."""

    seeds: int = 0
    mean: float = nan
    deviation: float = nan
    low: float = nan
    high: float = nan


def over_seeds(values_S: Array) -> Measured:
    """Return mean, spread and interval of what was measured with some seeds."""
    band = evaluation.curve_band(values_S[:, None])
    numbers = (band.mean, band.deviation, band.low, band.high)
    return Measured(len(values_S), *(number.item() for number in numbers))


@dataclass(frozen=True, eq=False)
class ConditionContext(ConditionResults):
    """One condition of an experiment, and what all strategies have measured there."""

    heading: str
    """Its name; empty where there is one only."""
    suffix: str
    """End of the names of its files; empty where there is one only."""
    experiment: Experiment
    contenders: tuple[Contender, ...]

    @cached_property
    def paired_labels(self) -> tuple[int, ...]:
        """Numbers of labels at which all complete seeds were measured."""
        names, seeds = self.strategies, self.complete_seeds
        values = np.concatenate([self.accuracies(name, seeds) for name in names])
        return tuple(compress(self.num_labels, np.isfinite(values).all(axis=0)))

    @cached_property
    def paired(self) -> dict[str, Array]:
        """Shares (S, T) of complete seeds there, all finite, by label of strategy."""
        is_paired = np.isin(self.num_labels, self.paired_labels)
        return {
            name: self.accuracies(name, self.complete_seeds)[:, is_paired]
            for name in self.strategies
        }

    @cached_property
    def measured(self) -> dict[str, dict[int, Measured]]:
        """Accuracies by label of strategy and number of labels, where known."""
        known: dict[str, dict[int, Measured]] = {name: {} for name in self.strategies}
        for name, own in known.items():
            columns = zip(self.num_labels, self.accuracies(name).T, strict=True)
            for amount, values_S in columns:
                is_known = np.isfinite(values_S)
                if amount and is_known.any():  # nothing is learnt from no labels
                    own[amount] = over_seeds(values_S[is_known])
        return known

    def overlaps(self, against: str, measure: str) -> dict[str, float]:
        """Return how much of each strategy's difference from one recurs by seed.

        It is estimated from the names of the images that were asked for: up to the end,
        or for the area at each measurement.
        """
        amounts = self.paired_labels[-1:] if measure == END else self.paired_labels
        asked = {
            name: [
                [item for n in amounts for item in self.of(name, seed).acquired(n)]
                for seed in self.complete_seeds
            ]
            for name in self.strategies
        }
        return {
            name: evaluation.overlap_of_differences(sets, asked[against])
            for name, sets in asked.items()
        }

    def summary(self, name: str, measure: str) -> Array:
        """Return the accuracy at the end, or the area, of each complete seed (S,)."""
        if measure == END:
            return self.paired[name][:, -1]
        return evaluation.area_under_curve(self.paired_labels, self.paired[name])

    @property
    def can_be_tested(self) -> bool:
        """Whether there is something to compare, with at least two seeds."""
        has_pairs = len(self.complete_seeds) > 1 and len(self.contenders) > 1
        return has_pairs and bool(self.paired_labels)

    @property
    def has_curve(self) -> bool:
        """Whether there is more to see than the start and the end."""
        return bool(self.complete_seeds) and len(self.paired_labels) > 2

    @property
    def seeds_text(self) -> str:
        """How many seeds there are, and how many are not through yet."""
        planned, complete = count(len(self.seeds), "seed"), len(self.complete_seeds)
        if len(self.seeds) == complete:
            return planned
        return f"{planned} planned, {complete} finished by every strategy"

    def file_name(self, name: str) -> str:
        """Return the name of one of its files."""
        return f"{name}-{self.suffix}" if self.suffix else name

    def caption(self, *sentences: str, is_of_all: bool = False) -> str:
        """Return the caption of a table: meaning, data, trainer, seeds, scale.

        The caption of a table of all conditions has what they have in common.
        """
        settings, conditions = self.condition.settings, self.experiment.conditions
        trained = {(c.settings.trainer.label, c.num_seeds) for c in conditions}
        parts = list(sentences)
        if not is_of_all or len(trained) == 1:
            where = f"{self.heading}: d" if self.heading and not is_of_all else "D"
            text = (
                f"{where}ata {wording.data_name(settings.data.name)}, trainer "
                f"{settings.trainer.label}, {self.seeds_text}."
            )
            parts.insert(1, text[0].upper() + text[1:])
        if self.experiment.scale == "cpu":
            parts.append(f"{OTHER_SCALE}.")
        return " ".join(parts)


class Comparison(NamedTuple):
    """A test under one condition, corrected for all that are shown."""

    case: ConditionContext
    measure: str
    """:data:`END` or :data:`AREA`."""
    test: evaluation.PairedTest

    @property
    def pair(self) -> Hashable:
        """What it compares; the same the other way round."""
        names = frozenset({self.test.name, self.test.against})
        return self.case.condition.name, self.measure, names

    @property
    def measure_text(self) -> str:
        """The measure, with the number of labels."""
        labels = count(self.case.paired_labels[-1], "label")
        return f"at {labels}" if self.measure == END else self.measure

    @property
    def is_significant(self) -> bool:
        """Whether the t-test is significant after Holm's correction."""
        return self.test.t_holm < LEVEL


@dataclass(frozen=True, eq=False)
class Context(Results):
    """The whole experiment."""

    conditions: tuple[ConditionContext, ...]
    contenders: tuple[Contender, ...]

    @property
    def condition_column(self) -> list[Column]:
        """What heads the names of conditions; nothing where there is one only."""
        return [Column("Condition", is_text=True)] if len(self.conditions) > 1 else []

    @property
    def references(self) -> dict[str, str]:
        """Labels of the strategies that others are compared with, by name."""
        names = ("random", "npc")
        return {name: label for name in names if (label := first_label(self, name))}

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Tests of all strategies against each reference, under all conditions.

        Those at the end come before those by area. Holm's correction is over all that
        are shown together, each pair of strategies once. There are none of conditions
        with fewer than two seeds that all have finished; no p value is known of
        strategies that differ by the same on every seed.
        """
        shown = list[Comparison]()
        for against, measure in product(self.references.values(), (END, AREA)):
            for case in self.conditions:
                if case.can_be_tested and (measure == END or case.has_curve):
                    tests = evaluation.paired_tests(
                        {name: case.summary(name, measure) for name in case.paired},
                        against=against,
                        overlaps=case.overlaps(against, measure),
                    )
                    shown += [Comparison(case, measure, test) for test in tests]
        family = {each.pair: each.test for each in shown}
        corrected = evaluation.corrected([*family.values()])
        by_pair = dict(zip(family, corrected, strict=True))
        comparisons = []
        for each in shown:
            by = by_pair[each.pair]
            test = replace(each.test, t_holm=by.t_holm, wilcoxon_holm=by.wilcoxon_holm)
            comparisons.append(each._replace(test=test))
        return tuple(comparisons)

    @property
    def has_single_queries(self) -> bool:
        """Whether it has several conditions of one query each, as in Table 3."""
        settings = [condition.settings for condition in self.experiment.conditions]
        return len(settings) > 1 and all(
            run.budget - run.start <= query_size(run.query, 0) for run in settings
        )


def first_label(context: Context | ConditionContext, name: str) -> str:
    """Return the label of the first strategy of a name; empty where there is none."""
    return next((who.label for who in context.contenders if who.name == name), "")


def context_of(results: Results) -> Context:
    """Return what the sections need to know of results."""
    experiment = results.experiment
    colors = hues([choice.label for choice in experiment.strategies])
    strategies, cases = list[Contender](), dict[str, ConditionContext]()
    for choice in experiment.strategies:
        peers = [other for other in experiment.strategies if other.name == choice.name]
        values = [
            str(value)
            for key, value in choice.options.items()
            if any(other.options.get(key) != value for other in peers)
        ]
        short, hue = " ".join([choice.name, *values]), colors[choice.label]
        strategies.append(Contender(choice.label, choice.name, short, hue))
    for number, own in enumerate(results.conditions, start=1):
        heading = own.condition.name or f"condition {number}"
        suffix = wording.file_word(own.condition.name) or str(number)
        suffix = f"{suffix}-{number}" if suffix in cases else suffix
        names = ("", "") if len(results.conditions) == 1 else (heading, suffix)
        given = (own.condition, own.cells, own.strategies, own.seeds)
        cases[suffix] = ConditionContext(*given, *names, experiment, (*strategies,))
    return Context(experiment, (*cases.values(),), results.noise, (*strategies,))


# ---------------------------------------------------------------------------- accuracy


def accuracy_section(context: Context) -> Section:
    """Return the section about accuracy: curves and tables, condition by condition."""
    if context.has_single_queries:  # as in Table 3
        ends = [(case, case.condition.settings.budget) for case in context.conditions]
        table = _accuracy_table(context, "shots", ends)
        return Section("accuracy", "Accuracy", [Block(tables=[table])])
    blocks = []
    for case in context.conditions:
        curves = []
        for who in context.contenders:
            points = tuple(
                Point(amount, known.mean, known.low, known.high)
                for amount, known in case.measured[who.label].items()
            )
            if points:
                curves.append(Curve(who.short, who.hue, points))
        block = Block(heading=case.heading, notes=["Nothing has been measured yet."])
        if curves:
            places = [(case, amount) for amount in case.num_labels if amount]
            table = _accuracy_table(context, case.file_name("accuracy"), places)
            drawing = draw_curves(case.file_name("curves"), curves)
            block = Block(heading=case.heading, drawing=drawing, tables=[table])
        blocks.append(block)
    return Section("accuracy", "Accuracy", blocks)


def _accuracy_table(
    context: Context, name: str, places: Sequence[tuple[ConditionContext, int]]
) -> Table:
    """Return means by strategy at some numbers of labels, with the paper's if known."""
    cases = list(dict.fromkeys(case for case, _ in places))
    first, is_of_all = cases[0], len(cases) > 1
    has_area = first.has_curve and not is_of_all
    columns, best = [], {}
    for case, amount in places:
        # A condition's name without the number of labels, which heads the column.
        labels, parts = count(amount, "label"), case.heading.split(", ")
        shared = ", ".join(part for part in parts if part != labels)
        group = shared if is_of_all else "Labels"
        columns.append(Column(f"{amount:,}", group))
        if _published(case, amount):
            columns.append(Column(f"{amount:,}, paper", group, is_quiet=True))
        means = {own[amount].mean for own in case.measured.values() if amount in own}
        best[case, amount] = max(means) if len(means) > 1 else nan
    has_paper = any(column.is_quiet for column in columns)
    rows, records = list[Row](), []
    for who in context.contenders:
        entries = []
        for case, amount in places:
            own = case.measured[who.label].get(amount, Measured())
            printed = _published(case, amount)
            paper = printed.get(who.name, Measured())
            entries.append(_entry(own, is_best=own.mean == best[case, amount]))
            entries += [_entry(paper)] if printed else []
            numbers = {"labels": amount, **own._asdict(), "published_mean": paper.mean}
            numbers["published_deviation"] = paper.deviation
            names = {"condition": case.condition.name, "strategy": who.label}
            records.append(names | numbers)
        if has_area:
            entries.append(_entry(over_seeds(first.summary(who.label, AREA))))
        rows.append([who.short, *entries])
    return Table(
        ["Strategy", *columns, *([Column("AUBC")] if has_area else [])],
        rows,
        name=name,
        caption=_accuracy_caption(cases, has_paper=has_paper),
        records=records,
    )


def _accuracy_caption(cases: Sequence[ConditionContext], *, has_paper: bool) -> str:
    is_of_all = len(cases) > 1
    known = chain(*(own.values() for case in cases for own in case.measured.values()))
    seeds = {measured.seeds for measured in known}
    single = " after a single query, by number of labels" if is_of_all else ""
    sentences = [f"Average accuracy (%) ± sample standard deviation{single}."]
    if len(seeds) > 1:
        sentences.append(
            "Not finished: the means are over different numbers of seeds, from "
            f"{min(seeds)} to {max(seeds)}."
        )
    sentences.append("Bold: the highest mean, which need not be significant.")
    if has_paper:
        trials = min(table.trials for table in cases[0].experiment.published)
        sentences.append(
            f"Paper: as printed by Kong et al. (2022), {trials} trials, WRN-28-2 on "
            "the data of the paper."
        )
    return cases[0].caption(*sentences, is_of_all=is_of_all)


def _entry(measured: Measured, *, is_best: bool = False) -> Entry:
    spread = measured.deviation
    detail = f"± {100 * spread:.2f}" if isfinite(spread) else ""
    return Entry(wording.in_percent(measured.mean, 2), is_best, detail=detail)


def _published(case: ConditionContext, num_labels: int) -> dict[str, Measured]:
    """Return mean and deviation in the paper by strategy, as shares."""
    tables, settings = case.experiment.published, case.condition.settings
    is_untrained = settings.zero_shot or settings.start == 0
    return {
        cell.strategy: Measured(mean=cell.mean / 100, deviation=cell.deviation / 100)
        for table in tables
        # One of several is about queries by an untrained network.
        if len(tables) == 1 or (table == TABLE_3_ZERO_SHOT) == is_untrained
        for cell in table.cells
        if cell.num_labels == num_labels
    }


def savings_section(context: Context) -> Section:
    """Return the section about labels saved, where random has a curve."""
    blocks = []
    for case in context.conditions:
        rows: list[Row] = [
            [
                who.short,
                *(
                    Entry(worth.amount, detail=worth.interval and f"({worth.interval})")
                    for worth in savings
                ),
            ]
            for who in context.contenders
            if who.name != "random" and (savings := savings_of(case, who.label))
        ]
        if rows:
            amounts = [f"{amount:,}" for amount in case.paired_labels[1:]]
            table = Table(
                ["Strategy", *(Column(amount, "Labels") for amount in amounts)],
                rows,
                name=case.file_name("savings"),
                caption=case.caption("Random labels of the same mean accuracy."),
            )
            blocks.append(Block(heading=case.heading, tables=[table]))
    return Section("savings", "Labels saved", blocks)


def savings_of(case: ConditionContext, label: str) -> tuple[evaluation.Saving, ...]:
    """Return what labels of a strategy were worth, past the start; none if unknown."""
    random, paired = first_label(case, "random"), case.paired
    if not (label and random and case.has_curve):
        return ()
    amounts, values = case.paired_labels, (paired[label], paired[random])
    return evaluation.labels_saved(amounts, *values)[1:]


def saving_sentences(context: Context) -> list[str]:
    """Return what labels of the experiment's subject were worth, in sentences."""

    def certainty(saving: evaluation.Saving) -> tuple[bool, bool, int]:
        is_known = saving.needed_by_random is not None
        return is_known and saving.high is not None, is_known, saving.num_labels

    subject = first_label(context, context.experiment.subject)
    asked = subject, first_label(context, "random")
    for case in context.conditions:
        if savings := savings_of(case, subject):
            # Further on random's curve ends below an end of the interval.
            last = max(savings, key=certainty)
            interval = f" (95 % interval {last.interval})" if last.interval else ""
            doubts = [
                f" In accuracy the two do not differ significantly {row.measure_text}."
                for row in context.comparisons
                if (row.case, row.measure) == (case, END)
                and (row.test.name, row.test.against) == asked
                and not row.is_significant
            ]
            return [
                f"{last.num_labels} labels chosen by {subject} were worth "
                f"{last.amount} random ones{interval}.{''.join(doubts[:1])}",
                f"This is with the learner {case.condition.settings.trainer.name} and "
                f"{count(len(case.complete_seeds), 'paired seed')}.",
            ]
    return []


# -------------------------------------------------------------------------- comparison


def comparison_section(context: Context) -> Section:
    """Return the section of paired tests, where there are two strategies."""
    notes, tables = [], []
    for case in context.conditions:
        if not case.can_be_tested:
            seeds = count(len(case.complete_seeds), "seed is", "seeds are")
            where = f"{case.heading}: " if case.heading else ""
            notes.append(
                f"{where}{seeds} finished and measured by every strategy; a test needs "
                "at least two, so none is possible yet."
            )
    for name, against in context.references.items():
        own = [c for c in context.comparisons if c.test.against == against]
        if own:
            tables.append(_test_table(context, f"tests-{name}", own))
    has_two = len(context.contenders) > 1 and bool(context.references)
    blocks = [Block(tables=tables, notes=notes)] if has_two else ()
    return Section("comparison", "Paired comparison", blocks)


def _test_table(
    context: Context, name: str, comparisons: Sequence[Comparison]
) -> Table:
    shorts = {who.label: who.short for who in context.contenders}
    columns = [Column(name, is_text=True) for name in ("Strategy", "Measure")]
    columns += [Column(name) for name in ("Difference", "95 % interval", "d")]
    for test_name in ("t-test", "Wilcoxon"):
        columns += [Column("p", test_name), Column("Holm", test_name)]
    rows, records = list[Row](), []
    for comparison in comparisons:
        case, _, test = comparison
        is_significant = comparison.is_significant
        row: list[Entry | str] = [
            shorts[test.name],
            comparison.measure_text,
            Entry(wording.signed(100 * test.difference), is_significant),
            f"{wording.signed(100 * test.low)} to {wording.signed(100 * test.high)}",
            wording.signed(test.effect_size),
            wording.p_text(test.t_p),
            Entry(wording.p_text(test.t_holm), is_significant),
            wording.p_text(test.wilcoxon_p),
            Entry(wording.p_text(test.wilcoxon_holm), test.wilcoxon_holm < LEVEL),
            f"{test.wins} of {test.num_pairs}",
        ]
        rows.append([case.heading, *row] if case.heading else row)
        numbers = asdict(test)
        names = {"condition": case.condition.name, "strategy": numbers.pop("name")}
        names |= {"against": numbers.pop("against"), "measure": comparison.measure_text}
        names["pairs"] = numbers.pop("num_pairs")
        records.append(names | numbers)
    pairs = sorted({comparison.test.num_pairs for comparison in comparisons})
    amounts = wording.span(map(str, pairs))
    most = max(comparison.test.overlap for comparison in comparisons)
    return Table(
        [*context.condition_column, *columns, "Won"],
        rows,
        name=name,
        caption=context.conditions[0].caption(
            f"Difference from {comparisons[0].test.against} in percentage points, on "
            f"{amounts} paired seeds.",
            "Holm: over all rows of all such tables. Seeds that ask for the same "
            "images are not independent: by the names of these images, differences of "
            f"two seeds correlate by {wording.decimal(most)} at most, for which "
            "intervals and p values are corrected (Nadeau and Bengio, 2003).",
            is_of_all=True,
        ),
        records=records,
        breaks=[sum(comparison.measure == END for comparison in comparisons)],
    )
