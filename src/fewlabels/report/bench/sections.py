"""Sections of the page of an experiment: accuracy, tests, savings, picks.

Shapes: S seeds, A strategies, T numbers of labels at which accuracy was measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from math import isfinite, nan
from statistics import mean
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewlabels.errors import count
from fewlabels.experiments.bench.experiment import Condition
from fewlabels.experiments.bench.published import TABLE_3_ZERO_SHOT, PublishedCell
from fewlabels.experiments.bench.results import CellResult
from fewlabels.experiments.evaluation import (
    PairedTest,
    Saving,
    area_under_curve,
    chance_overlap,
    corrected,
    curve_band,
    labels_saved,
    overlap_across_trials,
    overlap_of_unions,
    overlap_per_trial,
    paired_tests,
    redundant_share,
)
from fewlabels.report.bench.context import ConditionContext, Contender, Context
from fewlabels.report.figures import Curve, Point, draw_curves, some
from fewlabels.report.page import Block, Section
from fewlabels.report.table import Column, Entry, Record, Row, Table
from fewlabels.report.wording import in_percent, p_text, signed

LEVEL = 0.05
"""Level of the tests."""

END, AREA = "the end", "AUBC"
"""What strategies are compared by."""

_NUMBERS = (
    "difference", "low", "high", "effect_size", "t_p", "t_holm", "wilcoxon_p",
    "wilcoxon_holm", "wins", "losses",
)  # fmt: skip
"""What a test comes to, by its names in the data, which are those of the test."""

_FAIR = "Trial by trial, starting labels left out"
_PAPER = "As in the paper: unions over the trials, starting labels left in"


class Measured(NamedTuple):
    """Accuracy of one strategy at one number of labels, over its seeds."""

    seeds: int
    mean: float
    deviation: float
    low: float
    high: float


_NOTHING = Measured(0, nan, nan, nan, nan)


def measured(one: ConditionContext, label: str) -> dict[int, Measured]:
    """Return mean and spread of a strategy by number of labels, where known."""
    found = {}
    accuracies_ST = one.results.accuracies(label)
    for amount, column_S in zip(one.results.num_labels, accuracies_ST.T, strict=True):
        known = column_S[np.isfinite(column_S)]
        if amount and len(known):  # nothing is learnt from no labels
            found[amount] = _over_seeds(known)
    return found


def accuracy_section(context: Context) -> Section:
    """Return the section about accuracy: curves and tables, condition by condition."""
    if context.has_single_queries:  # as in Table 3
        places = [
            (one, one.results.condition.settings.budget) for one in context.conditions
        ]
        blocks = [Block(tables=[_accuracy_table(context, "shots", places)])]
    else:
        blocks = [_block(context, one) for one in context.conditions]
    return Section(anchor="accuracy", title="Accuracy", blocks=blocks)


def savings_section(context: Context) -> Section:
    """Return the section about labels saved, where random has a curve."""
    blocks = []
    for one in context.conditions:
        found = {who: savings_of(one, who.label) for who in context.contenders}
        found = {who: own for who, own in found.items() if own and who.name != "random"}
        if found:
            table = Table(
                ["Strategy"]
                + [Column(f"{amount:,}", "Labels") for amount in one.num_labels[1:]],
                [[who.short, *map(_worth, own)] for who, own in found.items()],
                name=one.file_name("savings"),
                caption=one.caption("Random labels of the same mean accuracy."),
            )
            blocks.append(Block(heading=one.heading, tables=[table]))
    return Section(anchor="savings", title="Labels saved", blocks=blocks)


def savings_of(one: ConditionContext, label: str) -> tuple[Saving, ...]:
    """Return what labels of a strategy were worth, past the start; none if unknown."""
    random = next((who.label for who in one.contenders if who.name == "random"), None)
    if random is None or not one.has_curve:
        return ()
    return labels_saved(one.num_labels, one.accuracies[label], one.accuracies[random])[
        1:
    ]


def saving_sentences(context: Context) -> list[str]:
    """Say what labels of the experiment's subject were worth, and how it is known."""
    subject = context.contender(context.experiment.subject)
    for one in context.conditions:
        savings = savings_of(one, subject.label) if subject else ()
        if subject and savings:
            # Further on random's curve ends below an end of the interval.
            last = max(savings, key=_certainty)
            interval = f" (95 % interval {last.interval})" if last.interval else ""
            return [
                f"{last.num_labels} labels chosen by {subject.label} were worth "
                f"{last.amount} random ones{interval}.",
                "This is with the learner "
                f"{one.results.condition.settings.trainer.name} and "
                f"{count(len(one.seeds), 'paired seed')}.",
            ]
    return []


def _worth(saving: Saving) -> Entry:
    detail = f"({saving.interval})" if saving.interval else ""
    return Entry(saving.amount, detail=detail)


