"""The page about runs: all that it shows is worked out before it becomes HTML."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from fewlabels.naming import AllowCode
from fewlabels.pool import Pool
from fewlabels.report.conditioning import (
    ConditioningView,
    conditioning_rows,
    conditioning_view,
)
from fewlabels.report.curves import Curve, Panel, Point, page_curves, percent_ticks
from fewlabels.report.facts import FactGroup, fact_groups
from fewlabels.report.galleries import (
    Gallery,
    asked_gallery,
    shown_ids,
    starting_gallery,
)
from fewlabels.report.headline import (
    Tile,
    default_title,
    explanation,
    headline,
    tiles,
)
from fewlabels.report.measures import (
    ClassCounts,
    TimingRow,
    class_counts,
    timing_rows,
    total_time,
)
from fewlabels.report.recorded import RecordedRun, read_runs
from fewlabels.report.rendering import write_page
from fewlabels.report.table import AccuracyTable, table_of
from fewlabels.report.thumbnails import Thumbnails
from fewlabels.runs import Conditioning, RoundLine, RunFolder

_TEMPLATE = "page.html.j2"


@dataclass(frozen=True)
class RunView:
    """What is shown of one run."""

    name: str
    hue: int
    start: Gallery | None
    """The starting set, unless all runs share it."""
    galleries: tuple[Gallery, ...]
    counts: ClassCounts | None
    values: tuple[RoundLine, ...]
    """The rounds whose choice has a value."""
    conditioning: ConditioningView | None
    """Spectra of the labeled items; None where no network was kept."""
    timings: tuple[TimingRow, ...]

    @property
    def total(self) -> TimingRow:
        """Seconds of all rounds together."""
        return total_time(self.timings)


@dataclass(frozen=True)
class Page:
    """All of it."""

    title: str
    headline: str
    explanation: tuple[str, ...]
    tiles: tuple[Tile, ...]
    curves: tuple[Markup, ...]
    """The same drawing for wide and for narrow screens; none without a number."""
    caption: str
    table: AccuracyTable
    shared_start: Gallery | None
    runs: tuple[RunView, ...]
    facts: tuple[FactGroup, ...]
    image_size: Literal["tiny", "small", "large"]
    """How images are shown: up to 64 pixels they are enlarged pixel by pixel."""

    @property
    def has_values(self) -> bool:
        """Whether a strategy gave its choices a value."""
        return any(run.values for run in self.runs)

    @property
    def has_ties(self) -> bool:
        """Whether a choice was a tie."""
        return any(row.tie for run in self.runs for row in run.values)

    @property
    def has_spectra(self) -> bool:
        """Whether a spectrum of labeled items is known."""
        return any(run.conditioning for run in self.runs)

    @property
    def has_rounds(self) -> bool:
        """Whether a round is finished."""
        return any(run.timings for run in self.runs)

    @property
    def has_images(self) -> bool:
        """Whether anything was labeled or asked."""
        return bool(self.shared_start) or any(r.start or r.galleries for r in self.runs)


def write_report(
    path: Path,
    folders: Sequence[RunFolder],
    pool: Pool,
    *,
    title: str | None = None,
    allow_code: AllowCode = False,
) -> Path:
    """Write a page about one run, or about several side by side.

    The page is one file that needs no script and no other file. The same runs give the
    same bytes.

    Args:
        path: Where the page shall stand, such as ``folder.report_file``.
        folders: The runs, in the order in which they shall be shown.
        pool: The data of the runs, to show the images that were asked for.
        title: Heading of the page; by default the strategies and the data set.
        allow_code: Which import paths the trainers of the runs may be; the spectra of
            others are left out.

    Returns:
        ``path``.
    """
    runs = read_runs(folders)
    conditioning = [
        conditioning_rows(folder, pool, allow_code=allow_code) for folder in folders
    ]
    contents = page_contents(runs, pool, title, conditioning)
    return write_page(path, _TEMPLATE, contents)


def page_contents(
    runs: Sequence[RecordedRun],
    pool: Pool,
    title: str | None = None,
    conditioning: Sequence[Sequence[Conditioning]] = (),
) -> Page:
    """Return what a page about one run or more shows.

    ``conditioning`` holds the spectra of each run, where they are known.
    """
    thumbnails = Thumbnails(pool)
    thumbnails.prepare(shown_ids(runs))
    is_shared = len(runs) > 1 and all(run.start == runs[0].start for run in runs)
    measured = [run for run in runs if run.measured]
    curves = [
        Curve(run.name, run.hue, tuple(Point(*pair) for pair in run.measured), number)
        for number, run in enumerate(measured)
    ]
    return Page(
        title=title or default_title(runs),
        headline=headline(runs),
        explanation=tuple(explanation(runs)),
        tiles=tiles(runs) if len(runs) > 1 else (),
        curves=page_curves(Panel(tuple(curves))) if curves else (),
        caption=_caption(curves),
        table=table_of(runs),
        shared_start=starting_gallery(runs[0], thumbnails) if is_shared else None,
        runs=tuple(
            _run_view(
                run,
                thumbnails,
                conditioning_view(rows, run.hue, position),
                is_shared=is_shared,
            )
            for position, (run, rows) in enumerate(
                zip(runs, conditioning or [()] * len(runs), strict=True)
            )
        ),
        facts=fact_groups(runs),
        image_size=thumbnails.size,
    )


def _run_view(
    run: RecordedRun,
    thumbnails: Thumbnails,
    conditioning: ConditioningView | None,
    *,
    is_shared: bool,
) -> RunView:
    return RunView(
        name=run.name,
        hue=run.hue,
        start=None if is_shared else starting_gallery(run, thumbnails),
        galleries=tuple(
            asked_gallery(run, line, thumbnails) for line in run.lines if line.ids
        ),
        counts=class_counts(run),
        values=tuple(line for line in run.lines if line.value is not None),
        conditioning=conditioning,
        timings=timing_rows(run),
    )


def _caption(curves: Sequence[Curve]) -> str:
    """Say so where the axis does not begin at zero."""
    if not curves:
        return ""
    low = percent_ticks([y for curve in curves for y in curve.heights])[0]
    return f"The vertical axis begins at {low}\N{NO-BREAK SPACE}%." if low else ""
