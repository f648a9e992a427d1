"""Where models are on this machine; nothing heavy is imported to know.

A folder of a model holds what timm and transformers save: ``config.json`` and weights
as safetensors, which hold numbers only. Weights that are pickled can hold a program,
and are never opened.
"""

import json
import os
import re
from collections.abc import Mapping
from hashlib import blake2b, file_digest
from importlib import import_module
from pathlib import Path
from typing import Any

from fewlabels.errors import AbsentModelError, DownloadError, UsageError
from fewlabels.naming import check_installed

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
"""What is fetched of a model: its configuration, its weights, its licence."""

_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_REVISION = re.compile(r"[\w.-]+(/[\w.-]+)*")
_MOST_BYTES = 2**24


def onnx_file(place: str) -> Path:
    """Return the file of a network that ``onnx:FILE`` names."""
    path = Path(place).expanduser()
    if path.suffix != ".onnx":
        raise UsageError(f"'{place}' does not end in .onnx; name an ONNX file.")
    if not path.is_file():
        raise UsageError(f"There is no file '{path}'; give the path of an ONNX file.")
    check_installed(f"'{path.name}'", "onnxruntime", extra="onnxruntime")
    return path


def rows_file(place: str) -> Path:
    """Return the file, or the folder of shards, that ``vectors:FILE`` names."""
    path = Path(place).expanduser()
    if not path.exists():
        raise UsageError(f"There is no file '{path}' with rows; give its path.")
    return path


def no_encoder(path: Path, **options: object) -> None:
    """Raise: rows in a file belong to items, and none can be made of another image."""
    del options
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
    _check_model(path)
    return path


def hub_folder(place: str) -> Path:
    """Return where the Hugging Face cache has ``ORG/REPO`` or ``ORG/REPO@REVISION``."""
    path = snapshot(place)
    if not path.is_dir():
        raise AbsentModelError(
            f"The model '{place}' is not on this machine (it was looked for in "
            f"'{hub_cache()}'), and nothing is downloaded unless you ask for it: "
            "download it, or copy it into a folder and name that as local-dir:PATH."
        )
    _check_model(path)
    return path


def snapshot(place: str) -> Path:
    """Return the folder of a revision, which may not be there."""
    name, _, revision = place.partition("@")
    revision = revision or "main"
    if not _NAME.fullmatch(name) or ".." in name or not _is_revision(revision):
        raise UsageError(f"'{place}' is not a model; name it as ORG/REPO[@REVISION].")
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    reference = repository / "refs" / revision
    if reference.is_file():
        revision = reference.read_text("utf-8", errors="replace").strip()
        if not _is_revision(revision):
            raise UsageError(
                f"'{reference}' names no revision but {revision[:80]!r}. Remove that "
                "file, or download the model anew."
            )
    return repository / "snapshots" / revision


def _is_revision(text: str) -> bool:
    """Return whether a text names something inside a repository."""
    return bool(_REVISION.fullmatch(text)) and ".." not in text.split("/")


def timm_folder(place: str) -> Path:
    """Return where the Hugging Face cache has a model that timm publishes there."""
    return hub_folder(f"timm/{place}")


def hub_cache() -> Path:
    """Return the folder that Hugging Face's libraries keep models in."""
    told = os.environ.get("HF_HUB_CACHE")
    if told:
        return Path(told).expanduser()
    usual = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    return Path(os.environ.get("HF_HOME", usual)).expanduser() / "hub"


def download(place: str) -> Path:
    """Fetch a model from the Hugging Face hub, unless it is there, and return where.

    Args:
        place: ``ORG/REPO`` or ``ORG/REPO@REVISION``.

    Returns:
        Its folder in the cache of Hugging Face's libraries.

    Raises:
        DownloadError: If it cannot be fetched.
    """
    hub_name = "huggingface_hub"
    check_installed(f"Downloading '{place}'", hub_name, extra="huggingface-hub")
    if snapshot(place).is_dir():
        return hub_folder(place)
    hub: Any = import_module(hub_name)
    name, _, revision = place.partition("@")
    try:
        hub.snapshot_download(
            name, revision=revision or None, allow_patterns=list(DOWNLOADED)
        )
    except (hub.errors.HfHubHTTPError, OSError, ValueError) as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise DownloadError(
            f"The model '{place}' could not be downloaded: {told}. Look at its name "
            "and at the connection, or copy the model into a folder and name that as "
            "local-dir:PATH."
        ) from error
    return hub_folder(place)


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


def _check_model(path: Path) -> None:
    """Raise unless a folder holds a model that can be loaded here."""
    if not (path / CONFIG).is_file():
        raise UsageError(
            f"There is no {CONFIG} in '{path}', so it is not the folder of a model. "
            "Give one that timm or transformers saved a model to."
        )
    config = read_json(path / CONFIG)
    library = library_of(config)
    if not library:
        raise UsageError(
            f"'{path}' is not a model of timm or transformers: its {CONFIG} names "
            "neither an architecture nor a model_type. Save the model there with its "
            "library."
        )
    if not any(path.glob("*.safetensors")):
        names = sorted(p.name for p in path.iterdir() if p.suffix in _PICKLED)
        seen = f", only {', '.join(names)}, which could run a program" if names else ""
        raise UsageError(
            f"'{path}' has no weights as safetensors{seen}. Save the model anew with "
            "safe_serialization=True."
        )
    if library == "transformers" and not any(
        (path / one).is_file() for one in OF_IMAGES
    ):
        raise UsageError(
            f"There is no {OF_IMAGES[0]} in '{path}', so nothing says how images are "
            "prepared for the model. Save its image processor there too."
        )
    check_installed(f"The model in '{path}'", library, extra=library)
