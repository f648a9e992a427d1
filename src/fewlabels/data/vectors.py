"""Vectors of a pool in a file of their own, one row for each item.

An array in an ``.npy`` file has rows without names. An ``.npz`` file holds an array of
rows and may hold another with their names. A Parquet table has a column of lists, or
one column for each number, and may have one with names. A folder of shards has rows
with names; they stay in a file.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from fewlabels.data.files import FileImages
from fewlabels.data.parquet import parquet_vectors
from fewlabels.data.shards import Shards
from fewlabels.data.untrusted import (
    ARRAY_BYTES,
    FILE_COLUMNS,
    natural_key,
    open_untrusted,
    read_npy,
    read_npz,
)
from fewlabels.errors import (
    DataError,
    ShapeError,
    UsageError,
    check_count,
    check_distinct,
    check_finite_rows,
)
from fewlabels.pool import ArrayImages, Pool, Rows, take_rows

KINDS = (".npy", ".npz", ".parquet")
"""Extensions of the files that are read."""

NAME_COLUMNS = (*FILE_COLUMNS, "name", "id")
"""Columns of a table that may hold the names; the first one that is present is."""

_USUAL = ("vectors", "rows", "features", "embeddings")
_ADVICE = (
    "Give one array 'vectors' (in a table: one column of lists of numbers, or one for "
    "each number) and at most one array or column of text with names."
)


@dataclass(frozen=True, eq=False)
class Vectors:
    """Finite rows in a file or a folder, with distinct names or none."""

    path: Path
    rows: Rows
    """float32, shape (N, F), at least one row and one number."""
    names: tuple[str, ...] | None
    """Name of each row; None: the file has none."""

    @classmethod
    def read(cls, path: Path) -> "Vectors":
        """Read and check a file; nothing in it is unpickled."""
        if path.is_dir():
            shards = Shards.open(path)
            vectors = cls(path, shards.embeddings(), tuple(shards.all_ids()))
        else:
            vectors = cls(path, *_read_file(path))
        names = vectors.names
        if names is not None:
            what, num_rows = f"names in '{path}'", len(vectors.rows)
            check_count(what, len(names), num_rows, "row", DataError)
            for number, name in enumerate(names, start=1):
                if not 0 < len(name) < 4096:
                    raise DataError(f"Row {number} of '{path}' has no usable name.")
            check_distinct(f"row of '{path}' called", [*map(_path, names)], DataError)
        return vectors

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
            self.check_one_row_per_item(len(wanted))
            order = sorted(range(len(wanted)), key=lambda i: natural_key(wanted[i]))
            return take_rows(self.rows, torch.tensor(order).argsort())
        paths = [_path(name) for name in self.names]
        whole = {path: place for place, path in enumerate(paths)}
        by_last = {path.rpartition("/")[2]: place for place, path in enumerate(paths)}
        counts = [
            Counter(p.rpartition("/")[2] for p in some) for some in (paths, wanted)
        ]
        places: list[int] = []
        for name in wanted:
            place, last = whole.get(name, -1), name.rpartition("/")[2]
            if place < 0 and all(count[last] == 1 for count in counts):
                short, long = sorted((paths[by_last[last]], name), key=len)
                place = by_last[last] if f"/{long}".endswith(f"/{short}") else -1
            places.append(place)
        if -1 in places:
            missing, first = places.count(-1), wanted[places.index(-1)]
            raise DataError(
                f"{missing} of {len(wanted)} items have no row in '{self.path}', such "
                f"as '{first}'; its {len(paths)} rows begin with '{self.names[0]}'."
            )
        return take_rows(self.rows, torch.tensor(places, dtype=torch.int64))

    def check_one_row_per_item(self, num_items: int) -> None:
        """Raise unless rows without names can be matched to items by their order."""
        if len(self.rows) != num_items:
            raise DataError(
                f"'{self.path}' holds {len(self.rows)} rows without names, and there "
                f"are {num_items} items; name the rows."
            )


def with_vectors(pool: Pool, path: Path) -> Pool:
    """Return a pool of the same items, which are seen as rows of a file.

    Items of an array have no names of their own: rows without names are then those of
    the pool and, behind them, of its test split.
    """
    vectors = Vectors.read(path)
    test = pool.test
    parts = [pool.images, *([test.images] if test else [])]
    files = [f for part in parts if isinstance(part, FileImages) for f in part.files]
    if len(files) == sum(map(len, parts)):
        rows = vectors.of([file.name for file in files])
    else:
        vectors.check_one_row_per_item(sum(map(len, parts)))
        rows = vectors.rows
    first, rest = torch.arange(len(rows)).tensor_split([len(pool)])
    test = test and replace(test, images=ArrayImages(take_rows(rows, rest)))
    return replace(pool, images=ArrayImages(take_rows(rows, first)), test=test)


def _path(name: str) -> str:
    """Return a name as items are named: with forward slashes, from their folder."""
    return PurePosixPath(name.replace("\\", "/")).as_posix()


def _read_file(path: Path) -> tuple[Rows, tuple[str, ...] | None]:
    """Return rows and names of a file."""
    kind, names = path.suffix.lower(), None
    if kind not in KINDS:
        raise UsageError(
            f"'{path}' is no folder and does not end in {', '.join(KINDS)}."
        )
    if not path.is_file():
        raise DataError(f"There is no file '{path}' with rows. Check the spelling.")
    if kind == ".npy":
        array = read_npy(path)
    elif kind == ".npz":
        arrays = read_npz(path)
        tables = [name for name, array in arrays.items() if array.ndim == 2]
        known = [name for name in _USUAL if name in tables] or tables
        texts = [n for n, a in arrays.items() if a.ndim == 1 and a.dtype.kind == "U"]
        if len(known) != 1 or len(texts) > 1:
            seen = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            raise DataError(f"'{path}' holds {seen or 'nothing'}. {_ADVICE}")
        array = arrays[known[0]]
        names = tuple(arrays[texts[0]].tolist()) if texts else None
    else:
        with open_untrusted(path, ARRAY_BYTES, _ADVICE) as file:
            array, names = parquet_vectors(file, NAME_COLUMNS)
    if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "iuf":
        seen = f"{array.dtype} of shape {array.shape}"
        raise ShapeError(f"'{path}' holds {seen}; save rows of numbers.")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(array, dtype=np.float32)
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    check_finite_rows(f"rows in '{path}', as float32,", bad, len(rows))
    return torch.from_numpy(rows), names
