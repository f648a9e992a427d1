"""A table of files: one row per image, with or without a label and a split."""

import csv
import reprlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from io import BufferedReader, TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels.data.listing import Listed, file_pool
from fewlabels.data.order import MEASURED, TRAIN
from fewlabels.data.parquet import parquet_rows
from fewlabels.data.unreadable import is_utf8
from fewlabels.errors import DataError, FewlabelsWarning
from fewlabels.files import open_regular, parsed
from fewlabels.pool import Pool

MANIFESTS = frozenset({".csv", ".jsonl", ".parquet"})
"""Extensions of the tables that are read."""

NAME_COLUMNS = ("file_name", "path", "filename")
"""Columns that may hold the file; the first one that is present is taken."""

_SPLITS = (TRAIN, *MEASURED)
_OPTIONAL = ("label", "split")
_OTHER_SEPARATORS = (";", "\t", "|")
_LIKENESS = 0.75
_MOST_BYTES, _MOST_ROWS, _LONGEST_LINE = 2**28, 2**22, 2**20
_MANY = 32  # times as much, where names alone are kept
_LONGEST_SHOWN = 200

Row = Mapping[str, Any]
"""The cells of one row by column; columns are in lower case."""


def manifest_pool(
    path: Path, *, size: int | None, test_share: float, use_labels: bool = True
) -> Pool:
    """Return a pool of a manifest.

    The table has ``file_name`` (or ``path``, ``filename``), below its own folder;
    optional ``label``, empty where it is not known; optional ``split``. Capital letters
    in the names of columns do not matter.
    """
    columns = set() if use_labels else {"label"}  # then nobody misses it
    listed = _named_once(path, columns, use_labels=use_labels)
    _warn_of_misspelt(path, columns)
    return file_pool(path, list(listed.values()), size=size, test_share=test_share)


def file_names(path: Path) -> list[str]:
    """Return the files that a manifest names, below its own folder, in its order."""
    return list(_named_once(path, set(), use_labels=False, many=_MANY))


def _named_once(
    path: Path, columns: set[str], *, use_labels: bool, many: int = 1
) -> dict[str, Listed]:
    """Return what a manifest lists, each file once, and add the columns it has."""
    listed: dict[str, Listed] = {}
    for number, cells in enumerate(_rows(path, many * _MOST_BYTES), start=1):
        where = f"Row {number} of {path}"
        if number > many * _MOST_ROWS:
            raise DataError(f"{where} is one too many; split the table into several.")
        row = _plain(cells, where)
        columns.update(row)
        one = _listed(row, path.parent, where, use_labels=use_labels)
        if one.name in listed:
            msg = f"{where} names {one.name} a second time; name each file once."
            raise DataError(msg)
        listed[one.name] = one
    if not listed:
        raise DataError(
            f"The table {path} has no rows, so there is nothing to label. Write a row "
            f"per image, with its {NAME_COLUMNS[0]} and, where known, its label."
        )
    return listed


def _rows(path: Path, most_bytes: int) -> Iterator[Any]:
    """Read the rows one after the other, as they are."""
    kind = path.suffix.lower()
    try:
        with open_regular(path, most_bytes) as file:
            if kind == ".csv":
                yield from csv.DictReader(_lines(file, newline=""))
            elif kind == ".jsonl":
                lines = _lines(file, newline="\n")
                yield from (parsed(line) for line in lines if line.strip())
            else:
                yield from parquet_rows(file, _is_wanted(path))
    except (OSError, ValueError, csv.Error) as error:
        msg = f"The manifest {path} cannot be read: {error}. Save it again as {kind}."
        raise DataError(msg) from error


def _lines(file: BufferedReader, *, newline: str) -> Iterator[str]:
    """Read lines of text; a row takes many times the memory of its line."""
    with TextIOWrapper(file, encoding="utf-8-sig", newline=newline) as text:
        for line in text:
            if len(line) > _LONGEST_LINE:
                msg = f"a line has {len(line):,} characters; at most {_LONGEST_LINE:,}"
                raise ValueError(msg)
            yield line


def _is_wanted(path: Path) -> Callable[[Sequence[str]], list[str]]:
    """Return what chooses the columns to read among those of a table."""

    def chosen(names: Sequence[str]) -> list[str]:
        plain = [_plain_column(name) for name in names]
        _check_names_files(plain, str(path))
        wanted = {*NAME_COLUMNS, *_OPTIONAL, *_misspelt(plain)}
        return [name for name in names if _plain_column(name) in wanted]

    return chosen


