"""Drawings as SVG for the inside of a page.

Matplotlib draws with stand-in colors, which become variables of the page's style: so
one drawing serves light, dark and print. Names are put in afterwards, escaped, since
Matplotlib would read ``$`` as mathematics and miss the glyphs of most scripts.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO

import matplotlib.style
from markupsafe import Markup, escape
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STAND_INS = {
    "ink": "#000001",
    "muted": "#000002",
    "line": "#000003",
    "page": "#000004",
}
"""Colors to draw with, by the name of the style's variable."""

_DOTS_PER_INCH = 72  # of Matplotlib's SVG
_FONT_SIZE = 13


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


@dataclass(eq=False)
class Sheet:
    """Empty axes in the style of the page, and the element that they become."""

    size: Size
    axes: Axes
    width: int
    """Pixels between the left and the right end of the axes."""
    height: int
    """Pixels between the lower and the upper end of the axes."""
    svg: str = ""

    def element(self, names: Sequence[str], description: str) -> Markup:
        """Return the finished drawing.

        Args:
            names: What stands for ``name-0``, ``name-1`` and so on in the drawing.
            description: What to read out to somebody who does not see it.

        Returns:
            An ``svg`` element that refers to nothing outside the page.
        """
        return _for_page(self.svg, self.size, names, description)


@contextmanager
def drawing(size: Size, margins: Margins, salt: str = "") -> Iterator[Sheet]:
    """Hand out a sheet to draw on inside the block.

    Args:
        size: How large.
        margins: The space around the axes.
        salt: What tells two drawings of one size on a page apart.

    Yields:
        The sheet; it holds the drawing after the block.
    """
    options = {
        "svg.fonttype": "none",
        "svg.hashsalt": f"fewlabels {size.name}{salt}",
        "font.size": _FONT_SIZE,
    }
    with matplotlib.style.context(["default", options]):
        inches = (size.width / _DOTS_PER_INCH, size.height / _DOTS_PER_INCH)
        figure = Figure(figsize=inches, dpi=_DOTS_PER_INCH)
        width = size.width - margins.left - margins.right
        height = size.height - margins.bottom - margins.top
        place = (margins.left, margins.bottom, width, height)
        scale = (size.width, size.height) * 2
        shares = tuple(p / s for p, s in zip(place, scale, strict=True))
        axes = figure.add_axes((shares[0], shares[1], shares[2], shares[3]))
        sheet = Sheet(size, axes, width, height)
        _style(sheet.axes)
        figure.patch.set_visible(False)
        yield sheet
        file = BytesIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(file, format="svg", metadata=nothing)
    sheet.svg = file.getvalue().decode()


def hue(number: int) -> str:
    """Return the stand-in for the color of a run."""
    return f"#0001{number:02d}"


def _style(axes: Axes) -> None:
    axes.patch.set_visible(False)
    axes.tick_params(length=0, pad=8, labelcolor=STAND_INS["muted"])
    axes.grid(visible=True, axis="y", color=STAND_INS["line"], linewidth=1)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(STAND_INS["muted"])


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
