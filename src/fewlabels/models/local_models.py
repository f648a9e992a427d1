"""Models on this machine, and how others are fetched; nothing heavy is imported.

A folder of a model holds what timm and transformers save: ``config.json`` and weights
as safetensors, which hold numbers only. Weights that are pickled can hold a program,
and are never opened.
"""

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fewlabels.errors import AbsentModelError, DownloadError, UsageError
from fewlabels.names import check_installed

CONFIG = "config.json"
OF_IMAGES = ("preprocessor_config.json", "processor_config.json")
"""Files that say how a model of transformers wants images; one is enough."""
DOWNLOADED = (
    CONFIG,
    *OF_IMAGES,
    "model.safetensors",
    "model.safetensors.index.json",
    "model-*-of-*.safetensors",
    "README.md",
)
"""What is fetched of a model: its configuration, its weights, its license."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_MOST_BYTES = 2**24
_CARD_LICENSE = re.compile(r"^license:\s*['\"]?([\w.+-]+)", re.MULTILINE)
_MOST_OF_A_CARD = 2**16


def onnx_file(place: str) -> Path:
    """Return the file of a network that ``onnx:FILE`` names."""
    path = Path(place).expanduser()
    if path.suffix != ".onnx" or not path.is_file():
        raise UsageError(f"There is no file '{path}' that ends in .onnx; name one.")
    check_installed(f"'{path.name}'", "onnxruntime", extra="onnxruntime")
    return path


def rows_file(place: str) -> Path:
    """Return the file, or the folder of shards, that ``vectors:FILE`` names."""
    path = Path(place).expanduser()
    if not path.exists():
        raise UsageError(f"There is no file '{path}' with rows; give its path.")
    return path


def no_encoder(path: Path, **_: object) -> None:
    """Raise: rows in a file belong to items, and none can be made of another image."""
    raise UsageError(
        f"'{path}' holds rows of items that are known, and makes none of images. Give "
        "it where items are named: data.load(..., vectors=FILE), the encoder of a run "
        "or of a new project."
    )


def local_folder(place: str) -> Path:
    """Return the folder of a model that ``local-dir:PATH`` names."""
    path = Path(place).expanduser()
    if not path.is_dir():
        raise UsageError(f"There is no folder '{path}'; give the folder of a model.")
    return _checked(path)


def timm_folder(place: str) -> Path:
    """Return where the Hugging Face cache has a model that timm publishes there."""
    return hub_folder(f"timm/{place}")


def hub_folder(place: str) -> Path:
    """Return where the Hugging Face cache has ``ORG/REPO`` or ``ORG/REPO@REVISION``."""
    check_installed(
        f"Models such as '{place}'", "huggingface_hub", extra="huggingface-hub"
    )
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    name, _, revision = place.partition("@")
    try:
        config = try_to_load_from_cache(name, CONFIG, revision=revision or None)
    except HFValidationError as error:
        raise UsageError(
            f"'{place}' is not a model; name it as ORG/REPO[@REVISION]."
        ) from error
    if not isinstance(config, str):
        raise AbsentModelError(
            f"The model '{place}' is not on this machine (it was looked for in "
            f"'{constants.HF_HUB_CACHE}'), and nothing is downloaded unless you ask "
            "for it: download it, or copy it into a folder and name that as "
            "local-dir:PATH."
        )
    return _checked(Path(config).parent)


def hub_names() -> Iterator[str]:
    """Yield ``ORG/REPO`` of the models of images in the Hugging Face cache."""
    if find_spec("huggingface_hub") is None:
        return
    from huggingface_hub import constants, try_to_load_from_cache

    for folder in sorted(Path(constants.HF_HUB_CACHE).glob("models--*--*")):
        name = folder.name.removeprefix("models--").replace("--", "/", 1)
        config = try_to_load_from_cache(name, CONFIG)
        if isinstance(config, str):
            beside = (Path(config).with_name(other) for other in OF_IMAGES)
            is_timm = library_of(read_json(Path(config))) == "timm"
            if is_timm or any(path.is_file() for path in beside):
                yield name


def download(place: str) -> Path:
    """Fetch a model from the Hugging Face hub, unless it is there, and return where.

    Args:
        place: ``ORG/REPO`` or ``ORG/REPO@REVISION``.

    Returns:
        Its folder in the cache of Hugging Face's libraries.

    Raises:
        DownloadError: If it cannot be fetched.
    """
    try:
        return hub_folder(place)
    except AbsentModelError:
        import huggingface_hub
    name, _, revision = place.partition("@")
    try:
        huggingface_hub.snapshot_download(
            name, revision=revision or None, allow_patterns=list(DOWNLOADED)
        )
    except (huggingface_hub.errors.HfHubHTTPError, OSError, ValueError) as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise DownloadError(
            f"The model '{place}' could not be downloaded: {reason}. Look at its name "
            "and at the connection, or copy the model into a folder and name that as "
            "local-dir:PATH."
        ) from error
    return hub_folder(place)


def license_of(path: Path) -> str:
    """Return the license that a model's configuration or card names; empty: none."""
    told = read_json(path / CONFIG).get("pretrained_cfg", {}).get("license", "")
    card = path / "README.md"
    if told or not card.is_file():
        return str(told)
    with card.open("rb") as file:
        head = file.read(_MOST_OF_A_CARD).decode("utf-8", "replace")
    found = _CARD_LICENSE.search(head)
    return found[1] if found else ""


def read_json(path: Path) -> dict[str, Any]:
    """Return what a JSON file of a model says; nothing where it is not there."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            told = json.loads(file.read(_MOST_BYTES))
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"'{path}' is no JSON: {error}. Save the model anew."
        ) from error
    if not isinstance(told, dict):
        raise UsageError(f"'{path}' says nothing of a model. Save the model anew.")
    return told


def library_of(config: Mapping[str, Any]) -> str:
    """Return which library a model is of, by its configuration; empty: of none."""
    if "architecture" in config:
        return "timm"
    return "transformers" if "model_type" in config else ""


def hash_of_files(paths: list[Path], besides: str) -> str:
    """Return a hash of what files hold and of what else decides: 16 digits."""
    found = blake2b(besides.encode(), digest_size=8)
    for path in paths:
        with path.open("rb") as file:
            found.update(file_digest(file, "sha256").digest())
    return found.hexdigest()


def _checked(path: Path) -> Path:
    """Return a folder if it holds a model that can be loaded here."""
    library = library_of(read_json(path / CONFIG))
    if not library:
        raise UsageError(
            f"There is no {CONFIG} in '{path}' with an architecture or a model_type. "
            "Give a folder that timm or transformers saved a model to."
        )
    if not any(path.glob("*.safetensors")):
        names = sorted(p.name for p in path.iterdir() if p.suffix in _PICKLED)
        seen = f", only {', '.join(names)}, which could run a program" if names else ""
        raise UsageError(
            f"'{path}' has no weights as safetensors{seen}. Save the model anew with "
            "safe_serialization=True."
        )
    has_processor = any((path / name).is_file() for name in OF_IMAGES)
    if library == "transformers" and not has_processor:
        raise UsageError(
            f"There is no {OF_IMAGES[0]} in '{path}', which says how images are "
            "prepared. Save the model's image processor there too."
        )
    check_installed(f"The model in '{path}'", library, extra=library)
    return path
