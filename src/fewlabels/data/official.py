"""The official files of MNIST, Fashion-MNIST, CIFAR-10, CIFAR-100, SVHN and STL-10.

MNIST's files are idx files: a short header, then plain bytes. Those of the others are
read only if they are the published files, known by their MD5: pickles of Python 2
(CIFAR, by an unpickler that builds only numbers, bytes, lists and dictionaries), files
of MATLAB (SVHN) and plain bytes (STL-10), in a folder or still in their archive. Other
arrays can be kept as .npz.

Arrays have the names that they have in an .npz file: ``x_train``, ``y_train``,
``x_test``, ``y_test`` and, of CIFAR, ``classes``.
"""

import gzip
import os
import pickle
import struct
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import md5
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels.data.arrays import pool_from_arrays
from fewlabels.data.untrusted import DAMAGE, open_untrusted, read_npz
from fewlabels.errors import DataError, DownloadError
from fewlabels.files import cache_folder
from fewlabels.pool import Pool
from fewlabels.progress import track

Arrays = dict[str, NDArray[Any]]

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""

_MOST_BYTES, _CHUNK = 2**32, 2**18
_FILE_BYTES, _FILE_ITEMS = 2**28, 2**20
"""Most bytes and items of an official file."""
_ARRAY_NAMES = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}
_CIFAR_URL = "https://www.cs.toronto.edu/~kriz/"


@dataclass(frozen=True)
class StandardSet:
    """A data set that everybody knows."""

    name: str
    url: str
    """Where the official files come from."""
    md5: Mapping[str, str]
    """Hash of each file that is read, as the official page or torchvision gives it: the
    files to train on, the file to test on, and of CIFAR that of the names."""
    first_labels: tuple[int, ...] = ()
    """How the training labels begin; tells sets with equal file names apart."""
    classes: tuple[str, ...] = tuple("0123456789")
    """Names of the classes, where the files hold none."""
    folder: str = ""
    """Where torchvision keeps the files; in an archive, their folder."""
    kind: Literal["idx", "cifar", "svhn", "stl10"] = "idx"
    """Format of the files."""
    prefix: bytes = b""
    """How CIFAR's keys of labels and of their names begin."""
    archive: tuple[str, str] | None = None
    """Name and hash of the archive that is downloaded; None: single files."""

    @property
    def published(self) -> Mapping[str, str]:
        """Names and hashes of the files that can be downloaded."""
        return dict([self.archive]) if self.archive else self.md5

    def read(self, folder: Path) -> Arrays | None:
        """Return the arrays of the official files in a folder; None if not there."""
        if self.kind == "idx":
            return read_idx_folder(folder)
        contents = read_published(folder, self)
        if contents is None:
            return None
        if self.kind == "cifar":
            return _cifar_arrays(contents, self.prefix)
        return (_svhn_arrays if self.kind == "svhn" else _stl10_arrays)(contents)

    def begins(self, labels: NDArray[Any]) -> bool:
        """Return whether training labels begin like those of this set."""
        return tuple(labels[: len(self.first_labels)].tolist()) == self.first_labels


_STANDARD_SETS = (
    StandardSet(
        "mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        md5={
            "train-images-idx3-ubyte.gz": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "train-labels-idx1-ubyte.gz": "d53e105ee54ea40749a09fcbcd1e9432",
            "t10k-images-idx3-ubyte.gz": "9fb629c4189551a2d022fa330f9573f3",
            "t10k-labels-idx1-ubyte.gz": "ec29112dd5afa0611ce80d1b7f02629c",
        },
        first_labels=(5, 0, 4, 1, 9),
        folder="MNIST/raw",
    ),
    StandardSet(
        "fashion-mnist",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        md5={
            "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
            "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
            "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
        },
        first_labels=(9, 0, 0, 3, 0),
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        folder="FashionMNIST/raw",
    ),
    StandardSet(
        "cifar10",
        _CIFAR_URL,
        archive=("cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a"),
        md5={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "batches.meta": "5ff9c542aee3614f3951f8cda6e48888",
        },
        first_labels=(6, 9, 9, 4, 1),
        classes=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        folder="cifar-10-batches-py",
        kind="cifar",
    ),
    StandardSet(
        "cifar100",
        _CIFAR_URL,
        archive=("cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85"),
        md5={
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
            "meta": "7973b15100ade9c7d40fb424638fde48",
        },
        first_labels=(19, 29, 0, 11, 1),
        classes=tuple(map(str, range(100))),
        folder="cifar-100-python",
        kind="cifar",
        prefix=b"fine_",
    ),
    StandardSet(
        "svhn",
        "http://ufldl.stanford.edu/housenumbers/",
        md5={
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        },
        kind="svhn",
    ),
    StandardSet(
        "stl10",
        "http://ai.stanford.edu/~acoates/stl10/",
        archive=("stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb"),
        md5={
            "train_X.bin": "918c2871b30a85fa023e0c44e0bee87f",
            "train_y.bin": "5a34089d4802c674881badbb80307741",
            "test_X.bin": "7f263ba9f9e0b06b93213547f721ac82",
            "test_y.bin": "36f9794fa4beb8a2c72628de14fa638e",
        },
        classes=(
            *("airplane", "bird", "car", "cat", "deer"),
            *("dog", "horse", "monkey", "ship", "truck"),
        ),
        folder="stl10_binary",
        kind="stl10",
    ),
)
STANDARD_SETS = {standard.name: standard for standard in _STANDARD_SETS}

