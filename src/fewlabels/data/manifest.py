"""A table of files: one row per image, with or without a label and a split."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from fewlabels.data.listing import MEASURED, TRAIN, Listed, file_pool
from fewlabels.errors import DataError
from fewlabels.pool import Pool

MANIFESTS = frozenset({".csv", ".jsonl", ".parquet"})
"""Extensions of the tables that are read."""

NAME_COLUMNS = ("file_name", "path", "filename")
"""Columns that may hold the file; the first one that is present is taken."""

_SPLITS = (TRAIN, *MEASURED)

Row = Mapping[str, Any]
"""The cells of one row by column."""


def manifest_pool(
    path: Path, *, size: int | None, test_share: float, use_labels: bool = True
) -> Pool:
    """Make a pool of a manifest.

    Args:
        path: The table: ``file_name`` (or ``path``, ``filename``), below the table's
            own folder; optional ``label``, empty where it is not known; optional
            ``split``.
        size: Side of the square to bring images to; None: the common native size.
        test_share: Share of the labeled items to measure on, where no split is given.
        use_labels: Whether to read the column ``label``.

    Returns:
        The pool.
    """
    listed: dict[str, Listed] = {}
    for number, row in enumerate(_rows(path), start=1):
        where = f"Row {number} of {path}"
        one = _listed(row, path.parent, where, use_labels=use_labels)
        if one.name in listed:
            msg = f"{where} names {one.name} a second time; name each file once."
            raise DataError(msg)
        listed[one.name] = one
    return file_pool(path, list(listed.values()), size=size, test_share=test_share)


def _rows(path: Path) -> Iterator[Row]:
    """Read the rows one after the other."""
    kind = path.suffix.lower()
    try:
        if kind == ".csv":
            with path.open(newline="", encoding="utf-8-sig") as table:
                yield from csv.DictReader(table)
        elif kind == ".jsonl":
            with path.open(encoding="utf-8-sig") as lines:
                yield from (json.loads(line) for line in lines if line.strip())
        else:
            yield from _parquet_rows(path)
    except (OSError, ValueError, csv.Error) as error:
        msg = f"The manifest {path} cannot be read: {error}. Save it again as {kind}."
        raise DataError(msg) from error


def _parquet_rows(path: Path) -> list[Row]:
    from pyarrow import parquet  # slow to import, and seldom needed

    with parquet.ParquetFile(path) as file:
        known = {*NAME_COLUMNS, "label", "split"}
        columns = [name for name in file.schema_arrow.names if name in known]
        rows: list[Row] = file.read(columns=columns).to_pylist()
    return rows


def _listed(row: Row, folder: Path, where: str, *, use_labels: bool) -> Listed:
    name = _inside(_file_name(row, where), where)
    return Listed(
        name=name,
        path=folder / name,
        label=_word(row, "label", where) if use_labels else None,
        split=_split(row, where),
    )


def _file_name(row: Row, where: str) -> str:
    if not isinstance(row, Mapping):
        raise DataError(f"{where} is not a JSON object; write one object per line.")
    for column in NAME_COLUMNS:
        if column in row:
            word = _word(row, column, where)
            if word is None:
                raise DataError(f"{where} names no file; fill in {column}.")
            return word
    seen = ", ".join(map(str, row)) or "none"
    msg = f"{where} has the columns {seen}; it needs one of {', '.join(NAME_COLUMNS)}."
    raise DataError(msg)


def _inside(word: str, where: str) -> str:
    """Return a relative path in its plainest form; refuse one that leads outside."""
    path = PurePosixPath(word.replace("\\", "/"))
    has_drive = ":" in path.parts[0] if path.parts else False
    if path.is_absolute() or ".." in path.parts or has_drive or not path.parts:
        msg = (
            f"{where} names '{word}', which is not below the manifest's folder; a "
            "manifest refers only to files beside it or below. Move the manifest up or "
            "the file down."
        )
        raise DataError(msg)
    return path.as_posix()


def _word(row: Row, column: str, where: str) -> str | None:
    """Return a cell as text; None where it is empty."""
    cell = row.get(column)
    if cell is None or cell != cell:  # NaN is how tables write "missing"
        return None
    if not isinstance(cell, str | int):
        msg = f"{where} has {cell!r} as {column}; write text or a whole number."
        raise DataError(msg)
    return str(cell).strip() or None


def _split(row: Row, where: str) -> str | None:
    word = _word(row, "split", where)
    if word is None:
        return None
    if word.lower() not in _SPLITS:
        msg = f"{where} has the split '{word}'; write one of {', '.join(_SPLITS)}."
        raise DataError(msg)
    return word.lower()
