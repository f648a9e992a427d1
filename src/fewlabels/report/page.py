"""The page itself: contents put into the template, written as one file."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from fewlabels.files import make_folder, replace_text
from fewlabels.pool import Pool
from fewlabels.report import wording
from fewlabels.report.conditioning import conditioning_rows
from fewlabels.report.contents import page_contents
from fewlabels.report.recorded import read_runs
from fewlabels.runs import RunFolder

_TEMPLATE = "page.html.j2"
_STYLE = "style.css"


def write_report(
    path: Path, folders: Sequence[RunFolder], pool: Pool, *, title: str | None = None
) -> Path:
    """Write a page about one run, or about several side by side.

    The page is one file that needs no script and no other file. The same runs give the
    same bytes.

    Args:
        path: Where the page shall stand, such as ``folder.report_file``.
        folders: The runs, in the order in which they shall be shown.
        pool: The data of the runs, to show the images that were asked for.
        title: Heading of the page; by default the strategies and the data set.

    Returns:
        ``path``.
    """
    runs = read_runs(folders)
    conditioning = [conditioning_rows(folder, pool) for folder in folders]
    contents = page_contents(runs, pool, title, conditioning)
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        percent=wording.percent,
        seconds=wording.seconds,
        number=wording.number,
        count=wording.count,
    )
    style = Markup(_packaged(_STYLE))  # noqa: S704 - our own file
    html = environment.from_string(_packaged(_TEMPLATE)).render(
        page=contents, style=style, missing=wording.MISSING
    )
    make_folder(path.parent)
    # Half a surrogate pair, as in a file name of unknown encoding, has no UTF-8.
    replace_text(path, html.encode("utf-8", "replace").decode("utf-8"))
    return path


def _packaged(name: str) -> str:
    return (files("fewlabels.report") / name).read_text(encoding="utf-8")