_GROUPS = (
    *("aquatic_mammals", "fish", "flowers", "food_containers", "fruit_and_vegetables"),
    *("household_electrical_devices", "household_furniture", "insects"),
    *("large_carnivores", "large_man-made_outdoor_things"),
    *("large_natural_outdoor_scenes", "large_omnivores_and_herbivores"),
    *("medium_mammals", "non-insect_invertebrates", "people", "reptiles"),
    *("small_mammals", "trees", "vehicles_1", "vehicles_2"),
)
_GROUP_OF = (  # of each class of CIFAR-100
    *(4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11),
    *(6, 11, 5, 10, 7, 6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5),
    *(5, 19, 8, 8, 15, 13, 14, 17, 18, 10, 16, 4, 17, 4, 2, 0, 17, 4, 18, 17),
    *(10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16, 12, 9, 13, 15, 13),
    *(16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13),
)


def named_pool(name: str) -> Pool:
    """Return a standard set by its name, with the official test split.

    ``repeated-mnist`` is MNIST here; :func:`fewlabels.data.load` repeats it.
    ``cifar20`` is CIFAR-100 with its twenty groups of classes as classes.
    """
    if name == "cifar20":
        pool, group_of = named_pool("cifar100"), torch.tensor(_GROUP_OF)
        test = pool.test and replace(pool.test, labels=group_of[pool.test.labels])
        labels = group_of[pool.labels]
        return replace(pool, labels=labels, classes=_GROUPS, test=test)
    standard = STANDARD_SETS["mnist" if name == "repeated-mnist" else name]
    return standard_pool(standard, places())


