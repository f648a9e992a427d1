"""Figures: drawn once, shown on a page and saved for a paper.

On a page, the colors of the drawing become variables of the page's style, so that one
drawing serves light, dark and print. A file has the colors of a light page for good.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from itertools import cycle
from math import isfinite, log10, nan
from pathlib import Path
from typing import Literal, NamedTuple

import matplotlib.style
import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator
from scipy.optimize import isotonic_regression

from fewlabels.errors import count
from fewlabels.files import make_folder, replace_file
from fewlabels.report.wording import percent, power_of_ten

COLORS = {"ink": "#1b1e23", "muted": "#5c636d", "line": "#e3e6ea", "page": "#ffffff"}
"""The colors of a light page, by name."""

HUES = (
    "#676c74", "#0067a5", "#b84a00", "#00775a", "#a0457c",
    "#856000", "#5b4bb5", "#8f2d2d", "#4a7a1c", "#157a87",
)  # fmt: skip
"""The colors of strategies on a light page."""

_MARKERS = "osD^vPX<>p"
_DASHES: tuple[tuple[float, ...], ...] = (
    (5, 2.5), (), (8, 1.5), (2, 1.2), (7, 2, 1.5, 2), (4, 1.5, 1, 1.5, 1, 1.5),
    (10, 2, 3, 2), (1, 1), (3, 3), (12, 3),
)  # fmt: skip
"""Marks and lines that distinguish strategies without color."""

_STYLE = {
    "font.family": "DejaVu Sans", "font.size": 10, "text.parse_math": False,
    "text.color": COLORS["ink"], "axes.facecolor": "none", "axes.axisbelow": True,
    "axes.spines.left": False, "axes.spines.right": False, "axes.spines.top": False,
    "axes.edgecolor": COLORS["muted"], "axes.labelcolor": COLORS["muted"],
    "axes.grid": True, "axes.grid.axis": "y", "grid.color": COLORS["line"],
    "xtick.color": COLORS["muted"], "xtick.major.size": 0, "xtick.major.pad": 6,
    "ytick.color": COLORS["muted"], "ytick.major.size": 0, "ytick.major.pad": 6,
}  # fmt: skip
_DOTS_PER_INCH = 220
_PIXELS_PER_POINT = 4 / 3
_ELEMENT = r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)"[^>]*>(.*)'
_NOT_ON_A_PAGE = (
    (r"<defs>\s*<style.*?</style>\s*</defs>", ""),
    (r' clip-path="[^"]*"', ""),
    (r"<clipPath.*?</clipPath>", ""),
    (r'<g id="[^"]*"', "<g"),  # the same in every figure
    (r"font: ([\d.]+px)[^;\"]*", r"font-size: \1"),
    (r"font-family: [^;\"]*; ", ""),
)
_NO_DATE = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Point(NamedTuple):
    """Accuracy at a number of labels, and between what it may be, where known."""

    num_labels: int
    accuracy: float
    low: float = nan
    high: float = nan


@dataclass(frozen=True)
class Curve:
    """One line of a drawing."""

    name: str
    hue: int
    points: tuple[Point, ...]
    """Ascending; at least one."""

    @property
    def band(self) -> list[tuple[int, float, float]]:
        """Numbers of labels with both ends, where these are known."""
        return [
            (point.num_labels, max(point.low, 0.0), min(point.high, 1.0))
            for point in self.points
            if isfinite(point.low)
        ]


@dataclass(frozen=True, eq=False)
class Drawing:
    """A figure with its name and a description for screen readers."""

    name: str
    """Different from those of other drawings on a page."""
    figure: Figure
    words: str

    def save(self, folder: Path) -> None:
        """Write it as ``.png`` and ``.svg``, without a date."""
        make_folder(folder)
        for ending, metadata in (("svg", _NO_DATE), ("png", {"Software": None})):
            path = folder / f"{self.name}.{ending}"
            with replace_file(path) as partial, _style(self.name, letters="path"):
                self.figure.savefig(
                    partial,
                    format=ending,
                    dpi=_DOTS_PER_INCH,
                    bbox_inches="tight",
                    facecolor=COLORS["page"],
                    metadata=metadata,
                )

    def svg(self) -> Markup:
        """Return it as an element of a page: no fonts, no links, colors of the page."""
        file = BytesIO()
        with _style(self.name, letters="none"):
            self.figure.savefig(
                file, format="svg", bbox_inches="tight", transparent=True,
                metadata=_NO_DATE,
            )  # fmt: skip
        parts = re.search(_ELEMENT, file.getvalue().decode(), re.DOTALL)
        assert parts is not None
        width, height = round(float(parts[1])), round(float(parts[2]))
        body = parts[3]
        for pattern, kept in _NOT_ON_A_PAGE:
            body = re.sub(pattern, kept, body, flags=re.DOTALL)
        variables = COLORS | {f"hue-{number}": hue for number, hue in enumerate(HUES)}
        for name, color in variables.items():
            body = body.replace(f": {color}", f": var(--{name})")
        head = Markup(
            '<svg class="plot" viewBox="0 0 {} {}" width="{:.0f}" role="img" '
            'aria-label="{}">'
        ).format(width, height, _PIXELS_PER_POINT * width, self.words)
        return head + Markup(body)  # noqa: S704 - Matplotlib escapes names


def hues(strategies: Sequence[str]) -> dict[str, int]:
    """Return a color for each strategy: random is grey and NPC blue, on every page."""
    fixed, given = {"random": 0, "npc": 1}, dict[str, int]()
    others = cycle(range(2, len(HUES)))
    for name in dict.fromkeys(strategies):
        hue = fixed.pop(name.partition(" (")[0], None)
        given[name] = next(others) if hue is None else hue
    return given


def draw_curves(
    name: str,
    curves: Sequence[Curve],
    *,
    value: Callable[[float], str] = percent,
    words: str = "",
) -> Drawing:
    """Draw accuracy against the number of labels.

    Args:
        name: Name of the drawing.
        curves: The curves, at least one.
        value: How to write an accuracy.
        words: What the drawing shows; by default the values of all curves.

    Returns:
        The drawing: with the names of the curves at their ends, or with the values of
        a single curve above its points.
    """
    with _style(name):
        figure = Figure(figsize=(6.2, 3.5), dpi=72)
        axes = figure.add_subplot()
        for number, curve in enumerate(curves):
            _draw_curve(axes, curve, number)
        heights = [point.accuracy for curve in curves for point in curve.points]
        heights += [end for curve in curves for _, *ends in curve.band for end in ends]
        low, high = min(heights), max(heights)
        room = max(0.08 * (high - low), 0.01)
        locator = MaxNLocator(5, steps=[1, 2, 5, 10])
        ticks = locator.tick_values(max(0, low - room), min(1, high + room))
        axes.set(ylabel="accuracy", ylim=(max(ticks[0], 0), min(ticks[-1], 1)))
        axes.yaxis.set_major_locator(locator)
        axes.yaxis.set_major_formatter(lambda y, _: f"{100 * y:.0f} %")
        amounts = {point.num_labels for curve in curves for point in curve.points}
        side = 0.04 * (max(amounts) - min(amounts)) or 1.0
        axes.set(xlabel="labels", xlim=(min(amounts) - side, max(amounts) + side))
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        if len(curves) > 1:
            _draw_names(axes, curves, value)
        else:
            points = curves[0].points
            for point in points if len(points) < 7 else (points[0], points[-1]):
                axes.annotate(
                    value(point.accuracy), (point.num_labels, point.accuracy), (0, 9),
                    textcoords="offset points", ha="center", annotation_clip=False,
                )  # fmt: skip
    shown = []
    for curve in curves:
        values = [
            f"{value(point.accuracy)} after {count(point.num_labels, 'label')}"
            for point in curve.points
        ]
        shown.append(f"{curve.name}: {', '.join(values)}")
    text = f"Accuracy against number of labels. {'. '.join(shown)}."
    return Drawing(name, figure, words or text)


def draw_spectra(
    name: str, spectra: Sequence[tuple[int, Sequence[float]]], hue: int, words: str
) -> Drawing:
    """Draw eigenvalues by size: a line per round, which ends at its number of labels.

    Args:
        name: Name of the drawing.
        spectra: The number of labels of each round, and its eigenvalues, descending.
        hue: Number of the color.
        words: What the drawing shows.

    Returns:
        The drawing.
    """
    with _style(name):
        figure = Figure(figsize=(4.2, 2.4), dpi=72)
        axes = figure.add_subplot(yscale="log")
        named = set(evenly_spaced(range(len(spectra)), 8))
        for place, (num_labels, values) in enumerate(spectra):
            axes.plot(
                range(1, len(values) + 1),
                values,
                color=HUES[hue],
                alpha=0.35 + 0.65 * (place + 1) / len(spectra),
                dashes=_DASHES[hue],
                clip_on=False,
            )
            if place in named:
                axes.annotate(
                    f"{num_labels:,}", (len(values), values[-1]), (0, -4),
                    textcoords="offset points", color=HUES[hue], ha="center", va="top",
                    annotation_clip=False,
                )  # fmt: skip
        axes.margins(y=0.15)
        longest = max(len(values) for _, values in spectra)
        axes.set(xlabel="eigenvalue, by size", xlim=(0, longest + 1))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(lambda y, _: power_of_ten(round(log10(y))))
    return Drawing(name, figure, words)


def evenly_spaced(amounts: Sequence[int], most: int) -> list[int]:
    """Return at most ``most`` of some numbers, evenly spaced, with first and last.

    Example:
        >>> evenly_spaced([10, 20, 30, 40, 50], 3), evenly_spaced([10, 20], 1)
        ([10, 30, 50], [20])
    """
    places = np.linspace(len(amounts) - 1, 0, min(most, len(amounts))).round()[::-1]
    return [amounts[place] for place in places.astype(int).tolist()]


def spread_apart(places: Sequence[float], gap: float, top: float) -> list[float]:
    """Return places moved as little as needed to be a gap apart, none above the top.

    Example:
        >>> spread_apart([10.0, 12.0, 40.0], gap=6, top=100)
        [8.0, 14.0, 40.0]
    """
    order = np.argsort(places, kind="stable")
    steps = gap * np.arange(len(places))
    fitted = isotonic_regression(np.asarray(places)[order] - steps).x
    moved = np.empty(len(places))
    moved[order] = np.minimum(fitted, top - steps[-1]) + steps
    return moved.tolist()


@contextmanager
def _style(name: str, *, letters: Literal["none", "path"] = "none") -> Iterator[None]:
    """Draw in the block as for a page, whatever the user's own settings are."""
    options = {"svg.hashsalt": f"fewlabels {name}", "svg.fonttype": letters}
    with (
        matplotlib.style.context(["default", _STYLE | options]),
        warnings.catch_warnings(),
    ):
        # A script that the font does not have is drawn as boxes in a file.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _draw_curve(axes: Axes, curve: Curve, number: int) -> None:
    color, band = HUES[curve.hue], curve.band
    if len(band) > 1:
        amounts, lows, highs = zip(*band, strict=True)
        axes.fill_between(amounts, lows, highs, color=color, alpha=0.12, linewidth=0)
    for amount, *ends in band if len(band) == 1 else ():
        axes.plot([amount] * 2, ends, color=color)
    axes.plot(
        [point.num_labels for point in curve.points],
        [point.accuracy for point in curve.points],
        color=color,
        linewidth=1.6,
        dashes=_DASHES[curve.hue],
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=5.5,
        markeredgecolor=COLORS["page"],
        clip_on=False,
        zorder=3 + number,
    )


def _draw_names(
    axes: Axes, curves: Sequence[Curve], value: Callable[[float], str]
) -> None:
    """Write each name at the right edge, at the height where its curve ends."""
    ends = [curve.points[-1] for curve in curves]
    places = axes.transData.transform([(end.num_labels, end.accuracy) for end in ends])
    heights = spread_apart(places[:, 1].tolist(), gap=14, top=axes.bbox.y1)
    for curve, end, (x, y), height in zip(curves, ends, places, heights, strict=True):
        color, name = HUES[curve.hue], curve.name[:24]
        axes.annotate(
            f"{name} {value(end.accuracy)}",
            (end.num_labels, end.accuracy),
            xytext=(axes.bbox.x1 + 12 - x, height - y),
            textcoords="offset points",
            color=color,
            verticalalignment="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-", "color": color, "linewidth": 0.7, "shrinkA": 0,
                "shrinkB": 6, "relpos": (0, 0.5),
            },
        )  # fmt: skip
