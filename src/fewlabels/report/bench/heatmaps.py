"""Matrices of strategies against strategies, as colored cells with their numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from fewlabels.report.drawing import Margins, Place, Sheet, Size, drawing, new_figure
from fewlabels.report.wording import shortened

_CELL, _NAME, _LETTER = 38, 15, 7.2
_FILE_CELL = 38
_DARKEST = 0.62
_FOOTER = 1.35
_LEAST_WIDTH = 370


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A matrix of shares; NaN where there is none."""

    heading: str
    """What it is of."""
    detail: str
    """What to read it beside, such as its chance level."""
    names: tuple[str, ...]
    shares: NDArray[np.float64]
    largest: float
    """The share with the darkest color."""
    outlines_diagonal: bool = False
    """Whether the diagonal holds something of another kind."""
    footer: tuple[str, tuple[float, ...]] | None = None
    """A share per column, and what it is."""

    @property
    def height(self) -> float:
        """Its height in cells."""
        return len(self.names) + (_FOOTER if self.footer else 0)


def page_heatmap(heatmap: Heatmap, description: str, salt: str) -> Markup:
    """Draw a matrix for the page."""
    side = _CELL * len(heatmap.names)
    left, top = _name_room(heatmap, _LETTER), 0.75 * _name_room(heatmap, _LETTER)
    down = _CELL * heatmap.height
    width, height = max(round(left + side + 26), _LEAST_WIDTH), round(top + down + 8)
    margins = Margins(
        left=round(left),
        right=width - round(left + side),
        bottom=8,
        top=round(height - down - 8),
    )
    with drawing(Size("cells", width, height), margins, salt) as sheet:
        _draw(sheet, heatmap)
    return sheet.element(description)


def heatmaps_figure(rows: Sequence[tuple[str, Sequence[Heatmap]]]) -> Figure:
    """Draw matrices for a file: a row of them under each heading."""
    first = rows[0][1][0]
    side, down = _FILE_CELL * len(first.names), _FILE_CELL * first.height
    left, top = _name_room(first, 7.3), 0.7 * _name_room(first, 7.3)
    title = 44
    step_x, step_y = max(side + 34, _title_room(rows)), top + down + title
    above = 46 if any(heading for heading, _ in rows) else 0
    across = max(len(maps) for _, maps in rows)
    places = [
        Place(
            left + column * step_x,
            above + 6 + row * (step_y + above) + title + top,
            side,
            down,
        )
        for row, (_, maps) in enumerate(rows)
        for column in range(len(maps))
    ]
    width = max(left + across * step_x + 30, 420)
    height = len(rows) * (step_y + above) + 10
    figure, sheets = new_figure(width, height, places)
    number = 0
    for row, (heading, maps) in enumerate(rows):
        level = 1 - (26 + row * (step_y + above)) / height
        figure.text(
            8 / width,
            level,
            sheets[0].write(heading),
            size=10.5,
            weight="bold",
            va="center",
        )
        for column, heatmap in enumerate(maps):
            _draw(sheets[number], heatmap, has_row_names=column == 0)
            _draw_title(sheets[number], heatmap, top)
            number += 1
    return figure


def _draw(sheet: Sheet, heatmap: Heatmap, *, has_row_names: bool = True) -> None:
    size = len(heatmap.names)
    sheet.axes.set_xlim(0, size)
    sheet.axes.set_ylim(heatmap.height, 0)
    sheet.axes.set_axis_off()
    rows = [(row, shortened(heatmap.names[row], _NAME)) for row in range(size)]
    for row, name in rows:
        for column in range(size):
            share = float(heatmap.shares[row, column])
            _draw_cell(sheet, (column, row), share, heatmap)
        sheet.axes.text(
            row + 0.36,
            -0.14,
            sheet.write(name),
            color=sheet.color("ink"),
            rotation=42,
            rotation_mode="anchor",
            horizontalalignment="left",
            verticalalignment="bottom",
        )
    lines: list[tuple[float, str]] = [*rows]
    if heatmap.footer:
        name, shares = heatmap.footer
        lines.append((size + _FOOTER - 1, name))
        for column, share in enumerate(shares):
            _draw_cell(sheet, (column, lines[-1][0]), share, heatmap)
    for place, name in lines if has_row_names else ():
        sheet.axes.text(
            -0.18,
            place + 0.5,
            sheet.write(name),
            color=sheet.color("ink"),
            horizontalalignment="right",
            verticalalignment="center",
        )


def _draw_cell(
    sheet: Sheet, place: tuple[float, float], share: float, heatmap: Heatmap
) -> None:
    column, row = place
    if isfinite(share) and heatmap.largest:
        strength = _DARKEST * min(1.0, share / heatmap.largest)
    else:
        strength = 0.0
    for color, opacity in ((sheet.color("line"), 0.55), (sheet.hue(1), strength)):
        if opacity:
            sheet.axes.add_patch(
                Rectangle(
                    (column + 0.03, row + 0.03), 0.94, 0.94, facecolor=color,
                    alpha=opacity, linewidth=0,
                )
            )  # fmt: skip
    if not isfinite(share):
        return
    if heatmap.outlines_diagonal and row == column:
        sheet.axes.add_patch(
            Rectangle(
                (column + 0.06, row + 0.06), 0.88, 0.88, facecolor="none",
                edgecolor=sheet.color("muted"), linewidth=1, linestyle=(0, (3, 2)),
            )
        )  # fmt: skip
    sheet.axes.text(
        column + 0.5,
        row + 0.5,
        sheet.write(_digits(share)),
        color=sheet.color("ink"),
        horizontalalignment="center",
        verticalalignment="center",
    )


def _draw_title(sheet: Sheet, heatmap: Heatmap, top: float) -> None:
    for text, color, above in (
        (heatmap.heading, "ink", top + 27),
        (heatmap.detail, "muted", top + 12),
    ):
        sheet.axes.annotate(
            sheet.write(text),
            (0, 1),
            xycoords="axes fraction",
            xytext=(0, 0.75 * above),
            textcoords="offset points",
            color=sheet.color(color),
            annotation_clip=False,
        )


def _digits(share: float) -> str:
    """Return percent with a decimal where it is needed to tell from zero."""
    value = 100 * share
    return f"{value:.1f}" if 0 < value < 9.95 else f"{value:.0f}"


def _title_room(rows: Sequence[tuple[str, Sequence[Heatmap]]]) -> float:
    texts = [
        text for _, maps in rows for one in maps for text in (one.heading, one.detail)
    ]
    return 6.9 * max(map(len, texts)) + 14


def _name_room(heatmap: Heatmap, letter: float) -> float:
    longest = max(len(shortened(name, _NAME)) for name in heatmap.names)
    return letter * longest + 16
