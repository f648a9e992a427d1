"""Accuracy against the number of labels, drawn for a page or for a file."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor

from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from fewlabels.evaluation import Noise
from fewlabels.integers import count
from fewlabels.report.drawing import (
    DASHES,
    MARKERS,
    Margins,
    Place,
    Sheet,
    Size,
    drawing,
    panels_figure,
)
from fewlabels.report.wording import percent, rough_percent, shortened

WIDE = Size("wide", 880, 420)
"""For a screen or a sheet of paper."""

NARROW = Size("narrow", 360, 300)
"""For a phone."""

_LETTER = 7.4
_LEFT = 68  # of a panel: room for "100 %" and the name of the axis
_PANEL = (420, 300)
_LARGEST_PANEL = (520, 380)
_NAMES = {"wide": (18.0, 18, 24), "narrow": (11.0, 16, 15), "file": (14.0, 14, 22)}
"""Room before a name, height of a line and letters of a name at most."""

_TICK_GAP = 32
_TICK_STEPS = (1, 2, 5, 10, 20)  # each divides 100
_LARGEST_TICK_COUNT = 5


@dataclass(frozen=True)
class Point:
    """Accuracy at a number of labels, and between what it may be, where known."""

    num_labels: int
    accuracy: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Curve:
    """One line of the drawing."""

    name: str
    hue: int
    points: tuple[Point, ...]
    """Ascending; at least one."""
    number: int = 0
    """Its place among the curves; tells its marks apart without color."""
    is_rough: bool = False
    """Whether it was measured on a few images, and is told in whole percent."""

    @property
    def band(self) -> list[tuple[int, float, float]]:
        """Numbers of labels with both ends, where these are known."""
        return [
            (one.num_labels, max(one.low, 0.0), min(one.high, 1.0))
            for one in self.points
            if one.low is not None and one.high is not None
        ]

    @property
    def heights(self) -> list[float]:
        """All accuracies that the drawing must hold."""
        ends = [end for _, *both in self.band for end in both]
        return [one.accuracy for one in self.points] + ends

    def value(self, accuracy: float) -> str:
        """Return an accuracy as it is written at a point."""
        return rough_percent(accuracy) if self.is_rough else percent(accuracy)

    def end_label(self, letters: int) -> str:
        """Return what stands at the end of the curve."""
        name = shortened(self.name, letters)
        return f"{name} {self.value(self.points[-1].accuracy)}"


@dataclass(frozen=True)
class Panel:
    """The curves of one page, or of one condition."""

    curves: tuple[Curve, ...]
    """At least one."""
    heading: str = ""
    noise: Noise | None = None
    """How far trainings on one label set differ here, if known."""

    @property
    def words(self) -> str:
        """What it shows, for somebody who does not see it."""
        told = [
            f"{curve.name}: "
            + ", ".join(
                f"{curve.value(one.accuracy)} after {count(one.num_labels, 'label')}"
                for one in curve.points
            )
            for curve in self.curves
        ]
        return f"Accuracy against number of labels. {'. '.join(told)}."

    def name_width(self, kind: str) -> float:
        """Return the pixels that the longest name takes; a single curve has none."""
        if len(self.curves) == 1:
            return 0
        longest = max(len(curve.end_label(_NAMES[kind][2])) for curve in self.curves)
        return _LETTER * longest


def page_curves(panel: Panel, salt: str = "", words: str = "") -> tuple[Markup, ...]:
    """Draw curves for wide and for narrow screens, told in words or its own."""
    found = []
    for size in (WIDE, NARROW):
        right = min(round(panel.name_width(size.name)) + 24, size.width // 2)
        margins = Margins(left=50, right=right, bottom=52, top=26)
        with drawing(size, margins, salt) as sheet:
            _draw(sheet, panel, size.name, panel_heights([panel]))
        found.append(sheet.element(words or panel.words))
    return tuple(found)


def curves_figure(panels: Sequence[Panel]) -> Figure:
    """Draw the curves of all conditions, side by side, on one vertical scale."""
    width, height = _PANEL if len(panels) > 1 else _LARGEST_PANEL
    right = max(panel.name_width("file") for panel in panels) + 24
    head = 30 if any(panel.heading for panel in panels) else 10
    figure, sheets = panels_figure(
        [panel.heading for panel in panels],
        Place(_LEFT, head, width, height),
        _LEFT + width + right,
        head + height + 54,
    )
    for panel, sheet in zip(panels, sheets, strict=True):
        _draw(sheet, panel, "file", panel_heights(panels))
        sheet.axes.set_ylabel("accuracy", color=sheet.color("muted"))
    return figure


def panel_heights(panels: Sequence[Panel]) -> list[float]:
    """Return all accuracies that the drawings of some panels must hold."""
    return [y for panel in panels for curve in panel.curves for y in curve.heights]


def percent_ticks(accuracies: Sequence[float]) -> list[int]:
    """Return the ticks of the vertical axis, in percent; it ends at the outermost.

    Example:
        >>> percent_ticks([0.742, 0.954, 0.972])
        [70, 80, 90, 100]
    """
    lowest, highest = 100 * min(accuracies), 100 * max(accuracies)
    margin = max(0.08 * (highest - lowest), 1.0)
    low, high = max(0.0, lowest - margin), min(100.0, highest + margin)
    step = next(s for s in _TICK_STEPS if (high - low) / s <= _LARGEST_TICK_COUNT)
    return list(range(floor(low / step) * step, ceil(high / step) * step + 1, step))


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


def spread_apart(places: Sequence[float], least_gap: float) -> list[float]:
    """Return places moved as little as needed for each two to be a gap apart.

    Example:
        >>> spread_apart([10.0, 12.0, 40.0], least_gap=6)
        [8.0, 14.0, 40.0]
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


