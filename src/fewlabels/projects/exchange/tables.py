"""Rows of CSV files and of JSON Lines."""

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

from fewlabels.errors import Fault
from fewlabels.files import parsed
from fewlabels.projects.exchange.cells import ID_MARK, unguarded
from fewlabels.projects.exchange.records import ANSWERED, NAMES, Numbered

KNOWN = frozenset((*NAMES, *ANSWERED))
"""Columns that are read; others are the annotator's own."""

Rename = Callable[[list[str]], list[str]]
"""Returns what columns are called here; without a name they are not looked at."""

_NAMES = frozenset(NAMES)
_LONGEST, _LIKENESS = 80, 0.8
_MOST_COLUMNS = 1_000  # that are looked at for a slip of the pen
_SEPARATORS = (",", ";", "\t")
_SEPARATOR_LINE = re.compile(r"sep=[,;\t]\s*", re.IGNORECASE)


def csv_rows(text: str, rename: Rename = list) -> Iterator[Numbered | Fault]:
    """Yield rows that have an image and a label column, and faults.

    Cells may be separated by commas, semicolons or tabs. Blank lines, and the line
    ``sep=;`` that Excel knows, are passed over. After a header of no use comes nothing.
    ``rename`` is given all columns and returns what each is called here.

    Yields:
        A row or a fault.
    """
    numbered = _cells(text, _separator(text))
    header_line, header = next(
        ((line, cells) for line, cells in numbered if isinstance(cells, list)), (1, [])
    )
    columns = rename([plain_column(cell) for cell in header])
    yield from (Fault(header_line, sentence) for sentence in _header_faults(columns))
    if not _names_image(columns) or "label" not in columns:
        return
    for line, cells in numbered:
        if isinstance(cells, str):
            yield Fault(line, cells)
        elif any(cell.strip() for cell in cells[len(columns) :]):
            told = f"has {len(cells)} cells and the header has {len(columns)}"
            yield Fault(line, f"{told}; put a name with a separator into quotes.")
        else:
            row = dict(zip(columns, map(unguarded, cells), strict=False))
            if "id" in row:
                row["id"] = row["id"].strip().removeprefix(ID_MARK)
            yield Numbered(line, row)


def _separator(text: str) -> str:
    """Return what separates the cells: what makes the most of the header."""
    lines = io.StringIO(text, newline="")
    first = next((line for line in lines if _says_something(line)), "")

    def num_known(separator: str) -> tuple[int, int]:
        cells = first.replace('"', "").split(separator)
        return len({plain_column(cell) for cell in cells} & KNOWN), len(cells)

    return max(_SEPARATORS, key=num_known)


def _says_something(line: str) -> bool:
    return bool(line.strip()) and not _SEPARATOR_LINE.fullmatch(line)


def _cells(text: str, separator: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield the cells of each row, or what is wrong, with the line it begins on."""
    table = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    while True:
        line = table.line_num + 1
        try:
            cells = next(table)
        except StopIteration:
            return
        except csv.Error as error:
            yield line, f"cannot be taken apart: {error}; look for a stray quote."
            return
        if any(map(str.strip, cells)) and _says_something(separator.join(cells)):
            yield line, cells


def json_rows(text: str, rename: Rename = list) -> Iterator[Numbered | Fault]:
    """Yield rows of JSON Lines and faults; blank lines are passed over.

    ``rename`` is given the columns of each row and returns what they are called here.

    Yields:
        A row or a fault; a column that looks misspelt is named once.
    """
    named: set[str] = set()
    for line, words in enumerate(text.split("\n"), start=1):
        if not words.strip():
            continue
        cells = _object(words)
        if isinstance(cells, str):
            yield Fault(line, cells)
            continue
        names = rename([plain_column(name) for name in cells])
        row = dict(zip(names, cells.values(), strict=True))
        fresh = [name for name in row if name not in named]
        fresh = fresh[: max(0, _MOST_COLUMNS - len(named))]
        named.update(fresh)
        yield from (Fault(line, told) for told in _misspelt(fresh, row.keys()))
        if _names_image(row):
            yield Numbered(line, row)
        else:
            yield Fault(line, "names no image; give its file_name.")


def _object(words: str) -> dict[str, Any] | str:
    """Return the object that a line holds, or what is wrong with it."""
    try:
        found = parsed(words)
    except ValueError as error:
        return f"is not JSON: {error}."
    if not isinstance(found, dict):
        return "is not a JSON object; write one object per line."
    return found


def _names_image(columns: Iterable[str]) -> bool:
    return not {*NAMES, "id"}.isdisjoint(columns)


def _header_faults(columns: Sequence[str]) -> list[str]:
    """Say what is wrong with a header, a sentence for each fault."""
    there = dict.fromkeys(filter(None, columns))
    faults = list(_misspelt(there, there.keys()))
    faults += [
        f"the column '{name}' is there twice; take one out."
        for name in sorted(KNOWN.intersection(there))
        if columns.count(name) > 1
    ]
    if not _names_image(there) or "label" not in there:
        shown = ", ".join(there)[:200] or "nothing"
        told = f"the header has to name file_name and label, and names {shown}"
        faults.insert(0, f"{told}; put the names of the columns into the first line.")
    return faults


def _misspelt(columns: Iterable[str], there: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each column that is one letter or so from a missing one.

    Any other column is somebody's own and no fault.
    """
    missing = KNOWN.difference(there, {"id"})  # 'idx' may be anything
    if not _NAMES.isdisjoint(there):
        missing -= _NAMES
    own = [name[:_LONGEST] for name in columns if name not in KNOWN]
    # Looked up this way round, since headers can be much longer than what is missing.
    meant = {
        near: wanted
        for wanted in sorted(missing)
        for near in get_close_matches(wanted, own, len(own) or 1, _LIKENESS)
    }
    for name in own:
        if name in meant:
            told = f"the column {name!r} means nothing here"
            yield f"{told}; did you mean '{meant[name]}'?"


def plain_column(column: str) -> str:
    """Return a column's name without blanks around it, in lower case."""
    return column.strip().lower()
