"""What a project leaves behind: the card of its model, tables of labels, predictions.

Shapes: n images, C classes.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from torch import Tensor

from fewlabels import errors, files
from fewlabels.data.files import FileImages, check_files
from fewlabels.data.folder import image_names
from fewlabels.data.untrusted import printable
from fewlabels.data.vectors import Vectors
from fewlabels.models.model_folder import LoadedModel, ModelConfig, load_model
from fewlabels.pool import ArrayImages, Images
from fewlabels.progress import track
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.rows import row_names
from fewlabels.projects.status import Status
from fewlabels.protocols import Classifier

_TEXT = pa.string()
PREDICTION_COLUMNS = {
    **dict.fromkeys(("file_name", "label", "confidence", "source"), _TEXT),
    "confidence": pa.float32(),
}
"""First columns of a table of predictions, with their types."""

_LABEL_COLUMNS = ("file_name", "label", "annotator", "time", "round", "strategy")
_LABEL_TYPES = {"time": pa.timestamp("ms", tz="UTC"), "round": pa.int64()}
_LABEL_SCHEMA = pa.schema(
    dict.fromkeys((*_LABEL_COLUMNS, "source"), _TEXT) | _LABEL_TYPES
)
_ENDINGS = (".csv", ".parquet")
_CHUNK = 128  # images that four threads embed at once, and a step of the progress
_MAX_GROUP = 8192  # rows of a row group
_MAX_HEADER = 4096  # bytes

_CARD_TEXT = """\
---
library_name: fewlabels
pipeline_tag: image-classification
tags: [image-classification, active-learning, semi-supervised-learning]
---

# {title}

Trained by {trainer} on {num_images:,} images, {num_labels:,} of them labeled by \
people, chosen by {strategy}. The network is {network}, its input is {size}.

| class | labels |
|---|---|
{rows}

## Accuracy

{accuracy}

## Use

    fewlabels predict THIS_FOLDER {source} --out predictions.csv

## Limits

Every image gets one of the classes above, whatever it shows. The accuracy holds for \
images like those it was trained on. Confidences are not calibrated: 0.9 does not mean \
right nine times in ten. Where a mistake harms somebody, let a person check.
"""


# ---------------------------------------------------------------------------- card


def model_card(
    config: ModelConfig, record: ModelRecord, status: Status, strategy: str
) -> str:
    """Return the card of a model in Markdown; names that people chose are escaped.

    Args:
        config: Its configuration.
        record: How it was trained.
        status: The accuracy on the audit slice, and how many images there have a label.
        strategy: What chose the images that people labeled.
    """
    channels, *sides = config.input_shape
    size, source = f"a row of {channels} numbers", "ROWS.parquet"
    if sides:
        kind = "grey" if channels == 1 else "color"
        size, source = f"{sides[1]} × {sides[0]} pixels, {kind}", "FOLDER_OF_IMAGES"
    num_open = status.audit_size - status.num_audited
    audited = status.curve[-1].audited if status.curve else None
    if audited is None or audited.accuracy is None:
        accuracy = "Not measured: no random slice of images was set aside for an audit."
        if num_open:
            accuracy = f"Not measured: none of the {num_open} images drawn for an audit"
            accuracy += " has a label."
    else:
        accuracy = f"{audited}, which no decision used."
        if num_open:
            accuracy += f" {num_open} more were drawn and have no label; if they were"
            accuracy += " left out for being hard, the accuracy is lower than this."
    encoder = f" over {config.encoder.identity}" if config.encoder else ""
    counts = zip(config.classes, record.class_counts, strict=True)
    return _CARD_TEXT.format(
        title=_escaped(f"Classifier of {', '.join(config.classes[:5])}"),
        accuracy=accuracy,
        trainer=_escaped(record.trainer),
        num_images=sum(record.predicted),  # as of then; others may have come since
        num_labels=record.num_labeled,
        strategy=_escaped(strategy),
        network=_escaped(f"{config.network}{encoder}"),
        size=size,
        source=source,
        rows="\n".join(f"| {_escaped(name)} | {number} |" for name, number in counts),
    )


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~-])", r"\\\1", printable(text))


# -------------------------------------------------------------------------- tables


def write_labels(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write labels as CSV or Parquet, by the ending of the name.

    Args:
        path: ``labels.csv`` or ``labels.parquet``.
        rows: The labels, in their order in the file: ``file_name``, ``label``,
            ``annotator``, ``time`` (with its zone), ``round`` from zero, and
            ``strategy``, what chose the image. The column ``source`` says ``human``.
    """
    labels = [{**row, "source": "human"} for row in rows]
    table = pa.Table.from_pylist(labels, schema=_LABEL_SCHEMA)
    write_table(path, _LABEL_SCHEMA, [table])


def prediction_schema(classes: Sequence[str]) -> pa.Schema:
    """Return the columns of a table of predictions, with their types.

    They are ``file_name``; ``label``, the class a person gave or else the likeliest
    one; ``confidence``, the model's probability of that label (low where it doubts a
    person's label, which is worth a second look); ``source``, ``human`` or ``model``,
    and ``p_CLASS`` for each class.
    """
    if len(set(classes)) < len(classes):
        raise errors.UsageError(f"The classes {list(classes)} are not distinct.")
    numbers = {f"p_{name}": pa.float32() for name in classes}
    return pa.schema(PREDICTION_COLUMNS | numbers)


