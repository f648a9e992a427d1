"""Rows of features on disk: memory-mapped, resumable, never mixed up.

An array is three files. ``NAME.jsonl`` is its journal: a first line that says what the
rows are and how they are shaped, then one line per finished block of 256 rows with a
hash of its bytes. The rows stand in ``NAME.rows`` while they are made, and in
``NAME.npy`` when all are there. ``NAME`` ends with a hash of what the rows are.

Each block is flushed to the disk before its line, so a process can be killed anywhere:
the next one keeps the blocks whose bytes have the hash that the journal says, and goes
on from there. Nothing is pickled.

Shapes: N items, F features.
"""

import json
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from fewlabels import files
from fewlabels.data.named import cache_folder
from fewlabels.progress import track

BLOCK = 256
"""Items that are embedded, written and hashed together."""

Rows = NDArray[np.floating[Any]]
"""One row of features per item, shape (N, F)."""

_LONGEST_NAME = 60
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Subject:
    """What some rows are: whose, by which encoder, of which view."""

    facts: Mapping[str, str | int]
    """Everything that decides the numbers."""
    num_items: int
    """How many rows there are (N)."""
    dtype: str
    """``"float16"`` or ``"float32"``."""

    @property
    def num_blocks(self) -> int:
        """How many blocks the rows are made in."""
        return -(-self.num_items // BLOCK)

    @property
    def name(self) -> str:
        """Name of the files: some words for people, a hash for certainty."""
        text = json.dumps([dict(self.facts), self.num_items, self.dtype])
        words = re.sub(r"[^\w.]+", "-", f"{self.facts.get('encoder', 'rows')}")
        return f"{words[:_LONGEST_NAME]}-{_digest(text.encode())}"


BlockOf = Callable[[int], Rows]
"""Makes the rows of the block of a number."""


@dataclass(frozen=True)
class FeatureCache:
    """A folder of arrays of features, shared by all who embed the same images.

    Several processes may use it at a time: one makes an array, the others wait for it.
    To free the space, delete the folder, or some of its files.
    """

    folder: Path

    @classmethod
    def of_this_user(cls) -> "FeatureCache":
        """Return the cache in the folder ``features`` beside downloaded data sets."""
        return cls(cache_folder() / "features")

    def rows(self, subject: Subject, block_of: BlockOf) -> Rows:
        """Return an array that was made before, or make what is missing of it.

        Args:
            subject: What the rows are.
            block_of: Makes the rows of a block, for blocks that are not there.

        Returns:
            A read-only memory map, shape (N, F).
        """
        files.make_folder(self.folder)
        array = _Array(self.folder, subject)
        found = array.finished()
        if found is not None:
            return found
        with self._alone_with(subject):
            found = array.finished()  # perhaps another process has just made it
            return self._made(array, block_of) if found is None else found

    def holds(self, subject: Subject) -> bool:
        """Tell whether an array is there, whole and undamaged."""
        return _Array(self.folder, subject).finished() is not None

    def _made(self, array: "_Array", block_of: BlockOf) -> Rows:
        subject = array.subject
        done = array.resume()
        done_items = min(done * BLOCK, subject.num_items)
        with track("Embedding", subject.num_items, done=done_items) as advance:
            for number in range(done, subject.num_blocks):
                rows = block_of(number)
                array.append(rows)
                advance(len(rows))
        return array.finish()

    @contextmanager
    def _alone_with(self, subject: Subject) -> Iterator[None]:
        """Keep other processes from making the same array while the block runs."""
        lock = FileLock(self.folder / f"{subject.name}.lock")
        with files.explained(self.folder):
            lock.acquire()
        try:
            yield
        finally:
            lock.release()


@dataclass(frozen=True)
class _Array:
    """The files of one array."""

    folder: Path
    subject: Subject

    @property
    def _journal(self) -> Path:
        return self.folder / f"{self.subject.name}.jsonl"

    @property
    def _growing(self) -> Path:
        return self.folder / f"{self.subject.name}.rows"

    @property
    def _whole(self) -> Path:
        return self.folder / f"{self.subject.name}.npy"

    def finished(self) -> Rows | None:
        """Return the array if it is whole and undamaged, else None."""
        if not self._whole.exists():
            return None
        feature_size, digests = self._noted()
        if len(self._sound(self._whole, feature_size, digests)) < self._num_blocks:
            _log.warning("%s is damaged; what is lost is made again", self._whole)
            return None
        opened: Rows = np.load(self._whole, mmap_mode="r", allow_pickle=False)
        return opened

    def resume(self) -> int:
        """Keep what is sound of the files, drop the rest; return how many blocks."""
        if self._whole.exists():  # and damaged
            files.move(self._whole, self._growing)
        feature_size, digests = self._noted()
        sound = self._sound(self._growing, feature_size, digests)
        header = len(self._header(feature_size))
        end = min(len(sound) * BLOCK, self.subject.num_items)
        with files.explained(self._growing):
            if not sound:
                self._growing.unlink(missing_ok=True)
                self._journal.unlink(missing_ok=True)
                return 0
            os.truncate(self._growing, header + end * self._row_bytes(feature_size))
        lines = [self._first_line(feature_size), *map(json.dumps, sound)]
        files.replace_text(self._journal, "".join(f"{line}\n" for line in lines))
        return len(sound)

    def append(self, rows: Rows) -> None:
        """Write one more block: first the rows, then its line in the journal."""
        if not self._journal.exists():
            feature_size = rows.shape[1]
            self._growing.unlink(missing_ok=True)
            files.append(self._growing, self._header(feature_size))
            first = self._first_line(feature_size)
            files.replace_text(self._journal, f"{first}\n")
        content = np.ascontiguousarray(rows, dtype=self._little_endian).tobytes()
        files.append(self._growing, content)
        files.append(self._journal, f"{json.dumps(_digest(content))}\n".encode())

    def finish(self) -> Rows:
        """Give the array its final name and open it."""
        files.move(self._growing, self._whole)
        opened: Rows = np.load(self._whole, mmap_mode="r", allow_pickle=False)
        return opened

    def _noted(self) -> tuple[int, list[str]]:
        """Return the length of a row and the hashes of blocks in the journal.

        A line without an end was being written when the process died, and does not
        count; a journal of another subject, or none, counts as zero blocks.
        """
        try:
            text = self._journal.read_text(encoding="utf-8")
            first, *others = (line for line in text.split("\n")[:-1])
            feature_size = int(files.parsed(first)["shape"][1])
            digests = [str(files.parsed(line)) for line in others]
        except (OSError, ValueError, LookupError, TypeError, OverflowError):
            return 0, []
        if first != self._first_line(feature_size):
            return 0, []
        return feature_size, digests

    def _sound(self, path: Path, feature_size: int, digests: list[str]) -> list[str]:
        """Return the hashes of the blocks, from the first on, that ``path`` holds."""
        header = self._header(feature_size)
        block_bytes = BLOCK * self._row_bytes(feature_size)
        sound: list[str] = []
        try:
            with path.open("rb") as file:
                if file.read(len(header)) != header:
                    return []
                for digest in digests[: self._num_blocks]:
                    if _digest(file.read(block_bytes)) != digest:
                        break
                    sound.append(digest)
        except OSError:
            return []
        return sound

    @property
    def _num_blocks(self) -> int:
        return self.subject.num_blocks

    @property
    def _little_endian(self) -> np.dtype[Any]:
        return np.dtype(self.subject.dtype).newbyteorder("<")

    def _row_bytes(self, feature_size: int) -> int:
        return feature_size * self._little_endian.itemsize

    def _first_line(self, feature_size: int) -> str:
        shape = [self.subject.num_items, feature_size]
        facts = dict(self.subject.facts)
        return json.dumps({**facts, "shape": shape, "dtype": self.subject.dtype})

    def _header(self, feature_size: int) -> bytes:
        """Return the first bytes of an ``.npy`` file of this shape."""
        shape = (self.subject.num_items, feature_size)
        described = {
            "descr": np.lib.format.dtype_to_descr(self._little_endian),
            "fortran_order": False,
            "shape": shape,
        }
        header = BytesIO()
        np.lib.format.write_array_header_1_0(header, described)
        return header.getvalue()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()
