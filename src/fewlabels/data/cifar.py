"""The python files of CIFAR-10 and CIFAR-100, in a folder or still in their archive.

Only the files as published are read: each is known by its MD5. That also keeps results
on "cifar10" comparable; whoever has other arrays keeps them as .npz.
"""

import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import file_digest, md5
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.arrays import SplitArrays
from fewlabels.data.pickled import ByteArray, read_pickled
from fewlabels.errors import DataError
from fewlabels.files import open_regular, read_regular

_CHANNELS, _SIDE = 3, 32
_ROW = _CHANNELS * _SIDE**2
_MOST_BYTES = 2**28


@dataclass(frozen=True)
class Layout:
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


CIFAR10 = Layout(
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

CIFAR100 = Layout(
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


def read_cifar_folder(folder: Path, layout: Layout) -> SplitArrays | None:
    """Return a CIFAR set of a folder, or of its archive; None if neither is there."""
    unpacked, archive = folder / layout.folder, folder / layout.archive
    if unpacked.is_dir():
        return _read(layout, lambda name: _file(unpacked / name, layout))
    if archive.is_file():
        members = _members(archive, layout)
        return _read(layout, lambda name: _member(members, name, archive))
    return None


def _read(layout: Layout, content_of: Callable[[str], bytes]) -> SplitArrays:
    """Put the parts of a set together."""

    def table(name: str) -> dict[bytes, object]:
        found = read_pickled(content_of(name), name)
        return found if isinstance(found, dict) else {}

    parts = [_part(table(name), name, layout.labels_key) for name in layout.train]
    x_test, y_test = _part(table(layout.test), layout.test, layout.labels_key)
    return SplitArrays(
        np.concatenate([images for images, _ in parts]),
        np.concatenate([labels for _, labels in parts]),
        x_test,
        y_test,
        _names(table(layout.meta), layout),
    )


def _check_published(path: Path, seen: str, layout: Layout) -> None:
    published = layout.md5[path.name]
    if seen != published:
        raise DataError(
            f"{path} is not the published file: its MD5 is {seen}, not {published}. It "
            "is damaged or was made anew. Fetch the set again; if the change is meant, "
            f"save your arrays as {layout.name}.npz instead."
        )


def _names(table: Mapping[bytes, object], layout: Layout) -> tuple[str, ...]:
    """Return the names of the classes."""
    names = table.get(layout.names_key)
    if not isinstance(names, list) or not all(isinstance(one, bytes) for one in names):
        key = layout.names_key.decode()
        raise DataError(f"{layout.meta} holds no {key}. Fetch it again.")
    return tuple(name.decode("latin1") for name in names)


def _part(
    table: Mapping[bytes, object], name: str, labels_key: bytes
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the images (n, 32, 32, 3) and the labels (n,) of one file."""
    stored, labels = table.get(b"data"), table.get(labels_key)
    if (
        not isinstance(stored, ByteArray)
        or not isinstance(labels, list)
        or stored.shape != (len(labels), _ROW)
        or not all(isinstance(label, int) for label in labels)
    ):
        raise DataError(
            f"{name} does not hold rows of {_ROW} bytes with as many "
            f"{labels_key.decode()}. Fetch the set again."
        )
    rows = np.frombuffer(stored.content, dtype=np.uint8).reshape(
        stored.shape, order="F" if stored.by_columns else "C"
    )
    images = rows.reshape(-1, _CHANNELS, _SIDE, _SIDE)
    return images.transpose(0, 2, 3, 1), np.array(labels, dtype=np.int64)


def _file(path: Path, layout: Layout) -> bytes:
    try:
        content = read_regular(path, _MOST_BYTES)
    except OSError as error:
        msg = f"{path} cannot be read: {error.strerror}. Unpack the archive again."
        raise DataError(msg) from error
    seen = md5(content, usedforsecurity=False).hexdigest()
    _check_published(path, seen, layout)
    return content


def _members(archive: Path, layout: Layout) -> dict[str, bytes]:
    """Read the files of an archive, without writing anything to the disk."""
    try:
        with open_regular(archive, _MOST_BYTES) as file:
            seen = file_digest(file, lambda: md5(usedforsecurity=False)).hexdigest()
            _check_published(archive, seen, layout)
            file.seek(0)
            with tarfile.open(fileobj=file, mode="r:gz") as tar:
                return dict(_plain_members(tar, layout))
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        msg = f"{archive} is not a whole archive: {error}. Remove it and try again."
        raise DataError(msg) from error


def _plain_members(tar: tarfile.TarFile, layout: Layout) -> Iterator[tuple[str, bytes]]:
    wanted = {f"{layout.folder}/{name}": name for name in layout.md5}
    for member in tar:
        name = wanted.get(member.name.removeprefix("./"))
        is_plain = member.isfile() and member.size <= _MOST_BYTES
        content = tar.extractfile(member) if name and is_plain else None
        if name and content is not None:
            yield name, content.read()


def _member(members: Mapping[str, bytes], name: str, archive: Path) -> bytes:
    if name not in members:
        raise DataError(
            f"{archive} has no file {name}; it is another archive. Remove it and try "
            "again."
        )
    return members[name]