def _certainty(saving: Saving) -> tuple[bool, bool, int]:
    is_known = saving.needed_by_random is not None
    return is_known and saving.high is not None, is_known, saving.num_labels


def _over_seeds(values_S: NDArray[np.float64]) -> Measured:
    band = curve_band(values_S[:, None])
    numbers = (band.mean, band.deviation, band.low, band.high)
    return Measured(len(values_S), *(float(number[0]) for number in numbers))


def _block(context: Context, one: ConditionContext) -> Block:
    curves = []
    for who in context.contenders:
        points = tuple(
            Point(
                amount,
                own.mean,
                own.low if own.seeds > 1 else None,
                own.high if own.seeds > 1 else None,
            )
            for amount, own in measured(one, who.label).items()
        )
        if points:
            curves.append(Curve(who.short, who.hue, points))
    if not curves:
        return Block(heading=one.heading, notes=["Nothing has been measured yet."])
    places = [(one, amount) for amount in one.results.num_labels if amount]
    return Block(
        heading=one.heading,
        drawing=draw_curves(one.file_name("curves"), curves),
        tables=[_accuracy_table(context, one.file_name("accuracy"), places)],
    )


def _accuracy_table(
    context: Context, name: str, places: Sequence[tuple[ConditionContext, int]]
) -> Table:
    """Return means by strategy at some numbers of labels, with the paper's if known."""
    first, last = places[0][0], places[-1][0]
    is_of_all = first is not last
    known = {
        (one, who): measured(one, who.label)
        for one in dict.fromkeys(one for one, _ in places)
        for who in context.contenders
    }
    columns: list[Column | str] = ["Strategy"]
    rows: list[list[Entry | str]] = [[who.short] for who in context.contenders]
    records: list[list[Record]] = [[] for _ in context.contenders]
    has_printed = False
    for one, amount in places:
        # A condition's name without the number of labels, which heads the column.
        labels, parts = count(amount, "label"), one.heading.split(", ")
        shared = ", ".join(part for part in parts if part != labels)
        group = shared if is_of_all else "Labels"
        printed = _published(context, one.results.condition, amount)
        has_printed = has_printed or bool(printed)
        columns.append(Column(f"{amount:,}", group))
        if printed:
            columns.append(Column(f"{amount:,}, paper", group, is_quiet=True))
        owns = [known[one, who].get(amount, _NOTHING) for who in context.contenders]
        means = [own.mean for own in owns if own.seeds]
        for place, (who, own) in enumerate(zip(context.contenders, owns, strict=True)):
            is_best = bool(own.seeds) and min(means) < own.mean == max(means)
            rows[place].append(_entry(own.mean, own.deviation, is_best=is_best))
            cell = printed.get(who.name)
            theirs = (cell.mean / 100, cell.deviation / 100) if cell else (nan, nan)
            if printed:
                rows[place].append(_entry(*theirs))
            records[place].append(
                {
                    "condition": one.name,
                    "strategy": who.label,
                    "labels": amount,
                    **own._asdict(),
                    "published_mean": theirs[0],
                    "published_deviation": theirs[1],
                }
            )
    if first.has_curve and not is_of_all:
        columns.append("AUBC")
        for who, row in zip(context.contenders, rows, strict=True):
            areas = area_under_curve(first.num_labels, first.accuracies[who.label])
            row.append(_entry(*_over_seeds(areas)[1:3]))
    seeds = {own.seeds for by in known.values() for own in by.values()}
    single = " after a single query, by number of labels" if is_of_all else ""
    sentences = [f"Average accuracy (%) ± sample standard deviation{single}."]
    if len(seeds) > 1:
        sentences.append(
            "Not finished: the means are over different numbers of seeds, from "
            f"{min(seeds)} to {max(seeds)}."
        )
    sentences.append("Bold: the highest mean, which need not be significant.")
    if has_printed:
        trials = min(table.trials for table in context.experiment.published)
        sentences.append(
            f"Paper: as printed by Kong et al. (2022), {trials} trials, WRN-28-2 on "
            "the data of the paper."
        )
    return Table(
        columns,
        rows,
        name=name,
        caption=first.caption(*sentences, is_of_all=is_of_all),
        records=[record for own in records for record in own],
    )


def _entry(mean: float, deviation: float, *, is_best: bool = False) -> Entry:
    detail = f"± {100 * deviation:.2f}" if isfinite(deviation) else ""
    return Entry(in_percent(mean, 2), is_best, detail=detail)


