"""The data sets that have a name: found on the disk, or downloaded."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import platformdirs
import torch
from numpy.typing import NDArray

from fewlabels.data.arrays import item_ids, item_tensor, pool_from_arrays
from fewlabels.errors import DataError, DownloadError, UnknownNameError
from fewlabels.pool import ArrayImages, Pool, Split
from fewlabels.progress import track

if TYPE_CHECKING:
    from fewlabels.data.official import Cifar

NUM_TEST_DIGITS = 500
"""Digits to measure on; the other 1,297 are the pool."""

TIMEOUT = 30.0
"""Seconds without a byte after which a server is given up."""

_NAMES = (
    *("cifar10", "cifar100", "cifar20", "digits", "fashion-mnist", "mnist"),
    "repeated-mnist",
)
_MOST_BYTES, _CHUNK = 2**30, 2**18
_IDX_FILES = (
    "train-images-idx3-ubyte.gz",
    "train-labels-idx1-ubyte.gz",
    "t10k-images-idx3-ubyte.gz",
    "t10k-labels-idx1-ubyte.gz",
)
_TEN_DIGITS = tuple(map(str, range(10)))
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


@dataclass(frozen=True)
class StandardSet:
    """A data set that everybody knows."""

    name: str
    first_labels: tuple[int, ...]
    """How the training labels begin; tells sets with equal file names apart."""
    classes: tuple[str, ...]
    """Names of the classes, where the files hold none."""
    folders: tuple[str, ...]
    """Folders that may hold its official files, below a place for data."""
    read: Callable[[Path], dict[str, NDArray[Any]] | None]
    """Reads the official files of a folder; None if they are not there."""
    url: str
    """Where the official files come from."""
    md5: Mapping[str, str]
    """The files there, and what the official page or torchvision gives as hash."""


def _cifar(
    layout: "Cifar", *first_labels: int, classes: tuple[str, ...]
) -> StandardSet:
    from fewlabels.data.official import read_cifar_folder

    return StandardSet(
        layout.name,
        first_labels,
        classes,
        folders=(layout.name,),
        read=partial(read_cifar_folder, layout=layout),
        url="https://www.cs.toronto.edu/~kriz/",
        md5={layout.archive: layout.md5[layout.archive]},
    )


def _standard_sets() -> dict[str, StandardSet]:
    """Return the standard sets by name."""
    from fewlabels.data import official

    return {
        "mnist": StandardSet(
            "mnist",
            first_labels=(5, 0, 4, 1, 9),
            classes=_TEN_DIGITS,
            folders=("mnist", "MNIST/raw"),
            read=official.read_idx_folder,
            url="https://ossci-datasets.s3.amazonaws.com/mnist/",
            md5={
                _IDX_FILES[0]: "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                _IDX_FILES[1]: "d53e105ee54ea40749a09fcbcd1e9432",
                _IDX_FILES[2]: "9fb629c4189551a2d022fa330f9573f3",
                _IDX_FILES[3]: "ec29112dd5afa0611ce80d1b7f02629c",
            },
        ),
        "fashion-mnist": StandardSet(
            "fashion-mnist",
            first_labels=(9, 0, 0, 3, 0),
            classes=(
                *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
                *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
            ),
            folders=("fashion-mnist", "FashionMNIST/raw"),
            read=official.read_idx_folder,
            url="http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            md5={
                _IDX_FILES[0]: "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                _IDX_FILES[1]: "25c81989df183df01b3e8a0aad5dffbe",
                _IDX_FILES[2]: "bef4ecab320f06d8554ea6380940ec79",
                _IDX_FILES[3]: "bb300cfdad3c16e7a12a480ee83cd310",
            },
        ),
        "cifar10": _cifar(
            official.CIFAR10,
            *(6, 9, 9, 4, 1),
            classes=(
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
        ),
        "cifar100": _cifar(
            official.CIFAR100, *(19, 29, 0, 11, 1), classes=tuple(map(str, range(100)))
        ),
    }


def names() -> tuple[str, ...]:
    """Return the names of the built-in data sets, sorted."""
    return _NAMES


def named_pool(name: str) -> Pool:
    """Return a data set by its name, with the official test split.

    ``repeated-mnist`` is MNIST here; :func:`fewlabels.data.load` repeats it.
    ``cifar20`` is CIFAR-100 with its twenty groups of classes as classes.
    """
    if name == "digits":
        return digits_pool()
    if name == "cifar20":
        pool, group_of = named_pool("cifar100"), torch.tensor(_GROUP_OF)
        test = pool.test
        if test is not None:
            test = replace(test, labels=group_of[test.labels])
        labels = group_of[pool.labels]
        return replace(pool, labels=labels, classes=_GROUPS, test=test)
    standard = _standard_sets().get("mnist" if name == "repeated-mnist" else name)
    if standard is None:
        raise UnknownNameError("data set", name, names())
    return standard_pool(standard, places())


def places() -> list[Path]:
    """Return where data sets are looked for: ``$FEWLABELS_DATA``, then the cache."""
    given = os.environ.get("FEWLABELS_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def cache_folder() -> Path:
    """Return where downloads are kept: ``$FEWLABELS_CACHE``, or the platform's way."""
    given = os.environ.get("FEWLABELS_CACHE")
    if given:
        return Path(given).expanduser()
    return platformdirs.user_cache_path("fewlabels", appauthor=False, opinion=False)


