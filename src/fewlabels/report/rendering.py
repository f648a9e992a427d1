"""Pages: contents put into a template, written as one file."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fewlabels.files import make_folder, replace_text
from fewlabels.integers import count
from fewlabels.report import wording

_STYLE = "style.css"


def write_page(path: Path, template: str, page: object) -> Path:
    """Return ``path``, after writing a page that needs no script and no other file.

    The template is the name of a file beside this one, and shows ``page``.
    """
    style = Markup(_packaged(_STYLE))  # noqa: S704 - our own file
    html = (
        _environment()
        .get_template(template)
        .render(page=page, style=style, missing=wording.MISSING)
    )
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
    environment.filters.update(
        percent=wording.percent,
        seconds=wording.seconds,
        number=wording.number,
        count=count,
        share_of_ceiling=_share_of_ceiling,
    )
    return environment


def _share_of_ceiling(line: Any) -> float | None:
    from fewlabels.report.measures import share_of_ceiling

    return share_of_ceiling(line)


def _packaged(name: str) -> str:
    return (files("fewlabels.report") / name).read_text(encoding="utf-8")
