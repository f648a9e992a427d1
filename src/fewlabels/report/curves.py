"""Accuracy against the number of labels, drawn as SVG for the inside of a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter

from fewlabels.report.drawing import STAND_INS, Margins, Size, drawing, hue
from fewlabels.report.wording import percent, rough_percent

_MARKERS = "osD^v"
_LETTER = 7.4
_LARGEST_NAME = 24
_LINE_HEIGHT = 18
_TICK_GAP = 30
_TICK_STEPS = (1, 2, 5, 10, 20)  # each divides 100
_LARGEST_TICK_COUNT = 5


@dataclass(frozen=True)
class Curve:
    """One line of the drawing."""

    name: str
    hue: int
    points: tuple[tuple[int, float], ...]
    """Number of labels and accuracy, ascending; at least one."""
    band: tuple[tuple[float, float], ...] = ()
    """Between what the accuracy of each point may be; none where nobody knows."""

    @property
    def heights(self) -> list[float]:
        """All accuracies that the drawing must hold."""
        return [y for _, y in self.points] + [end for ends in self.band for end in ends]

    def value(self, accuracy: float) -> str:
        """Return an accuracy as it is written at a point: roughly, where a band is."""
        return rough_percent(accuracy) if self.band else percent(accuracy)

    @property
    def end_label(self) -> str:
        """What stands at the end of the curve."""
        longest = _LARGEST_NAME
        short = self.name if len(self.name) <= longest else f"{self.name[:longest]}…"
        return f"{short} {self.value(self.points[-1][1])}"


WIDE = Size("wide", 880, 380)
"""For a screen or a sheet of paper."""

NARROW = Size("narrow", 360, 300)
"""For a phone."""


def accuracy_curves(curves: Sequence[Curve], size: Size, description: str) -> Markup:
    """Draw the curves.

    Args:
        curves: The curves; at least one.
        size: How large.
        description: What to read out to somebody who does not see the drawing.

    Returns:
        An ``svg`` element that refers to nothing outside the page.
    """
    names = [curve.end_label for curve in curves]
    margins = Margins(left=50, right=_right_margin(curves, size), bottom=52, top=26)
    with drawing(size, margins) as sheet:
        _draw(sheet.axes, curves, sheet.width, sheet.height)
    return sheet.element(names, description)


def percent_ticks(accuracies: Sequence[float]) -> list[int]:
    """Return the ticks of the vertical axis, in percent; it ends at the outermost.

    Example:
        >>> percent_ticks([0.742, 0.954, 0.972])
        [70, 80, 90, 100]

    Args:
        accuracies: What the axis must hold, as shares.

    Returns:
        At least two numbers from 0 to 100, ascending.
    """
    lowest, highest = 100 * min(accuracies), 100 * max(accuracies)
    margin = max(0.08 * (highest - lowest), 1.0)
    low, high = max(0.0, lowest - margin), min(100.0, highest + margin)
    step = next(s for s in _TICK_STEPS if (high - low) / s <= _LARGEST_TICK_COUNT)
    return list(range(floor(low / step) * step, ceil(high / step) * step + 1, step))


def _draw(axes: Axes, curves: Sequence[Curve], width: int, height: int) -> None:
    _draw_axes(axes, curves, width=width)
    for number, curve in enumerate(curves):
        _draw_band(axes, curve)
        _draw_curve(axes, curve, number)
    if len(curves) > 1:
        _draw_names(axes, curves, height=height)
    else:
        _draw_values(axes, curves[0])


def _draw_axes(axes: Axes, curves: Sequence[Curve], *, width: int) -> None:
    heights = percent_ticks([y for curve in curves for y in curve.heights])
    axes.set_ylim(heights[0], heights[-1])
    axes.yaxis.set_major_locator(FixedLocator(heights))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:.0f} %"))
    amounts = sorted({x for curve in curves for x, _ in curve.points})
    room = 0.04 * (amounts[-1] - amounts[0]) or 1.0
    axes.set_xlim(amounts[0] - room, amounts[-1] + room)
    per_label = width / (amounts[-1] - amounts[0] + 2 * room)
    ticks = spread_ticks(amounts, least_gap=_TICK_GAP / per_label)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel("labels", color=STAND_INS["muted"], labelpad=6)


def spread_ticks(amounts: Sequence[int], least_gap: float) -> list[int]:
    """Return the numbers of labels to write on the axis: all, or as many as fit.

    Example:
        >>> spread_ticks([10, 30, 31, 50], least_gap=5)
        [10, 31, 50]
    """
    kept = [amounts[-1]]
    for amount in reversed(amounts[:-1]):
        if kept[-1] - amount >= least_gap:
            kept.append(amount)
    if kept[-1] != amounts[0]:
        kept[-1:] = [amounts[0]] if len(kept) > 1 else [kept[-1], amounts[0]]
    return sorted(set(kept))


def _draw_band(axes: Axes, curve: Curve) -> None:
    """Draw where the accuracy may be."""
    if not curve.band:
        return
    amounts = [x for x, _ in curve.points]
    lows = [100 * low for low, _ in curve.band]
    highs = [100 * high for _, high in curve.band]
    axes.fill_between(
        amounts, lows, highs, color=hue(curve.hue), alpha=0.14, linewidth=0
    )


def _draw_curve(axes: Axes, curve: Curve, number: int) -> None:
    axes.plot(
        [x for x, _ in curve.points],
        [100 * y for _, y in curve.points],
        color=hue(curve.hue),
        linewidth=2.25,
        linestyle=(0, (5, 2.5)) if curve.hue == 0 else "-",
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=8,
        markeredgewidth=1.5,
        markeredgecolor=STAND_INS["page"],
        clip_on=False,
        zorder=3 + number,
    )


def _draw_names(axes: Axes, curves: Sequence[Curve], *, height: int) -> None:
    """Write each name at the right edge, at the height where its curve ends."""
    low, high = axes.get_ylim()
    edge = max(curve.points[-1][0] for curve in curves)
    ends = [100 * curve.points[-1][1] for curve in curves]
    heights = [(end - low) / (high - low) * height for end in ends]
    places = spread_apart(heights, least_gap=_LINE_HEIGHT)
    for number, curve in enumerate(curves):
        last, end = curve.points[-1][0], ends[number]
        if last < edge:
            axes.plot(
                [last, edge],
                [end, end],
                color=hue(curve.hue),
                linewidth=1,
                dashes=[1, 3],
            )
        axes.annotate(
            f"name-{number}",
            (edge, end),
            xytext=(12, places[number] - heights[number]),
            textcoords="offset points",
            color=hue(curve.hue),
            verticalalignment="center",
            annotation_clip=False,
        )


def _draw_values(axes: Axes, curve: Curve) -> None:
    """Write the value above each point of the only curve, or above its two ends."""
    last = len(curve.points) - 1
    for number, (x, y) in enumerate(curve.points):
        if last < 6 or number in {0, last}:
            axes.annotate(
                curve.value(y),
                (x, 100 * y),
                xytext=(0, 10),
                textcoords="offset points",
                color=STAND_INS["ink"],
                horizontalalignment="center",
                annotation_clip=False,
            )


def spread_apart(places: Sequence[float], least_gap: float) -> list[float]:
    """Move places as little as needed so that each two are a gap apart.

    Example:
        >>> spread_apart([10.0, 12.0, 40.0], least_gap=6)
        [8.0, 14.0, 40.0]

    Args:
        places: The places wished for.
        least_gap: How far apart they must be.

    Returns:
        The places after moving, in the order given.
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    groups: list[list[int]] = []
    for number in order:
        groups.append([number])
        while len(groups) > 1 and _touch(groups[-2], groups[-1], places, least_gap):
            groups[-2:] = [groups[-2] + groups[-1]]
    moved = list(places)
    for group in groups:
        for number, place in zip(group, _row(group, places, least_gap), strict=True):
            moved[number] = place
    return moved


def _touch(
    lower: list[int], upper: list[int], places: Sequence[float], gap: float
) -> bool:
    return _row(upper, places, gap)[0] - _row(lower, places, gap)[-1] < gap


def _row(group: Sequence[int], places: Sequence[float], gap: float) -> list[float]:
    """Return places a gap apart, around the middle of those of the group."""
    middle = sum(places[number] for number in group) / len(group)
    first = middle - gap * (len(group) - 1) / 2
    return [first + gap * position for position in range(len(group))]


def _right_margin(curves: Sequence[Curve], size: Size) -> int:
    if len(curves) == 1:
        return 24
    longest = max(len(curve.end_label) for curve in curves)
    return min(round(_LETTER * longest) + 12, size.width // 2)
