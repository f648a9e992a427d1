"""Weights on disk: safetensors, written whole or not at all."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as dumped
from torch import Tensor

from fewlabels import files
from fewlabels.errors import DataError

Shapes = Mapping[str, tuple[int, ...]]
"""Of tensors, by name."""

_ENTRY, _DIGEST = "fewlabels", "digest"


def write(
    tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str]
) -> None:
    """Write named tensors and metadata to ``path``, atomically."""
    with files.replace_file(path) as partial:
        partial.write_bytes(serialized(tensors, metadata))


def serialized(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the content of a file of tensors and metadata; equal for equal ones."""
    # One entry, since safetensors writes several in no fixed order: equal networks
    # make equal files.
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    words = {**metadata, _DIGEST: _digest(plain)}
    return dumped(plain, metadata={_ENTRY: json.dumps(words, sort_keys=True)})


def read_into(tensors: Mapping[str, Tensor], path: Path) -> dict[str, str]:
    """Fill ``tensors`` in place from ``path``, all or none; return the metadata."""
    with _open(path) as (file, words):
        names = file.keys()  # the file itself is not iterable
        stored = {name: file.get_tensor(name) for name in names}
    check_fit(shapes_of(tensors), shapes_of(stored), path)
    if words.pop(_DIGEST, "") not in {"", _digest(stored)}:
        raise DataError(
            f"{path} is damaged: its numbers are not those that were written."
        )
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(stored[name])
    return words


def metadata(path: Path) -> dict[str, str]:
    """Return the metadata stored beside the tensors, without reading the tensors."""
    with _open(path) as (_, words):
        words.pop(_DIGEST, None)
        return words


def shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor in a file, without reading the tensors."""
    with _open(path) as (file, _):
        names = file.keys()
        return {name: tuple(file.get_slice(name).get_shape()) for name in names}


def shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each tensor."""
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def check_fit(own: Shapes, stored: Shapes, path: Path) -> None:
    """Raise unless names and shapes in a file are those of the module."""
    for name in sorted(own.keys() | stored.keys()):
        shape, wanted = stored.get(name, "missing"), own.get(name, "missing")
        if shape != wanted:
            seen = f"'{name}' has shape {shape}, not {wanted}"
            raise DataError(f"{path} does not belong to this network: {seen}.")


def published(path: Path, sha256: str) -> dict[str, Tensor]:
    """Return the weights in a published torch file.

    Such files are pickles. This one is opened only if it is the very file that is known
    here by its hash, and then by torch's reader for weights, which builds tensors and
    plain containers and refuses everything else.

    Args:
        path: The file.
        sha256: Hash of its bytes, 64 hexadecimal digits.

    Returns:
        Tensors by name, on the CPU.

    Raises:
        DataError: If the file is missing, another, or holds more than tensors.
    """
    from fewlabels.data.untrusted import open_untrusted

    advice = "Install its package again."
    with open_untrusted(path, 2**30, advice) as file:
        content = file.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest != sha256:
        seen = f"its SHA-256 begins with {digest[:12]}, not {sha256[:12]}"
        raise DataError(f"{path} is not the published file: {seen}. {advice}")
    try:
        weights: dict[str, Tensor] = torch.load(  # noqa: TID251 - see above
            BytesIO(content), map_location="cpu", weights_only=True
        )
    except UnpicklingError as error:
        raise DataError(f"{path} holds more than tensors; do not use it.") from error
    return weights


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of names and numbers."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, dict[str, str]]]:
    """Hand out a safetensors file and our own metadata in it, empty if it has none."""
    try:
        with safe_open(path, framework="pt") as file:
            try:
                words = files.parse_json((file.metadata() or {}).get(_ENTRY, "{}"))
            except ValueError:
                words = None
            if not isinstance(words, dict) or set(map(type, words.values())) - {str}:
                raise DataError(f"{path} has no valid metadata; train again.")
            yield file, words
    except (SafetensorError, OSError) as error:
        raise DataError(
            f"{path} cannot be read as a safetensors file: {error}. Train again."
        ) from error
