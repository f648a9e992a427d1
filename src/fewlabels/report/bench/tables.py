"""Tables, worked out once, written for a page, for LaTeX, for Markdown and as data."""

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from io import StringIO
from itertools import groupby
from math import isfinite
from pathlib import Path

from fewlabels.files import make_folder, replace_text

_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "–": "--",
    "≥": r"$\geq$",
    "\N{MINUS SIGN}": "$-$",
    "\N{NO-BREAK SPACE}": "~",
}
_SPREAD = re.compile(r"([\d.]+) ± ([\d.]+)")


_MOST_LETTERS = 100
"""How wide a table may be before it is turned, if that makes it narrower."""


@dataclass(frozen=True)
class Entry:
    """One place of a table."""

    text: str
    is_best: bool = False
    """Whether it stands out."""


@dataclass(frozen=True)
class Column:
    """What stands above a column."""

    name: str
    group: str = ""
    """What it and its neighbours have in common; empty where nothing."""
    is_text: bool = False
    """Whether it holds words and not numbers."""
    is_quiet: bool = False
    """Whether it holds what others measured."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table as people read it, and the same numbers as data."""

    name: str
    """Name of its files."""
    caption: str
    columns: tuple[Column, ...]
    """The first one heads the rows."""
    rows: tuple[tuple[Entry, ...], ...]
    fields: tuple[str, ...]
    """Names of the fields of the data."""
    records: tuple[tuple[str | int | float | None, ...], ...]
    """The data; shares are from 0 to 1."""
    breaks: tuple[int, ...] = ()
    """Rows that something new begins with."""

    @property
    def groups(self) -> tuple[tuple[str, int], ...]:
        """Headings that several columns share, and how many; none where none is."""
        if not any(column.group for column in self.columns):
            return ()
        found = groupby(self.columns, key=lambda column: column.group)
        return tuple((name, len(list(members))) for name, members in found)

    @property
    def turned(self) -> "Table":
        """The table with rows and columns exchanged if it is too wide, else itself."""
        others = self.columns[1:]
        groups = list(dict.fromkeys(column.group for column in others))
        has_groups = len(groups) > 1
        table = replace(
            self,
            columns=(
                *([Column("", is_text=True)] if has_groups else []),
                Column("Labels", is_text=True),
                *(Column(row[0].text) for row in self.rows),
            ),
            rows=tuple(
                (
                    *([Entry(column.group)] if has_groups else []),
                    Entry(column.name),
                    *(row[place] for row in self.rows),
                )
                for place, column in enumerate(others, start=1)
            ),
            breaks=tuple(range(0, len(others), len(others) // len(groups)))[1:],
        )
        is_paired = any(column.is_quiet for column in others)  # ours and the paper's
        is_narrow = self._letters <= max(_MOST_LETTERS, table._letters)
        return self if is_paired or is_narrow else table

    @property
    def _letters(self) -> int:
        """Letters of a row, if each column is as wide as its longest entry."""
        return sum(
            max(len(one.text) + 2 for one in column)
            for column in zip(*self.rows, strict=True)
        )

    def write(self, folder: Path) -> None:
        """Write it as ``.csv``, ``.md`` and ``.tex``."""
        make_folder(folder)
        replace_text(folder / f"{self.name}.csv", as_csv(self))
        replace_text(folder / f"{self.name}.md", as_markdown(self))
        replace_text(folder / f"{self.name}.tex", as_latex(self))


def as_csv(table: Table) -> str:
    """Return the data of a table; an empty field is a number that is not known."""
    file = StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(table.fields)
    for record in table.records:
        writer.writerow(map(_plain_number, record))
    return file.getvalue()


def as_markdown(table: Table) -> str:
    """Return a table with its caption above it."""
    heads = [
        " ".join(part for part in (column.group, column.name) if part)
        for column in table.columns
    ]
    rules = ["---" if one.is_text else "---:" for one in table.columns]
    rows = [
        [f"**{_plain(one.text)}**" if one.is_best else _plain(one.text) for one in row]
        for row in table.rows
    ]
    lines = [f"| {' | '.join(row)} |" for row in (map(_plain, heads), rules, *rows)]
    return f"{table.caption}\n\n" + "\n".join(lines) + "\n"


def as_latex(table: Table) -> str:
    """Return a table as in the paper, with the rules of booktabs."""
    places = "".join("l" if column.is_text else "c" for column in table.columns)
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}[t]",
        f"\\caption{{{latex_text(table.caption)}}}",
        f"\\label{{tab:{table.name}}}",
        "\\centering",
        f"\\begin{{tabular}}{{{places}}}",
        "\\toprule",
        *_group_lines(table),
        _latex_row([latex_text(column.name) for column in table.columns]),
        "\\midrule",
        *_latex_rows(table),
        "\\bottomrule",
        "\\end{tabular}",
        "\\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    r"""Return text that LaTeX prints as it is.

    Example:
        >>> print(latex_text("50 % of a_b"))
        50 \% of a\_b
    """
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _group_lines(table: Table) -> list[str]:
    if not table.groups:
        return []
    heads, rules, place = [], [], 1
    for name, width in table.groups:
        heads.append(f"\\multicolumn{{{width}}}{{c}}{{{latex_text(name)}}}")
        if name:
            rules.append(f"\\cmidrule(lr){{{place}-{place + width - 1}}}")
        place += width
    return [_latex_row(heads), " ".join(rules)]


def _latex_entry(entry: Entry) -> str:
    """Set a mean and its deviation as one formula, anything else as text."""
    found = _SPREAD.fullmatch(entry.text)
    if found:
        formula = f"{found[1]} \\pm {found[2]}"
        return f"$\\mathbf{{{formula}}}$" if entry.is_best else f"${formula}$"
    text = latex_text(entry.text)
    return f"\\textbf{{{text}}}" if entry.is_best else text


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _latex_rows(table: Table) -> list[str]:
    lines = []
    for number, row in enumerate(table.rows):
        if number in table.breaks:
            lines.append("\\midrule")
        lines.append(_latex_row([_latex_entry(entry) for entry in row]))
    return lines


def _plain_number(value: str | float | None) -> str | float | None:
    """Return a number with nine digits, more than anybody measures."""
    if not isinstance(value, float):
        return value
    return float(f"{value:.9g}") if isfinite(value) else None


def _plain(text: str) -> str:
    """Return text that is no Markdown."""
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", text)
