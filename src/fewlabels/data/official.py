"""The official files of MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100.

MNIST's are idx files: a short header, then plain bytes. CIFAR's are pickles of Python
2, in a folder or still in their archive. Each is read only if it is the published file,
known by its MD5, and then by an unpickler that builds only numbers, bytes, lists and
dictionaries. Other arrays can be kept as .npz.

Arrays have the names that they have in an .npz file: ``x_train``, ``y_train``,
``x_test``, ``y_test`` and, of CIFAR, ``classes``.
"""

import gzip
import pickle
import struct
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import md5
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.untrusted import PUBLISHED_BYTES, PUBLISHED_ITEMS, open_untrusted
from fewlabels.errors import DataError

_UNSIGNED_BYTE = 0x08
_IMAGE = (3, 32, 32)
_ARRAY_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


@dataclass(frozen=True)
class Cifar:
    """How a CIFAR set is stored."""

    name: str
    folder: str
    archive: str
    train: tuple[str, ...]
    test: str
    meta: str
    labels_key: bytes
    names_key: bytes
    md5: Mapping[str, str]
    """Hashes of archive and files, as in torchvision's ``datasets/cifar.py``."""


CIFAR10 = Cifar(
    name="cifar10",
    folder="cifar-10-batches-py",
    archive="cifar-10-python.tar.gz",
    train=tuple(f"data_batch_{number}" for number in range(1, 6)),
    test="test_batch",
    meta="batches.meta",
    labels_key=b"labels",
    names_key=b"label_names",
    md5={
        "cifar-10-python.tar.gz": "c58f30108f718f92721af3b95e74349a",
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
        "test_batch": "40351d587109b95175f43aff81a1287e",
        "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
    },
)
"""CIFAR-10: five files of 10,000 images and one to measure on."""

CIFAR100 = Cifar(
    name="cifar100",
    folder="cifar-100-python",
    archive="cifar-100-python.tar.gz",
    train=("train",),
    test="test",
    meta="meta",
    labels_key=b"fine_labels",
    names_key=b"fine_label_names",
    md5={
        "cifar-100-python.tar.gz": "eb9058c3a382ffc7106e4002c42a8d85",
        "train": "16019d7e3df5f24257cddd939b257f8d",
        "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        "meta": "7973b15100ade9c7d40fb424638fde48",
    },
)
"""CIFAR-100 with its fine labels."""


def read_cifar_folder(folder: Path, layout: Cifar) -> dict[str, NDArray[Any]] | None:
    """Return a CIFAR set of a folder, or of its archive; None if neither is there.

    Nothing is unpacked to the disk.
    """
    unpacked, archive = folder / layout.folder, folder / layout.archive
    names = (*layout.train, layout.test, layout.meta)
    if unpacked.is_dir():
        contents = [_published(unpacked / name, layout) for name in names]
    elif archive.is_file():
        packed = BytesIO(_published(archive, layout))
        with tarfile.open(fileobj=packed, mode="r:gz") as tar:
            members = (tar.extractfile(f"{layout.folder}/{name}") for name in names)
            contents = [b"" if member is None else member.read() for member in members]
    else:
        return None
    tables = [_Unpickler(BytesIO(file), encoding="bytes").load() for file in contents]
    *train, test, meta = tables
    return {
        "x_train": np.concatenate([table[b"data"].images() for table in train]),
        "y_train": np.concatenate([table[layout.labels_key] for table in train]),
        "x_test": test[b"data"].images(),
        "y_test": np.array(test[layout.labels_key]),
        "classes": np.array([name.decode() for name in meta[layout.names_key]]),
    }


def _published(path: Path, layout: Cifar) -> bytes:
    """Return the bytes of a file, if they are the published ones."""
    with open_untrusted(path, PUBLISHED_BYTES, "Unpack it again.") as file:
        content = file.read(PUBLISHED_BYTES)
    seen = md5(content, usedforsecurity=False).hexdigest()
    if seen != layout.md5[path.name]:
        raise DataError(
            f"{path} is not the published file: its MD5 is {seen}, not "
            f"{layout.md5[path.name]}."
        )
    return content


class _StoredArray:
    """A stand-in for NumPy's array and type in a pickle, which keeps the state."""

    def __init__(self, *_: object) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def images(self) -> NDArray[np.uint8]:
        """Return rows of bytes as images, shape (n, 32, 32, 3)."""
        _, shape, _, by_columns, content = self.state
        rows = np.frombuffer(content, dtype=np.uint8)
        rows = rows.reshape(shape, order="F" if by_columns else "C")
        return rows.reshape(-1, *_IMAGE).transpose(0, 2, 3, 1)


class _Unpickler(pickle.Unpickler):  # noqa: S301 # of published files only
    """Builds plain values and stored arrays; nothing that a file names is imported."""

    def find_class(self, module: str, name: str) -> type[_StoredArray]:
        if (module, name) not in _ARRAY_NAMES:
            seen = f"{module}.{name}"
            raise DataError(f"A file of CIFAR asks for '{seen}'; do not trust it.")
        return _StoredArray


def read_idx_folder(folder: Path) -> dict[str, NDArray[Any]] | None:
    """Return the four standard files, gzipped or not; None unless all are there."""
    arrays: dict[str, NDArray[Any]] = {}
    for part, stem in (("train", "train"), ("test", "t10k")):
        for key, kind, num_axes in (("x", "images", 3), ("y", "labels", 1)):
            name = f"{stem}-{kind}-idx{num_axes}-ubyte"
            paths = (folder / name, folder / f"{name}.gz")
            path = next((path for path in paths if path.is_file()), None)
            if path is None:
                return None
            arrays[f"{key}_{part}"] = read_idx(path, num_axes)
    return arrays


def read_idx(path: Path, num_axes: int) -> NDArray[np.uint8]:
    """Return the array of one idx file of unsigned bytes, gzipped or not.

    It has 3 axes for images and 1 for labels. Another header or length is a
    :class:`DataError`.
    """
    magic = bytes([0, 0, _UNSIGNED_BYTE, num_axes])
    with open_untrusted(path, 2 * PUBLISHED_BYTES, "Fetch it again.") as plain:
        file = gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
        header = file.read(4 + 4 * num_axes)
        if header[:4] != magic or len(header) < 4 + 4 * num_axes:
            raise ValueError(f"it begins with {header.hex()}, not with {magic.hex()}")
        shape = struct.unpack(f">{num_axes}I", header[4:])
        size = prod(shape)
        if size > PUBLISHED_BYTES or shape[0] > PUBLISHED_ITEMS:
            most = f"{PUBLISHED_ITEMS:,} items and {PUBLISHED_BYTES:,} bytes"
            raise ValueError(f"it announces {size:,} bytes; at most {most} are read")
        body = bytearray(file.read(size + 1))
        if len(body) != size:
            raise ValueError(f"it announces {size:,} bytes and has more or fewer")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)
