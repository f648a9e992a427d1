"""Pages: sections of drawings, tables and images, written as one file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fewlabels.errors import count
from fewlabels.files import make_folder, replace_text
from fewlabels.report.pictures import Gallery
from fewlabels.report.table import Table
from fewlabels.report.wording import percent

if TYPE_CHECKING:
    from fewlabels.report.figures import Drawing  # a contact sheet needs no Matplotlib


@dataclass(frozen=True, kw_only=True)
class Block:
    """A part of a section, mostly about one run or condition."""

    heading: str = ""
    drawing: "Drawing | None" = None
    tables: Sequence[Table] = ()
    galleries: Sequence[Gallery] = ()
    bars: Mapping[str, int] = field(default_factory=dict)
    """Numbers of labels by class, to be drawn as bars."""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    """A part of the page under one heading; without content it is left out."""

    anchor: str
    title: str
    blocks: Sequence[Block] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Page:
    """The content of a page."""

    kind: Literal["report", "benchmark", "project"]
    title: str
    headline: str
    explanation: Sequence[str]
    warnings: Sequence[str] = ()
    """What to know before believing the numbers."""
    sections: Sequence[Section]
    facts: Mapping[str, Sequence[tuple[str, tuple[str, ...]]]]
    """Names and values by subject."""
    columns: Sequence[str] = ()
    """What the facts are of; none where there is one only."""
    image_size: str = "tiny"

    def write(self, path: Path) -> Path:
        """Write a page that needs no other file, and return ``path``."""
        return write_page(path, "page.html.j2", self)


def write_page(path: Path, template: str, page: object) -> Path:
    """Return ``path``, after writing a page that needs no script and no other file.

    The template is the name of a file beside this one, and shows ``page``.
    """
    style = Markup(_packaged("style.css"))  # noqa: S704 - our own file
    html = _environment().get_template(template).render(page=page, style=style)
    make_folder(path.parent)
    # Half a surrogate pair, as in a file name of unknown encoding, has no UTF-8.
    replace_text(path, html.encode("utf-8", "replace").decode("utf-8"))
    return path


@cache
def _environment() -> Environment:
    """Return what compiles templates, each of them once."""
    environment = Environment(
        loader=FunctionLoader(_packaged),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, count=count)
    return environment


def _packaged(name: str) -> str:
    return (files("fewlabels.report") / name).read_text(encoding="utf-8")
