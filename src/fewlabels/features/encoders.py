"""Encoders, and the names they go by.

An encoder is frozen: it maps images to rows of features and never learns. Its name says
which network, which weights and which preparation of images, so that rows kept under
that name stay true.
"""

from collections.abc import Callable
from typing import Any, Protocol

from torch import Tensor, nn

from fewlabels import naming
from fewlabels.errors import UsageError
from fewlabels.features.efficientnet import efficientnet_lite0, efficientnet_lite2
from fewlabels.features.module_encoder import ModuleEncoder, fingerprint
from fewlabels.features.pixels import pixels


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

    def embed(self, images: Tensor) -> Tensor:
        """Return rows (n, F), float32, of uint8 images (n, c, h, w).

        Evaluation mode, no gradients; a row depends on its image alone.
        """
        ...


_ENCODERS: dict[str, Callable[..., Encoder]] = {
    "efficientnet-lite0": efficientnet_lite0,
    "efficientnet-lite2": efficientnet_lite2,
    "pixels": pixels,
}


def names() -> tuple[str, ...]:
    """Return the names of the built-in encoders."""
    return tuple(_ENCODERS)


def resolve(encoder: str | Encoder | nn.Module, **options: Any) -> Encoder:
    """Return the encoder that a name, an import path or an object stands for.

    Example:
        >>> from torch import nn
        >>> resolve(nn.Flatten()).name.startswith("Flatten-")
        True

    Args:
        encoder: One of :func:`names`; ``"package.module:name"`` of an encoder, a
            ``torch.nn.Module``, or a function or class that makes one; or such an
            object. A module takes float images in [-1, 1] and returns (n, F), or
            (n, F, h, w), of which the spatial mean is taken.
        **options: Arguments for what the name or path stands for, such as ``size``.

    Returns:
        The encoder.
    """
    found = _found(encoder, options)
    if isinstance(found, nn.Module):
        path = encoder if isinstance(encoder, str) else type(found).__qualname__
        return ModuleEncoder(found, name=f"{path}-{fingerprint(found)}")
    _check(encoder, found)
    checked: Encoder = found
    return checked


def _found(encoder: object, options: dict[str, Any]) -> Any:
    """Return what was named, or the object itself, modules not wrapped yet."""
    if isinstance(encoder, str) and ":" in encoder:
        imported = naming.imported("encoder", encoder)
        if isinstance(imported, nn.Module):  # callable, and yet not to be called
            encoder = imported
    return naming.resolve("encoder", encoder, options, _ENCODERS, method=None)


def _check(given: object, found: object) -> None:
    """Raise unless this is an encoder."""
    name = getattr(found, "name", None)
    is_made = not isinstance(found, type) and callable(getattr(found, "embed", None))
    if not is_made or not isinstance(name, str):
        raise UsageError(
            f"{given!r} is no encoder: give a torch.nn.Module, or an object with a "
            "name (a string), a feature_size and a method embed(images); see "
            "features.encoders.Encoder."
        )
