"""What a project leaves behind: labels, predictions, its latest model and its card.

The files of an export belong together. They are written into a new folder that takes
the place of the last export in one step, and only files that are as ``manifest.json``
says they were written are replaced.

Shapes: n images, C classes.
"""

import csv
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import BaseModel, ConfigDict, ValidationError
from torch import Tensor
from torch.nn import functional as F

from fewlabels import errors, files
from fewlabels.data.decode import ImageFile
from fewlabels.data.files import FileImages, check_files
from fewlabels.data.folder import image_names
from fewlabels.data.untrusted import is_utf8, printable
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError, ShapeError, UnreadableFile, UsageError
from fewlabels.models import model_folder
from fewlabels.models.model_folder import LoadedModel, ModelConfig, load_model
from fewlabels.pool import ArrayImages, Images
from fewlabels.progress import track
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.model_training import is_up_to_date
from fewlabels.projects.rows import row_names
from fewlabels.projects.snapshot import Snapshot
from fewlabels.projects.status import Status, project_status
from fewlabels.projects.store.records import LABELS
from fewlabels.protocols import Classifier

if TYPE_CHECKING:
    from fewlabels.projects.project import Project

_MANIFEST = "manifest.json"
_MAX_MANIFEST = 2**20
_SYSTEM_FILES = frozenset({".DS_Store", "Thumbs.db"})  # made by looking at a folder
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
    template = Path(__file__).with_name("model_card.md").read_text("utf-8")
    return template.format(
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
        raise UsageError(f"The classes {list(classes)} are not distinct.")
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
    with suppress(OSError, pa.ArrowException):
        if path.suffix.lower() == ".parquet":
            names = pq.read_schema(path).names
        else:
            with path.open("rb") as file:
                header = file.read(_MAX_HEADER).decode(errors="replace")
            names = header.partition("\n")[0].split(",")
    if list(names[: len(PREDICTION_COLUMNS)]) != list(PREDICTION_COLUMNS):
        raise UsageError(f"'{path}' holds no predictions; give another file.")


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
    unreadable: tuple[UnreadableFile, ...] = ()
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
    """Use an exported model on an image, on all below a folder, or on rows of a file.

    Images are decoded as they were for training: brought to the same size and number
    of channels. What cannot be read is left out and listed.

    Args:
        model: The folder of an exported model, or one that was loaded.
        source: An image or a folder of images; for a model of rows a file of them
            (.parquet, .npz or .npy), or a folder of shards, that are as long as those
            it learned from.

    Returns:
        Probabilities, in the natural order of the files' names, or that of the rows.
    """
    loaded = model if isinstance(model, LoadedModel) else load_model(Path(model))
    shape, path = loaded.input_shape, Path(source)
    are_rows = len(shape) == 1
    unreadable: tuple[UnreadableFile, ...] = ()
    images: Images
    if are_rows:
        vectors = Vectors.read(path)
        width = vectors.rows.shape[1]
        if width != shape[0]:
            raise ShapeError(
                f"The model takes rows of {shape[0]} numbers, not {width}."
            )
        images, names = ArrayImages(vectors.rows), row_names(vectors)
    else:
        found, unreadable = _images_at(path)
        images = FileImages(tuple(found), (shape[0], shape[1], shape[2]))
        names = tuple(file.name for file in found)
    shares = torch.cat(list(probabilities(loaded.classifier, images)))
    return Predictions(names, loaded.classes, shares, unreadable, are_rows=are_rows)


def _images_at(path: Path) -> tuple[list[ImageFile], tuple[UnreadableFile, ...]]:
    """Return an image or the usable images below a folder, and what is left out."""
    if not path.exists():
        raise DataError(f"There is no '{path}'; give an image or a folder of images.")
    listed: list[tuple[str, Path]] = [(path.name, path)]
    left_out: list[UnreadableFile] = []
    if path.is_dir():
        names, left_out = image_names(path)
        listed = [(name, path / name) for name in names]
    elif not is_utf8(path.name):
        raise DataError(f"The name of '{path}' is not UTF-8; rename the file.")
    found, damaged = check_files(listed)
    unreadable = tuple(sorted([*left_out, *damaged]))
    if not found:
        first = f" ({unreadable[0]})" if unreadable else ""
        raise DataError(
            f"There is no image to be used in '{path}'{first}; give an image or a "
            "folder of images."
        )
    return found, unreadable


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


# ----------------------------------------------------------------- a whole project


class Manifest(BaseModel):
    """What ``manifest.json`` holds."""

    model_config = ConfigDict(frozen=True)

    format: Literal["fewlabels-export"] = "fewlabels-export"
    format_version: Literal[1] = 1
    sha256: dict[str, str]
    """Hash of each file by its path below the folder."""


@dataclass(frozen=True)
class Exported:
    """What was written."""

    folder: Path
    files: tuple[Path, ...]
    num_labels: int
    """Rows of ``labels.csv``, those of the audit slice included."""
    model: ModelRecord | None
    """The model among them; None: none was trained."""

    def __str__(self) -> str:
        """Return which model was written, what it learned from, and how many files."""
        labels = errors.count(self.num_labels, "label")
        what = f"{labels} and no model"
        if self.model is not None:
            learned = errors.count(self.model.num_labeled, "label")
            what = f"{self.model.name}, which learned from {learned}, and {labels}"
        number = errors.count(len(self.files), "file")
        return f"Exported {what} to {self.folder}, {number}."


def needs_training(project: "Project") -> bool:
    """Return whether the project's trainer should learn first, which takes seconds.

    An :class:`UnlearnedLabelsError` is raised if it should but takes longer, or is not
    possible.
    """
    snapshot, done = project.snapshot(), project.records()
    if is_up_to_date(project, snapshot):
        return False
    own = project.settings.trainer.name
    why = f"training by '{own}' takes longer than an export. Train first"
    if not snapshot.can_teach:
        why = "training needs labels of at least two classes. Label more images"
    elif done and done[-1].trainer != own:
        why = f"it was trained by '{done[-1].trainer}', not '{own}'. Train again"
    elif project.trainer().num_steps is None:
        return True
    missing = "There is no model yet"
    if done:
        missing = f"{done[-1].name} has not learned from all labels"
    raise errors.UnlearnedLabelsError(f"{missing}, and {why}, or export as it is.")


def export_project(
    project: "Project",
    folder: Path,
    *,
    onnx: bool = False,
    also: Callable[[Path], object] | None = None,
) -> Exported:
    """Write labels, predictions and the latest model, all as of one moment.

    They are written beside ``folder``, with what ``also`` writes, and take its place in
    one step, when all of them are there: nobody ever sees files of two exports. The
    folder is new, empty, or an earlier export that nobody changed. Where no model was
    trained, only labels are written.

    Returns:
        The files, and which model is among them.
    """
    records = project.records()
    if onnx and not records:
        raise UsageError("No model has been trained yet to write as ONNX; train first.")
    snapshot = project.snapshot()
    path_of = {item.id: item.path for item in snapshot.items}
    rows = [
        {
            "file_name": path_of[verdict.item],
            "label": snapshot.classes[verdict.class_number],
            "annotator": verdict.annotator,
            "time": verdict.server_time,
            "round": verdict.round,
            "strategy": "audit" if verdict.item in snapshot.audit else verdict.strategy,
        }
        for verdict in snapshot.verdicts
        if verdict.kind in LABELS and verdict.class_number is not None
    ]
    target = folder.resolve()
    with files.staging_folder(target) as partial:
        write_labels(partial / "labels.csv", rows)
        write_labels(partial / "labels.parquet", rows)
        if records:
            _write_model(project, snapshot, records[-1], partial, onnx=onnx)
        if also is not None:
            also(partial)
        hashes = {name: _sha256(partial / name) for name in sorted(_names(partial))}
        text = Manifest(sha256=hashes).model_dump_json(indent=2) + "\n"
        files.replace_text(partial / _MANIFEST, text)
        check_replaceable(folder)  # it may have been changed meanwhile
        files.exchange(partial, target)
    written = tuple(folder / name for name in (*hashes, _MANIFEST))
    return Exported(folder, written, len(rows), records[-1] if records else None)


def _write_model(
    project: "Project",
    snapshot: Snapshot,
    record: ModelRecord,
    folder: Path,
    *,
    onnx: bool,
) -> None:
    """Write predictions and the model itself."""
    pool = snapshot.pool(project.images(snapshot))
    classifier = project.classifier(record, pool)

    names = snapshot.classes

    def predictions() -> Iterator[pa.Table]:
        start = 0
        for part in probabilities(classifier, pool.images):
            some = snapshot.items[start : start + len(part)]
            labels = [snapshot.known.get(item.id) for item in some]
            human = [None if label is None else names[label] for label in labels]
            # Classes that are younger than the model have a probability of zero.
            padded = F.pad(part, (0, len(names) - part.shape[1]))
            paths = [item.path for item in some]
            yield prediction_table(names, paths, padded, human)
            start += len(part)

    schema = prediction_schema(names)
    write_table(folder / "predictions.parquet", schema, predictions())
    classes = names[: len(record.classes)]  # by their current names
    model = folder / "model"
    config = model_folder.save_model(model, classifier, classes, pool.images.shape)
    strategy = project.settings.strategy.name
    card = model_card(config, record, project_status(project), strategy)
    files.replace_text(model / "README.md", card)
    if onnx:
        model_folder.write_onnx(model / "model.onnx", classifier, pool.images.shape)


def check_replaceable(folder: Path) -> None:
    """Raise unless a folder is missing, empty, or an unchanged export.

    Args:
        folder: Where an export shall be.

    Raises:
        UsageError: If a file there would be lost; it is named.
    """
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file; an export needs a folder.")
    if Path.cwd().is_relative_to(folder.resolve()):
        raise UsageError(f"You are in '{folder}', which the export would replace.")
    with files.wrap_os_errors(folder):
        known: dict[str, str] = {}
        with suppress(OSError, ValidationError):
            content = files.read_regular(folder / _MANIFEST, _MAX_MANIFEST)
            known = Manifest.model_validate_json(content).sha256
        for name in _names(folder):
            if known.get(name) != _sha256(folder / name):
                raise UsageError(
                    f"'{folder}' holds '{name}', which the last export did not write "
                    "or which was changed since. Move it away."
                )


def _names(folder: Path) -> Iterator[str]:
    """Yield all files and links below a folder but the manifest."""
    for path in folder.rglob("*"):
        if path.is_symlink() or not path.is_dir():
            name = path.relative_to(folder).as_posix()
            if name != _MANIFEST and path.name not in _SYSTEM_FILES:
                yield name


def _sha256(path: Path) -> str:
    """Return the hash of a file; of a link, a word that is no hash."""
    if path.is_symlink() or not path.is_file():
        return "no file"
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
