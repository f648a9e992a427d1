"""Weights on disk: safetensors, written whole or not at all."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialized
from torch import Tensor, nn

from fewlabels.errors import DataError


def save(module: nn.Module, path: Path, metadata: Mapping[str, str]) -> None:
    """Write parameters and buffers of ``module`` to ``path``, atomically.

    The file is written under another name in the same folder, flushed to the disk and
    renamed, so that a reader finds the old file or the new one and never a half.

    Args:
        module: What to save.
        path: The file; its folder must exist.
        metadata: Words to store beside the tensors.
    """
    tensors = {
        name: tensor.detach().cpu().contiguous()
        for name, tensor in module.state_dict().items()
    }
    content = serialized(tensors, metadata=dict(metadata))
    with NamedTemporaryFile(
        dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as f:
        temporary = Path(f.name)
        try:
            f.write(content)
            f.flush()
            os.fsync(f.fileno())
            temporary.replace(path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    _flush_folder(path.parent)


def load(module: nn.Module, path: Path) -> dict[str, str]:
    """Fill ``module`` from ``path``; nothing is changed unless everything fits.

    Args:
        module: A network of the same architecture as the saved one.
        path: A file written by :func:`save`.

    Returns:
        The metadata stored beside the tensors.
    """
    with _opened(path) as file:
        words = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    _check_fit(module.state_dict(), tensors, path)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            tensor.copy_(tensors[name])
    return words


def metadata(path: Path) -> dict[str, str]:
    """Return the words stored beside the tensors, without reading the tensors."""
    with _opened(path) as file:
        return dict(file.metadata() or {})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open a safetensors file, turning damage into a sentence."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except (SafetensorError, OSError) as error:
        msg = (
            f"{path} cannot be read as a safetensors file ({error}). It is missing, "
            "cut off or not a checkpoint; delete it and train again."
        )
        raise DataError(msg) from error


def _check_fit(
    own: Mapping[str, Tensor], read: Mapping[str, Tensor], path: Path
) -> None:
    """Raise unless names and shapes are those of the module."""
    odd = sorted(own.keys() ^ read.keys())
    if odd:
        where = "missing from the file" if odd[0] in own else "unknown to the network"
        msg = (
            f"{path} does not belong to this network: {len(odd)} tensors differ in "
            f"name, the first, '{odd[0]}', is {where}. Load it into the network it was "
            "saved from."
        )
        raise DataError(msg)
    for name, tensor in own.items():
        if tensor.shape != read[name].shape:
            msg = (
                f"{path} does not belong to this network: '{name}' has shape "
                f"{tuple(read[name].shape)} in the file and {tuple(tensor.shape)} in "
                "the network. Check network, image shape and number of classes."
            )
            raise DataError(msg)


def _flush_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut, where the system can."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
