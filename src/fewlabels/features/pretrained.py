"""Networks of timm and transformers in a folder, as encoders.

Their own configuration says how images are prepared. Nothing is downloaded, nothing is
unpickled, and no code that comes with a model is run.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from fewlabels.errors import UsageError
from fewlabels.features.encoders import Encoder
from fewlabels.features.found import CONFIG, hash_of_files, library_of, read_json
from fewlabels.features.module_encoder import ModuleEncoder, OpaqueEncoder
from fewlabels.features.preparation import Prepared
from fewlabels.integers import whole_number


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
    weights = sorted(path.glob("*.safetensors"))
    for file in weights:
        _check_whole(file)
    with torch.random.fork_rng(devices=[]):  # weights are drawn before they are read
        prepared = _timm(path, size) if library == "timm" else _transformers(path, size)
    told = hash_of_files([path / CONFIG, *weights], repr(prepared.preparation))
    kind = config.get("architecture") or config.get("model_type")
    name, width = f"{library}-{kind}-{told}", prepared.tried()
    encoder = ModuleEncoder(prepared, name=name, feature_size=width)
    return encoder if library == "timm" else OpaqueEncoder(encoder)


def _timm(path: Path, size: int | None) -> Prepared:
    from fewlabels.features.timm_models import network, preparation

    wanted = None if size is None else whole_number("size", size)
    config = read_json(path / CONFIG)
    return Prepared(network(path, config), preparation(path, config, wanted))


def _transformers(path: Path, size: int | None) -> Prepared:
    from fewlabels.features.transformers_models import Processor, Rows

    if size is not None:
        raise UsageError(
            f"size is {size}, and models of transformers see images as their own "
            "configuration says; leave size and quality out."
        )
    try:
        return Prepared(Rows(path), Processor(path))
    except ValueError as error:
        if "auto_map" not in read_json(path / CONFIG):
            raise
        raise UsageError(
            f"The model in '{path}' comes with code of its own, and models with code "
            "of their own are not loaded; choose one that transformers knows."
        ) from error


def _check_whole(file: Path) -> None:
    """Raise unless a file of weights is as long as it says it is."""
    try:
        with safe_open(file, framework="pt"):
            pass
    except SafetensorError as error:
        raise UsageError(
            f"'{file}' is damaged or incomplete; save it again. ({error})"
        ) from error
