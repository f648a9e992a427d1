"""Rows that somebody brings, as what a project learns from and, alone, as its items."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fewlabels.data.decode import digest_of
from fewlabels.data.vectors import Vectors
from fewlabels.errors import DataError
from fewlabels.pool import ArrayImages
from fewlabels.projects.image_index import Index, IndexedFile

OVER_ROWS = "linear"
"""The trainer of rows, unless another is chosen: it minds no units of columns."""

_SETTLED = 0  # rows have no time of change of their own


def rows_in(path: Path) -> Vectors:
    """Return the rows of a file; it is read again only after it was changed."""
    parts = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    try:
        states = [part.stat() for part in parts]
    except OSError as error:
        raise DataError(
            f"The rows are not in '{path}' ({error.strerror}). Put the file back or, "
            "if it is elsewhere now, write that place as 'vectors' into project.json. "
            "The labels are safe."
        ) from error
    facts = zip(parts, states, strict=True)
    return _read(path, tuple((one, s.st_size, s.st_mtime_ns) for one, s in facts))


@lru_cache(maxsize=1)
def _read(path: Path, facts: tuple[tuple[Path, int, int], ...]) -> Vectors:
    del facts
    return Vectors.read(path)


def scan_rows(
    vectors: Vectors, known: Mapping[str, IndexedFile] | None = None
) -> Index:
    """Return an index of rows as items: a label belongs to the name of a row.

    So it stays when the numbers of a row change. Rows without names go by what they
    hold, as images do, since another one may stand in their place next time.
    """
    before, num_new, files = known or {}, 0, []
    rows, num_bytes = vectors.rows, vectors.rows.shape[1] * vectors.rows.dtype.itemsize
    for place, name in enumerate(row_names(vectors)):
        has_name = vectors.names is not None
        content = (
            name.encode() if has_name else rows[place : place + 1].numpy().tobytes()
        )
        found = IndexedFile(name, num_bytes, _SETTLED, digest_of(content), b"")
        is_known = before.get(name) == found
        files.append(before[name] if is_known else found)
        num_new += not is_known
    return Index(tuple(files), (), num_read=num_new, num_listed=len(files))


def row_images(
    vectors: Vectors, paths: Sequence[str], *, are_items: bool
) -> ArrayImages:
    """Return the rows of items, which are rows themselves or images."""
    if are_items:
        vectors = replace(vectors, names=row_names(vectors))
    return ArrayImages(vectors.of(paths))


def row_names(vectors: Vectors) -> tuple[str, ...]:
    """Return the names of rows; of those without, their numbers from one."""
    if vectors.names is not None:
        return vectors.names
    width = len(str(len(vectors.rows)))
    return tuple(f"row-{n:0{width}}" for n in range(1, len(vectors.rows) + 1))
