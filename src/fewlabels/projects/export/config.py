"""``config.json``: all that is needed to build an exported model anew."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from fewlabels import files, models
from fewlabels.errors import DataError
from fewlabels.files import verify_checksum
from fewlabels.models import WideResNet, encoders
from fewlabels.models.encoders import Encoder
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.projects.settings import LARGEST_SIDE

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
CARD = "README.md"

_LARGEST = 2**20
_MOST_INPUTS = 2**22  # an image of 1,024 pixels a side has three quarters of it
_MOST_OUTPUTS = 10_000_000


class EncoderConfig(BaseModel):
    """The frozen network before a head."""

    model_config = ConfigDict(frozen=True)

    identity: str
    """Name of the encoder, which tells network, weights and preparation."""
    builtin: str | None = None
    """Where its weights come with a package: the name it has here."""
    size: int | None = Field(default=None, ge=1, le=LARGEST_SIDE)
    """Side of the square that a built-in encoder brings images to."""
    published: str | None = None
    """Where others can fetch its weights: the name it has here."""
    published_options: dict[str, Any] = {}
    """Its options."""
    network: str | None = None
    """Where its weights are in the file of weights: the name of the network."""
    num_outputs: int | None = Field(default=None, ge=1, le=_MOST_OUTPUTS)
    """Width of that network's last layer, which is not used."""

    @classmethod
    def of(cls, encoder: Encoder) -> "EncoderConfig":
        """Say how to get an encoder back."""
        for name in encoders.names():
            found = re.fullmatch(rf"{name}-[0-9a-f]{{16}}-(\d+)px", encoder.name)
            if found is not None:
                return cls(identity=encoder.name, builtin=name, size=int(found[1]))
        published = getattr(encoder, "published", None)
        if published is not None:
            name, options = published
            return cls(identity=encoder.name, published=name, published_options=options)
        network = enclosed_network(encoder)
        if network is None:
            return cls(identity=encoder.name)
        return cls(
            identity=encoder.name,
            network=models.name_of(network),
            num_outputs=network.head.out_features,
        )


class ModelConfig(BaseModel):
    """What ``config.json`` holds."""

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
    """Hash of the file of weights, so that no file meets a stranger's."""

    @field_validator("input_shape")
    @classmethod
    def _is_bearable(cls, shape: tuple[int, ...]) -> tuple[int, ...]:
        if math.prod(shape) > _MOST_INPUTS:
            numbers = " x ".join(map(str, shape))
            raise ValueError(f"{numbers} is more than {_MOST_INPUTS:,} numbers")
        return shape


def enclosed_network(encoder: Encoder) -> WideResNet | None:
    """Return the network of an encoder that learned from the pool; None: another."""
    if (
        isinstance(encoder, ModuleEncoder)
        and isinstance(encoder.module, WideResNet)
        and encoder.name.startswith("self-supervised-")
    ):
        return encoder.module
    return None


def read_config(folder: Path) -> ModelConfig:
    """Return the configuration in the folder of an exported model of this package."""
    path = folder / CONFIG
    try:
        content = files.read_regular(path, _LARGEST)
    except OSError as error:
        raise DataError(
            f"There is no exported model in {folder}: {CONFIG} cannot be read "
            f"({error.strerror}). Give the folder that holds {CONFIG} and {WEIGHTS}."
        ) from error
    try:
        return ModelConfig.model_validate_json(verify_checksum(content))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(_foreign(path, f"{where}: {first['msg']}")) from error
    except ValueError as error:
        raise DataError(_foreign(path, str(error))) from error


def check_classes(classes: Sequence[str], num_classes: int) -> None:
    """Raise unless there is a name for each output."""
    if len(classes) != num_classes or len(set(classes)) < len(classes):
        raise DataError(
            f"The model tells {num_classes} classes apart, and {len(classes)} names "
            f"were given, {len(set(classes))} of them distinct; give one per class."
        )


def _foreign(path: Path, reason: str) -> str:
    return (
        f"{path} does not describe a model that was exported here, or is damaged "
        f"({reason}). Export the model again."
    )
