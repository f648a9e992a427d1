"""Tables as CSV or Parquet, part by part: never more than a part in memory."""

import csv
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from fewlabels import files
from fewlabels.errors import UnknownNameError

ENDINGS = (".csv", ".parquet")
"""How the name of a table ends, which decides its format."""

_LONGEST = 4096


def check_ending(path: Path) -> None:
    """Raise unless a file's name says that it is a table that can be written."""
    if path.suffix.lower() not in ENDINGS:
        raise UnknownNameError("format of a table", path.suffix or path.name, ENDINGS)


def write_table(path: Path, schema: pa.Schema, parts: Iterable[dict[str, Any]]) -> int:
    """Return the number of rows of a table, written wholly or not at all.

    The ending decides the format. A Parquet file gets a row group per part. In a CSV
    file (UTF-8, a line feed after each row) an empty cell stands for nothing, numbers
    have six digits, and times are in ISO 8601, UTC.
    """
    check_ending(path)
    tables = (pa.table(columns, schema=schema) for columns in parts)
    write = _write_csv if path.suffix.lower() == ".csv" else _write_parquet
    with files.replace_file(path) as partial:
        return write(partial, schema, tables)


def first_columns(path: Path, count: int) -> list[str]:
    """Return the names of the first columns of a table; none of what is not a table."""
    try:
        if path.suffix.lower() == ".parquet":
            return list(pq.read_schema(path).names[:count])
        with path.open("rb") as file:
            line = file.read(_LONGEST).decode(errors="replace").partition("\n")[0]
    except (OSError, pa.ArrowException):
        return []
    return line.split(",")[:count]


def _write_parquet(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    num_rows = 0
    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)
            num_rows += table.num_rows
    return num_rows


def _write_csv(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    num_rows = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(schema.names)
        for table in tables:
            columns = [map(_cell, column.to_pylist()) for column in table.columns]
            writer.writerows(zip(*columns, strict=True))
            num_rows += table.num_rows
    return num_rows


def _cell(value: object) -> object:
    """Return a value as it is written."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return value
