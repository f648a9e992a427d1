"""A trained model as files, which need neither its data nor its trainer.

``model.safetensors`` and ``config.json`` are as Hugging Face's model hub knows them.
Weights are safetensors, which hold numbers only; nothing is unpickled or imported by a
name in a file. ``model.onnx`` is the same model for programs without Python; the extra
``onnx`` installs what torch needs to write it.
"""

import copy
import logging
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from torch import Tensor, nn

from fewlabels import files, models, rng
from fewlabels.errors import DataError, UnknownNameError, UsageError, faults
from fewlabels.models import as_input, checkpoint, encoders
from fewlabels.models.classifiers import FrozenClassifier, NetworkClassifier
from fewlabels.models.encoders import LARGEST_SIDE, Encoder
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.names import check_installed
from fewlabels.protocols import Classifier

Exportable = NetworkClassifier | FrozenClassifier
"""The classifiers that can be written as files."""

_CONFIG, _WEIGHTS = "config.json", "model.safetensors"
_MAX_INPUTS = 2**22  # an image of 1,024 pixels a side has three quarters of it


_EXAMPLE = '''\
"""Classify images: pip install numpy onnxruntime pillow; python example.py photo.jpg"""
import json, sys
from pathlib import Path
import numpy, onnxruntime
from PIL import Image, ImageOps

folder = Path(__file__).parent
config = json.loads((folder / "config.json").read_text("utf-8"))
channels, height, width = config["input_shape"]
session = onnxruntime.InferenceSession(folder / "model.onnx")
for name in sys.argv[1:]:
    image = ImageOps.exif_transpose(Image.open(name))
    image = image.convert("L" if channels == 1 else "RGB")
    pixels = numpy.asarray(image.resize((width, height), Image.Resampling.BILINEAR))
    images = pixels.reshape(1, height, width, channels).transpose(0, 3, 1, 2)
    shares = session.run(None, {"images": images})[0][0]
    print(name, config["classes"][shares.argmax()], f"{shares.max():.3f}")
'''


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
        place, options = getattr(encoder, "published", (None, {}))
        return cls(identity=encoder.name, published=place, published_options=options)


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
        raise DataError(f"{num_classes} classes got the names {list(classes)}.")
    encoder = getattr(network, "encoder", None)
    state = network.module.state_dict()
    content = checkpoint.serialized(state, {"classes": str(len(classes))})
    config = ModelConfig(
        classes=tuple(classes),
        input_shape=tuple(input_shape),
        network=models.name_of(network.module),
        encoder=None if encoder is None else EncoderConfig.of(encoder),
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
        content = files.read_regular(folder / _CONFIG, most_bytes=2**20)
        config = ModelConfig.model_validate_json(files.verify_checksum(content))
        with files.open_regular(path, most_bytes=2**36) as file:
            digest = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"There is no exported model in '{folder}' ({error.strerror}: "
            f"{Path(error.filename or path).name}); 'fewlabels export' writes one."
        ) from error
    except ValueError as error:
        reason = faults(error) if isinstance(error, ValidationError) else error
        raise DataError(
            f"{folder / _CONFIG} is damaged: {reason} Export again."
        ) from error
    if digest != config.weights_sha256:
        raise DataError(f"{path} is damaged or of another {_CONFIG}. Export again.")
    number, shape, frozen = len(config.classes), config.input_shape, None
    try:
        if config.encoder is not None:
            frozen = _load_encoder(config.encoder, encoder)
            shape = (frozen.feature_size,)
        draws = rng.stream(0, "overwritten")
        build = partial(models.build, config.network, shape, number, draws)
        # A short configuration can ask for more memory than there is, so the file has
        # to hold as many weights before any are allocated.
        with torch.device("meta"):  # shapes without numbers
            planned = checkpoint.shapes_of(build().state_dict())
        checkpoint.check_fit(planned, checkpoint.shapes(path), path)
        network = build().eval()
        checkpoint.read_into(network.state_dict(), path)
    except UsageError as error:
        raise DataError(f"{folder / _CONFIG} cannot be used: {error}") from error
    except (ValueError, RuntimeError) as error:
        raise DataError(f"{path} does not fit {_CONFIG}. Export again.") from error
    classifier = (
        NetworkClassifier(network, number)
        if frozen is None
        else FrozenClassifier(module=network, num_classes=number, encoder=frozen)
    )
    return LoadedModel(classifier, config.classes, config.input_shape)


def _exportable(classifier: Classifier) -> Exportable:
    """Return the classifier if it has a network of this package, else raise."""
    if isinstance(classifier, NetworkClassifier | FrozenClassifier):
        models.name_of(classifier.module)
        return classifier
    kind = type(classifier).__name__
    raise UsageError(f"A {kind} cannot be exported; use one of training.names().")


def _load_encoder(config: EncoderConfig, given: Encoder | None) -> Encoder:
    """Return the encoder that a model was trained over."""
    if config.builtin is not None:
        if config.builtin not in encoders.names():  # an import path would be run
            raise UnknownNameError("encoder", config.builtin, encoders.names())
        encoder: Encoder = encoders.resolve(config.builtin, size=config.size)
    elif given is not None:
        encoder = given
    elif config.published is not None and encoders.is_published(config.published):
        encoder = encoders.resolve(config.published, **config.published_options)
    else:
        raise DataError(
            f"Give load_model the encoder '{config.identity}': it is not in the files."
        )
    if encoder.name != config.identity:
        raise DataError(
            f"The encoder is '{encoder.name}'; give '{config.identity}' instead."
        )
    return encoder


# --------------------------------------------------------------------------- ONNX


class PixelClassifier(nn.Module):
    """A classifier as one formula: images (n, c, h, w), uint8, to probabilities."""

    def __init__(self, classifier: Exportable) -> None:
        """Take over the networks."""
        super().__init__()
        self.network = classifier.module
        self.encoder: ModuleEncoder | None = None
        if isinstance(classifier, FrozenClassifier):
            encoder = classifier.encoder
            if not isinstance(encoder, ModuleEncoder) or not encoder.is_portable:
                raise UsageError(
                    f"The encoder '{encoder.name}' has no ONNX form; use {_WEIGHTS}."
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
    The output ``probabilities`` is (n, C). Beside a model of images ``example.py`` is
    written, which uses it.

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
        raise UsageError(f"torch wrote no ONNX; use {_WEIGHTS} instead.")
    with files.replace_file(path) as partial:
        program.save(partial, external_data=False)
    if dtype == torch.uint8:
        files.replace_text(path.with_name("example.py"), _EXAMPLE)
