"""A table of files: one row per image, with or without a label and a split."""

import csv
import reprlib
from collections.abc import Iterator, Mapping, Sequence
from io import BufferedReader, TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels.data import untrusted
from fewlabels.data.files import Listed, file_pool
from fewlabels.data.parquet import parquet_rows
from fewlabels.data.untrusted import FILE_COLUMNS, MEASURED, TRAIN, is_utf8
from fewlabels.errors import DataError
from fewlabels.files import parse_json
from fewlabels.pool import Pool

_COLUMNS = (*FILE_COLUMNS, "label", "split")
_NAMES_ONLY = 32  # times as many rows, where names alone are kept


def manifest_pool(
    path: Path, *, size: int | None, test_share: float, use_labels: bool = True
) -> Pool:
    """Return a pool of a manifest.

    The table has a column ``file_name`` (or ``path``, ``filename``), below its own
    folder, and optional columns ``label``, empty where it is not known, and ``split``.
    Case does not matter in the names of columns.
    """
    listed = _listed(path, use_labels=use_labels)
    return file_pool(path, list(listed.values()), size=size, test_share=test_share)


def file_names(path: Path) -> list[str]:
    """Return the files that a manifest names, below its own folder, in its order."""
    return list(_listed(path, use_labels=False, factor=_NAMES_ONLY))


def _listed(path: Path, *, use_labels: bool, factor: int = 1) -> dict[str, Listed]:
    """Return what a manifest lists, each file once.

    The table may be ``factor`` times as large as others.
    """
    listed: dict[str, Listed] = {}
    rows = _rows(path, factor * untrusted.MANIFEST_BYTES)
    for number, cells in enumerate(rows, start=1):
        where = f"Row {number} of {path}"
        if number > factor * untrusted.MANIFEST_ROWS:
            raise DataError(f"{where} is one too many; split the table into several.")
        if not isinstance(cells, Mapping):
            raise DataError(f"{where} is not a JSON object; write one object per line.")
        named = [name for name in cells if name]
        row = {_plain_column(name): cells[name] for name in named}
        if len(row) < len(named):
            seen = ", ".join(map(str, cells))
            raise DataError(f"{where} has the columns {seen}; two differ in case only.")
        columns = (_file_column(list(row), where), "split")
        word, split = (_word(row, column, where) or "" for column in columns)
        file = PurePosixPath(word.replace("\\", "/"))
        has_drive = ":" in file.parts[0] if file.parts else True
        if file.is_absolute() or ".." in file.parts or has_drive:
            seen = reprlib.repr(word)
            raise DataError(f"{where} names {seen}, not a file below its folder.")
        name = file.as_posix()
        if name in listed:
            raise DataError(f"{where} names {name} a second time; name it once.")
        if split.lower() not in {"", TRAIN, *MEASURED}:
            seen, words = reprlib.repr(split), ", ".join((TRAIN, *MEASURED))
            raise DataError(f"{where} has the split {seen}; write one of {words}.")
        label = _word(row, "label", where) if use_labels else None
        listed[name] = Listed(name, path.parent / name, label, split.lower() or None)
    if not listed:
        raise DataError(f"The table {path} has no rows; write one per image.")
    return listed


def _rows(path: Path, most_bytes: int) -> Iterator[Any]:
    """Yield the rows one after the other, as they are."""

    def chosen(names: Sequence[str]) -> list[str]:
        _file_column([_plain_column(name) for name in names], str(path))
        return [name for name in names if _plain_column(name) in _COLUMNS]

    kind = path.suffix.lower()
    with untrusted.open_untrusted(path, most_bytes) as file:
        if kind == ".csv":
            yield from csv.DictReader(_lines(file, newline=""))
        elif kind == ".jsonl":
            lines = _lines(file, newline="\n")
            yield from (parse_json(line) for line in lines if line.strip())
        else:
            yield from parquet_rows(file, chosen)


def _lines(file: BufferedReader, *, newline: str) -> Iterator[str]:
    """Yield lines of text; a row takes many times the memory of its line."""
    most = untrusted.MANIFEST_LINE
    with TextIOWrapper(file, encoding="utf-8-sig", newline=newline) as text:
        for line in text:
            if len(line) > most:
                seen = f"{len(line):,} characters"
                raise ValueError(f"a line has {seen}; at most {most:,} are read")
            yield line


def _plain_column(name: str) -> str:
    return name.strip().lower()


def _file_column(columns: Sequence[str], where: str) -> str:
    """Return the column that names the file."""
    for column in FILE_COLUMNS:
        if column in columns:
            return column
    raise DataError(
        f"{where} has the columns {', '.join(columns) or 'none'}; it needs one of "
        f"{', '.join(FILE_COLUMNS)}, separated by commas if it is a CSV."
    )


def _word(row: Mapping[str, Any], column: str, where: str) -> str | None:
    """Return a cell as text; None where it is empty."""
    cell = row.get(column)
    if cell is None or cell != cell:  # NaN is how tables write "missing"
        return None
    is_word = isinstance(cell, str | int) and not isinstance(cell, bool)
    word = str(cell).strip() if is_word else ""
    if not is_word or not is_utf8(word):
        seen = reprlib.repr(cell)
        raise DataError(f"{where} has {seen} as {column}; write text or an integer.")
    return word or None
