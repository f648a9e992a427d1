"""Tables, to be shown on a page and written as CSV, Markdown and LaTeX."""

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import TypeAlias

from fewlabels.files import make_folder, replace_text

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

    @property
    def heads(self) -> list[str]:
        """The names of the columns, each with that of its group."""
        return [f"{column.group} {column.name}".strip() for column in self.columns]

    def write(self, folder: Path) -> None:
        """Write it as ``.csv``, ``.md`` and ``.tex``."""
        make_folder(folder)
        replace_text(folder / f"{self.name}.csv", self.as_csv())
        replace_text(folder / f"{self.name}.md", self.as_markdown())
        replace_text(folder / f"{self.name}.tex", self.as_latex())

    def as_csv(self) -> str:
        """Return the data, with nine digits; what is not known is an empty field."""

        def field(value: str | int | float | None) -> str | int | float | None:
            if isinstance(value, float):
                return float(f"{value:.9g}") if isfinite(value) else None
            return value

        heads: Iterable[str] = self.records[0] if self.records else self.heads
        shown = [[entry.whole for entry in row] for row in self.rows]
        records = [map(field, record.values()) for record in self.records]
        file = StringIO()
        csv.writer(file, lineterminator="\n").writerows([heads, *(records or shown)])
        return file.getvalue()

    def as_markdown(self) -> str:
        """Return the table with its caption above it."""

        def plain(text: str) -> str:
            return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)

        def bold(entry: Entry) -> str:
            return f"**{plain(entry.whole)}**" if entry.is_best else plain(entry.whole)

        rules = ["---" if column.is_text else "---:" for column in self.columns]
        rows = [map(plain, self.heads), rules, *(map(bold, row) for row in self.rows)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return f"{self.caption}\n\n" + "\n".join(lines) + "\n"

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
