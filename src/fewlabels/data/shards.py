"""Rows of a pool in a folder of Parquet files, more of them than fit into memory.

Each file, a *shard*, holds the columns ``id`` (text) and ``embedding`` (lists of
numbers, all equally long), and may hold ``logits`` (lists) and ``label`` (class
numbers, missing where an item has none). Files are in the order of their names.

A Parquet file is read from its beginning, but most strategies ask for single rows. So
embeddings are copied once into a memory map, next to the shards or, if that folder
cannot be written to, in the cache folder; they are copied again if a shard changes.

Shapes: N items, n items asked about, F numbers per embedding, C classes.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels import files
from fewlabels.data.parquet import arrow, list_column, plain_column, shape_of
from fewlabels.data.untrusted import ARRAY_BYTES, open_untrusted
from fewlabels.errors import DataError, StorageError, check_finite_rows
from fewlabels.pool import MappedRows
from fewlabels.progress import track


@dataclass(frozen=True)
class Shards:
    """A folder of shards: what is in it, read as it is asked for."""

    folder: Path
    files: tuple[Path, ...]
    columns: tuple[str, ...]
    """Columns that all shards have, of those that are known."""
    num_items: int

    @classmethod
    def open(cls, folder: Path) -> "Shards":
        """Open the shards of a folder; no row is read yet."""
        paths = sorted(folder.glob("*.parquet"))
        shards = tuple(p for p in paths if not p.name.startswith((".", "_")))
        if not shards:
            raise DataError(f"The folder '{folder}' holds no .parquet files.")
        columns, num_items = ["id", "embedding", "logits", "label"], 0
        for path in shards:
            with open_untrusted(path, ARRAY_BYTES) as file:
                count, names = shape_of(file)
            lacking = {"id", "embedding"} - set(names)
            if lacking:
                raise DataError(
                    f"'{path}' has the columns {', '.join(names) or 'none'}; "
                    f"{' and '.join(sorted(lacking))} is missing."
                )
            columns = [name for name in columns if name in names]
            num_items += count
        return cls(folder, shards, tuple(columns), num_items)

    def __len__(self) -> int:
        """Return the number of items."""
        return self.num_items

    @cached_property
    def map_file(self) -> Path:
        """Where the memory map of the embeddings is, or will be."""
        stats = [(path.name, path.stat()) for path in self.files]
        facts = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
        digest = files.digest_of(repr(facts).encode())
        beside = self.folder / ".fewlabels" / f"{digest}.npy"
        if beside.exists() or os.access(self.folder, os.W_OK):
            return beside.absolute()
        place = files.digest_of(str(self.folder.absolute()).encode())
        return files.cache_folder() / "shards" / place / f"{digest}.npy"

    def embeddings(self) -> MappedRows:
        """Return the rows of all items, float32, shape (N, F); copied once."""
        path = self.map_file
        if not path.exists():
            files.make_folder(path.parent)
            in_use = StorageError(
                f"Another process has been copying the shards of '{self.folder}' for "
                "an hour. Wait for it, or end it."
            )
            with files.hold_lock(path.parent / "lock", in_use, timeout=3600):
                if not path.exists():
                    self._copy(path)
        return MappedRows(np.load(path, mmap_mode="r"))

    def _copy(self, path: Path) -> None:
        """Write all embeddings into one file, shard by shard.

        Not through a memory map: where the disk is full, that ends the process.
        """
        width, done = 0, 0
        with (
            files.replace_file(path) as partial,
            partial.open("wb") as target,
            track("Reading shards", len(self)) as advance,
        ):
            for file, part in self._parts("embedding", list_column):
                if not done:
                    width = part.shape[1]
                    header = {"shape": (len(self), width), "fortran_order": False}
                    header["descr"] = part.dtype.str
                    np.lib.format.write_array_header_1_0(target, header)
                if part.shape[1] != width:
                    raise DataError(
                        f"Embeddings have {width} numbers in '{self.files[0].name}', "
                        f"and {part.shape[1]} in '{file.name}'; use one encoder."
                    )
                lost = done + np.flatnonzero(~np.isfinite(part).all(axis=1))
                check_finite_rows(f"embeddings in '{file}'", lost, len(part))
                target.write(part.data)
                done += len(part)
                advance(len(part))
            if not done:
                raise DataError(f"The shards of '{self.folder}' hold no items.")
        for old in path.parent.glob("*.npy"):
            if old != path:
                old.unlink(missing_ok=True)

    def logits(self) -> NDArray[np.float32] | None:
        """Return the logits of all items, shape (N, C), in memory; None: not given."""
        if "logits" not in self.columns:
            return None
        parts = [part for _, part in self._parts("logits", list_column)]
        widths = sorted({part.shape[1] for part in parts})
        if len(widths) > 1:
            raise DataError(f"The logits in '{self.folder}' have {widths} numbers.")
        return np.concatenate(parts)

    def labels(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which items have a label in the shards, and their class numbers."""
        if "label" not in self.columns:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        places, classes, start = [], [], 0
        for file, column in self._parts("label", plain_column):
            if not arrow().types.is_integer(column.type):
                raise DataError(f"'label' in '{file}' is {column.type}; give integers.")
            is_known = np.asarray(column.is_valid())
            places.append(start + np.flatnonzero(is_known))
            classes.append(column.drop_null().to_numpy().astype(np.int64))
            start += len(column)
        return np.concatenate(places), np.concatenate(classes)

    def ids(self, items: NDArray[np.int64]) -> list[str]:
        """Return the ids of some items, in their order."""
        ids, start = np.empty(len(items), dtype=object), 0
        for _, part in self._parts("id", plain_column):
            here = (items >= start) & (items < start + len(part))
            ids[here] = part.take(items[here] - start).to_pylist()
            start += len(part)
        return [str(name) for name in ids]

    def all_ids(self) -> Iterator[str]:
        """Yield the ids of all items, in their order."""
        for _, part in self._parts("id", plain_column):
            yield from map(str, part.to_pylist())

    def positions(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the places of the items with some ids; each must be there once."""
        number_of = {name: number for number, name in enumerate(ids)}
        places, counts = np.zeros((2, len(ids)), dtype=np.int64)
        for place, name in enumerate(self.all_ids()):
            if name in number_of:
                places[number_of[name]] = place
                counts[number_of[name]] += 1
        wrong = np.flatnonzero(counts != 1)
        if len(wrong):
            first = int(wrong[0])
            raise DataError(
                f"{len(wrong)} of {len(ids)} ids do not name one item in "
                f"'{self.folder}': '{ids[first]}' is there {counts[first]} times."
            )
        return places

    def _parts(
        self, column: str, read: Callable[[IO[bytes], str], Iterator[Any]]
    ) -> Iterator[tuple[Path, Any]]:
        """Yield a column of all files, a part at a time."""
        for path in self.files:
            with open_untrusted(path, ARRAY_BYTES) as file:
                for part in read(file, column):
                    yield path, part
