"""``labels.csv``, ``labels.parquet`` and ``predictions.parquet``, written in parts.

Shapes: n images, C classes.
"""

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor

from fewlabels import files
from fewlabels.errors import ShapeError, UnknownNameError, UsageError

PREDICTION_COLUMNS = {
    "file_name": pa.string(),
    "label": pa.string(),
    "confidence": pa.float32(),
    "source": pa.string(),
}
"""First columns of a table of predictions, with their types."""

_LABEL_SCHEMA = pa.schema(
    {
        "file_name": pa.string(),
        "label": pa.string(),
        "annotator": pa.string(),
        "time": pa.timestamp("ms", tz="UTC"),
        "round": pa.int64(),
        "strategy": pa.string(),
        "source": pa.string(),
    }
)
_ENDINGS = (".csv", ".parquet")
_MAX_GROUP = 8192  # rows of a row group
_MAX_HEADER = 4096  # bytes


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """One label, as a person gave it."""

    file_name: str
    """Path below the folder of images, with forward slashes."""
    label: str
    """Name of the class."""
    annotator: str | None = None
    """Who gave it."""
    time: datetime | None = None
    """When, with its time zone."""
    round: int | None = None
    """Number of the round that asked for it, from zero."""
    strategy: str | None = None
    """What chose the image: the name of a strategy, or ``"audit"``."""


@dataclass(frozen=True, eq=False)
class PredictionRows:
    """Some images with their probabilities, and their labels where people gave one."""

    file_names: Sequence[str]
    """Path of each image below its folder, n names."""
    probabilities: Tensor
    """Of the model, shape (n, C)."""
    human: Sequence[str | None] = ()
    """The class that a person gave, None where nobody did; empty: nobody, anywhere."""


def write_labels(path: Path, rows: Iterable[LabelRow]) -> None:
    """Write labels as CSV or Parquet, by the ending of the name.

    The columns are ``file_name``, ``label``, ``annotator``, ``time``, ``round``,
    ``strategy`` and ``source``, which is always ``human`` here.

    Args:
        path: ``labels.csv`` or ``labels.parquet``.
        rows: The labels, in their order in the file.
    """
    labels = [{**vars(row), "source": "human"} for row in rows]
    for label in labels:
        if label["time"] is not None and label["time"].tzinfo is None:
            raise UsageError(
                f"The time of {label['file_name']}, {label['time']}, has no time zone."
            )
    names = _LABEL_SCHEMA.names
    columns = {name: [label[name] for label in labels] for name in names}
    write_table(path, _LABEL_SCHEMA, [columns] if labels else [])


def write_predictions(
    path: Path, classes: Sequence[str], parts: Iterable[PredictionRows]
) -> None:
    """Write predictions as Parquet or CSV, by the ending of the name.

    The columns are ``file_name``; ``label``, the class a person gave or else the
    likeliest one; ``confidence``, the model's probability of that label (low where it
    doubts a person's label, which is worth a second look); ``source``, ``human`` or
    ``model``, and ``p_CLASS`` for each class. Each part is written as it comes.

    Args:
        path: The file.
        classes: Names of the classes.
        parts: Rows, some at a time.

    Raises:
        UsageError: If two classes share a name.
    """
    if len(set(classes)) < len(classes):
        raise UsageError(f"The classes {list(classes)} are not distinct.")
    numbers = {f"p_{name}": pa.float32() for name in classes}
    schema = pa.schema(PREDICTION_COLUMNS | numbers)
    write_table(path, schema, (_prediction_columns(rows, classes) for rows in parts))


def _prediction_columns(rows: PredictionRows, classes: Sequence[str]) -> dict[str, Any]:
    probabilities_nC = rows.probabilities.detach().float().cpu()
    human = rows.human or [None] * len(rows.file_names)
    shape = len(rows.file_names), len(classes)
    if probabilities_nC.shape != shape or len(human) != len(rows.file_names):
        raise ShapeError(
            f"Probabilities of shape {tuple(probabilities_nC.shape)} and {len(human)} "
            f"labels do not fit {shape[0]} files and {shape[1]} classes."
        )
    number_of = {name: number for number, name in enumerate(classes)}
    label_n = probabilities_nC.argmax(dim=1)
    for row, name in enumerate(human):
        if name is not None:
            if name not in number_of:
                raise UnknownNameError("class", name, number_of)
            label_n[row] = number_of[name]
    confidence_n = probabilities_nC.gather(1, label_n[:, None])[:, 0]
    return {
        "file_name": list(rows.file_names),
        "label": [classes[number] for number in label_n.tolist()],
        "confidence": confidence_n.numpy(),
        "source": ["model" if name is None else "human" for name in human],
    } | {
        f"p_{name}": probabilities_nC[:, number].numpy()
        for name, number in number_of.items()
    }


def check_replaceable_table(path: Path) -> None:
    """Raise if predictions cannot be written to a file without losing another one.

    Args:
        path: Where predictions shall be written.

    Raises:
        UsageError: If the name has another ending than ``.csv`` or ``.parquet``, or if
            a file is there that is not empty and holds no predictions.
    """
    _check_table_ending(path)
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return
    names: Sequence[str] = ()
    try:
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(path).names
        else:
            with path.open("rb") as file:
                header = file.read(_MAX_HEADER).decode(errors="replace")
            names = header.partition("\n")[0].split(",")
    except (OSError, pa.ArrowException):
        pass
    if list(names[: len(PREDICTION_COLUMNS)]) != list(PREDICTION_COLUMNS):
        raise UsageError(f"'{path}' holds no predictions; give another file.")


def _check_table_ending(path: Path) -> None:
    if path.suffix.lower() not in _ENDINGS:
        raise UnknownNameError("format of a table", path.suffix or path.name, _ENDINGS)


def write_table(path: Path, schema: pa.Schema, parts: Iterable[dict[str, Any]]) -> None:
    """Write a table from its columns, some rows at a time, wholly or not at all.

    The ending decides the format. In a CSV file (UTF-8, a line feed after each row) an
    empty cell stands for nothing, numbers have six digits, and times are in ISO 8601,
    UTC.
    """
    _check_table_ending(path)
    tables = (pa.table(columns, schema=schema) for columns in parts)
    with files.replace_file(path) as partial:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetWriter(partial, schema) as writer:
                for table in tables:
                    writer.write_table(table, row_group_size=_MAX_GROUP)
            return
        with partial.open("w", encoding="utf-8", newline="") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(schema.names)
            for table in tables:
                columns = (map(_cell, column.to_pylist()) for column in table.columns)
                lines.writerows(zip(*columns, strict=True))


def _cell(value: object) -> object:
    """Return a value as a CSV file holds it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds")
    return value
