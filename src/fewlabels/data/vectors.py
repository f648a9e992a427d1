"""Rows of numbers that somebody brings in a file, one for each item.

An array in an ``.npy`` file has rows without names. An ``.npz`` file holds an array of
rows and may hold another with their names. A Parquet table has a column of lists, or
one column for each number, and may have one with names. A folder of shards has rows
with names, more than fit into memory; they stay in a file.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fewlabels.data.files import FileImages
from fewlabels.data.npz import read_npy, read_npz
from fewlabels.data.order import natural_key
from fewlabels.data.parquet import parquet_vectors
from fewlabels.data.shards import Shards
from fewlabels.errors import DataError, NotFiniteError, ShapeError, UsageError
from fewlabels.files import open_regular
from fewlabels.matrices import Rows, rows_at
from fewlabels.pool import ArrayImages, Images, Pool

KINDS = (".npy", ".npz", ".parquet")
"""Extensions of the files that are read."""

NAME_COLUMNS = ("file_name", "path", "filename", "name", "id")
"""Columns of a table that may hold the names; the first one that is present is."""

_MOST_BYTES = 2**40
_ROW_AXES = 2
_USUAL = ("vectors", "rows", "features", "embeddings")
_LONGEST_NAME = 4096


@dataclass(frozen=True, eq=False)
class Vectors:
    """Rows in a file or a folder, checked: finite, equally long, none named twice."""

    path: Path
    rows: Rows
    """float32, shape (N, F), at least one row and one number."""
    names: tuple[str, ...] | None
    """Name of each row; None: the file has none."""

    @classmethod
    def read(cls, path: Path) -> "Vectors":
        """Read and check a file; nothing in it is unpickled."""
        found = cls(path, *(_from_shards if path.is_dir() else _from_file)(path))
        found._check_names()
        return found

    def of(self, wanted: Sequence[str]) -> Rows:
        """Return the row of each item; those of a folder are not read yet.

        A row belongs to the item of its name, a path below the folder of the items. A
        path that is the end of the other is enough, where no other row and no other
        item has the same last part. Rows without names are one for each item, in the
        natural order of the items' names.

        Args:
            wanted: Names of all items: paths with forward slashes.

        Returns:
            Shape (n, F).
        """
        if self.names is None:
            self._check_number(len(wanted))
            order = sorted(range(len(wanted)), key=lambda one: natural_key(wanted[one]))
            return rows_at(self.rows, torch.tensor(order).argsort())
        places = torch.tensor(self._places(wanted), dtype=torch.int64)
        return rows_at(self.rows, places)

    def _places(self, wanted: Sequence[str]) -> list[int]:
        assert self.names is not None
        paths = [_path(name) for name in self.names]
        whole = {path: place for place, path in enumerate(paths)}
        short, asked = _unique(whole), _unique(dict.fromkeys(wanted, 0))
        places, missing = [], []
        for name in wanted:
            place, last = whole.get(name), PurePosixPath(name).name
            if place is None and last in asked:
                place = short.get(last)
                if place is not None and not _is_end(paths[place], name):
                    place = None
            places.append(-1 if place is None else place)
            missing += [name] if place is None else []
        if missing:
            raise DataError(
                f"{len(missing)} of {len(wanted)} items have no row in '{self.path}', "
                f"the first is '{missing[0]}'; the file holds {len(paths)} rows, the "
                f"first for '{self.names[0]}'. Add these rows, or correct the names."
            )
        return places

    def _check_number(self, num_items: int) -> None:
        if len(self.rows) != num_items:
            raise DataError(
                f"'{self.path}' holds {len(self.rows)} rows without names, and there "
                f"are {num_items} items; which row belongs to which cannot be told. "
                "Give one row for each, in the order of the items, or rows with names."
            )

    def _check_names(self) -> None:
        names = self.names
        if names is None:
            return
        if len(names) != len(self.rows):
            raise DataError(
                f"'{self.path}' holds {len(self.rows)} rows and {len(names)} names; "
                "give one name for each row."
            )
        wrong = [n for n, name in enumerate(names) if not 0 < len(name) < _LONGEST_NAME]
        if wrong:
            raise DataError(
                f"{len(wrong)} of {len(names)} rows in '{self.path}' have no usable "
                f"name, the first is row {wrong[0] + 1}. Give each a name."
            )
        paths = Counter(map(_path, names))
        first, count = paths.most_common(1)[0]
        if count > 1:
            raise DataError(
                f"'{self.path}' names {len(names)} rows, but only {len(paths)} differ: "
                f"'{first}' stands there {count} times, and which row it means cannot "
                "be told. Name each row once."
            )


def with_vectors(pool: Pool, path: Path) -> Pool:
    """Return a pool of the same items, which are seen as rows of a file.

    Items of an array have no names of their own: rows without names are then those of
    the pool and, behind them, of its test split.
    """
    found = Vectors.read(path)
    num_items, test = len(pool), pool.test
    parts: list[Images] = [pool.images, *([] if test is None else [test.images])]
    files = [
        file for part in parts if isinstance(part, FileImages) for file in part.files
    ]
    if len(files) == sum(map(len, parts)):
        rows = found.of([file.name for file in files])
    else:
        found._check_number(sum(map(len, parts)))
        rows = found.rows
    first, rest = torch.arange(len(rows)).tensor_split([num_items])
    if test is not None:
        test = replace(test, images=ArrayImages(rows_at(rows, rest)))
    return replace(pool, images=ArrayImages(rows_at(rows, first)), test=test)


def _path(name: str) -> str:
    """Return a name as items are named: with forward slashes, from their folder."""
    return PurePosixPath(name.replace("\\", "/")).as_posix()


def _is_end(one: str, other: str) -> bool:
    """Return whether one of two paths is the other, seen from a folder above."""
    short, long = sorted((one, other), key=len)
    return f"/{long}".endswith(f"/{short}")


def _unique(places: Mapping[str, int]) -> dict[str, int]:
    """Return the place of every last part of a path that only one of them has."""
    lasts = [PurePosixPath(path).name for path in places]
    count = Counter(lasts)
    pairs = zip(lasts, places.values(), strict=True)
    return {last: place for last, place in pairs if count[last] == 1}


def _from_shards(path: Path) -> tuple[Rows, tuple[str, ...]]:
    shards = Shards.open(path)
    return shards.embeddings(), tuple(shards.all_ids())


def _from_file(path: Path) -> tuple[Rows, tuple[str, ...] | None]:
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise UsageError(
            f"Rows are read from files that end in {', '.join(KINDS)} or from a folder "
            f"of shards, and '{path}' is neither. Save them as one of these."
        )
    if not path.is_file():
        raise DataError(f"There is no file '{path}' with rows. Check the spelling.")
    array, names = _READERS[kind](path)
    return torch.from_numpy(_rows(array, names, path)), names


def _rows(
    array: NDArray[Any], names: tuple[str, ...] | None, path: Path
) -> NDArray[np.float32]:
    """Return an array as rows, or say what is wrong with it."""
    if array.ndim != _ROW_AXES or 0 in array.shape:
        raise ShapeError(
            f"The numbers in '{path}' have the shape {array.shape}; rows have the "
            "shape (items, numbers of each), with at least one of both."
        )
    if array.dtype.kind not in "iuf":
        raise DataError(
            f"The rows in '{path}' have the type {array.dtype}; they must be numbers."
        )
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if len(bad):
        named = f", '{names[bad[0]]}'" if names and bad[0] < len(names) else ""
        raise NotFiniteError(
            f"{len(bad)} of {len(rows)} rows in '{path}' hold NaN, infinity or numbers "
            f"beyond float32, the first is row {bad[0] + 1}{named}; no distance to "
            "them means anything. Replace them or leave these rows out."
        )
    return rows


def _from_npz(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    arrays = read_npz(path)
    tables = {n: a for n, a in arrays.items() if a.ndim == _ROW_AXES}
    known = [name for name in _USUAL if name in tables]
    texts = [n for n, a in arrays.items() if a.ndim == 1 and a.dtype.kind == "U"]
    if len(texts) > 1 or (len(tables) != 1 and len(known) != 1):
        shapes = (f"{name} {array.shape}" for name, array in arrays.items())
        raise DataError(
            f"'{path}' holds the arrays {', '.join(shapes) or 'none'}; which are the "
            "rows and which their names cannot be told. Save one array of rows, such "
            f"as '{_USUAL[0]}', and at most one of text with a name for each."
        )
    table = tables[known[0]] if len(known) == 1 else next(iter(tables.values()))
    return table, tuple(arrays[texts[0]].tolist()) if texts else None


def _from_npy(path: Path) -> tuple[NDArray[Any], None]:
    return read_npy(path), None


def _from_parquet(path: Path) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    try:
        with open_regular(path, _MOST_BYTES) as file:
            return parquet_vectors(file, NAME_COLUMNS)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise DataError(
            f"Rows cannot be read from the table '{path}': {said}. Give it a column of "
            f"lists of numbers, or one column for each number, and '{NAME_COLUMNS[0]}'."
        ) from error


_READERS = {".npy": _from_npy, ".npz": _from_npz, ".parquet": _from_parquet}
