"""Colors and words of a drawing: one drawing for the page, and one for a paper.

What is drawn for the page takes the colors of its style, see
:mod:`fewlabels.report.drawing`; a file has those of a light page for good.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib.style
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fewlabels.files import make_folder, replacing
from fewlabels.report.drawing import STAND_INS, Margins, Sheet, Size, drawing, hue

LIGHT = {"ink": "#1b1e23", "muted": "#5c636d", "line": "#e3e6ea", "page": "#ffffff"}
"""The colors of a light page, by name."""

HUES = (
    "#676c74", "#0067a5", "#b84a00", "#00775a", "#a0457c",
    "#856000", "#5b4bb5", "#8f2d2d", "#4a7a1c", "#157a87",
)  # fmt: skip
"""The colors of strategies on a light page."""

MARKERS = "osD^vPX<>p"
DASHES: tuple[tuple[float, ...], ...] = (
    (5, 2.5), (), (8, 1.5), (2, 1.2), (7, 2, 1.5, 2), (4, 1.5, 1, 1.5, 1, 1.5),
    (10, 2, 3, 2), (1, 1), (3, 3), (12, 3),
)  # fmt: skip
"""Marks and lines that tell strategies apart without color."""

_INCHES_PER_PIXEL = 1 / 96
_DOTS_PER_INCH = 220


@dataclass(eq=False)
class Plotter:
    """Draws for a page or for a file."""

    is_for_page: bool
    words: list[str] = field(default_factory=list)
    """What was written so far, on a page."""

    def color(self, name: str) -> str:
        """Return a color of the style by its name."""
        return (STAND_INS if self.is_for_page else LIGHT)[name]

    def hue(self, number: int) -> str:
        """Return the color of a strategy."""
        return hue(number) if self.is_for_page else HUES[number]

    def write(self, text: str) -> str:
        """Return what to draw for a text: itself, or what the page puts it in for."""
        if not self.is_for_page:
            return text.replace("$", r"\$")
        self.words.append(text)
        return f"name-{len(self.words) - 1}"


@contextmanager
def page_sheet(
    size: Size, margins: Margins, salt: str
) -> Iterator[tuple[Sheet, Plotter]]:
    """Hand out a sheet for the page, and the plotter for it."""
    with drawing(size, margins, salt=f" {salt}") as sheet:
        yield sheet, Plotter(is_for_page=True)


def page_element(sheet: Sheet, plotter: Plotter, description: str) -> Markup:
    """Return the finished drawing of a page."""
    return sheet.element(plotter.words, description)


@dataclass(frozen=True)
class Place:
    """Where axes stand on a figure: pixels from its left and its top."""

    left: float
    top: float
    width: float
    height: float


def new_figure(
    width: float, height: float, places: Sequence[Place]
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure for a file, with axes in the style of our pages."""
    size = (width * _INCHES_PER_PIXEL, height * _INCHES_PER_PIXEL)
    figure = Figure(figsize=size, facecolor=LIGHT["page"])
    found = []
    for place in places:
        bottom = height - place.top - place.height
        shares = (
            place.left / width,
            bottom / height,
            place.width / width,
            place.height / height,
        )
        axes = figure.add_axes(shares)
        axes.tick_params(length=0, pad=5, labelcolor=LIGHT["muted"], labelsize=9)
        axes.grid(visible=True, axis="y", color=LIGHT["line"], linewidth=0.8)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(LIGHT["muted"])
        found.append(axes)
    return figure, found


@contextmanager
def file_style() -> Iterator[None]:
    """Draw in the block as for a file, whatever the user's own settings are."""
    options = {
        "svg.hashsalt": "fewlabels bench",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": 9.5,
    }
    with matplotlib.style.context(["default", options]), warnings.catch_warnings():
        # A script that the font does not have is drawn as boxes.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save_figure(figure: Figure, folder: Path, name: str) -> None:
    """Write a figure as ``.png`` and ``.svg``, without a date."""
    make_folder(folder)
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with replacing(folder / f"{name}.svg") as path:
        figure.savefig(path, format="svg", metadata=nothing)
    with replacing(folder / f"{name}.png") as path:
        figure.savefig(
            path, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None}
        )