def kept_below(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Return places moved down from above the top, and so those in the way.

    Example:
        >>> kept_below([90.0, 112.0], gap=18, top=100)
        [82, 100]
    """
    moved = list(places)
    limit = top
    for number in sorted(range(len(moved)), key=moved.__getitem__, reverse=True):
        moved[number] = min(moved[number], limit)
        limit = moved[number] - gap
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


def _draw(sheet: Sheet, panel: Panel, kind: str, heights: Sequence[float]) -> None:
    _draw_axes(sheet, panel, heights)
    for curve in panel.curves:
        _draw_curve(sheet, curve, is_small=kind != "wide")
    if len(panel.curves) > 1:
        _draw_names(sheet, panel, kind)
    else:
        _draw_values(sheet, panel.curves[0])
    if panel.noise is not None:
        _draw_noise(sheet, panel.noise)


def _draw_axes(sheet: Sheet, panel: Panel, heights: Sequence[float]) -> None:
    axes, ticks = sheet.axes, [tick / 100 for tick in percent_ticks(heights)]
    axes.set_ylim(ticks[0], ticks[-1])
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))
    amounts = sorted({p.num_labels for curve in panel.curves for p in curve.points})
    room = 0.04 * (amounts[-1] - amounts[0]) or 1.0
    axes.set_xlim(amounts[0] - room, amounts[-1] + room)
    least = _TICK_GAP * (amounts[-1] - amounts[0] + 2 * room) / sheet.width
    axes.xaxis.set_major_locator(FixedLocator(spread_ticks(amounts, least)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
    axes.set_xlabel("labels", color=sheet.color("muted"), labelpad=5)


def _draw_curve(sheet: Sheet, curve: Curve, *, is_small: bool) -> None:
    color = sheet.hue(curve.hue)
    if len(curve.band) > 1:
        amounts, lows, highs = zip(*curve.band, strict=True)
        sheet.axes.fill_between(
            amounts, lows, highs, color=color, alpha=0.12, linewidth=0
        )
    for amount, *ends in curve.band if len(curve.band) == 1 else ():
        sheet.axes.plot([amount] * 2, ends, color=color, linewidth=1.5)
    sheet.axes.plot(
        [one.num_labels for one in curve.points],
        [one.accuracy for one in curve.points],
        color=color,
        linewidth=1.6 if is_small else 2.1,
        dashes=DASHES[curve.hue],
        marker=MARKERS[curve.number % len(MARKERS)],
        markersize=5.0 if is_small else 7.5,
        markeredgewidth=1.0,
        markeredgecolor=sheet.color("page"),
        clip_on=False,
        zorder=3 + curve.number,
    )


def _draw_names(sheet: Sheet, panel: Panel, kind: str) -> None:
    """Write each name at the right edge, at the height where its curve ends."""
    room, line, letters = _NAMES[kind]
    low, high = sheet.axes.get_ylim()
    left, right = sheet.axes.get_xlim()
    edge = max(curve.points[-1].num_labels for curve in panel.curves)
    room += (right - edge) / (right - left) * sheet.width
    ends = [curve.points[-1].accuracy for curve in panel.curves]
    heights = [(end - low) / (high - low) * sheet.height for end in ends]
    places = kept_below(spread_apart(heights, least_gap=line), line, sheet.height)
    scale = 0.75 if kind == "file" else 1.0  # pixels in points
    for curve, end, wished, place in zip(
        panel.curves, ends, heights, places, strict=True
    ):
        color = sheet.hue(curve.hue)
        ended = curve.points[-1].num_labels
        if ended < edge:
            sheet.axes.plot(
                [ended, edge], [end, end], color=color, linewidth=1, dashes=[1, 3]
            )
        sheet.axes.annotate(
            sheet.write(curve.end_label(letters)),
            (edge, end),
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


def _draw_values(sheet: Sheet, curve: Curve) -> None:
    """Write the value above each point of the only curve, or above its two ends."""
    last = len(curve.points) - 1
    for number, one in enumerate(curve.points):
        if last < 6 or number in {0, last}:
            sheet.axes.annotate(
                sheet.write(curve.value(one.accuracy)),
                (one.num_labels, one.accuracy),
                xytext=(0, 10),
                textcoords="offset points",
                color=sheet.color("ink"),
                horizontalalignment="center",
                annotation_clip=False,
            )


def _draw_noise(sheet: Sheet, noise: Noise) -> None:
    """Draw, like the scale of a map, how far trainings on one label set differ."""
    low, high = sheet.axes.get_ylim()
    left, right = sheet.axes.get_xlim()
    reach = min(noise.deviation, (high - low) / 4)
    middle = low + 0.05 * (high - low) + reach
    place = left + 0.965 * (right - left)
    sheet.axes.errorbar(
        [place],
        [middle],
        yerr=[reach],
        color=sheet.color("muted"),
        capsize=4,
        linewidth=1.6,
        zorder=2,
    )
    sheet.axes.annotate(
        sheet.write(f"retraining alone: ± {100 * noise.deviation:.1f}"),
        (place, middle),
        xytext=(-9, 0),
        textcoords="offset points",
        color=sheet.color("muted"),
        horizontalalignment="right",
        verticalalignment="center",
    )