def places() -> list[Path]:
    """Return where data sets are looked for: ``$FEWLABELS_DATA``, then the cache."""
    given = os.environ.get("FEWLABELS_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def standard_pool(standard: StandardSet, places: Sequence[Path]) -> Pool:
    """Return a standard set from the first place that has it, or download it.

    It goes into the last place, which is the cache.
    """
    for place in places:
        npz = place / f"{standard.name}.npz"
        if npz.is_file():
            return _checked_pool(standard, read_npz(npz), npz)
        for folder in (place / standard.name, place / standard.folder, place):
            arrays = standard.read(folder)
            # MNIST and Fashion-MNIST, whose files have the same names, may both be
            # meant by those at the top.
            if arrays and (folder != place or standard.begins(arrays["y_train"])):
                return _checked_pool(standard, arrays, folder)
    goal = places[-1] / standard.name
    for name, digest in standard.published.items():
        fetch(standard.url + name, goal, name, digest)
    return _checked_pool(standard, standard.read(goal) or {}, goal)


def _checked_pool(standard: StandardSet, arrays: Arrays, where: Path) -> Pool:
    """Return the pool if its labels begin as they should."""
    pool = pool_from_arrays(arrays, standard.name, where, standard.classes)
    if not standard.begins(pool.labels.numpy()):
        wanted = standard.first_labels
        seen = tuple(pool.labels[: len(wanted)].tolist())
        raise DataError(
            f"{where} is not {standard.name}: labels begin with {seen}, not {wanted}."
        )
    return pool


def fetch(
    url: str, folder: Path, file_name: str, md5: str, *, timeout: float = TIMEOUT
) -> Path:
    """Return where a file is in a folder, after downloading it unless it is there.

    Only when all bytes have come and their hash is right does the file get its name. A
    server that sends nothing for so many seconds is given up.
    """
    import pooch  # with requests, slow to import and seldom needed
    import requests

    def receive(url: str, output_file: str, _: object) -> None:
        with requests.get(url, stream=True, timeout=timeout) as response:
            response.raise_for_status()
            total, num_bytes = int(response.headers.get("content-length", 0)), 0
            with (
                Path(output_file).open("wb") as file,
                track(f"Downloading {file_name}", total) as advance,
            ):
                for chunk in response.iter_content(_CHUNK):
                    num_bytes += len(chunk)
                    if num_bytes > _MOST_BYTES:
                        raise ValueError(f"it has more than {_MOST_BYTES:,} bytes")
                    file.write(chunk)
                    advance(len(chunk))

    pooch.get_logger().setLevel("WARNING")
    try:
        goal = pooch.retrieve(url, f"md5:{md5}", file_name, folder, downloader=receive)
    except (requests.RequestException, ValueError) as error:
        raise DownloadError(
            f"{url} could not be downloaded: {error}. Try again, or put {file_name} "
            "into the folder that FEWLABELS_DATA names."
        ) from error
    except OSError as error:
        raise DownloadError(
            f"The downloads cannot be written: {error}. Set FEWLABELS_CACHE."
        ) from error
    return Path(goal)


def read_published(folder: Path, standard: StandardSet) -> list[bytes] | None:
    """Return the contents of the files of a set; None if they are not in the folder.

    Each has to be the published one. What is in an archive is not unpacked to the disk.
    """
    contents: dict[str, bytes] = {}
    archive = folder / (standard.archive or ("?", ""))[0]
    paths = {name: folder / standard.folder / name for name in standard.md5}
    is_there = [path.exists() for path in paths.values()]
    if any(is_there) if standard.archive else all(is_there):
        for name, path in paths.items():
            with open_untrusted(path, _FILE_BYTES, "Unpack it again.") as file:
                contents[name] = file.read()
    elif archive.is_file():
        paths = {name: archive / name for name in standard.md5}
        with (
            open_untrusted(archive, _MOST_BYTES, "Fetch it again.", DAMAGE) as packed,
            tarfile.open(fileobj=packed, mode="r|gz") as tar,
        ):
            for member in tar:
                name = member.name.removeprefix(f"{standard.folder}/")
                if name in paths and member.size <= _FILE_BYTES:
                    content = tar.extractfile(member)
                    contents[name] = content.read() if content else b""
                if len(contents) == len(paths):
                    break
        if missing := [name for name in paths if name not in contents]:
            raise DataError(f"{archive} lacks {', '.join(missing)}; fetch it again.")
    else:
        return None
    for name, path in paths.items():
        seen = md5(contents[name], usedforsecurity=False).hexdigest()
        if seen != standard.md5[name]:
            hashes = f"its MD5 is {seen}, not {standard.md5[name]}"
            raise DataError(f"{path} is not the published file: {hashes}.")
    return [contents[name] for name in paths]


def _cifar_arrays(contents: list[bytes], prefix: bytes) -> Arrays:
    *train, test, meta = (
        _Unpickler(BytesIO(file), encoding="bytes").load() for file in contents
    )
    labels, names_of = prefix + b"labels", prefix + b"label_names"
    return {
        "x_train": np.concatenate([table[b"data"].images() for table in train]),
        "y_train": np.concatenate([table[labels] for table in train]),
        "x_test": test[b"data"].images(),
        "y_test": np.array(test[labels]),
        "classes": np.array([name.decode() for name in meta[names_of]]),
    }


def _svhn_arrays(contents: list[bytes]) -> Arrays:
    """Return images, whose numbers are in the last axis, and labels, 10 for a zero."""
    from scipy.io import loadmat  # it reads numbers, and runs nothing

    arrays = {}
    for part, content in zip(("train", "test"), contents, strict=True):
        table = loadmat(BytesIO(content), variable_names=("X", "y"))
        arrays[f"x_{part}"] = np.moveaxis(table["X"], -1, 0)
        arrays[f"y_{part}"] = table["y"].ravel() % 10
    return arrays


def _stl10_arrays(contents: list[bytes]) -> Arrays:
    """Return images, which are stored column by column, and labels from zero."""
    rows = [np.frombuffer(content, np.uint8) for content in contents]
    images = [r.reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1) for r in rows[::2]]
    arrays = {"x_train": images[0], "y_train": rows[1] - 1}
    return arrays | {"x_test": images[1], "y_test": rows[3] - 1}


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
        return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class _Unpickler(pickle.Unpickler):  # noqa: S301 # of published files only
    """Builds plain values and stored arrays; nothing that a file names is imported."""

    def find_class(self, module: str, name: str) -> type[_StoredArray]:
        if (module, name) not in _ARRAY_NAMES:
            seen = f"{module}.{name}"
            raise DataError(f"A file of CIFAR asks for '{seen}'; do not trust it.")
        return _StoredArray


def read_idx_folder(folder: Path) -> Arrays | None:
    """Return the four standard files, gzipped or not; None unless all are there."""
    arrays: Arrays = {}
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
    magic = bytes([0, 0, 8, num_axes])  # 8: unsigned bytes
    with open_untrusted(path, 2 * _FILE_BYTES, "Fetch it again.") as plain:
        file = gzip.GzipFile(fileobj=plain) if path.suffix == ".gz" else plain
        header = file.read(4 + 4 * num_axes)
        if header[:4] != magic or len(header) < 4 + 4 * num_axes:
            raise ValueError(f"it begins with {header.hex()}, not with {magic.hex()}")
        shape = struct.unpack(f">{num_axes}I", header[4:])
        size = prod(shape)
        if size > _FILE_BYTES or shape[0] > _FILE_ITEMS:
            most = f"{_FILE_ITEMS:,} items and {_FILE_BYTES:,} bytes"
            raise ValueError(f"it announces {size:,} bytes; at most {most} are read")
        body = bytearray(file.read(size + 1))
        if len(body) != size:
            raise ValueError(f"it announces {size:,} bytes and has more or fewer")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)
