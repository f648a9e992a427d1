"""``load``: a pool of a named set, a folder, a manifest, a file or an array.

Sets that have a name are found on the disk, or downloaded. What reads a kind of file is
imported when such a file is given.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fewlabels.data.arrays import (
    Arrays,
    Labels,
    array_pool,
    item_ids,
    item_tensor,
    pool_from_arrays,
)
from fewlabels.data.derived import Counts, limit_tests, repeated, resize_images, subset
from fewlabels.errors import (
    DataError,
    DownloadError,
    UnknownNameError,
    UsageError,
    check_range,
)
from fewlabels.files import cache_folder
from fewlabels.pool import ArrayImages, Pool, Split
from fewlabels.progress import track

if TYPE_CHECKING:
    from fewlabels.data.official import Cifar

Loadable = str | PathLike[str] | NDArray[Any] | Tensor
"""A data set's name, a path, or images in memory."""

# Repeated MNIST as in BatchBALD (Kirsch, van Amersfoort and Gal, 2019).
BATCHBALD_TIMES = 3
BATCHBALD_NOISE = 0.1
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


def load(
    source: Loadable,
    labels: Labels | Literal["none"] | None = None,
    *,
    classes: Sequence[str] | None = None,
    test: tuple[Arrays, Labels] | None = None,
    vectors: str | PathLike[str] | None = None,
    size: int | None = None,
    counts: Counts | None = None,
    times: int | None = None,
    noise: float | None = None,
    test_share: float = 0.2,
    tests: int | None = None,
    part: int = 0,
    seed: int = 0,
) -> Pool:
    """Load images and what is known about them.

    All labels that are known are in the pool; a run hides them and plays the oracle
    with them. A name in :func:`names` wins over a path of the same name; write
    ``./digits`` for a folder called ``digits``.

    Example:
        >>> pool = load("digits")
        >>> len(pool), len(pool.test), pool.images.shape
        (1297, 500, (1, 8, 8))

    Args:
        source: A data set's name; a folder, a tree with a folder per class, a manifest
            (.csv, .jsonl, .parquet) or an .npz file; or an array of images, uint8,
            shape (N, H, W) or (N, H, W, C), or of vectors, shape (N, F).
        labels: Class numbers or names for an array. ``"none"``: take no labels from
            the folders' names or the manifest.
        classes: Names of the classes of an array.
        test: Images and labels to measure on, beside an array.
        vectors: A file of rows (.npy, .npz, .parquet) that are seen in the place of the
            images: matched by file name or, where the rows have no names, by order.
        size: Side of the square to bring images to. None: the native size of a data
            set, an array, or files that share one of at most 64 pixels; else 32.
        counts: How many items of each class to keep; see :func:`subset`.
        times: How often to repeat each item; see :func:`repeated`. ``repeated-mnist``
            has 3 by default.
        noise: Standard deviation of the noise on repeated items, as a share of 255.
            ``repeated-mnist`` has 0.1 by default.
        test_share: Share of the labeled files to measure on where no split is given.
        tests: How many items of each class to measure on; None: all of the split.
        part: Which part of the data ``counts`` takes: pools of the same seed and counts
            and different parts share no item.
        seed: Decides which items ``counts`` and ``tests`` keep, and the noise.

    Returns:
        The pool.
    """
    if isinstance(source, str) and source == "repeated-mnist":
        times = BATCHBALD_TIMES if times is None else times
        noise = BATCHBALD_NOISE if noise is None else noise
    if size is not None:
        check_range("size", size, at_least=1)
    check_range("test_share", test_share, at_least=0, below=1)
    if noise is not None and times is None:
        raise UsageError("noise is for repeated items; give times as well.")
    ignores_labels = isinstance(labels, str) and labels == "none"
    if isinstance(source, np.ndarray) or torch.is_tensor(source):
        given = None if isinstance(labels, str) else labels
        pool = array_pool(source, given, classes=classes, test=test)
    else:
        has_labels = labels is not None and not ignores_labels
        if has_labels or classes is not None or test is not None:
            raise UsageError("labels, classes and test are for arrays; leave them out.")
        pool = _load_name_or_path(
            source, use_labels=not ignores_labels, size=size, test_share=test_share
        )
    if vectors is not None:
        from fewlabels.data.vectors import with_vectors

        pool = with_vectors(pool, Path(vectors))
    if size is not None:
        pool = resize_images(pool, size)
    if counts is not None:
        pool = subset(pool, counts, seed=seed, part=part)
    if tests is not None:
        pool = limit_tests(pool, tests, seed=seed)
    if times is None:
        return pool
    return repeated(pool, times, noise=noise or 0.0, seed=seed)


def _load_name_or_path(
    source: str | PathLike[str],
    *,
    use_labels: bool,
    size: int | None,
    test_share: float,
) -> Pool:
    given: object = source  # of callers without a type checker
    if not isinstance(given, str | PathLike):
        kind = type(given).__name__
        raise UsageError(f"A {kind} cannot be loaded; give a name, a path or an array.")
    is_name = isinstance(source, str) and source in names()
    if is_name and use_labels:
        return named_pool(str(source))
    from fewlabels.data.untrusted import MANIFESTS, is_utf8, printable

    try:
        path = Path(source).expanduser()
        is_file, is_folder = path.is_file(), path.is_dir()
    except (OSError, RuntimeError) as error:
        raise UnknownNameError("data set", str(source)[:100], names()) from error
    if not is_utf8(str(path)):
        raise DataError(f"The name {printable(str(path))} is not UTF-8. Rename it.")
    kind = path.suffix.lower()
    if not is_name and (is_folder or (is_file and kind in MANIFESTS)):
        from fewlabels.data.folder import folder_pool
        from fewlabels.data.manifest import manifest_pool

        pool_from = folder_pool if is_folder else manifest_pool
        return pool_from(path, size=size, test_share=test_share, use_labels=use_labels)
    if not use_labels:
        raise UsageError("labels='none' is for folders and manifests; leave it out.")
    if is_file and kind == ".npz":
        from fewlabels.data.untrusted import read_npz

        return pool_from_arrays(read_npz(path), path.stem, path)
    if is_file:
        known = ", ".join(sorted([*MANIFESTS, ".npz"]))
        raise DataError(f"{path} is not a file that can be loaded; known: {known}.")
    if isinstance(source, str):
        raise UnknownNameError("file or folder and no data set", source, names())
    raise DataError(f"There is no file or folder {path}. Check the spelling.")


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


def standard_pool(standard: StandardSet, places: Sequence[Path]) -> Pool:
    """Return a standard set from the first place that has it, or download it.

    It goes into the last place, which is the cache.
    """
    from fewlabels.data.untrusted import read_npz

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