def _published(
    context: Context, condition: Condition, num_labels: int
) -> dict[str, PublishedCell]:
    """Return what the paper prints for a condition at a number of labels."""
    tables = context.experiment.published
    if len(tables) > 1:  # one of them is about queries by an untrained network
        is_untrained = condition.settings.zero_shot or condition.settings.start == 0
        tables = tuple(
            one for one in tables if (one == TABLE_3_ZERO_SHOT) == is_untrained
        )
    cells = [cell for table in tables for cell in table.cells]
    return {cell.strategy: cell for cell in cells if cell.num_labels == num_labels}


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
        labels = count(self.condition.num_labels[-1], "label")
        return f"at {labels}" if self.measure == END else self.measure

    @property
    def is_significant(self) -> bool:
        """Whether the t-test says so after Holm's correction."""
        return self.test.t_holm < LEVEL


@lru_cache(maxsize=8)  # several sections of a page speak of the same tests
def compared(context: Context, against: str, measure: str) -> tuple[Comparison, ...]:
    """Return tests of all strategies against one, by one measure, under all conditions.

    Holm's correction is over all of them together. There are none of conditions with
    fewer than two seeds that all have finished; no p value is known of strategies that
    differ by the same on every seed.
    """
    found = [
        Comparison(one, measure, test)
        for one in context.conditions
        if one.can_be_tested and (measure == END or one.has_curve)
        for test in paired_tests(_values(one, measure), against=against)
    ]
    tests = corrected([one.test for one in found])
    return tuple(
        replace(one, test=test) for one, test in zip(found, tests, strict=True)
    )


def comparison_section(context: Context) -> Section:
    """Return the section of paired tests, where there are two strategies."""
    notes, tables = [], []
    for one in context.conditions:
        if not one.can_be_tested:
            seeds = count(len(one.seeds), "seed is", "seeds are")
            where = f"{one.heading}: " if one.heading else ""
            notes.append(
                f"{where}{seeds} finished and measured by every strategy; a test needs "
                "at least two, so none is possible yet."
            )
    for against in context.references:
        found = [compared(context, against.label, by) for by in (END, AREA)]
        if any(found):
            tables.append(_test_table(context, against, *found))
    has_two = len(context.contenders) > 1 and bool(context.references)
    blocks = [Block(tables=tables, notes=notes)] if has_two else ()
    return Section(anchor="comparison", title="Paired comparison", blocks=blocks)


def _values(one: ConditionContext, measure: str) -> Mapping[str, NDArray[np.float64]]:
    if measure == END:
        return {name: array[:, -1] for name, array in one.accuracies.items()}
    return {
        name: area_under_curve(one.num_labels, array)
        for name, array in one.accuracies.items()
    }


def _test_table(
    context: Context,
    against: Contender,
    by_end: Sequence[Comparison],
    by_area: Sequence[Comparison],
) -> Table:
    found = [*by_end, *by_area]
    shorts = {who.label: who.short for who in context.contenders}
    pairs = sorted({one.test.num_pairs for one in found})
    amounts = " to ".join(map(str, pairs[:1] + pairs[1:][-1:]))
    rows, records = list[Row](), list[Record]()
    for one in found:
        test = one.test
        rows.append(
            [
                *one.condition.heading_entry,
                shorts[test.name],
                one.measure_text,
                Entry(signed(100 * test.difference), one.is_significant),
                f"{signed(100 * test.low)} to {signed(100 * test.high)}",
                signed(test.effect_size),
                p_text(test.t_p),
                Entry(p_text(test.t_holm), one.is_significant),
                p_text(test.wilcoxon_p),
                Entry(p_text(test.wilcoxon_holm), test.wilcoxon_holm < LEVEL),
                f"{test.wins} of {test.num_pairs}",
            ]
        )
        records.append(
            {
                "condition": one.condition.name,
                "strategy": test.name,
                "against": test.against,
                "measure": one.measure_text,
                "pairs": test.num_pairs,
                **{key: getattr(test, key) for key in _NUMBERS},
            }
        )
    texts = [*context.condition_column, "Strategy", "Measure"]
    return Table(
        [
            *(Column(name, is_text=True) for name in texts),
            "Difference",
            "95 % interval",
            "d",
            *(
                Column(name, test)
                for test in ("t-test", "Wilcoxon")
                for name in ("p", "Holm")
            ),
            "Won",
        ],
        rows,
        name=f"tests-{against.name}",
        caption=context.conditions[0].caption(
            f"Difference from {against.label} in percentage points, on {amounts} "
            "paired seeds.",
            is_of_all=True,
        ),
        records=records,
        breaks=[len(by_end)],
    )


class Overlap(NamedTuple):
    """How alike the picks of strategies are at one number of labels, as shares."""

    num_labels: int
    shares: NDArray[np.float64]
    """Of each two strategies, (A, A); on the diagonal a strategy against itself with
    other seeds, NaN where that is not known."""
    chance: float | None
    """What random picks would come to; None where the size of the pool is unknown."""


