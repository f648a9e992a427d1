"""A finished training is kept in its folder, and found again."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Protocol

from torch import nn

from fewlabels import files
from fewlabels.errors import DamagedWarning, DataError, RunInUseError
from fewlabels.models import checkpoint
from fewlabels.pool import Pool

_FILE = "model.safetensors"
_LOCK = ".fewlabels-training-lock"


@contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """Keep other processes out of a workspace while the block runs.

    A :class:`RunInUseError` tells that another process works there.

    Args:
        folder: The workspace; None: there is nothing to keep them out of.

    Yields:
        Nothing.
    """
    if folder is None:
        yield
        return
    files.make_folder(folder)
    in_use = RunInUseError(
        f"Another process trains in '{folder}'. Wait for it, or give this training a "
        "folder of its own."
    )
    with files.alone(folder / _LOCK, in_use):
        yield


class Settings(Protocol):
    """Settings of a training, a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def decisive(self) -> dict[str, Any]:
        """Return the settings that decide the outcome of a training."""
        ...


def fingerprint(settings: Settings, pool: Pool, inputs: str, key: int) -> str:
    """Return a hash of all that decides the outcome of a training.

    Args:
        settings: The settings.
        pool: The items (by id) and their labels.
        inputs: What makes the network's inputs of images, where settings do not tell.
        key: What the generator gave.

    Returns:
        A hexadecimal number.
    """
    decisive = {
        "trainer": type(settings).__name__,
        "settings": settings.decisive(),
        "image_shape": pool.images.shape,
        "classes": pool.num_classes,
        "ids": sha256("\0".join(pool.ids).encode()).hexdigest(),
        "labeled": pool.labeled.tolist(),
        "labels": pool.labels[pool.labeled].tolist(),
        "inputs": inputs,
        "key": key,
    }
    return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def restore(module: nn.Module, folder: Path, mark: str) -> bool:
    """Fill ``module`` with a finished training of this fingerprint, if there is one.

    Args:
        module: The network to fill; unchanged where nothing usable is found.
        folder: The workspace.
        mark: The fingerprint.

    Returns:
        Whether the network was filled. A damaged file counts as none.
    """
    path = folder / _FILE
    if not path.exists():
        return False
    try:
        if checkpoint.metadata(path).get("fingerprint") != mark:
            return False
        checkpoint.load(module, path)
    except DataError as error:
        warnings.warn(f"{error} It counts as none.", DamagedWarning, stacklevel=2)
        return False
    return True


def keep(module: nn.Module, folder: Path, mark: str, settings: Settings) -> None:
    """Save a finished training.

    Args:
        module: The trained network.
        folder: The workspace; made if it does not exist.
        mark: The fingerprint.
        settings: The settings, saved beside the weights for people to read.
    """
    files.make_folder(folder)
    words = {
        "fingerprint": mark,
        "trainer": type(settings).__name__,
        "settings": json.dumps(asdict(settings)),
    }
    checkpoint.save(module, folder / _FILE, words)
