"""Learning curves with confidence bands."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from fewlabels.evaluation import Noise
from fewlabels.report.bench.comparable import Contender
from fewlabels.report.bench.plotting import (
    DASHES,
    MARKERS,
    Place,
    Plotter,
    new_figure,
    page_element,
    page_sheet,
)
from fewlabels.report.bench.wording import shortened
from fewlabels.report.curves import (
    NARROW,
    percent_ticks,
    spread_apart,
    spread_ticks,
)
from fewlabels.report.drawing import Margins, Size
from fewlabels.report.wording import count, percent

WIDE = Size("wide", 880, 460)
"""For a screen or a sheet of paper."""

_LETTER = 7.4
_PANEL = (420, 300)
_GAPS = {"wide": (18.0, 18, 24), "narrow": (11.0, 16, 15), "file": (14.0, 14, 22)}
"""Room before a name, height of a line and letters of a name at most."""


@dataclass(frozen=True)
class BandPoint:
    """Mean accuracy at a number of labels; low and high are None with one seed."""

    num_labels: int
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class BandCurve:
    """One strategy."""

    contender: Contender
    points: tuple[BandPoint, ...]
    """At least one."""

    @property
    def heights(self) -> list[float]:
        """All that the drawing must hold, as shares."""
        ends = [end for one in self.points for end in (one.low, one.high)]
        return [one.mean for one in self.points] + [
            min(max(end, 0.0), 1.0) for end in ends if end is not None
        ]


@dataclass(frozen=True)
class Panel:
    """The curves of one condition."""

    heading: str
    curves: tuple[BandCurve, ...]
    """At least one."""
    noise: Noise | None = None
    """How far trainings on one label set differ under this condition, if known."""


def page_curves(panel: Panel, salt: str) -> tuple[Markup, ...]:
    """Draw the curves of a condition for wide and for narrow screens."""
    words = " ".join(
        f"{curve.contender.label}: "
        + ", ".join(
            f"{percent(one.mean)} after {count(one.num_labels, 'label')}"
            for one in curve.points
        )
        + "."
        for curve in panel.curves
    )
    found = []
    for size in (WIDE, NARROW):
        _, _, letters = _GAPS[size.name]
        right = round(_LETTER * _longest(panel, letters)) + 20
        margins = Margins(left=46, right=right, bottom=52, top=20)
        with page_sheet(size, margins, salt) as (sheet, plotter):
            _draw(sheet.axes, panel, plotter, sheet.width, sheet.height, size.name)
        description = f"Mean accuracy against number of labels. {words}"
        found.append(page_element(sheet, plotter, description))
    return tuple(found)


def curves_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the curves of all conditions, side by side, on one vertical scale."""
    plotter = Plotter(is_for_page=False)
    right = max(7.3 * _longest(panel, _GAPS["file"][2]) for panel in panels) + 18
    width, height = _PANEL if len(panels) > 1 else (520, 380)
    across = min(len(panels), 2)
    down = -(-len(panels) // across)
    head = 30 if any(panel.heading for panel in panels) else 10
    step_x, step_y = 54 + width + right, head + height + 50
    places = [
        Place(
            54 + (number % across) * step_x,
            head + (number // across) * step_y,
            width,
            height,
        )
        for number in range(len(panels))
    ]
    figure, found = new_figure(across * step_x + 6, down * step_y + 4, places)
    heights = [y for panel in panels for curve in panel.curves for y in curve.heights]
    for panel, axes in zip(panels, found, strict=True):
        _draw(axes, panel, plotter, width, height, "file", heights)
        axes.set_ylabel("accuracy (%)", color=plotter.color("muted"))
        if panel.heading:
            axes.set_title(
                plotter.write(panel.heading),
                loc="left",
                color=plotter.color("ink"),
                size=10.5,
            )
    return figure


def _draw(
    axes: Axes,
    panel: Panel,
    plotter: Plotter,
    width: float,
    height: float,
    kind: str,
    heights: Sequence[float] = (),
) -> None:
    _draw_axes(axes, panel, plotter, width, heights)
    for curve in panel.curves:
        _draw_curve(axes, curve, plotter, is_small=kind != "wide")
    _draw_names(axes, panel, plotter, width, height, kind)
    if panel.noise is not None:
        _draw_noise(axes, panel.noise, plotter)


def _draw_axes(
    axes: Axes, panel: Panel, plotter: Plotter, width: float, heights: Sequence[float]
) -> None:
    ticks = percent_ticks(
        heights or [y for curve in panel.curves for y in curve.heights]
    )
    axes.set_ylim(ticks[0], ticks[-1])
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f}"))
    amounts = sorted({p.num_labels for curve in panel.curves for p in curve.points})
    room = max(1.0, 0.03 * (amounts[-1] - amounts[0]))
    axes.set_xlim(amounts[0] - room, amounts[-1] + room)
    least = 34 * (amounts[-1] - amounts[0] + 2 * room) / width
    axes.xaxis.set_major_locator(FixedLocator(spread_ticks(amounts, least)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel("labels", color=plotter.color("muted"), labelpad=5)


def _draw_curve(
    axes: Axes, curve: BandCurve, plotter: Plotter, *, is_small: bool
) -> None:
    who = curve.contender
    color, amounts = plotter.hue(who.hue), [one.num_labels for one in curve.points]
    banded = [one for one in curve.points if one.low is not None]
    if len(banded) > 1:
        axes.fill_between(
            [one.num_labels for one in banded],
            [100 * max(one.low or 0, 0) for one in banded],
            [100 * min(one.high or 0, 1) for one in banded],
            color=color,
            alpha=0.1,
            linewidth=0,
        )
    elif banded:
        (one,) = banded
        ends = [100 * max(one.low or 0, 0), 100 * min(one.high or 0, 1)]
        axes.plot([one.num_labels] * 2, ends, color=color, linewidth=1.5)
    axes.plot(
        amounts,
        [100 * one.mean for one in curve.points],
        color=color,
        linewidth=1.6 if is_small else 2.1,
        dashes=DASHES[who.hue],
        marker=MARKERS[who.number % len(MARKERS)],
        markersize=5.0 if is_small else 7.5,
        markeredgewidth=1.0,
        markeredgecolor=plotter.color("page"),
        clip_on=False,
        zorder=3 + who.number,
    )


def _draw_names(
    axes: Axes, panel: Panel, plotter: Plotter, width: float, height: float, kind: str
) -> None:
    """Write each name at the right edge, at the height where its curve ends."""
    room, line, letters = _GAPS[kind]
    low, high = axes.get_ylim()
    left, edge = axes.get_xlim()
    last = max(curve.points[-1].num_labels for curve in panel.curves)
    room += (edge - last) / (edge - left) * width
    ends = [100 * curve.points[-1].mean for curve in panel.curves]
    heights = [(end - low) / (high - low) * height for end in ends]
    places = kept_below(spread_apart(heights, least_gap=line), line, height)
    for curve, end, wished, place in zip(
        panel.curves, ends, heights, places, strict=True
    ):
        color = plotter.hue(curve.contender.hue)
        scale = 1.0 if plotter.is_for_page else 0.75  # pixels in points
        axes.annotate(
            plotter.write(_end_name(curve, letters)),
            (last, end),
            xytext=(room * scale, (place - wished) * scale),
            textcoords="offset points",
            color=color,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.8,
                "shrinkA": 0,
                "shrinkB": 6,
                "relpos": (0, 0.5),
            },
        )


def kept_below(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Move places down where they are above the top, and those that are in the way.

    Example:
        >>> kept_below([90.0, 112.0], gap=18, top=100)
        [82, 100]

    Args:
        places: The places wished for, a gap apart.
        gap: How far apart they must be.
        top: The highest place.

    Returns:
        The places after moving, in the order given.
    """
    moved = list(places)
    limit = top
    for number in sorted(range(len(moved)), key=moved.__getitem__, reverse=True):
        moved[number] = min(moved[number], limit)
        limit = moved[number] - gap
    return moved


def _draw_noise(axes: Axes, noise: Noise, plotter: Plotter) -> None:
    """Draw, like the scale of a map, how far trainings on one label set differ."""
    low, high = axes.get_ylim()
    left, right = axes.get_xlim()
    reach = min(100 * noise.deviation, (high - low) / 4)
    middle = low + 0.05 * (high - low) + reach
    place = left + 0.965 * (right - left)
    axes.errorbar(
        [place],
        [middle],
        yerr=[reach],
        color=plotter.color("muted"),
        capsize=4,
        linewidth=1.6,
        zorder=2,
    )
    axes.annotate(
        plotter.write(f"retraining alone: ± {100 * noise.deviation:.1f}"),
        (place, middle),
        xytext=(-9, 0),
        textcoords="offset points",
        color=plotter.color("muted"),
        horizontalalignment="right",
        verticalalignment="center",
    )


def _end_name(curve: BandCurve, letters: int) -> str:
    name = shortened(curve.contender.short, letters)
    return f"{name} {100 * curve.points[-1].mean:.1f}"


def _longest(panel: Panel, letters: int) -> int:
    return max(len(_end_name(curve, letters)) for curve in panel.curves)
