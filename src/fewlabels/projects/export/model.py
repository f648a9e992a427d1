"""A trained model as three files: ``model.safetensors``, ``config.json``, a card.

The layout is the one that Hugging Face's model hub knows. Weights are safetensors,
which hold numbers only; nothing is unpickled or imported by a name in a file.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import file_digest, sha256
from pathlib import Path

import torch
from torch import Tensor

from fewlabels import files, models, rng
from fewlabels.errors import DataError, UnknownNameError, UsageError
from fewlabels.files import add_checksum
from fewlabels.models import Network, checkpoint, encoders
from fewlabels.models.classifiers import NetworkClassifier
from fewlabels.models.encoders import Encoder
from fewlabels.models.frozen import FrozenClassifier
from fewlabels.models.module_encoder import ModuleEncoder
from fewlabels.projects.export.card import Facts, card
from fewlabels.projects.export.config import (
    CARD,
    CONFIG,
    WEIGHTS,
    EncoderConfig,
    ModelConfig,
    check_classes,
    enclosed_network,
    read_config,
)
from fewlabels.protocols import Classifier

Exportable = NetworkClassifier | FrozenClassifier
"""The classifiers that can be written as files."""

_ENCLOSED = "encoder."
_LARGEST_WEIGHTS = 2**36  # bytes


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
    facts: Facts,
) -> ModelConfig:
    """Write a trained model, so that it can be used without the project.

    Each file is written whole or not at all, the configuration last; it carries the
    hash of the weights, so that files of two exports are never taken for one model. An
    encoder that comes with a package is named, not copied; one that learned from the
    pool is written with the head; of another one only its name is kept, and who loads
    the model brings it along.

    Args:
        folder: Where to; made if there is none.
        classifier: What a trainer of this package returned.
        classes: Names of the classes.
        input_shape: Shape of the pool's images: channels, height and width.
        facts: How it was made, for the card.

    Returns:
        The configuration that was written.
    """
    network = exportable(classifier)
    check_classes(classes, classifier.num_classes)
    tensors: dict[str, Tensor] = dict(network.module.state_dict())
    encoder = None
    if isinstance(network, FrozenClassifier):
        encoder = EncoderConfig.of(network.encoder)
        tensors |= _enclosed_tensors(network.encoder)
    content = checkpoint.serialized(tensors, {"classes": str(len(classes))})
    config = ModelConfig(
        classes=tuple(classes),
        input_shape=tuple(input_shape),
        network=models.name_of(network.module),
        encoder=encoder,
        weights_sha256=sha256(content).hexdigest(),
    )
    text = card(config, facts)
    files.make_folder(folder)
    with files.replace_file(folder / WEIGHTS) as partial:
        partial.write_bytes(content)
    files.replace_text(folder / CARD, text)
    words = add_checksum(config.model_dump_json(indent=2) + "\n")
    files.replace_text(folder / CONFIG, words)
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
    config = read_config(folder)
    path = folder / WEIGHTS
    _check_weights(path, config)
    try:
        found = _built(config, encoder, _Saved(path, checkpoint.shapes(path)))
        tensors: dict[str, Tensor] = dict(found.module.state_dict())
        if isinstance(found, FrozenClassifier):
            tensors |= _enclosed_tensors(found.encoder)
        checkpoint.read_into(tensors, path)
    except UsageError as error:
        msg = f"{folder / CONFIG} describes a model that cannot be built: {error}"
        raise DataError(msg) from error
    except (ValueError, RuntimeError) as error:
        msg = f"{path} does not fit {CONFIG} beside it. Export the model again."
        raise DataError(msg) from error
    found.module.eval()
    return LoadedModel(found, config.classes, config.input_shape)


def exportable(classifier: Classifier) -> Exportable:
    """Return the classifier if it has a network of this package, else raise."""
    if isinstance(classifier, NetworkClassifier | FrozenClassifier):
        models.name_of(classifier.module)
        return classifier
    raise UsageError(
        f"A classifier of type {type(classifier).__name__} cannot be exported, since "
        "only networks of this package can be built anew from files. Train with one "
        "of fewlabels.training.names()."
    )


def _check_weights(path: Path, config: ModelConfig) -> None:
    """Raise unless the weights are those that the configuration was written with."""
    try:
        with files.open_regular(path, _LARGEST_WEIGHTS) as file:
            found = file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DataError(
            f"The weights {path} cannot be read ({error.strerror}). Put the file back "
            "beside its config.json, or export the model again."
        ) from error
    if found != config.weights_sha256:
        raise DataError(
            f"{path} is damaged, or belongs to another {CONFIG}: its SHA-256 begins "
            f"with {found[:12]}, not {config.weights_sha256[:12]}. Export the model "
            "again."
        )


def _enclosed_tensors(encoder: Encoder) -> Mapping[str, Tensor]:
    """Return the tensors of an encoder that is written with its head."""
    network = enclosed_network(encoder)
    state = {} if network is None else network.state_dict()
    return {f"{_ENCLOSED}{name}": tensor for name, tensor in state.items()}


@dataclass(frozen=True)
class _Saved:
    """What a file of weights holds, by the shapes it announces."""

    path: Path
    shapes: checkpoint.Shapes

    def check(self, planned: checkpoint.Shapes, prefix: str) -> None:
        """Raise unless the file holds these tensors, with something before names."""
        own = {
            name.removeprefix(prefix): shape
            for name, shape in self.shapes.items()
            if name.startswith(_ENCLOSED) == bool(prefix)
        }
        checkpoint.check_fit(planned, own, self.path)


def _built(config: ModelConfig, encoder: Encoder | None, saved: _Saved) -> Exportable:
    """Return the classifier with weights yet to be filled in."""
    num_classes = len(config.classes)
    if config.encoder is None:
        network = _network(config.network, config.input_shape, num_classes, saved)
        return NetworkClassifier(network, num_classes)
    frozen = _encoder(config.encoder, config.input_shape, encoder, saved)
    head = _network(config.network, (frozen.feature_size,), num_classes, saved)
    return FrozenClassifier(module=head, num_classes=num_classes, encoder=frozen)


def _network(
    name: str, shape: tuple[int, ...], num_outputs: int, saved: _Saved, prefix: str = ""
) -> Network:
    """Return a network, once its weights are known to be in the file.

    A few words in the configuration can ask for more memory than there is; the weights
    have to be paid for with a file of their size.
    """
    draws = rng.stream(0, "overwritten")
    with torch.device("meta"):  # shapes without numbers
        planned = models.build(name, shape, num_outputs, draws).state_dict()
    saved.check(checkpoint.shapes_of(planned), prefix)
    return models.build(name, shape, num_outputs, draws).eval()


def _encoder(
    config: EncoderConfig,
    shape: tuple[int, ...],
    given: Encoder | None,
    saved: _Saved,
) -> Encoder:
    """Return the encoder that a model was trained over."""
    if config.builtin is not None:
        if config.builtin not in encoders.names():  # an import path would be run
            raise UnknownNameError("encoder", config.builtin, encoders.names())
        found: Encoder = encoders.resolve(config.builtin, size=config.size)
    elif config.network is not None and config.num_outputs is not None:
        network = _network(config.network, shape, config.num_outputs, saved, _ENCLOSED)
        return ModuleEncoder(network, name=config.identity)
    elif given is not None:
        found = given
    elif config.published is not None and encoders.is_published(config.published):
        found = encoders.resolve(config.published, **config.published_options)
    else:
        raise DataError(
            f"The encoder '{config.identity}' is somebody's own, and is not in the "
            "files. Load the model in Python with load_model(folder, encoder=...)."
        )
    if found.name != config.identity:
        raise DataError(
            f"The model was trained over the encoder '{config.identity}', and this one "
            f"is '{found.name}': its features mean something else. Use that version."
        )
    return found
