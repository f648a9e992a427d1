"""Networks of timm and transformers in a folder, as encoders.

Their own configuration says how images are prepared. Nothing is downloaded, nothing is
unpickled, and no code that comes with a model is run.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from threading import get_ident
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.nn.modules import module as registration

from fewlabels.errors import UsageError
from fewlabels.features.encoders import Encoder
from fewlabels.features.found import (
    CONFIG,
    OF_IMAGES,
    hash_of_files,
    library_of,
    read_json,
)
from fewlabels.features.module_encoder import ModuleEncoder, OpaqueEncoder
from fewlabels.features.preparation import LARGEST_SIDE, Prepared
from fewlabels.integers import whole_number

Shapes = Mapping[str, tuple[int, ...]]

_LARGEST_NUMBERS = {"timm": 2**16, "transformers": 2**19}
"""Largest whole number in a configuration: of layers, of classes, of anything. Those of
transformers may have the vocabulary of a text model."""
_LEAST_SHARE = 0.25
"""Least share of an image that is cut out; images are resized to the inverse of it."""
_REGISTRATIONS = (
    registration.register_module_parameter_registration_hook,
    registration.register_module_buffer_registration_hook,
    registration.register_module_module_registration_hook,
)


def from_folder(path: Path, *, size: int | None = None) -> Encoder:
    """Return the network in a folder, tried on an image of noise.

    Args:
        path: Holds what ``timm.models.save_for_hf`` or ``save_pretrained`` of
            transformers wrote, weights as safetensors.
        size: Side of the square that a network of timm sees, if it can see another than
            its configuration says.

    Returns:
        The encoder.
    """
    config = read_json(path / CONFIG)
    library = library_of(config)
    _check_numbers(path / CONFIG, config, _LARGEST_NUMBERS[library])
    weights = sorted(path.glob("*.safetensors"))
    shapes = {name: shape for file in weights for name, shape in _shapes(file)}
    load = _timm if library == "timm" else _transformers
    with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
        prepared = load(path, config, shapes, size)
    told = hash_of_files([path / CONFIG, *weights], repr(prepared.preparation))
    kind = config.get("architecture") or config.get("model_type")
    name, width = f"{library}-{kind}-{told}", prepared.tried()
    encoder = ModuleEncoder(prepared, name=name, feature_size=width)
    return encoder if library == "timm" else OpaqueEncoder(encoder)


def _timm(
    path: Path, config: Mapping[str, Any], shapes: Shapes, size: int | None
) -> Prepared:
    from fewlabels.features import timm_models

    wanted = None if size is None else whole_number("size", size)
    prepares = timm_models.preparation(path, config, wanted)
    build = partial(timm_models.network, path, config)
    _check_weights(path, _outline(path, build, shapes).state_dict(), shapes)
    network = build()
    timm_models.fill(network, path)
    return Prepared(network, prepares)


def _transformers(
    path: Path, config: Mapping[str, Any], shapes: Shapes, size: int | None
) -> Prepared:
    from fewlabels.features import transformers_models

    if size is not None:
        raise UsageError(
            f"size is {size}, and models of transformers see images as their own "
            "configuration says; leave size and quality out."
        )
    for name in OF_IMAGES:
        _check_numbers(path / name, read_json(path / name), LARGEST_SIDE, int | float)
    try:
        settings = transformers_models.settings(path, config)
        _outline(path, partial(transformers_models.outline, settings), shapes)
        return Prepared(
            transformers_models.Rows(path, settings),
            transformers_models.Processor(path),
        )
    except (ValueError, KeyError) as error:
        if "auto_map" not in config:
            raise
        raise UsageError(
            f"The model in '{path}' comes with code of its own, and models with code "
            "of their own are not loaded; choose one that transformers knows."
        ) from error


def _outline(path: Path, build: Callable[[], nn.Module], shapes: Shapes) -> nn.Module:
    """Return a network on the meta device, where weights take no memory.

    A configuration may ask for any number of layers of any width. What has more parts,
    or more values, than the files of weights can fill is not built to its end.
    """
    most_values = 2 * sum(prod(shape) for shape in shapes.values()) + 2**24
    most_parts = 20 * len(shapes) + 1000
    thread, num_values, num_parts = get_ident(), 0, 0

    def count(_: nn.Module, __: str, part: object) -> None:
        nonlocal num_values, num_parts
        if get_ident() != thread:
            return
        num_parts += 1
        num_values += part.numel() if isinstance(part, Tensor) else 0
        if num_values > most_values or num_parts > most_parts:
            raise UsageError(
                f"The {CONFIG} in '{path}' asks for a larger network than its weights "
                f"are of: {len(shapes)} tensors. Save the model anew."
            )

    hooks = [register(count) for register in _REGISTRATIONS]
    try:
        with torch.device("meta"):
            return build()
    finally:
        for hook in hooks:
            hook.remove()


def _check_weights(path: Path, wanted: Mapping[str, Tensor], shapes: Shapes) -> None:
    """Raise unless files hold all tensors of a network, in its shapes."""
    lacking = [
        name for name, tensor in wanted.items() if shapes.get(name) != tensor.shape
    ]
    if lacking:
        raise UsageError(
            f"The weights in '{path}' lack {len(lacking)} tensors of the network, such "
            f"as '{lacking[0]}' of shape {tuple(wanted[lacking[0]].shape)}; its "
            "features would be random. Save the model anew."
        )


def _check_numbers(file: Path, value: Any, largest: int, kinds: Any = int) -> None:
    """Raise if a configuration has a number that would take too much memory."""
    if isinstance(value, dict):
        share = value.get("crop_pct")
        if isinstance(share, int | float) and share < _LEAST_SHARE:
            raise UsageError(
                f"'{file}' has a crop_pct of {share}; at least {_LEAST_SHARE} is "
                "supported. Save the model anew."
            )
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            _check_numbers(file, part, largest, kinds)
    elif isinstance(value, kinds) and value > largest:
        raise UsageError(
            f"'{file}' has the number {value:,}; up to {largest:,} are supported. Save "
            "the model anew."
        )


def _shapes(file: Path) -> Iterable[tuple[str, tuple[int, ...]]]:
    """Yield names and shapes of tensors, of a file that is as long as it says it is."""
    try:
        with safe_open(file, framework="pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 # it is no mapping
                yield name, tuple(tensors.get_slice(name).get_shape())
    except SafetensorError as error:
        raise UsageError(
            f"'{file}' is damaged or incomplete; save it again. ({error})"
        ) from error
