"""Rows of numbers that a project learns from, and that may be its items."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError
from fewlabels.files import digest_of
from fewlabels.projects.image_index import Index
from fewlabels.projects.store import ListedFile

OVER_ROWS = "linear"
"""The default trainer of rows, which does not depend on the units of columns."""


def rows_in(path: Path) -> Vectors:
    """Return the rows of a file; it is read again only after it was changed."""
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    try:
        states = [part.stat() for part in parts]
    except OSError as error:
        raise DataError(
            f"The rows are not in '{path}' ({error.strerror}); the labels are safe."
        ) from error
    sizes = tuple((state.st_size, state.st_mtime_ns) for state in states)
    return _read(path, (*parts, *sizes))


@lru_cache(maxsize=1)
def _read(path: Path, _: tuple[object, ...]) -> Vectors:
    return Vectors.read(path)


def scan_rows(vectors: Vectors, known: Mapping[str, ListedFile] | None = None) -> Index:
    """Return an index of rows as items: a label belongs to the name of a row.

    It stays when the numbers of a row change. Rows without names are known by their
    content, as images are, since another one may have their number next time.
    """
    before, num_new, files = known or {}, 0, []
    rows, num_bytes = vectors.rows, vectors.rows.shape[1] * vectors.rows.dtype.itemsize
    for number, name in enumerate(row_names(vectors)):
        content = name.encode()
        if vectors.names is None:
            content = rows[number : number + 1].numpy().tobytes()
        digest = digest_of(content)
        file = before.get(name)
        if file is None or (file.digest, file.size) != (digest, num_bytes):
            file = ListedFile(path=name, digest=digest, size=num_bytes, mtime_ns=0)
            num_new += 1
        files.append(file)
    return Index(tuple(files), (), num_read=num_new, num_listed=len(files))


def row_names(vectors: Vectors) -> tuple[str, ...]:
    """Return the names of rows; of those without, their numbers from one."""
    if vectors.names is not None:
        return vectors.names
    width = len(str(len(vectors.rows)))
    return tuple(f"row-{n:0{width}}" for n in range(1, len(vectors.rows) + 1))
