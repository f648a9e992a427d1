"""Rows of features on disk: by item, memory-mapped, resumable, never mixed up.

Rows that were computed in the same way are in one *shard* of three files.
``NAME.json`` says how: encoder, view, shape of the images. ``NAME.rows`` holds the
rows, one after the other. ``NAME.index`` has an entry of 24 bytes for each: a hash of
the item's content, and a checksum of the row. Position, name and pool of an item have
no effect.

One process at a time adds to a shard, the others wait, and readers never wait: files
grow, and what another process may have opened is never changed. Rows are flushed
to the disk before their entries, and a row counts if its entry is whole and its
checksum fits. So a process can be killed anywhere, and the next one goes on from there,
after cutting off what has no entry yet. Where more is wrong, new files take the place
of the old ones, which stay valid for processes that have opened them. There are no
pickles.

Unused rows can be listed and removed. Files are known by a whole description
that gives their own name; whatever else is in the folder is left.

Shapes: N items, M rows of a shard, F features.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewlabels import files
from fewlabels.errors import StorageError
from fewlabels.files import add_checksum, cache_folder, verify_checksum
from fewlabels.progress import track

BLOCK = 256
"""Items that are embedded and written together."""

Array = NDArray[np.floating[Any]]
"""Rows in memory, or mapped, shape (N, F)."""
Items = NDArray[np.int64]
"""Positions of items."""
Contents = NDArray[np.bytes_]
"""A hash of what each item holds, 16 bytes each, shape (N,)."""
Facts = Mapping[str, str]
"""Everything but the item that decides a row: ``encoder``, ``view``, ``dtype``, ..."""

CONTENT = np.dtype("S16")
ENTRY = np.dtype([("content", CONTENT), ("checksum", "S8")])
"""What the index holds of a row."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class StoredRows:
    """Rows of some items, in the order asked for, read from a shard."""

    stored: Array
    """All rows of the shard, a read-only memory map, shape (M, F)."""
    places: Items
    """Where the row of each item is, shape (N,)."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of items and of features: (N, F)."""
        return len(self.places), self.stored.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """``float16`` or ``float32``."""
        return self.stored.dtype

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.places)

    def __getitem__(self, items: Items, /) -> Array:
        """Return the rows of some items in memory, shape (n, F)."""
        return np.asarray(self.stored[self.places[items]])

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> Array:
        """Return all rows in memory."""
        del copy  # always one
        return np.asarray(self[np.arange(len(self))], dtype=dtype)


FeatureRows = Array | StoredRows
"""One row per item, in memory or on the disk; ``numpy.asarray`` gives all of them."""
RowsOf = Callable[[Items], Array]
"""Makes the rows of some items."""


@dataclass(frozen=True)
class FeatureCache:
    """A folder of rows, shared by all who embed the same images.

    Several processes may use it at a time: one embeds an item, the others wait for it.
    ``fewlabels cache`` says what it holds and frees space.
    """

    folder: Path

    @classmethod
    def of_this_user(cls) -> "FeatureCache":
        """Return the cache in the folder ``features`` beside downloaded data sets."""
        return cls(cache_folder() / "features")

    def rows(self, facts: Facts, contents: Contents, rows_of: RowsOf) -> StoredRows:
        """Return the rows of items, after computing those that are missing.

        Args:
            facts: How the rows are computed.
            contents: What the items hold.
            rows_of: Computes rows; called for no content twice, in the order given.

        Returns:
            One row per item, shape (N, F), read from the disk when asked for.
        """
        files.make_folder(self.folder)
        shard = Shard(self.folder, facts)
        rows = shard.find(contents)
        if (rows.places < 0).any():
            in_use = _in_use(facts["encoder"])
            with files.hold_lock(shard.file("lock"), in_use, timeout=-1):
                shard.add_missing(contents, rows_of)
                rows = shard.find(contents)
            if (rows.places < 0).any():
                raise StorageError(
                    f"Rows just written to '{shard.file('rows')}' cannot be read back."
                )
        with suppress(OSError):  # a folder that is only read need not know of the use
            os.utime(shard.file("json"))
        return rows

    def num_missing(self, facts: Facts, contents: Contents) -> int:
        """Return how many rows :meth:`rows` would compute."""
        places = Shard(self.folder, facts).find(contents).places
        return len(np.unique(contents[places < 0]))

    def entries(self) -> "list[CacheEntry]":
        """Return what the cache holds, the last used first."""
        entries = []
        for path in self.folder.glob("*.json"):
            facts = _read_description(path)
            facts.pop("features", None)
            is_ours = isinstance(facts.get("encoder"), str)
            if not is_ours or Shard(self.folder, facts).file("json") != path:
                continue
            index = path.with_suffix(".index")
            paths = [p for p in (index, path.with_suffix(".rows"), path) if p.is_file()]
            num_rows = index.stat().st_size // ENTRY.itemsize if index in paths else 0
            entries.append(
                CacheEntry(
                    encoder=facts["encoder"],
                    view=facts.get("view", ""),
                    images=facts.get("images", ""),
                    num_rows=num_rows,
                    num_bytes=sum(file.stat().st_size for file in paths),
                    last_used=datetime.fromtimestamp(path.stat().st_mtime, UTC),
                    files=tuple(paths),
                )
            )
        return sorted(entries, key=lambda entry: entry.last_used, reverse=True)


