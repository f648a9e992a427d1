"""``labels.csv`` and ``labels.parquet``: what people said, one row per label."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from fewlabels.errors import UsageError
from fewlabels.projects.export.tables import write_table

_ROWS = 8192
_SCHEMA = pa.schema(
    [
        ("file_name", pa.string()),
        ("label", pa.string()),
        ("annotator", pa.string()),
        ("time", pa.timestamp("ms", tz="UTC")),
        ("round", pa.int64()),
        ("strategy", pa.string()),
        ("source", pa.string()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """One label, as a person gave it."""

    file_name: str
    """Path below the folder of images, with forward slashes."""
    label: str
    """Name of the class."""
    annotator: str | None = None
    """Who said so."""
    time: datetime | None = None
    """When, with its time zone."""
    round: int | None = None
    """Number of the round that asked for it, from zero."""
    strategy: str | None = None
    """What chose the image: the name of a strategy, or ``"audit"``."""


def write_labels(path: Path, rows: Iterable[LabelRow]) -> int:
    """Write labels as CSV or Parquet, by the ending of the name.

    The columns are ``file_name``, ``label``, ``annotator``, ``time``, ``round``,
    ``strategy`` and ``source``, which is always ``human`` here.

    Args:
        path: ``labels.csv`` or ``labels.parquet``.
        rows: The labels, in the order they shall stand in.

    Returns:
        How many there were.
    """
    return write_table(path, _SCHEMA, _parts(iter(rows)))


def _parts(rows: Iterator[LabelRow]) -> Iterator[dict[str, Any]]:
    while part := list(islice(rows, _ROWS)):
        for row in part:
            _check_time(row)
        columns: dict[str, Any] = {
            name: [getattr(row, name) for row in part] for name in _SCHEMA.names[:-1]
        }
        yield {**columns, "source": ["human"] * len(part)}


def _check_time(row: LabelRow) -> None:
    if row.time is not None and row.time.tzinfo is None:
        raise UsageError(
            f"The label of {row.file_name} was given at {row.time}, without a time "
            "zone, so that nobody elsewhere could tell when that was. Give one, for "
            "example datetime.now(UTC)."
        )
