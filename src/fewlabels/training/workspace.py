"""A finished training is kept in its folder, and found again."""

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from torch import nn

from fewlabels import files
from fewlabels.errors import DamagedWarning, DataError, RunInUseError
from fewlabels.identity import Identity
from fewlabels.models import checkpoint
from fewlabels.pool import Pool

_FILE = "model.safetensors"
_LOCK = ".fewlabels-training-lock"


@contextmanager
def alone_in(folder: Path | None) -> Iterator[None]:
    """Keep other processes out of a workspace while the block runs.

    A :class:`RunInUseError` tells that another process works there.
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


def fingerprint(
    identity: Identity, pool: Pool, inputs: str, contents: str, key: int
) -> str:
    """Return a hash of all that decides the outcome of a training.

    Args:
        identity: Of the trainer.
        pool: What it is trained on.
        inputs: What makes inputs of images.
        contents: What the items hold, where their ids do not tell it; else empty.
        key: Seed of the training.

    Returns:
        The hash.
    """
    decisive = {
        "trainer": identity.type,
        "settings": identity.options,
        "image_shape": pool.images.shape,
        "classes": pool.num_classes,
        "ids": sha256("\0".join(pool.ids).encode()).hexdigest(),
        "labeled": pool.labeled.tolist(),
        "labels": pool.labels[pool.labeled].tolist(),
        "inputs": inputs,
        "key": key,
    }
    if identity.source:
        decisive["source"] = identity.source
    if contents:
        decisive["contents"] = contents
    return sha256(json.dumps(decisive, sort_keys=True).encode()).hexdigest()


def restore(module: nn.Module, folder: Path, mark: str) -> bool:
    """Fill ``module`` with a finished training of this fingerprint, if there is one."""
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


def keep(module: nn.Module, folder: Path, mark: str, identity: Identity) -> None:
    """Save a finished training."""
    files.make_folder(folder)
    words = {
        "fingerprint": mark,
        "trainer": identity.type,
        "settings": json.dumps(identity.options),
    }
    checkpoint.save(module, folder / _FILE, words)
