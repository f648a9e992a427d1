"""Pages: sections of drawings, tables and images, and the facts below them.

A page is one file; tables are also written as CSV and LaTeX.
"""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from io import StringIO
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined

from fewlabels.errors import count
from fewlabels.files import make_folder, replace_text
from fewlabels.report.pictures import Gallery
from fewlabels.report.wording import MISSING, percent

if TYPE_CHECKING:
    from fewlabels.report.figures import Drawing  # a contact sheet needs no Matplotlib

Record: TypeAlias = Mapping[str, str | int | float | None]
"""A row of data; shares are from 0 to 1."""

_LATEX = {
    "\\": r"\textbackslash{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "–": "--",
    "≥": r"$\geq$",
    "\N{MINUS SIGN}": "$-$",
    "\N{NO-BREAK SPACE}": "~",
    **{letter: f"${letter}$" for letter in "<>|"},
}


@dataclass(frozen=True)
class Entry:
    """One place of a table."""

    text: str
    is_best: bool = False
    """Whether it is in bold."""
    share: float | None = None
    """How dark its color is on a page, from 0 to 1."""
    detail: str = ""
    """Text after it; on a page, below it in small print."""

    @property
    def whole(self) -> str:
        """Its text with the detail."""
        return f"{self.text} {self.detail}".strip()


@dataclass(frozen=True)
class Column:
    """The head of a column."""

    name: str
    group: str = ""
    """What it and its neighbours have in common; empty where nothing."""
    is_text: bool = False
    """Whether it holds words and not numbers."""
    is_quiet: bool = False
    """Whether it holds what others measured."""


Row: TypeAlias = Sequence[Entry | str]
"""Entries from left to right; a plain string is an ordinary one."""


class Table:
    """A table as people read it, and the same numbers as data."""

    def __init__(
        self,
        columns: Sequence[Column | str],
        rows: Sequence[Row],
        *,
        name: str = "",
        caption: str = "",
        records: Sequence[Record] = (),
        breaks: Sequence[int] = (),
    ) -> None:
        """Remember the contents.

        Args:
            columns: Heads of the columns; entries of the first one head the rows. A
                plain string is an ordinary column.
            rows: The entries.
            name: Name of its files; empty if it is only shown on a page.
            caption: What it shows.
            records: The data, all with the same fields; by default what is shown.
            breaks: Rows that something new begins with.
        """
        self.name, self.caption = name, caption
        self.records, self.breaks = tuple(records), tuple(breaks)
        self.columns = tuple(
            Column(column, is_text=not place) if isinstance(column, str) else column
            for place, column in enumerate(columns)
        )
        self.rows = tuple(
            tuple(Entry(item) if isinstance(item, str) else item for item in row)
            for row in rows
        )

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Headings that several columns share, and how many; none where none is."""
        if not any(column.group for column in self.columns):
            return ()
        groups = groupby(self.columns, key=lambda column: column.group)
        return tuple((name, len(list(members))) for name, members in groups)

    def write(self, folder: Path) -> None:
        """Write it as ``.csv`` and ``.tex``."""
        make_folder(folder)
        replace_text(folder / f"{self.name}.csv", self.as_csv())
        replace_text(folder / f"{self.name}.tex", self.as_latex())

    def as_csv(self) -> str:
        """Return the data, with nine digits; what is not known is an empty field."""

        def field(value: str | int | float | None) -> str | int | float | None:
            if isinstance(value, float):
                return float(f"{value:.9g}") if isfinite(value) else None
            return value

        lines: list[Iterable[Any]] = [
            [f"{column.group} {column.name}".strip() for column in self.columns],
            *([entry.whole for entry in row] for row in self.rows),
        ]
        if self.records:
            rows = [map(field, record.values()) for record in self.records]
            lines = [self.records[0], *rows]
        file = StringIO()
        csv.writer(file, lineterminator="\n").writerows(lines)
        return file.getvalue()

    def as_latex(self) -> str:
        """Return the table as in the paper, with the rules of booktabs."""
        letters = "".join("l" if column.is_text else "c" for column in self.columns)
        groups, rules, place = [], [], 1
        for name, width in self.groups:
            groups.append(f"\\multicolumn{{{width}}}{{c}}{{{latex_text(name)}}}")
            if name:
                rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
            place += width
        lines = [
            "% needs \\usepackage{booktabs}",
            "\\begin{table}[t]",
            f"\\caption{{{latex_text(self.caption)}}}",
            f"\\label{{tab:{self.name}}}",
            "\\centering",
            f"\\begin{{tabular}}{{{letters}}}",
            "\\toprule",
            *([" & ".join(groups) + " \\\\", " ".join(rules)] if groups else []),
            " & ".join(latex_text(column.name) for column in self.columns) + " \\\\",
            "\\midrule",
        ]
        for number, row in enumerate(self.rows):
            if number in self.breaks:
                lines.append("\\midrule")
            lines.append(" & ".join(map(_latex_entry, row)) + " \\\\")
        lines += ["\\bottomrule", "\\end{tabular}", "\\end{table}"]
        return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Example:
        >>> print(latex_text("50 % of a_b"))
        50 \% of a\_b
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex_entry(entry: Entry) -> str:
    """Set a mean and its deviation as one formula, anything else as text."""
    match = re.fullmatch(r"([\d.]+) ± ([\d.]+)", entry.whole)
    if match:
        formula = f"{match[1]} \\pm {match[2]}"
        return f"$\\mathbf{{{formula}}}$" if entry.is_best else f"${formula}$"
    text = latex_text(entry.whole)
    return f"\\textbf{{{text}}}" if entry.is_best else text


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
    facts: Mapping[str, Sequence[Mapping[str, str]]]
    """Names and values of each run or condition, by subject."""
    columns: Sequence[str] = ()
    """What the facts are of; none where there is one only."""
    image_size: str = "tiny"

    @property
    def fact_groups(self) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """Names of facts by subject, and a value per run or one that is true of all.

        Subjects without a fact are left out.
        """
        subjects: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
        for subject, columns in self.facts.items():
            for name in dict.fromkeys(name for column in columns for name in column):
                row = tuple(column.get(name, MISSING) for column in columns)
                values = row[:1] if len(set(row)) == 1 else row
                subjects.setdefault(subject, []).append((name, values))
        return subjects

    def write(self, path: Path) -> Path:
        """Write a page that needs no other file, and return ``path``."""
        return write_page(path, "page.html.j2", self)


def write_page(path: Path, template: str, page: object) -> Path:
    """Return ``path``, after writing a page that needs no script and no other file.

    The template is the name of a file beside this one, and shows ``page``.
    """
    html = _environment().get_template(template).render(page=page)
    make_folder(path.parent)
    # Half a surrogate pair, as in a file name of unknown encoding, has no UTF-8.
    replace_text(path, html.encode("utf-8", "replace").decode("utf-8"))
    return path


@cache
def _environment() -> Environment:
    """Return what compiles templates, each of them once."""
    environment = Environment(
        loader=PackageLoader("fewlabels", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(percent=percent, count=count)
    return environment
