"""Images in a Parquet table, as many data sets are published.

The images are in a column of bytes, or in one of structs with the fields ``bytes`` and
``path``, as those of Hugging Face are.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from fewlabels.data.manifest import NAME_COLUMNS
from fewlabels.errors import DataError
from fewlabels.files import open_regular

ID_COLUMNS = ("id", "__key__", *NAME_COLUMNS)
"""Columns that may name an image; the first one that is present does."""

_USUAL = ("image", "bytes", "content", "jpg", "jpeg", "png", "webp")
_BYTES = "bytes"
_AT_ONCE = 16  # images can be large
_MOST_BYTES = 2**42


class ImageTable(NamedTuple):
    """What is known of a table that holds images."""

    column: str
    """Where the images are."""
    id_column: str | None
    """Where their names are, if anywhere."""
    num_rows: int


def look(path: Path) -> ImageTable | None:
    """Return where a table holds images; None if it holds none."""
    with _opened(path) as table:
        return _found(table)


def image_rows(
    path: Path, first: int, number: int
) -> Iterator[tuple[str | None, bytes]]:
    """Yield names and contents of some rows of a table, in order.

    Args:
        path: The table.
        first: Number of the first row, from zero.
        number: How many rows.

    Yields:
        A name, None where there is none; and bytes, none where there is no image.
    """
    with _opened(path) as table:
        found = _found(table)
        if found is None:
            raise DataError(f"The table '{path}' holds no images anymore.")
        columns = [found.column, *([found.id_column] if found.id_column else [])]
        groups, skipped = _groups(table.metadata, first, number)
        start = first - skipped
        for some in table.iter_batches(_AT_ONCE, row_groups=groups, columns=columns):
            for row in some.slice(max(0, start)).to_pylist():
                if not number:
                    return
                yield _name(row, found), _content(row[found.column])
                number -= 1
            start -= len(some)


def _groups(metadata: Any, first: int, number: int) -> tuple[list[int], int]:
    """Return which groups of rows hold some rows, and how many rows are before them."""
    groups, skipped, end = list[int](), 0, 0
    for group in range(metadata.num_row_groups):
        begin, end = end, end + metadata.row_group(group).num_rows
        if end > first and begin < first + number:
            skipped = skipped if groups else begin
            groups.append(group)
    return groups, skipped


def _found(table: Any) -> ImageTable | None:
    fields = list(table.schema_arrow)
    held = [field.name for field in fields if _holds_bytes(field.type)]
    column = next((name for name in _USUAL if name in held), None)
    if column is None and len(held) == 1:
        column = held[0]
    if column is None:
        return None
    names = [field.name for field in fields if _is_name(field.type)]
    named = next((name for name in ID_COLUMNS if name in names), None)
    return ImageTable(column, named, table.metadata.num_rows)


def _holds_bytes(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):
        return any(one.name == _BYTES and _holds_bytes(one.type) for one in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _is_name(kind: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_integer)
    return any(is_it(kind) for is_it in kinds)


def _name(row: dict[str, Any], found: ImageTable) -> str | None:
    told = None if found.id_column is None else row[found.id_column]
    return None if told in {None, ""} else str(told)


def _content(cell: Any) -> bytes:
    content = cell.get(_BYTES) if isinstance(cell, dict) else cell
    return content or b""


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from pyarrow import ArrowException, parquet

    try:
        with (
            open_regular(path, _MOST_BYTES) as file,
            parquet.ParquetFile(file) as table,
        ):
            yield table
    except (OSError, ArrowException) as error:
        said = getattr(error, "strerror", None) or error
        raise DataError(
            f"The table '{path}' cannot be read: {said}. Save it again as Parquet."
        ) from error
