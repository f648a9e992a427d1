"""Copies among the picks, where the pool holds each image several times."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan
from statistics import mean

from markupsafe import Markup

from fewlabels.bench.results import CellResult
from fewlabels.evaluation import redundant_share
from fewlabels.report.bench.context import ConditionContext, Context
from fewlabels.report.bench.sections import Block, FigureFile, PanelRow, Section
from fewlabels.report.bench.strips import (
    Strip,
    StripPanel,
    page_strips,
    strips_figure,
)
from fewlabels.report.bench.tables import Column, Entry, Table
from fewlabels.report.bench.wording import in_percent
from fewlabels.report.wording import count

_COPIES = "picks that are copies (%)"


@dataclass(frozen=True)
class Redundancy:
    """Copies among the picks of one run."""

    seed: int
    num_picks: int
    share: float
    """Picks that are copies of each other or of something labeled."""


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
                heading=panel.heading,
                rows=(PanelRow((("", _drawn(panel, limits, number)),), kind="strips"),),
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


def _drawn(panel: StripPanel, limits: tuple[float, float], number: int) -> Markup:
    return page_strips(panel, limits, _COPIES, f"copies {number}")


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


def _copies_table(
    one: ConditionContext, found: dict[str, tuple[Redundancy, ...]]
) -> Table:
    rows: list[tuple[Entry, ...]] = []
    records: list[tuple[str | int | float | None, ...]] = []
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