@dataclass(frozen=True)
class Shard:
    """The files of rows that were computed in the same way."""

    folder: Path
    facts: Facts

    def file(self, ending: str) -> Path:
        """Return one of the files: some words for people, a hash for certainty."""
        words = re.sub(r"[^\w.]+", "-", self.facts["encoder"])[:60]
        return self.folder / f"{words}-{self._digest.hex()}.{ending}"

    def find(self, contents: Contents) -> StoredRows:
        """Return the rows of items; the place is -1 where there is none, or damage."""
        entries, stored = self._read()
        places = np.full(len(contents), -1, dtype=np.int64)
        if not len(entries):
            return StoredRows(stored, places)
        known = entries["content"]
        order = np.argsort(known, kind="stable")  # of equal ones, the last counts
        after = np.searchsorted(known, contents, side="right", sorter=order)
        candidates = order[np.maximum(after, 1) - 1]
        is_known = known[candidates] == contents
        places[is_known] = candidates[is_known]
        wanted = np.unique(places[is_known])
        rows = np.asarray(stored)
        sums = self._checksums(known[wanted], (rows[place] for place in wanted))
        damaged = wanted[entries["checksum"][wanted] != sums]
        if len(damaged):
            file = self.file("rows")
            _log.warning("%s: %d damaged rows are computed again", file, len(damaged))
            places[np.isin(places, damaged)] = -1
        return StoredRows(stored, places)

    def add_missing(self, contents: Contents, rows_of: RowsOf) -> None:
        """Compute and add the rows that are missing: blocks of rows, then entries."""
        self._cut_torn_ends()
        places = self.find(contents).places  # some may have come since the last look
        _, first = np.unique(contents, return_index=True)
        missing = np.sort(first[places[first] < 0])
        done = len(contents) - len(missing)
        with track("Embedding", len(contents), done=done) as advance:
            for start in range(0, len(missing), BLOCK):
                items = missing[start : start + BLOCK]
                rows = rows_of(items)
                if self._feature_size() != rows.shape[1]:
                    self._remove()
                    facts = {**self.facts, "features": rows.shape[1]}
                    text = add_checksum(json.dumps(facts, indent=2))
                    files.replace_text(self.file("json"), f"{text}\n")
                plain = np.ascontiguousarray(rows, dtype=self._dtype)
                entries = np.empty(len(plain), dtype=ENTRY)
                entries["content"] = contents[items]
                entries["checksum"] = self._checksums(contents[items], plain)
                files.append(self.file("rows"), plain.tobytes())
                files.append(self.file("index"), entries.tobytes())
                advance(len(items))

    def _cut_torn_ends(self) -> None:
        """Cut off what a killed process left behind the last whole row and entry.

        It left the rows of a block at most. Where more has no entry, or the description
        is damaged, others may read what would be cut off, and all is begun anew.
        """
        row_bytes = self._feature_size() * self._dtype.itemsize
        units = {self.file("index"): ENTRY.itemsize, self.file("rows"): row_bytes or 1}
        with _explain_unreadable(self.file("rows")):
            sizes = {p: p.stat().st_size if p.exists() else 0 for p in units}
        num_entries, num_rows = (sizes[path] // unit for path, unit in units.items())
        if not row_bytes or not num_entries or num_rows > num_entries + BLOCK:
            self._remove()
            return
        for path, unit in units.items():
            whole = min(num_entries, num_rows) * unit
            if sizes[path] > whole:
                with files.wrap_os_errors(path):
                    os.truncate(path, whole)

    def _remove(self) -> None:
        """Remove the rows; other processes keep those that they have opened."""
        for ending in ("index", "rows", "json"):
            with files.wrap_os_errors(self.file(ending)):
                self.file(ending).unlink(missing_ok=True)

    def _read(self) -> tuple[NDArray[Any], Array]:
        """Return all whole entries, and their rows as a memory map."""
        width, path = self._feature_size(), self.file("rows")
        # There may be no files yet, or none any more.
        with _explain_unreadable(path), suppress(FileNotFoundError):
            index = self.file("index").read_bytes() if width else b""
            with path.open("rb") as file:
                row_bytes = width * self._dtype.itemsize or 1
                num_rows = os.fstat(file.fileno()).st_size // row_bytes
                shape = min(len(index) // ENTRY.itemsize, num_rows), width
                if shape[0]:
                    stored = np.memmap(file, self._dtype, "r", shape=shape)
                    return np.frombuffer(index, dtype=ENTRY, count=shape[0]), stored
        return np.empty(0, dtype=ENTRY), np.empty((0, 0), dtype=self._dtype)

    def _feature_size(self) -> int:
        """Return the length of a row (F); 0 where there is no shard, or a damaged one.

        Whoever adds rows to a damaged one begins it anew.
        """
        facts = _read_description(self.file("json"))
        size = facts.pop("features", 0)
        is_size = isinstance(size, int) and 0 < size < 2**31
        return int(size) if facts == self.facts and is_size else 0

    def _checksums(self, contents: Contents, rows: Any) -> NDArray[np.bytes_]:
        """Return a checksum of each row, its item and how it was computed."""
        options: Any = {"digest_size": 8, "salt": self._digest}
        sums = [
            blake2b(row.tobytes(), key=content, **options).digest()
            for content, row in zip(contents.tolist(), rows, strict=True)
        ]
        return np.array(sums, dtype=ENTRY["checksum"])

    @cached_property
    def _digest(self) -> bytes:
        return blake2b(json.dumps(self.facts).encode(), digest_size=16).digest()

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(self.facts["dtype"]).newbyteorder("<")


@dataclass(frozen=True)
class CacheEntry:
    """Rows that were computed in the same way: by one encoder, of one view."""

    encoder: str
    """Name of the encoder, which identifies its weights."""
    view: str
    """Which view of the images."""
    images: str
    """Shape of the images, such as ``"3x96x96"``."""
    num_rows: int
    num_bytes: int
    last_used: datetime
    """When the rows were last read."""
    files: tuple[Path, ...]
    """In the order in which they are removed."""


def select_unused(
    entries: Sequence[CacheEntry],
    *,
    encoder: str = "",
    unused: timedelta = timedelta(0),
    max_bytes: int = 0,
) -> list[CacheEntry]:
    """Return the entries to remove, the least recently used first.

    Args:
        entries: What there is.
        encoder: Words in the names of encoders; rows of others stay.
        unused: What was asked for within this time stays.
        max_bytes: As soon as no more than that is left, the rest stays.

    Returns:
        A part of ``entries``.
    """
    before = datetime.now(UTC) - unused
    excess = sum(entry.num_bytes for entry in entries) - max_bytes
    selected = []
    for entry in sorted(entries, key=lambda entry: entry.last_used):
        if excess > 0 and encoder in entry.encoder and entry.last_used <= before:
            selected.append(entry)
            excess -= entry.num_bytes
    return selected


def remove(entries: Iterable[CacheEntry]) -> None:
    """Remove rows; processes that have opened them can read on.

    Rows that another process is adding to stay; after the others are removed, a
    :class:`~fewlabels.errors.StorageError` names them.
    """
    failures: dict[str, None] = {}
    for entry in entries:
        lock, in_use = entry.files[0].with_suffix(".lock"), _in_use(entry.encoder)
        try:
            with files.hold_lock(lock, in_use), files.wrap_os_errors(lock.parent):
                for path in entry.files:
                    path.unlink(missing_ok=True)
        except StorageError as error:
            failures[str(error)] = None
    if failures:
        raise StorageError(" ".join(failures))


def _in_use(encoder: str) -> StorageError:
    return StorageError(
        f"Another process is embedding images with '{encoder}', so its rows were left. "
        "Try again when it has finished."
    )


def _read_description(path: Path) -> dict[str, Any]:
    """Return the content of ``NAME.json``; empty where it is damaged or missing."""
    try:
        with _explain_unreadable(path):
            facts = files.parse_json(verify_checksum(path.read_bytes()))
    except (FileNotFoundError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


@contextmanager
def _explain_unreadable(path: Path) -> Iterator[None]:
    """Raise a StorageError where a file that exists cannot be read.

    That is no reason to replace it.
    """
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"'{path}' cannot be read: {error.strerror}.") from error
