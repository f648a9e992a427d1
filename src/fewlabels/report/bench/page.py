"""The page of an experiment, and the figures and tables beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fewlabels.bench.folder import BenchFolder
from fewlabels.bench.results import Results, read_results
from fewlabels.bench.sources import outdated
from fewlabels.errors import UnknownNameError
from fewlabels.files import explained
from fewlabels.report.bench.accuracy import accuracy_section
from fewlabels.report.bench.areas import area_section
from fewlabels.report.bench.classes import classes_section
from fewlabels.report.bench.comparisons import comparison_section
from fewlabels.report.bench.context import context_of
from fewlabels.report.bench.cost import cost_section, noise_section
from fewlabels.report.bench.facts import GLOSSARY, facts, notes_section
from fewlabels.report.bench.headline import explanation, finding, title, warnings
from fewlabels.report.bench.overlaps import overlap_section
from fewlabels.report.bench.penalties import penalty_section
from fewlabels.report.bench.redundancy import redundancy_section
from fewlabels.report.bench.savings import savings_section
from fewlabels.report.bench.sections import Section
from fewlabels.report.bench.shots import shots_section
from fewlabels.report.drawing import file_style, save_figure
from fewlabels.report.facts import FactGroup
from fewlabels.report.rendering import write_page

_TEMPLATE = "bench.html.j2"
_ENDINGS = (".csv", ".md", ".tex", ".png", ".svg")
_NAMES = (
    "accuracy", "aubc", "classes", "cost", "curves", "overlap", "penalties",
    "redundancy", "savings", "shots", "tests",
)  # fmt: skip
"""How the names of all tables and figures begin; other files are not ours."""


@dataclass(frozen=True, kw_only=True)
class BenchPage:
    """Everything the page shows."""

    title: str
    headline: str
    explanation: tuple[str, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
    facts: tuple[FactGroup, ...]
    columns: tuple[str, ...]
    """Names of the conditions; none where there is one only."""
    glossary: tuple[tuple[str, str], ...] = GLOSSARY
    image_size: str = "tiny"
    """The page has no images."""


def write_bench_report(
    folder: BenchFolder, name: str, *, out: Path | None = None
) -> Path:
    """Write the report of an experiment, as far as its runs are finished.

    It is a page that needs no script and no other file (``index.html``), figures for a
    paper (``figures/*.png`` and ``*.svg``) and tables (``tables/*.csv``, ``*.md`` and
    ``*.tex``). The same results give the same bytes.

    Args:
        folder: The benchmark.
        name: The experiment, one that was asked for in it.
        out: Folder to write into; by default ``folder.report_folder(name)``.

    Returns:
        The path of the page.

    Raises:
        UnknownNameError: If no experiment of that name was asked for.
    """
    folder.check()
    experiment = folder.asked(name)  # another that is damaged must not matter
    if experiment is None:
        raise UnknownNameError("experiment", name, folder.experiments())
    path = out or folder.report_folder(name)
    contents = bench_page(
        read_results(folder, experiment), others=outdated(experiment, folder)
    )
    for section in contents.sections:
        for table in section.tables:
            table.write(path / "tables")
        for figure in section.figures:
            with file_style():
                save_figure(figure.draw(), path / "figures", figure.name)
    if out is None:
        _sweep(path, contents.sections)
    return write_page(path / "index.html", _TEMPLATE, contents)


def _sweep(path: Path, sections: Sequence[Section]) -> None:
    """Remove figures and tables of an earlier report that this one does not have.

    Beside a page that does not show them they would be taken for results of now.
    """
    tables = {table.name for section in sections for table in section.tables}
    figures = {figure.name for section in sections for figure in section.figures}
    for folder, kept in (("tables", tables), ("figures", figures)):
        for file in (path / folder).glob("*"):
            is_ours = file.suffix in _ENDINGS and file.stem.partition("-")[0] in _NAMES
            if is_ours and file.stem not in kept:
                with explained(file):
                    file.unlink(missing_ok=True)


def bench_page(results: Results, *, others: tuple[str, ...] = ()) -> BenchPage:
    """Return what the page of an experiment shows.

    ``others`` is what else a reader must know, of :func:`fewlabels.bench.outdated`.
    """
    context = context_of(results)
    has_shots = context.has_single_queries
    found = [
        shots_section(context) if has_shots else accuracy_section(context),
        comparison_section(context),
        area_section(context),
        None if has_shots else penalty_section(context),
        savings_section(context),
        classes_section(context),
        redundancy_section(context),
        overlap_section(context),
        cost_section(context),
        noise_section(context),
        notes_section(context),
    ]
    sections = [one for one in found if one is not None]
    figures = context.experiment.figures
    sections.sort(
        key=lambda one: figures.index(one.anchor) if one.anchor in figures else 99
    )
    headings = tuple(one.heading for one in context.conditions)
    return BenchPage(
        title=title(context),
        headline=finding(context),
        explanation=tuple(explanation(context)),
        warnings=(*warnings(context), *others),
        sections=tuple(sections),
        facts=facts(context),
        columns=headings if len(headings) > 1 else (),
    )
