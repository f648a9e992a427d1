"""Parquet tables: rows, vectors, images, without what a few bytes can blow up to.

A column may say a long text once and repeat it a million times in a few bytes, so that
texts are looked at before they are copied, and few rows are unfolded at once. A table
that is damaged, or holds something else than it should, raises :class:`ValueError`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.text import FILE_COLUMNS
from fewlabels.errors import DataError
from fewlabels.files import open_regular

ID_COLUMNS = ("id", "__key__", *FILE_COLUMNS)
"""Columns that may name an image; the first one that is present does."""

_IMAGE_COLUMNS = ("image", "bytes", "content", "jpg", "jpeg", "png", "webp")
_BYTES = "bytes"
_IMAGES_AT_ONCE = 16  # they can be large
_MOST_BYTES = 2**42

_UNPACKED_BYTES, _UNPACKED_RATIO = 2**28, 8
"""What may be unpacked from any table, and from each byte of a large one."""

_LONGEST_TEXT = 2**17
"""As long as a cell of a CSV table may be."""

_ROWS_AT_ONCE, _CELLS_AT_ONCE = 1024, 8192
_NUMBER_BYTES, _NAME_BYTES = 4, 8

_NO_FEATURES = frozenset({"label", "split", "__index_level_0__"})
"""Columns of numbers that tell nothing of what an item looks like."""


def arrow() -> Any:
    """Return pyarrow, which is slow to import and seldom needed."""
    import pyarrow

    return pyarrow


@contextmanager
def _opened(file: IO[bytes], dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """Hand out a table; errors of Arrow are :class:`ValueError`.

    Yields:
        The table; of the columns in ``dictionaries`` repeated cells are kept once.
    """
    from pyarrow import parquet

    file.seek(0)
    try:
        with parquet.ParquetFile(file, read_dictionary=list(dictionaries)) as table:
            yield table
    except arrow().ArrowException as error:
        raise ValueError(str(error)) from error


def _check_room(file: IO[bytes], table: Any, num_bytes: int = 0) -> None:
    """Raise if a table unpacks to too much, or needs that many bytes of memory."""
    # What is said of single columns must not be asked for: where that is damaged, Arrow
    # ends the process.
    groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
    unpacked = max(num_bytes, sum(group.total_byte_size for group in groups))
    place = file.tell()
    most = max(_UNPACKED_BYTES, _UNPACKED_RATIO * file.seek(0, os.SEEK_END))
    file.seek(place)
    if unpacked > most:
        raise ValueError(
            f"it would unpack to {unpacked:,} bytes; at most {most:,} are read"
        )


def parquet_rows(
    file: IO[bytes], chosen: Callable[[Sequence[str]], list[str]]
) -> Iterator[dict[str, Any]]:
    """Yield the cells of a Parquet table row by row, by column.

    Args:
        file: The table.
        chosen: Says which of its columns to read; they hold text or numbers.

    Yields:
        A row.
    """
    with _opened(file) as table:
        schema = table.schema_arrow
    columns = chosen(schema.names)
    for field in schema:
        kind = _unfolded_type(field.type)
        if field.name in columns and not (
            _is_text(kind) or _is_number(kind) or arrow().types.is_null(kind)
        ):
            raise ValueError(
                f"the column '{field.name}' holds {field.type}, not text or numbers"
            )
    with _opened(file, columns) as table:
        _check_room(file, table)
        for some in table.iter_batches(_ROWS_AT_ONCE, columns=columns):
            unfolded = [_unfolded(column) for column in some.columns]
            yield from arrow().table(unfolded, names=some.schema.names).to_pylist()


def _unfolded(column: Any) -> Any:
    """Return a column with each text in its row, if none is too long."""
    from pyarrow import compute

    if not arrow().types.is_dictionary(column.type):
        return column
    if arrow().types.is_string(column.type.value_type):
        longest = compute.max(compute.binary_length(column.dictionary)).as_py() or 0
        if longest > _LONGEST_TEXT:
            raise ValueError(
                f"a text has {longest:,} bytes; at most {_LONGEST_TEXT:,} are read"
            )
    return column.dictionary_decode()


def parquet_vectors(
    file: IO[bytes], name_columns: Sequence[str]
) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    """Return the numbers of a table, a row of them for each of its rows, and names.

    The numbers are a column of lists, or else all columns of numbers, side by side;
    names are in the first of ``name_columns`` that is there, or in the only column of
    text.
    """
    with _opened(file) as table:
        named, columns = _vector_columns(table.schema_arrow, name_columns)
    texts = [] if named is None else [named]
    with _opened(file, texts) as table:
        width, num_rows = len(columns), table.metadata.num_rows
        _check_room(file, table)
        first = next(table.iter_batches(1, columns=columns), None)
        if first is None:
            num_rows = 0
        elif _is_list(first.column(0).type):
            width = len(first.column(0).flatten())
        _check_room(file, table, num_rows * (width * _NUMBER_BYTES + _NAME_BYTES))
        rows = np.empty((num_rows, width), dtype=np.float32)
        names: list[str] = []
        done = 0
        for some in table.iter_batches(_ROWS_AT_ONCE, columns=[*columns, *texts]):
            part = rows[done : done + len(some)]
            _fill(part, [some.column(name) for name in columns], done)
            names += [] if named is None else _names(some.column(named))
            done += len(some)
    if done != len(rows):
        raise ValueError(f"it says that it has {len(rows)} rows, and has {done}")
    return rows, None if named is None else tuple(names)


def _vector_columns(
    schema: Any, name_columns: Sequence[str]
) -> tuple[str | None, list[str]]:
    """Return the column of names, and the column of lists or the columns of numbers."""
    names = schema.names
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"it has several columns called '{twice[0]}'")
    texts = [field.name for field in schema if _is_text(_unfolded_type(field.type))]
    known = [name for name in name_columns if name in texts]
    if len(texts) > 1 and not known:
        raise ValueError(
            f"it has the text columns {', '.join(texts)}; which holds names? Call that "
            f"one '{name_columns[0]}'"
        )
    named: str | None = (known or texts or [None])[0]
    lists = [field for field in schema if _is_list(field.type)]
    if len(lists) > 1:
        together = ", ".join(field.name for field in lists)
        raise ValueError(f"it has several columns of lists, {together}")
    if lists and not _is_number(lists[0].type.value_type):
        raise ValueError(f"its lists hold {lists[0].type.value_type}, not numbers")
    numbers = [field.name for field in schema if _is_number(field.type)]
    columns = [field.name for field in lists]
    columns = columns or [name for name in numbers if name not in _NO_FEATURES]
    if not columns:
        seen = ", ".join(f"{f.name} ({f.type})" for f in schema if f.name != named)
        raise ValueError(f"no column holds numbers; there are {seen or 'none'}")
    return named, columns


def _names(column: Any) -> list[str]:
    """Return a column of names; what is missing is empty, what is repeated is one."""
    if not arrow().types.is_dictionary(column.type):
        column = column.dictionary_encode()
    places = column.indices.cast(arrow().int64()).fill_null(-1).to_numpy()
    used, which = np.unique(places[places >= 0], return_inverse=True)
    texts = column.dictionary.take(used).to_pylist()
    names = [""] * len(places)
    for place, text in zip(np.flatnonzero(places >= 0), which, strict=True):
        names[place] = texts[text] or ""
    return names


def _fill(part: NDArray[np.float32], columns: Sequence[Any], done: int) -> None:
    """Write one column of lists, or columns of numbers, into rows.

    What is missing becomes NaN, and what is beyond float32 infinite.
    """
    from pyarrow import compute

    with np.errstate(over="ignore"):
        if not _is_list(columns[0].type):
            for number, column in enumerate(columns):
                part[:, number] = column.to_numpy(zero_copy_only=False)
            return
        lists, width = columns[0], part.shape[1]
        lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
        other = np.flatnonzero(lengths != width)  # what is missing is NaN
        if len(other):
            row, seen = done + int(other[0]) + 1, lists[int(other[0])]
            if not seen.is_valid:
                raise ValueError(f"row {row} has no list of numbers")
            raise ValueError(f"row 1 has {width} numbers and row {row} has {len(seen)}")
        numbers = lists.flatten().to_numpy(zero_copy_only=False)
        part[:] = numbers.reshape(part.shape)


def shape_of(file: IO[bytes]) -> tuple[int, list[str]]:
    """Return how many rows a table has, and its columns."""
    with _opened(file) as table:
        return table.metadata.num_rows, list(table.schema_arrow.names)


def list_column(file: IO[bytes], column: str) -> Iterator[NDArray[np.float32]]:
    """Yield a column of lists of numbers as rows, shape (n, width), some at a time.

    All are equally long, or a :class:`ValueError` is raised; what is missing in one is
    NaN.

    Yields:
        Some rows.
    """
    width, done = None, 0
    for lists in plain_column(file, column):
        if not _is_list(lists.type) or not _is_number(lists.type.value_type):
            raise ValueError(
                f"the column '{column}' holds {lists.type}, not lists of numbers"
            )
        if width is None:
            width = len(lists[0]) if lists[0].is_valid else 0
        part = np.empty((len(lists), width), dtype=np.float32)
        _fill(part, [lists], done)
        done += len(lists)
        yield part


def plain_column(file: IO[bytes], column: str) -> Iterator[Any]:
    """Yield a column of a table, some cells at a time, as Arrow has them.

    Yields:
        An array of Arrow, not empty.
    """
    with _opened(file) as table:
        _check_room(file, table)
        for some in table.iter_batches(_CELLS_AT_ONCE, columns=[column]):
            yield some.column(0)


class ImageTable(NamedTuple):
    """What is known of a table that holds images.

    They are in a column of bytes, or in one of structs with the fields ``bytes`` and
    ``path``, as those of Hugging Face are.
    """

    column: str
    """Where the images are."""
    id_column: str | None
    """Where their names are, if anywhere."""
    num_rows: int


def find_images(path: Path) -> ImageTable | None:
    """Return where a table holds images; None if it holds none."""
    with _opened_images(path) as (_, found):
        return found


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
    with _opened_images(path) as (table, found):
        if found is None:
            raise DataError(f"The table '{path}' holds no images anymore.")
        columns = [found.column, *([found.id_column] if found.id_column else [])]
        groups, end, start = list[int](), 0, 0  # of rows, and those before them
        for group in range(table.metadata.num_row_groups):
            begin, end = end, end + table.metadata.row_group(group).num_rows
            if end > first and begin < first + number:
                start = start if groups else first - begin
                groups.append(group)
        batches = table.iter_batches(
            _IMAGES_AT_ONCE, row_groups=groups, columns=columns
        )
        for some in batches:
            for row in some.slice(max(0, start)).to_pylist():
                if not number:
                    return
                name = row[found.id_column] if found.id_column else None
                cell = row[found.column]
                content = cell.get(_BYTES) if isinstance(cell, dict) else cell
                yield None if name in {None, ""} else str(name), content or b""
                number -= 1
            start -= len(some)


@contextmanager
def _opened_images(path: Path) -> Iterator[tuple[Any, ImageTable | None]]:
    try:
        with open_regular(path, _MOST_BYTES) as file, _opened(file) as table:
            fields = list(table.schema_arrow)
            held = [field.name for field in fields if _holds_bytes(field.type)]
            usual = [name for name in _IMAGE_COLUMNS if name in held]
            names = [
                field.name
                for field in fields
                if _is_text(field.type) or arrow().types.is_integer(field.type)
            ]
            found = None
            if usual or len(held) == 1:
                id_column = next((name for name in ID_COLUMNS if name in names), None)
                num_rows = table.metadata.num_rows
                found = ImageTable((usual or held)[0], id_column, num_rows)
            yield table, found
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DataError(
            f"The table '{path}' cannot be read: {reason}. Save it again as Parquet."
        ) from error


def _holds_bytes(kind: Any) -> bool:
    if arrow().types.is_struct(kind):
        return any(field.name == _BYTES and _holds_bytes(field.type) for field in kind)
    return bool(arrow().types.is_binary(kind) or arrow().types.is_large_binary(kind))


def _is_list(kind: Any) -> bool:
    types = arrow().types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_it(kind) for is_it in kinds)


def _is_number(kind: Any) -> bool:
    return bool(arrow().types.is_floating(kind) or arrow().types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    return bool(arrow().types.is_string(kind) or arrow().types.is_large_string(kind))


def _unfolded_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind
