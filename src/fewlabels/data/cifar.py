"""The python files of CIFAR-10 and CIFAR-100, in a folder or still in their archive.

They are pickles, and a pickle can run anything. The reader here builds plain containers
and NumPy arrays and refuses every other name, so that no file can do harm.
"""

import io
import pickle
import tarfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.arrays import SplitArrays
from fewlabels.errors import DataError

_CHANNELS, _SIDE = 3, 32
_MOST_BYTES = 2**28

_reconstruct = np.empty(0).__reduce__()[0]

_ALLOWED: Mapping[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
}

# What broken or hostile bytes make the unpickler and NumPy raise.
_DAMAGE = (
    pickle.UnpicklingError,
    EOFError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    ImportError,
    OverflowError,
    MemoryError,
    RecursionError,
)


@dataclass(frozen=True)
class Layout:
    """How a CIFAR set is stored."""

    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels_key: str
    names_key: str


CIFAR10 = Layout(
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
    labels_key="labels",
    names_key="label_names",
)
"""CIFAR-10: five files of 10,000 images and one to measure on."""

CIFAR100 = Layout(
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    train=("train",),
    test="test",
    meta="meta",
    labels_key="fine_labels",
    names_key="fine_label_names",
)
"""CIFAR-100 with its fine labels."""


def read_cifar_folder(folder: Path, layout: Layout) -> SplitArrays | None:
    """Read a CIFAR set from its folder, or from its archive without unpacking it.

    Args:
        folder: What may hold the set's own folder or its archive.
        layout: How the set is stored.

    Returns:
        Images, labels and names of the classes; None if nothing is there.
    """
    unpacked, archive = folder / layout.folder, folder / layout.archive
    if unpacked.is_dir():
        return _read(layout, lambda name: _file(unpacked / name))
    if archive.is_file():
        members = _members(archive, layout)
        return _read(layout, lambda name: _member(members, name, archive))
    return None


def safe_unpickle(content: bytes, where: str) -> Any:
    """Read a pickle of plain containers and NumPy arrays, and nothing else.

    Args:
        content: The pickle.
        where: What to call it in a message.

    Returns:
        What was pickled.

    Raises:
        DataError: If it is damaged or asks for anything else.
    """
    try:
        return _PlainUnpickler(io.BytesIO(content), encoding="latin1").load()
    except _DAMAGE as error:
        msg = (
            f"{where} is not a CIFAR file: {error}. Do not trust it; fetch the set "
            "again from its official address."
        )
        raise DataError(msg) from error


class _PlainUnpickler(pickle.Unpickler):  # noqa: S301 - that is its purpose
    """An unpickler that knows only what it takes to build an array."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        """Return one of the few allowed names."""
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            msg = f"it asks for {module_name}.{global_name}, which is not allowed"
            raise pickle.UnpicklingError(msg) from None


def _read(layout: Layout, content_of: Callable[[str], bytes]) -> SplitArrays:
    """Put the parts of a set together."""
    parts = [_part(content_of(name), name, layout.labels_key) for name in layout.train]
    x_test, y_test = _part(content_of(layout.test), layout.test, layout.labels_key)
    meta = safe_unpickle(content_of(layout.meta), layout.meta)
    names = meta.get(layout.names_key) if isinstance(meta, dict) else None
    if not isinstance(names, list):
        raise DataError(f"{layout.meta} holds no {layout.names_key}. Fetch it again.")
    return SplitArrays(
        np.concatenate([images for images, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
        x_test,
        y_test,
        tuple(map(str, names)),
    )


def _part(
    content: bytes, name: str, labels_key: str
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n, 32, 32, 3) and the labels (n,) of one file."""
    table = safe_unpickle(content, name)
    rows = table.get("data") if isinstance(table, dict) else None
    labels = table.get(labels_key) if isinstance(table, dict) else None
    if not _is_part(rows, labels):
        msg = (
            f"{name} does not hold rows of {_CHANNELS * _SIDE**2} bytes with as many "
            f"{labels_key}. Fetch the set again."
        )
        raise DataError(msg)
    images = np.asarray(rows).reshape(-1, _CHANNELS, _SIDE, _SIDE)
    return images.transpose(0, 2, 3, 1), np.array(labels, dtype=np.int64)


def _is_part(rows: object, labels: object) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.uint8
        and rows.ndim == 2
        and rows.shape[1] == _CHANNELS * _SIDE**2
        and isinstance(labels, list)
        and len(labels) == len(rows)
        and all(isinstance(label, int) for label in labels)
    )


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}. Unpack the archive again."
        raise DataError(msg) from error


def _members(archive: Path, layout: Layout) -> dict[str, bytes]:
    """Read the known members of an archive, without writing anything to the disk."""
    names: Sequence[str] = (*layout.train, layout.test, layout.meta)
    wanted = {f"{layout.folder}/{name}": name for name in names}
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(archive, "r:*") as tar:
            for member in tar:
                name = wanted.get(member.name.removeprefix("./"))
                is_plain = member.isfile() and member.size <= _MOST_BYTES
                file = tar.extractfile(member) if name and is_plain else None
                if name and file is not None:
                    found[name] = file.read()
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        msg = f"{archive} is not a whole archive: {error}. Remove it and try again."
        raise DataError(msg) from error
    return found


def _member(members: Mapping[str, bytes], name: str, archive: Path) -> bytes:
    if name not in members:
        msg = (
            f"{archive} has no file {name}; it is cut off or another archive. Remove "
            "it and try again."
        )
        raise DataError(msg)
    return members[name]