def _plain(cells: Any, where: str) -> Row:
    """Return the cells of a row with the names of the columns in lower case."""
    if not isinstance(cells, Mapping):
        raise DataError(f"{where} is not a JSON object; write one object per line.")
    row = {_plain_column(name): cell for name, cell in cells.items() if name}
    if len(row) < len([name for name in cells if name]):
        raise DataError(
            f"{where} has the columns {', '.join(map(str, cells))}; two of them differ "
            "in capital letters or blanks only. Leave one out."
        )
    return row


def _plain_column(name: str) -> str:
    return name.strip().lower()


def _misspelt(columns: Iterable[str]) -> dict[str, str]:
    """Return what seems to be meant by columns that mean nothing, by column."""
    there = set(columns)
    meant: dict[str, str] = {}
    for word in set(_OPTIONAL) - there:
        begun = sorted(column for column in there if column.startswith(word))
        near = get_close_matches(word, sorted(there), cutoff=_LIKENESS)
        meant |= dict.fromkeys([*near, *begun][:1], word)
    return meant


def _warn_of_misspelt(path: Path, columns: Iterable[str]) -> None:
    for column, word in sorted(_misspelt(columns).items()):
        msg = (
            f"The table {path} has a column '{column}' and none called '{word}', so no "
            f"{word} was read. Call the column '{word}' if it holds them."
        )
        warnings.warn(msg, FewlabelsWarning, stacklevel=4)


def _listed(row: Row, folder: Path, where: str, *, use_labels: bool) -> Listed:
    name = _inside(_file_name(row, where), where)
    return Listed(
        name=name,
        path=folder / name,
        label=_word(row, "label", where) if use_labels else None,
        split=_split(row, where),
    )


def _file_name(row: Row, where: str) -> str:
    _check_names_files(row, where)
    column = next(name for name in NAME_COLUMNS if name in row)
    word = _word(row, column, where)
    if word is None:
        raise DataError(f"{where} names no file; fill in {column}.")
    return word


def _check_names_files(columns: Iterable[str], where: str) -> None:
    """Raise unless one of the columns names the file."""
    seen = list(columns)
    if not set(seen).isdisjoint(NAME_COLUMNS):
        return
    marks = [mark for mark in _OTHER_SEPARATORS if mark in "".join(seen)]
    hint = (
        f" The cells seem to be separated by {marks[0]!r}; use commas." if marks else ""
    )
    raise DataError(
        f"{where} has the columns {', '.join(seen) or 'none'}; it needs one of "
        f"{', '.join(NAME_COLUMNS)}.{hint}"
    )


def _inside(word: str, where: str) -> str:
    """Return a relative path in its plainest form; refuse one that leads outside."""
    path = PurePosixPath(word.replace("\\", "/"))
    has_drive = ":" in path.parts[0] if path.parts else False
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        raise DataError(
            f"{where} names '{_short(word)}', which is not below the manifest's "
            "folder; a manifest refers only to files beside it or below. Move the "
            "manifest up or the file down."
        )
    return path.as_posix()


def _word(row: Row, column: str, where: str) -> str | None:
    """Return a cell as text; None where it is empty."""
    cell = row.get(column)
    if cell is None or cell != cell:  # NaN is how tables write "missing"
        return None
    if not isinstance(cell, str | int) or isinstance(cell, bool):
        shown = reprlib.repr(cell)
        msg = f"{where} has {shown} as {column}; write text or a whole number."
        raise DataError(msg)
    word = str(cell).strip()
    if not is_utf8(word):
        told = f"{where} has {_short(word)!a} as {column}"
        raise DataError(f"{told}, which is not valid text; rewrite it.")
    return word or None


def _split(row: Row, where: str) -> str | None:
    word = _word(row, "split", where)
    if word is None:
        return None
    if word.lower() not in _SPLITS:
        known = ", ".join(_SPLITS)
        msg = f"{where} has the split '{_short(word)}'; write one of {known}."
        raise DataError(msg)
    return word.lower()


def _short(word: str) -> str:
    return word if len(word) <= _LONGEST_SHOWN else f"{word[:_LONGEST_SHOWN]}…"