def prediction_table(
    classes: Sequence[str],
    file_names: Sequence[str],
    probabilities: Tensor,
    human: Sequence[str | None] | None = None,
) -> pa.Table:
    """Return predictions as a table of :func:`prediction_schema`.

    Args:
        classes: Names of the classes.
        file_names: Path of each image below its folder, n names.
        probabilities: Of the model, shape (n, C).
        human: The class that a person gave, None where nobody did; None: nobody,
            anywhere.
    """
    schema, probabilities_nC = prediction_schema(classes), probabilities.float().cpu()
    human = human or [None] * len(file_names)
    label_n = probabilities_nC.argmax(dim=1)
    for row, name in enumerate(human):
        if name is not None:
            label_n[row] = classes.index(name)
    columns = [
        list(file_names),
        [classes[number] for number in label_n.tolist()],
        probabilities_nC.gather(1, label_n[:, None])[:, 0].numpy(),
        ["model" if name is None else "human" for name in human],
        *probabilities_nC.T.numpy(),
    ]
    return pa.table(columns, schema=schema)


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
        raise errors.UsageError(f"'{path}' holds no predictions; give another file.")


def _check_table_ending(path: Path) -> None:
    if path.suffix.lower() not in _ENDINGS:
        raise errors.UnknownNameError(
            "format of a table", path.suffix or path.name, _ENDINGS
        )


def write_table(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    """Write a table, some rows at a time, wholly or not at all.

    The ending decides the format. In a CSV file (UTF-8, a line feed after each row) an
    empty cell stands for nothing, numbers have six digits, and times are in ISO 8601,
    UTC.
    """
    _check_table_ending(path)
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


# --------------------------------------------------------------------- predictions


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predictions of a model for some images."""

    file_names: tuple[str, ...]
    """Path of each image below its folder, n names."""
    classes: tuple[str, ...]
    """Names of the classes."""
    probabilities: Tensor
    """Shape (n, C), float32."""
    unreadable: tuple[errors.UnreadableFile, ...] = ()
    """Files that could not be used, by name and reason."""
    are_rows: bool = False
    """Whether the items are rows, not images."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.file_names)

    @property
    def labels(self) -> list[str]:
        """The likeliest class of each image."""
        numbers = self.probabilities.argmax(dim=1).tolist()
        return [self.classes[number] for number in numbers]

    def write(self, path: str | PathLike[str]) -> None:
        """Write them as ``.csv`` or ``.parquet``, by the ending of the name.

        Earlier predictions are replaced; another file is left alone.
        """
        check_replaceable_table(Path(path))
        table = prediction_table(self.classes, self.file_names, self.probabilities)
        write_table(Path(path), table.schema, [table])


def predict(
    model: str | PathLike[str] | LoadedModel, source: str | PathLike[str]
) -> Predictions:
    """Use an exported model on all images below a folder, or on all rows of a file.

    Images are decoded as they were for training: brought to the same size and number
    of channels. What cannot be read is left out and listed.

    Args:
        model: The folder of an exported model, or one that was loaded.
        source: Where the images are; for a model of rows a file of them (.parquet,
            .npz or .npy), or a folder of shards, that are as long as those it learned
            from.

    Returns:
        Probabilities, in the natural order of the files' names, or that of the rows.
    """
    loaded = model if isinstance(model, LoadedModel) else load_model(Path(model))
    shape, path = loaded.input_shape, Path(source)
    unreadable: tuple[errors.UnreadableFile, ...] = ()
    images: Images
    if len(shape) == 1:
        vectors = Vectors.read(path)
        width = vectors.rows.shape[1]
        if width != shape[0]:
            raise errors.ShapeError(
                f"The model takes rows of {shape[0]} numbers, not {width}."
            )
        images, names = ArrayImages(vectors.rows), row_names(vectors)
    else:
        if not path.is_dir():
            raise errors.DataError(
                f"There is no folder {path}; give a folder of images."
            )
        listed, passed_over = image_names(path)
        found, damaged = check_files((name, path / name) for name in listed)
        unreadable = tuple(sorted([*passed_over, *damaged]))
        if not found:
            first = f" ({unreadable[0]})" if unreadable else ""
            raise errors.DataError(f"There is no image to be used in {path}{first}.")
        images = FileImages(tuple(found), (shape[0], shape[1], shape[2]))
        names = tuple(file.name for file in found)
    shares = torch.cat(list(probabilities(loaded.classifier, images)))
    are_rows = len(shape) == 1
    return Predictions(names, loaded.classes, shares, unreadable, are_rows=are_rows)


def probabilities(classifier: Classifier, images: Images) -> Iterator[Tensor]:
    """Yield the probabilities of all images, some at a time.

    Args:
        classifier: The classifier.
        images: The images.

    Yields:
        Probabilities of the next images, float32, shape (at most 128, C).
    """
    with track("Predicting", len(images)) as advance:
        for part in torch.split(torch.arange(len(images)), _CHUNK):
            yield torch.softmax(classifier.outputs(images, part).logits, dim=1)
            advance(len(part))
