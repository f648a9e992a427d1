"""Copies among the picks, where the pool holds each image several times."""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from math import isfinite, nan
from statistics import mean

from fewlabels.bench.results import CellResult
from fewlabels.evaluation import redundant_share
from fewlabels.integers import count
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
            "Share of a run's picks that add nothing new: a copy of the image is "
            "already labeled, or was picked in the same query. The first of several "
            "copies does not count. Every dot is a seed, the line is their mean.",
            *(() if drawn else ("Nothing has been picked yet.",)),
        ),
        blocks=tuple(
            Block(
                heading=panel.heading,
                rows=(_drawn(panel, limits, number),),
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
        numbers: dict[str, int] = {}
        labeled, *queries = (
            [numbers.setdefault(name, len(numbers)) for name in names]
            for names in (run.start, *(line.ids for line in run.lines))
        )
        originals: dict[str, int] = {}
        groups = [
            originals.setdefault(name.rpartition("#")[0] or name, len(originals))
            for name in numbers
        ]
        copies, num_picks = 0.0, 0
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


def _drawn(panel: StripPanel, limits: tuple[float, float], number: int) -> PanelRow:
    element = page_strips(panel, limits, _COPIES, f"copies {number}")
    return PanelRow((("", element),), kind="strips")


def _copies_table(
    one: ConditionContext, found: dict[str, tuple[Redundancy, ...]]
) -> Table:
    shares = {name: [run.share for run in runs] for name, runs in found.items()}
    averages = {name: mean(each) if each else nan for name, each in shares.items()}
    least = min((one for one in averages.values() if isfinite(one)), default=nan)
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
        rows=tuple(
            (
                Entry(name),
                Entry(in_percent(averages[name]), averages[name] == least),
                Entry(in_percent(max(shares[name], default=nan))),
                Entry(count(sum(run.num_picks for run in runs))),
                Entry(count(len(runs))),
            )
            for name, runs in found.items()
        ),
        fields=("condition", "strategy", "seed", "picks", "share"),
        records=tuple(
            (one.results.condition.name, name, *astuple(run))
            for name, runs in found.items()
            for run in runs
        ),
    )
