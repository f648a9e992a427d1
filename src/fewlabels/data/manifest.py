"""A table of files: one row per image, with or without a label and a split."""

import csv
import reprlib
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from io import BufferedReader, TextIOWrapper
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels.data import untrusted
from fewlabels.data.files import Listed, file_pool
from fewlabels.data.parquet import parquet_rows
from fewlabels.data.text import FILE_COLUMNS, MEASURED, TRAIN, is_utf8
from fewlabels.errors import DataError, FewlabelsWarning
from fewlabels.files import parse_json
from fewlabels.pool import Pool

_SPLITS = (TRAIN, *MEASURED)
_OPTIONAL = ("label", "split")
_NAMES_ONLY = 32  # times as many rows, where names alone are kept
_LONGEST_SHOWN = 200


def manifest_pool(
    path: Path, *, size: int | None, test_share: float, use_labels: bool = True
) -> Pool:
    """Return a pool of a manifest.

    The table has a column ``file_name`` (or ``path``, ``filename``), below its own
    folder, and optional columns ``label``, empty where it is not known, and ``split``.
    Case does not matter in the names of columns.
    """
    columns = set() if use_labels else {"label"}  # then its absence is no mistake
    listed = _listed(path, columns, use_labels=use_labels)
    for column, word in sorted(_misspelt(columns).items()):
        warnings.warn(
            f"The table {path} has a column '{column}' and none called '{word}', so no "
            f"{word} was read. Call the column '{word}' if it holds them.",
            FewlabelsWarning,
            stacklevel=3,
        )
    return file_pool(path, list(listed.values()), size=size, test_share=test_share)


def file_names(path: Path) -> list[str]:
    """Return the files that a manifest names, below its own folder, in its order."""
    return list(_listed(path, set(), use_labels=False, factor=_NAMES_ONLY))


def _listed(
    path: Path, columns: set[str], *, use_labels: bool, factor: int = 1
) -> dict[str, Listed]:
    """Return what a manifest lists, each file once, and add the columns it has.

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
        columns.update(row)
        name, split = _file_name(row, where), _word(row, "split", where)
        if name in listed:
            raise DataError(f"{where} names {name} a second time; name it once.")
        if split is not None and split.lower() not in _SPLITS:
            words = ", ".join(_SPLITS)
            shown = _shortened(split)
            raise DataError(f"{where} has the split '{shown}'; write one of {words}.")
        listed[name] = Listed(
            name=name,
            path=path.parent / name,
            label=_word(row, "label", where) if use_labels else None,
            split=split and split.lower(),
        )
    if not listed:
        raise DataError(f"The table {path} has no rows; write one per image.")
    return listed


def _rows(path: Path, most_bytes: int) -> Iterator[Any]:
    """Yield the rows one after the other, as they are."""

    def chosen(names: Sequence[str]) -> list[str]:
        plain = [_plain_column(name) for name in names]
        _file_column(plain, str(path))
        wanted = {*FILE_COLUMNS, *_OPTIONAL, *_misspelt(plain)}
        return [name for name in names if _plain_column(name) in wanted]

    kind = path.suffix.lower()
    damage = (OSError, ValueError, csv.Error)
    advice = f"Save it again as {kind}."
    with untrusted.open_untrusted(
        path, most_bytes, "The manifest", advice, damage=damage
    ) as file:
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
                seen = len(line)
                raise ValueError(f"a line has {seen:,} characters; at most {most:,}")
            yield line


def _plain_column(name: str) -> str:
    return name.strip().lower()


def _misspelt(columns: Iterable[str]) -> dict[str, str]:
    """Return unknown columns that seem to mean an optional column that is missing."""
    names = sorted(set(columns))
    meant: dict[str, str] = {}
    for word in set(_OPTIONAL).difference(names):
        begun = [column for column in names if column.startswith(word)]
        near = get_close_matches(word, names, cutoff=0.75)
        meant |= dict.fromkeys([*near, *begun][:1], word)
    return meant


def _file_column(columns: Iterable[str], where: str) -> str:
    """Return the column that names the file."""
    names = list(columns)
    for column in FILE_COLUMNS:
        if column in names:
            return column
    mark = next((mark for mark in (";", "\t", "|") if mark in "".join(names)), None)
    hint = f"; separate cells by commas, not {mark!r}" if mark else ""
    raise DataError(
        f"{where} has the columns {', '.join(names) or 'none'}; it needs one of "
        f"{', '.join(FILE_COLUMNS)}{hint}."
    )


def _file_name(row: Mapping[str, Any], where: str) -> str:
    """Return a relative path in its plainest form; refuse one that leads outside."""
    column = _file_column(row, where)
    word = _word(row, column, where)
    if word is None:
        raise DataError(f"{where} names no file; fill in {column}.")
    path = PurePosixPath(word.replace("\\", "/"))
    has_drive = ":" in path.parts[0] if path.parts else False
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        seen = _shortened(word)
        raise DataError(f"{where} names '{seen}', not below the manifest's folder.")
    return path.as_posix()


def _word(row: Mapping[str, Any], column: str, where: str) -> str | None:
    """Return a cell as text; None where it is empty."""
    cell = row.get(column)
    if cell is None or cell != cell:  # NaN is how tables write "missing"
        return None
    if not isinstance(cell, str | int) or isinstance(cell, bool):
        seen = reprlib.repr(cell)
        raise DataError(f"{where} has {seen} as {column}; write text or an integer.")
    word = str(cell).strip()
    if not is_utf8(word):
        seen = ascii(_shortened(word))
        raise DataError(f"{where} has {seen} as {column}, which is not valid text.")
    return word or None


def _shortened(word: str) -> str:
    return word if len(word) <= _LONGEST_SHOWN else f"{word[:_LONGEST_SHOWN]}…"
