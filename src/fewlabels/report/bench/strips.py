"""One dot per seed, strategy by strategy."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from fewlabels.report.bench.context import Contender
from fewlabels.report.drawing import (
    MARKERS,
    Margins,
    Place,
    Sheet,
    Size,
    drawing,
    panels_figure,
)
from fewlabels.report.wording import shortened

_ROW = 34
_NAME = 18


@dataclass(frozen=True)
class Strip:
    """The seeds of one strategy."""

    contender: Contender
    shares: tuple[float, ...]
    """At least one."""


@dataclass(frozen=True)
class StripPanel:
    """Strips on one scale."""

    heading: str
    strips: tuple[Strip, ...]


def page_strips(
    panel: StripPanel, limits: tuple[float, float], meaning: str, salt: str
) -> Markup:
    """Draw strips for the page."""
    left = _name_room(panel, 7.4)
    height = _ROW * len(panel.strips) + 66
    size = Size("strips", 440, height)
    margins = Margins(left=left, right=22, bottom=54, top=12)
    with drawing(size, margins, salt) as sheet:
        _draw(sheet, panel, limits, meaning)
    words = " ".join(
        f"{one.contender.label}: {100 * mean(one.shares):.1f} on average over "
        f"{len(one.shares)} seeds."
        for one in panel.strips
    )
    return sheet.element(f"{meaning}. {words}")


def strips_figure(
    panels: Sequence[StripPanel], limits: tuple[float, float], meaning: str
) -> Figure:
    """Draw strips for a file, conditions side by side."""
    left = max(_name_room(panel, 7.4) for panel in panels)
    height = 26 * max(len(panel.strips) for panel in panels)
    figure, sheets = panels_figure(
        [panel.heading for panel in panels],
        Place(left, 32, 300, height),
        left + 330,
        height + 84,
    )
    for panel, sheet in zip(panels, sheets, strict=True):
        _draw(sheet, panel, limits, meaning)
    return figure


def _draw(
    sheet: Sheet, panel: StripPanel, limits: tuple[float, float], meaning: str
) -> None:
    axes = sheet.axes
    axes.set_xlim(100 * limits[0], 100 * limits[1])
    axes.set_ylim(len(panel.strips) - 0.4, -0.6)
    axes.set_yticks([])
    axes.grid(visible=True, axis="x", color=sheet.color("line"))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_xlabel(sheet.write(meaning), color=sheet.color("muted"), labelpad=5)
    for row, strip in enumerate(panel.strips):
        _draw_strip(sheet, row, strip)


def _draw_strip(sheet: Sheet, row: int, strip: Strip) -> None:
    axes, color = sheet.axes, sheet.hue(strip.contender.hue)
    number = len(strip.shares)
    places = [row + 0.3 * ((k + 0.5) / number - 0.5) for k in range(number)]
    axes.plot(
        [100 * share for share in strip.shares],
        places,
        linestyle="none",
        marker=MARKERS[strip.contender.number % len(MARKERS)],
        color=color,
        alpha=0.7,
        markersize=6.5,
        markeredgewidth=0,
        clip_on=False,
    )
    middle = 100 * mean(strip.shares)
    axes.plot([middle] * 2, [row - 0.34, row + 0.34], color=color, linewidth=2.4)
    axes.annotate(
        sheet.write(shortened(strip.contender.short, _NAME)),
        (0, row),
        xycoords=("axes fraction", "data"),
        xytext=(-10, 0),
        textcoords="offset points",
        color=color,
        horizontalalignment="right",
        verticalalignment="center",
        annotation_clip=False,
    )


def _name_room(panel: StripPanel, letter: float) -> int:
    names = (len(shortened(one.contender.short, _NAME)) for one in panel.strips)
    return round(letter * max(names) + 22)