def overlap_section(context: Context) -> Section:
    """Return how alike the picks of two strategies are (Fig. 1 of the paper)."""
    most = 3 if "overlap" in context.experiment.figures else 1
    blocks = []
    for one in context.conditions if len(context.contenders) > 1 else ():
        # With pools of their own, seeds share some images only.
        own_pools = one.results.condition.own_pools
        found = [] if own_pools else overlaps_of(one, most)
        if found:
            fair, unions = zip(*found, strict=True)
            tables = [
                _overlap_table(one, "overlap", _FAIR, fair),
                _overlap_table(one, "overlap-unions", _PAPER, unions),
            ]
            blocks.append(Block(heading=one.heading, tables=tables))
    return Section(anchor="overlap", title="Overlap of the picks", blocks=blocks)


def overlaps_of(one: ConditionContext, most: int) -> list[tuple[Overlap, Overlap]]:
    """Return the overlaps at no more than so many numbers of labels.

    The first of each two is trial by trial, without the start; the other one is the
    paper's, of the unions over all trials.
    """
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
    for amount in some(amounts, most):
        trials = [
            seed
            for seed in results.seeds
            if all(
                any(line.num_labeled == amount for line in results.of(name, seed).lines)
                for name in results.strategies
            )
        ]
        if trials:
            found.append(_overlap(one, amount, trials))
    return found


def redundancy_section(context: Context) -> Section:
    """Return the copies among the picks, where the experiment is about them."""
    blocks = []
    for one in context.conditions if "redundancy" in context.experiment.figures else ():
        runs = {
            who: copies_in(one.results.runs(who.label)) for who in context.contenders
        }
        averages = {
            who: mean(share for *_, share in found) if found else nan
            for who, found in runs.items()
        }
        least = min(filter(isfinite, averages.values()), default=nan)
        table = Table(
            ["Strategy", "Mean", "Worst seed", "Picks", "Seeds"],
            [
                [
                    who.short,
                    Entry(in_percent(averages[who]), averages[who] == least),
                    in_percent(max((share for *_, share in found), default=nan)),
                    f"{sum(picks for _, picks, _ in found):,}",
                    f"{len(found):,}",
                ]
                for who, found in runs.items()
            ],
            name=one.file_name("redundancy"),
            caption=one.caption(
                "Picks that are copies of each other or of a labeled image (%). Bold: "
                "the fewest."
            ),
        )
        if any(runs.values()):
            blocks.append(Block(heading=one.heading, tables=[table]))
    return Section(anchor="redundancy", title="Copies among the picks", blocks=blocks)


def copies_in(runs: Sequence[CellResult]) -> list[tuple[int, int, float]]:
    """Return the seed, the picks and the share of copies of each run with picks.

    A pick is a copy of another, or of something labeled, if their names differ behind
    the last "#" only.
    """
    found = []
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
            found.append((run.seed, num_picks, copies / num_picks))
    return found


def _overlap(
    one: ConditionContext, amount: int, trials: Sequence[int]
) -> tuple[Overlap, Overlap]:
    results = one.results
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
    described = [cell.description for cell in results.cells if cell.description]
    pool_size = described[0].get("data", {}).get("num_items")
    start, begun = max(map(len, starts[0])), len(set().union(*chain(*starts)))
    picked, rest = amount - start, (pool_size or 0) - begun
    if pool_size is not None and 0 < picked <= min(pool_size - start, rest):
        joined = round(rest * (1 - (1 - picked / rest) ** len(trials)))
        fair_chance = chance_overlap(pool_size - start, picked, picked)
        unions_chance = chance_overlap(rest, joined, joined, shared=begun)
    return Overlap(amount, fair, fair_chance), Overlap(amount, unions, unions_chance)


def _overlap_table(
    one: ConditionContext, name: str, meaning: str, overlaps: Sequence[Overlap]
) -> Table:
    """Return overlaps of strategies at some numbers of labels, darker for more."""
    largest = max(1e-9, *(float(np.nanmax(found.shares)) for found in overlaps))
    rows: list[Row] = [
        [
            f"{found.num_labels:,}",
            who.short,
            *(
                Entry(
                    in_percent(share),
                    share=share / largest if isfinite(share) else None,
                )
                for share in shares
            ),
            in_percent(found.chance),
        ]
        for found in overlaps
        for who, shares in zip(one.contenders, found.shares.tolist(), strict=True)
    ]
    size = len(one.contenders)
    return Table(
        [
            "Labels",
            Column("Strategy", is_text=True),
            *(who.short for who in one.contenders),
            Column("chance", is_quiet=True),
        ],
        rows,
        name=one.file_name(name),
        caption=one.caption(f"Overlap (IoU, %) of the picks. {meaning}."),
        breaks=range(size, len(rows), size),
    )
