"""The page about runs."""

from collections.abc import Sequence
from pathlib import Path

from fewlabels.naming import AllowCode
from fewlabels.pool import Pool
from fewlabels.report.conditioning import conditioning_rows
from fewlabels.report.contents import page_contents
from fewlabels.report.recorded import read_runs
from fewlabels.report.rendering import write_page
from fewlabels.runs import RunFolder

_TEMPLATE = "page.html.j2"


def write_report(
    path: Path,
    folders: Sequence[RunFolder],
    pool: Pool,
    *,
    title: str | None = None,
    allow_code: AllowCode = False,
) -> Path:
    """Write a page about one run, or about several side by side.

    The page is one file that needs no script and no other file. The same runs give the
    same bytes.

    Args:
        path: Where the page shall stand, such as ``folder.report_file``.
        folders: The runs, in the order in which they shall be shown.
        pool: The data of the runs, to show the images that were asked for.
        title: Heading of the page; by default the strategies and the data set.
        allow_code: Which import paths the trainers of the runs may be; the spectra of
            others are left out.

    Returns:
        ``path``.
    """
    runs = read_runs(folders)
    conditioning = [
        conditioning_rows(folder, pool, allow_code=allow_code) for folder in folders
    ]
    contents = page_contents(runs, pool, title, conditioning)
    return write_page(path, _TEMPLATE, contents)
