"""What a project leaves behind: its model, tables of labels, and predictions.

A trained model is three files: ``model.safetensors``, ``config.json`` and a card, as
Hugging Face's model hub knows them. Weights are safetensors, which hold numbers only;
nothing is unpickled or imported by a name in a file.
``model.onnx`` is the same model for programs without Python; the extra ``onnx``
installs what torch needs to write it.

Shapes: n images, C classes.
"""

import copy
import csv
import logging
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from torch import Tensor, nn

from fewlabels import errors, files, models, rng
from fewlabels.data.files import FileImages, check_files
from fewlabels.data.folder import image_names
from fewlabels.data.untrusted import printable
from fewlabels.data.vectors import Vectors
from fewlabels.experiments.settings import faults
from fewlabels.models import Network, as_input, checkpoint, encoders
from fewlabels.models.classifiers import FrozenClassifier, NetworkClassifier
from fewlabels.models.encoders import Encoder
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.names import check_installed
from fewlabels.pool import ArrayImages, Images
from fewlabels.progress import track
from fewlabels.projects.folder import ModelRecord
from fewlabels.projects.rows import row_names
from fewlabels.projects.settings import LARGEST_SIDE
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

Exportable = NetworkClassifier | FrozenClassifier
"""The classifiers that can be written as files."""

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_MAX_CONFIG, _MAX_WEIGHTS = 2**20, 2**36  # bytes
_MAX_INPUTS = 2**22  # an image of 1,024 pixels a side has three quarters of it


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


class EncoderConfig(BaseModel):
    """The frozen network before a head."""

    model_config = ConfigDict(frozen=True)

    identity: str
    """Name of the encoder, which identifies network, weights and preparation."""
    builtin: str | None = None
    """Where its weights come with a package: the name it has here."""
    size: int | None = Field(default=None, ge=1, le=LARGEST_SIDE)
    """Side of the square that a built-in encoder brings images to."""
    published: str | None = None
    """Where others can fetch its weights: the name it has here."""
    published_options: dict[str, Any] = {}
    """Its options."""

    @classmethod
    def of(cls, encoder: Encoder) -> "EncoderConfig":
        """Return how to get an encoder back."""
        for name in encoders.names():
            match = re.fullmatch(rf"{name}-[0-9a-f]{{16}}-(\d+)px", encoder.name)
            if match is not None:
                return cls(identity=encoder.name, builtin=name, size=int(match[1]))
        published = getattr(encoder, "published", None)
        if published is not None:
            name, options = published
            return cls(identity=encoder.name, published=name, published_options=options)
        return cls(identity=encoder.name)


