"""What was picked: classes covered, and copies."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import mean

from fewlabels.bench.results import CellResult
from fewlabels.evaluation import class_balance, class_coverage, redundant_share
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.sections import Block, FigureFile, Section
from fewlabels.report.bench.strips import (
    Strip,
    StripPanel,
    page_strips,
    strips_figure,
)
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import decimal, in_percent
from fewlabels.report.wording import count

_COPIES = "picks that are copies (%)"


@dataclass(frozen=True)
class Redundancy:
    """Copies among the picks of one run."""

    seed: int
    num_picks: int
    share: float
    """Picks that are copies of each other or of something labeled."""


def classes_section(context: Context) -> Section | None:
    """Return the section about classes; None before anything was labeled."""
    found = [one for one in context.conditions if _amounts(one)]
    if not found:
        return None
    return Section(
        anchor="classes",
        title="Classes of the labels",
        notes=(
            "Mean over the seeds, of all labels so far. Coverage is the percentage of "
            "the classes that have a label at all; balance is the entropy of the "
            "labels over the classes divided by its largest value, 1 where all classes "
            "have equally many.",
        ),
        blocks=tuple(
            Block(heading=one.heading, tables=(_class_table(context, one),))
            for one in found
        ),
    )


def redundancy_section(context: Context) -> Section | None:
    """Return the section about copies, where the experiment is about them."""
    if "redundancy" not in context.experiment.figures:
        return None
    found = {
        one.suffix: {
            who.label: redundancies(one.results.runs(who.label))
            for who in context.contenders
        }
        for one in context.conditions
    }
    panels = [
        StripPanel(
            one.heading,
            tuple(
                Strip(who, tuple(run.share for run in runs))
                for who in context.contenders
                if (runs := found[one.suffix][who.label])
            ),
        )
        for one in context.conditions
    ]
    drawn = [panel for panel in panels if panel.strips]
    shares = [share for one in drawn for strip in one.strips for share in strip.shares]
    limits = (0.0, min(1.0, max([0.05, *(1.08 * share for share in shares)])))
    return Section(
        anchor="redundancy",
        title="Copies among the picks",
        notes=(
            "Share of the picks of a run that tell nothing new: a copy of the image is "
            "labeled already, or was picked in the same query. The first of several "
            "copies does not count. Every dot is a seed, the line is their mean.",
            *(() if drawn else ("Nothing was picked yet.",)),
        ),
        blocks=tuple(
            Block(
                panels=(
                    (
                        panel.heading,
                        page_strips(panel, limits, _COPIES, f"copies {number}"),
                    ),
                ),
                tables=(_copies_table(one, found[one.suffix]),),
            )
            for number, (one, panel) in enumerate(
                zip(context.conditions, panels, strict=True)
            )
            if panel.strips
        ),
        figures=(
            FigureFile("redundancy", lambda: strips_figure(drawn, limits, _COPIES)),
        )
        if drawn
        else (),
    )


def redundancies(runs: Sequence[CellResult]) -> tuple[Redundancy, ...]:
    """Return the copies in each run that has picked something.

    Copies have names that differ behind the last "#" only.
    """
    found = []
    for run in runs:
        known = _Numbering()
        labeled = [known.of(name) for name in run.start]
        copies, num_picks = 0.0, 0
        queries = [[known.of(name) for name in line.ids] for line in run.lines]
        groups = known.groups()
        for query in queries:
            before = set(labeled)
            picks = [item for item in dict.fromkeys(query) if item not in before]
            if picks:
                copies += len(picks) * redundant_share(picks, labeled, groups)
                num_picks += len(picks)
                labeled += picks
        if num_picks:
            found.append(Redundancy(run.seed, num_picks, copies / num_picks))
    return tuple(found)


class _Numbering:
    """Numbers for names of items, and for what they are copies of."""

    def __init__(self) -> None:
        self._items: dict[str, int] = {}

    def of(self, name: str) -> int:
        """Return the number of an item."""
        return self._items.setdefault(name, len(self._items))

    def groups(self) -> list[int]:
        """Return for each item which it is a copy of."""
        found: dict[str, int] = {}
        originals = (name.rpartition("#")[0] or name for name in self._items)
        return [found.setdefault(name, len(found)) for name in originals]


def _amounts(one: ConditionContext) -> tuple[int, ...]:
    """Return the numbers of labels that a round was trained on, ascending."""
    found = {
        line.num_labeled
        for cell in one.results.cells
        for line in cell.lines
        if sum(line.class_counts)
    }
    return tuple(sorted(found))


def _class_table(context: Context, one: ConditionContext) -> Table:
    amounts = _amounts(one)
    rows, records = [], []
    for who in context.contenders:
        coverage, balance = [], []
        for amount in amounts:
            counts = [
                line.class_counts
                for run in one.results.runs(who.label)
                for line in run.lines
                if line.num_labeled == amount and sum(line.class_counts)
            ]
            covered = [class_coverage(counted) for counted in counts]
            evenness = [class_balance(counted) for counted in counts]
            coverage.append(mean(covered) if covered else nan)
            balance.append(mean(evenness) if evenness else nan)
            records.append(
                (
                    one.results.condition.name,
                    who.label,
                    amount,
                    len(counts),
                    coverage[-1],
                    min(covered, default=nan),
                    balance[-1],
                )
            )
        rows.append(
            (
                Entry(who.label),
                *(Entry(in_percent(share)) for share in coverage),
                *(Entry(decimal(share)) for share in balance),
            )
        )
    return Table(
        name=one.file_name("classes"),
        caption=one.caption("Classes among the labels, mean over the seeds."),
        columns=(
            Column("Strategy", is_text=True),
            *(Column(f"{amount:,}", "Coverage (%) by labels") for amount in amounts),
            *(Column(f"{amount:,}", "Balance by labels") for amount in amounts),
        ),
        rows=tuple(rows),
        fields=(
            "condition", "strategy", "labels", "seeds", "coverage", "worst_coverage",
            "balance",
        ),
        records=tuple(records),
    )  # fmt: skip


def _copies_table(
    one: ConditionContext, found: dict[str, tuple[Redundancy, ...]]
) -> Table:
    rows, records = [], []
    for name, runs in found.items():
        shares = [run.share for run in runs]
        average = mean(shares) if shares else nan
        worst = max(shares, default=nan)
        picks = sum(run.num_picks for run in runs)
        rows.append(
            (
                Entry(name),
                Entry(in_percent(average)),
                Entry(in_percent(worst)),
                Entry(count(picks)),
                Entry(count(len(runs))),
            )
        )
        records.extend(
            (one.results.condition.name, name, run.seed, run.num_picks, run.share)
            for run in runs
        )
    averages = [mean(run.share for run in runs) for runs in found.values() if runs]
    best = min((share for share in averages if isfinite(share)), default=nan)
    marked = [
        (row[0], Entry(row[1].text, row[1].text == in_percent(best)), *row[2:])
        for row in rows
    ]
    return Table(
        name=one.file_name("redundancy"),
        caption=one.caption(
            "Picks that are copies of each other or of a labeled image (%). Bold: the "
            "fewest."
        ),
        columns=(
            Column("Strategy", is_text=True),
            Column("Mean"),
            Column("Worst seed"),
            Column("Picks"),
            Column("Seeds"),
        ),
        rows=tuple(marked),
        fields=("condition", "strategy", "seed", "picks", "share"),
        records=tuple(records),
    )
