"""The data sets that have a name: found on the disk, or downloaded."""

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from fewlabels.data.arrays import Arrays, SplitArrays, array_pool
from fewlabels.data.cifar import CIFAR10, CIFAR100, Layout, read_cifar_folder
from fewlabels.data.digits import digits_pool
from fewlabels.data.download import Source, fetch
from fewlabels.data.idx import read_idx_folder
from fewlabels.data.npz import npz_pool
from fewlabels.errors import DataError, UnknownNameError
from fewlabels.pool import Pool

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
    """Folders that may hold its standard files, below a place for data."""
    read: Callable[[Path], SplitArrays | None]
    """Reads the standard files of a folder; None if they are not there."""
    sources: tuple[Source, ...]
    """Where the standard files come from."""


def _idx_sources(base: str, *digests: str) -> tuple[Source, ...]:
    pairs = zip(_IDX_FILES, digests, strict=True)
    return tuple(Source(base + name, name, digest) for name, digest in pairs)


def _cifar_sources(layout: Layout) -> tuple[Source, ...]:
    name = layout.archive
    base = "https://www.cs.toronto.edu/~kriz/"
    return (Source(base + name, name, layout.md5[name]),)


_STANDARD = {
    one.name: one
    for one in (
        StandardSet(
            name="mnist",
            first_labels=(5, 0, 4, 1, 9),
            classes=_TEN_DIGITS,
            folders=("mnist", "MNIST/raw"),
            read=read_idx_folder,
            sources=_idx_sources(
                "https://ossci-datasets.s3.amazonaws.com/mnist/",
                "f68b3c2dcbeaaa9fbdd348bbdeb94873",
                "d53e105ee54ea40749a09fcbcd1e9432",
                "9fb629c4189551a2d022fa330f9573f3",
                "ec29112dd5afa0611ce80d1b7f02629c",
            ),
        ),
        StandardSet(
            name="fashion-mnist",
            first_labels=(9, 0, 0, 3, 0),
            classes=(
                *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
                *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
            ),
            folders=("fashion-mnist", "FashionMNIST/raw"),
            read=read_idx_folder,
            sources=_idx_sources(
                "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
                "25c81989df183df01b3e8a0aad5dffbe",
                "bef4ecab320f06d8554ea6380940ec79",
                "bb300cfdad3c16e7a12a480ee83cd310",
            ),
        ),
        StandardSet(
            name="cifar10",
            first_labels=(6, 9, 9, 4, 1),
            classes=(
                *("airplane", "automobile", "bird", "cat", "deer"),
                *("dog", "frog", "horse", "ship", "truck"),
            ),
            folders=("cifar10",),
            read=partial(read_cifar_folder, layout=CIFAR10),
            sources=_cifar_sources(CIFAR10),
        ),
        StandardSet(
            name="cifar100",
            first_labels=(19, 29, 0, 11, 1),
            classes=tuple(map(str, range(100))),
            folders=("cifar100",),
            read=partial(read_cifar_folder, layout=CIFAR100),
            sources=_cifar_sources(CIFAR100),
        ),
    )
}


def names() -> tuple[str, ...]:
    """Return the names of the built-in data sets, sorted."""
    return tuple(sorted(["cifar20", "digits", "repeated-mnist", *_STANDARD]))


def named_pool(name: str) -> Pool:
    """Return a data set by its name, with the official test split.

    ``repeated-mnist`` is MNIST here; :func:`fewlabels.data.load` repeats it.
    ``cifar20`` is CIFAR-100 with its twenty groups of classes as classes.
    """
    if name == "digits":
        return digits_pool()
    if name == "cifar20":
        return _grouped(named_pool("cifar100"))
    standard = _STANDARD.get("mnist" if name == "repeated-mnist" else name)
    if standard is None:
        raise UnknownNameError("data set", name, names())
    return standard_pool(standard, places())


def _grouped(pool: Pool) -> Pool:
    """Return CIFAR-100 with groups of classes as classes."""
    group_of, test = torch.tensor(_GROUP_OF), pool.test
    if test is not None:
        test = replace(test, labels=group_of[test.labels])
    labels = group_of[pool.labels]
    return replace(pool, labels=labels, classes=_GROUPS, test=test)


def places() -> list[Path]:
    """Return where data sets are looked for: ``$FEWLABELS_DATA``, then the cache."""
    given = os.environ.get("FEWLABELS_DATA")
    return [*([Path(given).expanduser()] if given else []), cache_folder()]


def cache_folder() -> Path:
    """Return where downloads are kept: ``$FEWLABELS_CACHE``, or the platform's way."""
    given = os.environ.get("FEWLABELS_CACHE")
    if given:
        return Path(given).expanduser()
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA", "~/AppData/Local")
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "fewlabels"


def standard_pool(standard: StandardSet, looked_in: Iterable[Path]) -> Pool:
    """Return a standard set from the first place that has it, or download it.

    It goes into the last place, which is the cache.
    """
    folders = list(looked_in)
    for folder in folders:
        pool = _found(standard, folder)
        if pool is not None:
            return pool
    goal = folders[-1] / standard.name
    for source in standard.sources:
        fetch(source, goal)
    arrays = standard.read(goal)
    if arrays is None:
        raise DataError(
            f"The files of {standard.name} in {goal} are not complete. Remove that "
            "folder and try again."
        )
    return _checked(standard, _pool_of(standard, arrays), goal)


def _found(standard: StandardSet, place: Path) -> Pool | None:
    """Return the set if a place holds it, as .npz or in its standard files."""
    npz = place / f"{standard.name}.npz"
    if npz.is_file():
        pool = npz_pool(npz, standard.name, standard.classes)
        return _checked(standard, pool, npz)
    for folder in (place / name for name in standard.folders):
        arrays = standard.read(folder)
        if arrays is not None:
            return _checked(standard, _pool_of(standard, arrays), folder)
    arrays = standard.read(place)
    if arrays is None or not _is_right(standard, arrays.y_train):
        return None  # MNIST and Fashion-MNIST have the same file names
    return _pool_of(standard, arrays)


def _pool_of(standard: StandardSet, arrays: SplitArrays) -> Pool:
    return array_pool(
        arrays.x_train,
        arrays.y_train,
        name=standard.name,
        classes=arrays.classes or standard.classes,
        test=(arrays.x_test, arrays.y_test),
    )


def _checked(standard: StandardSet, pool: Pool, where: Path) -> Pool:
    """Return the pool if its labels begin as they should."""
    if _is_right(standard, pool.labels):
        return pool
    first = pool.labels[: len(standard.first_labels)].tolist()
    raise DataError(
        f"{where} is not {standard.name}: its labels begin with "
        f"{' '.join(map(str, first))}, those of {standard.name} with "
        f"{' '.join(map(str, standard.first_labels))}. Put the right files there."
    )


def _is_right(standard: StandardSet, labels: Arrays) -> bool:
    first = labels[: len(standard.first_labels)]
    return tuple(first.tolist()) == standard.first_labels