class ModelConfig(BaseModel):
    """What ``config.json`` holds: all that is needed to build an exported model."""

    model_config = ConfigDict(frozen=True)

    format: Literal["fewlabels-model"] = "fewlabels-model"
    format_version: Literal[1] = 1
    classes: tuple[str, ...] = Field(min_length=1)
    """Names of the classes, in the order of the model's outputs."""
    input_shape: tuple[Annotated[int, Field(ge=1, le=2**16)], ...] = Field(min_length=1)
    """Channels, height and width that images are brought to; or the length of a row."""
    input_range: tuple[float, float] = (-1.0, 1.0)
    """What 0 and 255 become before the network."""
    input_resize: str = "bilinear"
    """How images of another size are brought to this one."""
    network: str
    """Name of the network, or of the head where there is an encoder."""
    encoder: EncoderConfig | None = None
    weights_sha256: str
    """Hash of the file of weights, so that files of two models are not mixed."""

    @field_validator("input_shape")
    @classmethod
    def _check_size(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(shape) > _MAX_INPUTS:
            numbers = " x ".join(map(str, shape))
            raise ValueError(f"{numbers} is more than {_MAX_INPUTS:,} numbers")
        return shape


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """An exported model, ready for use."""

    classifier: Exportable
    """Takes images of ``input_shape``."""
    classes: tuple[str, ...]
    """Names of the classes, in the order of the outputs."""
    input_shape: tuple[int, ...]
    """Channels, height and width that images are brought to; or the length of a row."""


def save_model(
    folder: Path,
    classifier: Classifier,
    classes: Sequence[str],
    input_shape: Sequence[int],
) -> ModelConfig:
    """Write a trained model, so that it can be used without the project.

    Each file is written whole or not at all, the configuration last; it carries the
    hash of the weights, so that files of two exports are never taken for one model. An
    encoder that comes with a package is named, not copied; of another one only its name
    is kept, and who loads the model brings it along.

    Args:
        folder: Where to; made if there is none.
        classifier: What a trainer of this package returned.
        classes: Names of the classes.
        input_shape: Shape of the pool's images: channels, height and width.

    Returns:
        The configuration that was written.
    """
    network = _exportable(classifier)
    if not len(set(classes)) == len(classes) == classifier.num_classes:
        num_classes = classifier.num_classes
        raise errors.DataError(f"{num_classes} classes got the names {list(classes)}.")
    encoder = None
    if isinstance(network, FrozenClassifier):
        encoder = EncoderConfig.of(network.encoder)
    state = network.module.state_dict()
    content = checkpoint.serialized(state, {"classes": str(len(classes))})
    config = ModelConfig(
        classes=tuple(classes),
        input_shape=tuple(input_shape),
        network=models.name_of(network.module),
        encoder=encoder,
        weights_sha256=sha256(content).hexdigest(),
    )
    files.make_folder(folder)
    with files.replace_file(folder / _WEIGHTS) as partial:
        partial.write_bytes(content)
    text = files.add_checksum(config.model_dump_json(indent=2) + "\n")
    files.replace_text(folder / _CONFIG, text)
    return config


def load_model(folder: Path, *, encoder: Encoder | None = None) -> LoadedModel:
    """Read a model that :func:`save_model` wrote.

    Args:
        folder: The folder of the model.
        encoder: The encoder, where the model was trained over one that neither comes
            with a package nor learned from the pool.

    Returns:
        The model, in evaluation mode, on the CPU.

    Raises:
        DataError: If a file is missing, damaged or not of this package.
    """
    path = folder / _WEIGHTS
    try:
        content = files.read_regular(folder / _CONFIG, _MAX_CONFIG)
        config = ModelConfig.model_validate_json(files.verify_checksum(content))
        with files.open_regular(path, _MAX_WEIGHTS) as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise errors.DataError(
            f"There is no exported model in {folder}: {error}."
        ) from error
    except ValueError as error:
        reason = faults(error) if isinstance(error, ValidationError) else error
        raise errors.DataError(
            f"{folder / _CONFIG} is damaged: {reason} Export again."
        ) from error
    if digest != config.weights_sha256:
        raise errors.DataError(
            f"{path} is damaged or of another {_CONFIG}. Export again."
        )
    num_classes = len(config.classes)
    classifier: Exportable
    try:
        if config.encoder is None:
            shape = config.input_shape
            network = _empty_network(path, config.network, shape, num_classes)
            classifier = NetworkClassifier(network, num_classes)
        else:
            frozen = _load_encoder(config.encoder, encoder)
            shape = (frozen.feature_size,)
            head = _empty_network(path, config.network, shape, num_classes)
            classifier = FrozenClassifier(
                module=head, num_classes=num_classes, encoder=frozen
            )
        checkpoint.read_into(classifier.module.state_dict(), path)
    except errors.UsageError as error:
        raise errors.DataError(f"{folder / _CONFIG} cannot be used: {error}") from error
    except (ValueError, RuntimeError) as error:
        raise errors.DataError(
            f"{path} does not fit {_CONFIG}. Export again."
        ) from error
    return LoadedModel(classifier, config.classes, config.input_shape)


def _exportable(classifier: Classifier) -> Exportable:
    """Return the classifier if it has a network of this package, else raise."""
    if isinstance(classifier, NetworkClassifier | FrozenClassifier):
        models.name_of(classifier.module)
        return classifier
    kind = type(classifier).__name__
    raise errors.UsageError(
        f"A {kind} cannot be exported; use one of training.names()."
    )


def _empty_network(
    path: Path, name: str, shape: tuple[int, ...], num_classes: int
) -> Network:
    """Return a network to be filled, once its weights are known to be in the file.

    A short configuration can ask for more memory than there is, so the file has to hold
    as many weights before any are allocated.
    """
    draws = rng.stream(0, "overwritten")
    with torch.device("meta"):  # shapes without numbers
        planned = models.build(name, shape, num_classes, draws).state_dict()
    checkpoint.check_fit(checkpoint.shapes_of(planned), checkpoint.shapes(path), path)
    return models.build(name, shape, num_classes, draws).eval()


def _load_encoder(config: EncoderConfig, given: Encoder | None) -> Encoder:
    """Return the encoder that a model was trained over."""
    if config.builtin is not None:
        if config.builtin not in encoders.names():  # an import path would be run
            raise errors.UnknownNameError("encoder", config.builtin, encoders.names())
        encoder: Encoder = encoders.resolve(config.builtin, size=config.size)
    elif given is not None:
        encoder = given
    elif config.published is not None and encoders.is_published(config.published):
        encoder = encoders.resolve(config.published, **config.published_options)
    else:
        raise errors.DataError(
            f"Give load_model the encoder '{config.identity}': it is not in the files."
        )
    if encoder.name != config.identity:
        raise errors.DataError(
            f"The encoder is '{encoder.name}'; give '{config.identity}' instead."
        )
    return encoder


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


# --------------------------------------------------------------------------- ONNX


class PixelClassifier(nn.Module):
    """A classifier as one formula: images (n, c, h, w), uint8, to probabilities."""

    def __init__(self, classifier: Exportable) -> None:
        """Take the networks over."""
        super().__init__()
        self.network = classifier.module
        self.encoder: ModuleEncoder | None = None
        if isinstance(classifier, FrozenClassifier):
            encoder = classifier.encoder
            if not isinstance(encoder, ModuleEncoder) or not encoder.is_portable:
                raise errors.UsageError(
                    f"The encoder '{encoder.name}' cannot be ONNX. Use {_WEIGHTS}."
                )
            self.encoder = encoder
            self.encoding = encoder.module  # so that its weights are found
            self.keeps_half = classifier.dtype == "float16"

    def forward(self, images: Tensor) -> Tensor:
        """Return probabilities, shape (n, C)."""
        inputs = as_input(images)
        if self.encoder is not None:
            inputs = self.encoder.rows(inputs)
            if self.keeps_half:  # as the rows were that the head was trained on
                inputs = inputs.half().float()
        return torch.softmax(self.network(inputs), dim=1)


def write_onnx(path: Path, classifier: Classifier, input_shape: Sequence[int]) -> None:
    """Write a trained model as ONNX, any number of images at a time.

    The input ``images`` is uint8, shape (n, channels, height, width), brought to the
    size that the model was trained on; of a model of rows it is float32, shape (n, F).
    The output ``probabilities`` is (n, C).

    Args:
        path: The file.
        classifier: What a trainer of this package returned.
        input_shape: Shape of the pool's images: channels, height and width.

    Raises:
        UsageError: If the extra ``onnx`` is not installed, or if the model cannot be
            written so.
    """
    check_installed("Writing ONNX", "onnx", "onnxscript", install="fewlabels[onnx]")
    module = copy.deepcopy(PixelClassifier(_exportable(classifier))).cpu().eval()
    dtype = torch.float32 if len(input_shape) == 1 else torch.uint8
    example = torch.zeros((2, *input_shape), dtype=dtype)
    # The exporter logs and warns about packages that are not needed.
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings(action="ignore"), torch.no_grad():
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                input_names=["images"],
                output_names=["probabilities"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                verbose=False,
            )
    finally:
        logger.disabled = was_disabled
    if program is None:
        raise errors.UsageError(f"torch wrote no ONNX; use {_WEIGHTS} instead.")
    with files.replace_file(path) as partial:
        program.save(partial, external_data=False)


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
