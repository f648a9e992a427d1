"""From a list of files, with or without labels, to a pool and its test split."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from fewlabels.data.decode import ImageFile
from fewlabels.data.files import FileImages, check_files, common_shape
from fewlabels.data.order import MEASURED, TRAIN, natural_key
from fewlabels.data.unreadable import warn_of
from fewlabels.errors import DataError, LabelError, UnreadableFile
from fewlabels.pool import UNKNOWN, Pool, Split

_HASH_RANGE = 16**16


@dataclass(frozen=True)
class Listed:
    """A file that somebody listed."""

    name: str
    """Path below the folder, with forward slashes."""
    path: Path
    label: str | None = None
    split: str | None = None
    """One of ``TRAIN`` and ``MEASURED``; None where nothing is said."""


def file_pool(
    folder: Path,
    listed: Sequence[Listed],
    *,
    size: int | None,
    test_share: float,
    left_out: Sequence[UnreadableFile] = (),
) -> Pool:
    """Return a pool of the listed files that are usable.

    Those in ``left_out`` were refused before, and are named in the same warning.
    """
    files, unreadable = check_files((one.name, one.path) for one in listed)
    unreadable = sorted([*left_out, *unreadable])
    if not files:
        raise DataError(_nothing_usable(folder, unreadable))
    warn_of(folder, unreadable)
    wanted = {one.name: one for one in listed}
    entries = [wanted[file.name] for file in files]
    classes = _classes(listed)
    shape = common_shape(files, size)
    tested = _tested(files, entries, test_share)
    numbers = _numbers(entries, classes)
    kept = [index for index, is_test in enumerate(tested) if not is_test]
    measured = [index for index, is_test in enumerate(tested) if is_test]
    if not kept:
        raise DataError(_nothing_left(folder, files, entries))
    test = None
    if measured:
        chosen = _chosen(files, measured)
        ids = tuple(file.item_id for file in chosen)
        test = Split(FileImages(chosen, shape), numbers[measured], ids)
    return Pool.build(
        FileImages(_chosen(files, kept), shape),
        numbers[kept],
        classes,
        ids=[files[index].item_id for index in kept],
        test=test,
    )


def is_held_out(digest: str, test_share: float) -> bool:
    """Return by its content alone whether an item is measured on.

    No other item has a say, so that adding or removing one moves no other between the
    splits, and equal images are always on the same side.
    """
    return int(digest, 16) < test_share * _HASH_RANGE


def _tested(
    files: Sequence[ImageFile], entries: Sequence[Listed], test_share: float
) -> list[bool]:
    """Say for each item whether it is measured on."""
    if all(entry.label is None for entry in entries):
        return [False] * len(entries)
    present = {entry.split for entry in entries}
    measured = next((name for name in MEASURED if name in present), None)
    if measured is None:
        return [
            entry.label is not None and is_held_out(file.digest, test_share)
            for file, entry in zip(files, entries, strict=True)
        ]
    bare = [e.name for e in entries if e.split == measured and e.label is None]
    if bare:
        raise LabelError(
            f"{len(bare)} images of the split '{measured}' have no label, the first is "
            f"{bare[0]}; accuracy cannot be measured on them. Give them a label or "
            "take them out of this split."
        )
    return [entry.split == measured for entry in entries]


def _classes(listed: Sequence[Listed]) -> tuple[str, ...]:
    """Return all classes, also those whose files are all unreadable."""
    names = {one.label for one in listed if one.label is not None}
    return tuple(sorted(names, key=natural_key))


def _numbers(entries: Sequence[Listed], classes: Sequence[str]) -> Tensor:
    number_of: dict[str | None, int] = {name: i for i, name in enumerate(classes)}
    numbers = [number_of.get(entry.label, UNKNOWN) for entry in entries]
    return torch.tensor(numbers, dtype=torch.int64)


def _chosen(files: Sequence[ImageFile], indices: list[int]) -> tuple[ImageFile, ...]:
    return tuple(files[index] for index in indices)


def _nothing_usable(folder: Path, unreadable: Sequence[UnreadableFile]) -> str:
    if not unreadable:
        return (
            f"There is no image in {folder}: no file there has the name of an image, "
            "such as .png or .jpg. Give the folder that holds the images."
        )
    return (
        f"None of the {len(unreadable)} images in {folder} can be used; the first is "
        f"{unreadable[0]}. Replace the files or give another folder."
    )


def _nothing_left(
    folder: Path, files: Sequence[ImageFile], entries: Sequence[Listed]
) -> str:
    measured = (
        f"All {len(files)} images in {folder} belong to the test split, so there is "
        "nothing to label"
    )
    split = entries[0].split
    if split in MEASURED:
        return f"{measured}: all are in '{split}'. Put some of them into '{TRAIN}'."
    num_distinct = len({file.digest for file in files})
    return (
        f"{measured}. Where no split is given the content decides, so that identical "
        f"images stay on one side; distinct images here: {num_distinct}. Say which to "
        f"measure on, with the folders '{TRAIN}' and '{MEASURED[0]}' or a column split "
        "in a manifest; or measure on none, with test_share=0 in Python or "
        "'data: {name: FOLDER, test_share: 0}' in a settings file."
    )
