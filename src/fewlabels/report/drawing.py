"""Drawings: as SVG for the inside of a page, and as figures for a paper.

For a page, Matplotlib draws with stand-in colors, which become variables of the page's
style: so one drawing serves light, dark and print. Names are put in afterwards,
escaped, since Matplotlib would read ``$`` as mathematics and miss the glyphs of most
scripts. A file has the colors of a light page for good.
"""

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

import matplotlib.style
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fewlabels.files import make_folder, replacing

STAND_INS = {
    "ink": "#000001",
    "muted": "#000002",
    "line": "#000003",
    "page": "#000004",
}
"""Colors to draw with, by the name of the style's variable."""

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

_PAGE_DOTS_PER_INCH = 72  # of Matplotlib's SVG
_FONT_SIZE = 13
_FILE_PIXELS_PER_INCH = 96
_FILE_DOTS_PER_INCH = 220
_NO_DATE = dict.fromkeys(("Date", "Creator", "Format", "Type"))


@dataclass(frozen=True)
class Size:
    """Size of a drawing in pixels, and the name of its style."""

    name: str
    width: int
    height: int


@dataclass(frozen=True, kw_only=True)
class Margins:
    """Pixels around the axes."""

    left: int
    right: int
    bottom: int
    top: int


@dataclass(frozen=True)
class Place:
    """Where axes stand on a figure: pixels from its left and its top."""

    left: float
    top: float
    width: float
    height: float


@dataclass(eq=False)
class Sheet:
    """Empty axes in the style of the page, in the colors of the page or of a file."""

    axes: Axes
    width: float
    """Pixels between the left and the right end of the axes."""
    height: float
    """Pixels between the lower and the upper end of the axes."""
    size: Size | None = None
    """Of the whole drawing on a page; None: it is for a file."""
    words: list[str] = field(default_factory=list)
    """What was written so far, on a page."""
    svg: str = ""

    def __post_init__(self) -> None:
        """Style the axes."""
        pad, label, line = (5, 9, 0.8) if self.size is None else (8, _FONT_SIZE, 1)
        self.axes.patch.set_visible(False)
        self.axes.tick_params(
            length=0, pad=pad, labelcolor=self.color("muted"), labelsize=label
        )
        self.axes.grid(visible=True, axis="y", color=self.color("line"), linewidth=line)
        self.axes.set_axisbelow(True)
        for side, spine in self.axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(self.color("muted"))

    def color(self, name: str) -> str:
        """Return a color of the style by its name."""
        return (LIGHT if self.size is None else STAND_INS)[name]

    def hue(self, number: int) -> str:
        """Return the color of a strategy."""
        return HUES[number] if self.size is None else f"#0001{number:02d}"

    def write(self, text: str) -> str:
        """Return what to draw for a text: itself, or what the page puts it in for."""
        if self.size is None:
            return text.replace("$", r"\$")
        self.words.append(text)
        return f"name-{len(self.words) - 1}"

    def element(self, description: str) -> Markup:
        """Return the finished drawing: an ``svg`` element that needs nothing else.

        The description is read out to somebody who does not see it.
        """
        assert self.size is not None
        return _for_page(self.svg, self.size, self.words, description)


@contextmanager
def drawing(size: Size, margins: Margins, salt: str = "") -> Iterator[Sheet]:
    """Hand out a sheet; a salt tells two drawings of one size on a page apart."""
    options = {
        "svg.fonttype": "none",
        "svg.hashsalt": f"fewlabels {size.name} {salt}",
        "font.size": _FONT_SIZE,
    }
    with matplotlib.style.context(["default", options]):
        inches = (size.width / _PAGE_DOTS_PER_INCH, size.height / _PAGE_DOTS_PER_INCH)
        figure = Figure(figsize=inches, dpi=_PAGE_DOTS_PER_INCH)
        width = size.width - margins.left - margins.right
        height = size.height - margins.bottom - margins.top
        place = Place(margins.left, margins.top, width, height)
        sheet = Sheet(
            _axes(figure, size.width, size.height, place), width, height, size
        )
        figure.patch.set_visible(False)
        yield sheet
        file = BytesIO()
        figure.savefig(file, format="svg", metadata=_NO_DATE)
    sheet.svg = file.getvalue().decode()


def new_figure(
    width: float, height: float, places: Sequence[Place]
) -> tuple[Figure, list[Sheet]]:
    """Return an empty figure for a file, and a sheet for each place."""
    size = (width / _FILE_PIXELS_PER_INCH, height / _FILE_PIXELS_PER_INCH)
    figure = Figure(figsize=size, facecolor=LIGHT["page"])
    return figure, [
        Sheet(_axes(figure, width, height, place), place.width, place.height)
        for place in places
    ]


def panels_figure(
    headings: Sequence[str], first: Place, step_x: float, step_y: float
) -> tuple[Figure, list[Sheet]]:
    """Return an empty figure for a file: a sheet under each heading, two side by side.

    The first one stands at ``first``, the others are so many pixels apart.
    """
    across = min(len(headings), 2)
    places = [
        Place(
            first.left + number % across * step_x,
            first.top + number // across * step_y,
            first.width,
            first.height,
        )
        for number in range(len(headings))
    ]
    down = -(-len(headings) // across)
    figure, sheets = new_figure(across * step_x, down * step_y, places)
    for heading, sheet in zip(headings, sheets, strict=True):
        if heading:
            sheet.axes.set_title(
                sheet.write(heading), loc="left", color=sheet.color("ink"), size=10.5
            )
    return figure, sheets


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
    with replacing(folder / f"{name}.svg") as path:
        figure.savefig(path, format="svg", metadata=_NO_DATE)
    with replacing(folder / f"{name}.png") as path:
        figure.savefig(
            path, format="png", dpi=_FILE_DOTS_PER_INCH, metadata={"Software": None}
        )


def _axes(figure: Figure, width: float, height: float, place: Place) -> Axes:
    bottom = height - place.top - place.height
    shares = (place.left / width, bottom / height)
    return figure.add_axes((*shares, place.width / width, place.height / height))


def _for_page(svg: str, size: Size, names: Sequence[str], description: str) -> Markup:
    """Make the file an element: no prolog, no fonts, no links, colors of the page."""
    body = svg[svg.index(">", svg.index("<svg")) + 1 :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r' clip-path="[^"]*"', "", body)
    body = re.sub(r"<clipPath.*?</clipPath>", "", body, flags=re.DOTALL)
    used = set(re.findall(r'href="#([^"]+)"', body))
    body = re.sub(
        r' id="([^"]+)"', lambda found: found[0] if found[1] in used else "", body
    )
    body = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", body)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    for name, color in STAND_INS.items():
        body = body.replace(color, f"var(--{name})")
    body = re.sub(r"#0001(\d\d)", lambda found: f"var(--hue-{int(found[1])})", body)
    body = re.sub(r"name-(\d+)", lambda found: escape(names[int(found[1])]), body)
    head = Markup(
        '<svg class="plot {}" viewBox="0 0 {} {}" role="img" aria-label="{}">'
    ).format(size.name, size.width, size.height, description)
    return head + Markup(body)  # noqa: S704 - our own drawing, names escaped above
