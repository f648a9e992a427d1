"""``predictions.parquet``: what is known or thought about every image.

Shapes: n images, C classes.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from torch import Tensor

from fewlabels.errors import ShapeError, UnknownNameError, UsageError
from fewlabels.projects.export.tables import first_columns, write_table

_ROWS = 8192
_FIRST = ("file_name", "label", "confidence", "source")


@dataclass(frozen=True, eq=False)
class PredictionRows:
    """Some images with their probabilities, and their labels where people gave one."""

    file_names: Sequence[str]
    """Path of each image below its folder, n names."""
    probabilities: Tensor
    """What the model says, shape (n, C)."""
    human: Sequence[str | None] = ()
    """The class that a person gave, None where nobody did; empty: nobody, anywhere."""

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        lengths = {len(self.file_names), len(self.probabilities)}
        lengths |= {len(self.human)} if self.human else set()
        if len(lengths) > 1:
            raise ShapeError(
                f"There are {len(self.file_names)} file names, probabilities of shape "
                f"{tuple(self.probabilities.shape)} and {len(self.human)} labels of "
                "people; give one row per file."
            )


def write_predictions(
    path: Path, classes: Sequence[str], parts: Iterable[PredictionRows]
) -> int:
    """Write predictions as Parquet or CSV, by the ending of the name.

    The columns are ``file_name``; ``label``, the class a person gave or else the
    likeliest one; ``confidence``, the model's probability of that label (low where it
    doubts a person's label, which is worth a second look); ``source``, ``human`` or
    ``model``, and ``p_CLASS`` for each class. Rows are written as they come, at most
    8,192 at a time in memory.

    Args:
        path: The file.
        classes: Names of the classes.
        parts: Rows, some at a time.

    Returns:
        How many rows there were.

    Raises:
        UsageError: If two classes share a name.
    """
    if len(set(classes)) < len(classes):
        raise UsageError(
            f"{len(classes)} classes have {len(set(classes))} different names, and "
            "each is a column; give each its own."
        )
    names = [f"p_{name}" for name in classes]
    kinds = (pa.string(), pa.string(), pa.float32(), pa.string())
    numbers = ((name, pa.float32()) for name in names)
    schema = pa.schema([*zip(_FIRST, kinds, strict=True), *numbers])
    number_of = {name: number for number, name in enumerate(classes)}
    return write_table(
        path,
        schema,
        (_columns(rows, number_of) for part in parts for rows in _split(part)),
    )


def check_replaceable_table(path: Path) -> None:
    """Raise if something else than predictions would be overwritten.

    Args:
        path: Where predictions shall be written.

    Raises:
        UsageError: If a file stands there that is not empty and no such table.
    """
    if not path.exists() or (path.is_file() and not path.stat().st_size):
        return
    if not path.is_file() or tuple(first_columns(path, len(_FIRST))) != _FIRST:
        raise UsageError(
            f"'{path}' exists already and holds no predictions; it was not touched. "
            "Give another file."
        )


def _split(part: PredictionRows) -> Iterator[PredictionRows]:
    for start in range(0, len(part.file_names), _ROWS):
        rows = slice(start, start + _ROWS)
        yield PredictionRows(
            part.file_names[rows], part.probabilities[rows], part.human[rows]
        )


def _columns(rows: PredictionRows, number_of: dict[str, int]) -> dict[str, Any]:
    """Return the columns of a table."""
    probabilities_nC = rows.probabilities.detach().float().cpu()
    if probabilities_nC.shape[1:] != (len(number_of),):
        raise ShapeError(
            f"Probabilities have shape {tuple(probabilities_nC.shape)}, and there are "
            f"{len(number_of)} classes; give one column per class."
        )
    human = rows.human or [None] * len(rows.file_names)
    label_n = probabilities_nC.argmax(dim=1)
    for row, name in enumerate(human):
        if name is not None:
            if name not in number_of:
                raise UnknownNameError("class", name, number_of)
            label_n[row] = number_of[name]
    classes = list(number_of)
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