def standard_pool(standard: StandardSet, places: Sequence[Path]) -> Pool:
    """Return a standard set from the first place that has it, or download it.

    It goes into the last place, which is the cache.
    """
    from fewlabels.data.npz import read_npz

    for place in places:
        npz = place / f"{standard.name}.npz"
        if npz.is_file():
            return _checked_pool(standard, read_npz(npz), npz)
        for folder in (*(place / below for below in standard.folders), place):
            arrays = standard.read(folder)
            if arrays is None:
                continue
            # MNIST and Fashion-MNIST, whose files have the same names, may both be
            # meant by those at the top.
            if folder != place or _begins_right(standard, arrays):
                return _checked_pool(standard, arrays, folder)
    goal = places[-1] / standard.name
    for file_name, md5 in standard.md5.items():
        fetch(standard.url + file_name, goal, file_name, md5)
    return _checked_pool(standard, standard.read(goal) or {}, goal)


def _checked_pool(
    standard: StandardSet, arrays: Mapping[str, NDArray[Any]], where: Path
) -> Pool:
    """Return the pool if its labels begin as they should."""
    pool = pool_from_arrays(arrays, standard.name, where, standard.classes)
    if _begins_right(standard, {"y_train": pool.labels.numpy()}):
        return pool
    wanted = standard.first_labels
    seen = " ".join(map(str, pool.labels[: len(wanted)].tolist()))
    raise DataError(
        f"{where} is not {standard.name}: its labels begin with {seen}, not with "
        f"{' '.join(map(str, wanted))}."
    )


def _begins_right(
    standard: StandardSet, arrays: Mapping[str, NDArray[np.integer[Any]]]
) -> bool:
    wanted = standard.first_labels
    return tuple(arrays["y_train"][: len(wanted)].tolist()) == wanted


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
            announced = response.headers.get("content-length", "")
            total = int(announced) if announced.isdecimal() else 0
            num_bytes = 0
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


@cache
def digits_pool() -> Pool:
    """Return scikit-learn's digits, split once and for all: 1,297 items, 500 to test.

    The set has no official split. Each class gives its share of the test split: those
    items whose content hashes come first. No seed has a say in it.
    """
    from sklearn.datasets import load_digits  # slow to import, and seldom needed

    bunch = load_digits()
    items = item_tensor(np.round(bunch.images * (255 / 16)).astype(np.uint8))
    ids = item_ids("digits", items)
    counts = np.bincount(bunch.target)
    exact = counts * NUM_TEST_DIGITS / counts.sum()
    quotas = np.floor(exact).astype(np.int64)
    by_remainder = np.argsort(quotas - exact, kind="stable")
    quotas[by_remainder[: NUM_TEST_DIGITS - quotas.sum()]] += 1
    is_test = torch.zeros(len(items), dtype=torch.bool)
    for number, quota in enumerate(quotas):
        members = np.flatnonzero(bunch.target == number).tolist()
        members.sort(key=lambda index: ids[index].partition("@")[2])
        is_test[members[:quota]] = True
    labels = torch.from_numpy(bunch.target.astype(np.int64))
    return Pool.build(
        ArrayImages(items[~is_test]),
        labels[~is_test],
        _TEN_DIGITS,
        ids=[name for name, held_out in zip(ids, is_test, strict=True) if not held_out],
        test=Split(ArrayImages(items[is_test]), labels[is_test]),
    )
