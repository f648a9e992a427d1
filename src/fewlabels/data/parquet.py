"""Parquet tables: rows, vectors, images, within bounds of memory.

A column may store a long text once and repeat it a million times in a few bytes, so
texts are looked at before they are copied, and few rows are decoded at once. A table
that is damaged, or holds something else than it should, raises :class:`ValueError`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.untrusted import (
    FILE_COLUMNS,
    TEXT_BYTES,
    check_unpacked,
    open_untrusted,
)
from fewlabels.errors import DataError

_ID_COLUMNS = ("id", "__key__", *FILE_COLUMNS)
_IMAGE_COLUMNS = ("image", "bytes", "content", "jpg", "jpeg", "png", "webp")
_NO_FEATURES = frozenset({"label", "split", "__index_level_0__"})
"""Columns of numbers that are no features."""

_IMAGES_AT_ONCE, _TEXTS_AT_ONCE, _CELLS_AT_ONCE, _MOST_NUMBERS = 16, 1024, 8192, 2**24
_MOST_BYTES, _UNPACKED_RATIO = 2**42, 8
_NUMBER_BYTES, _NAME_BYTES = 4, 8


def arrow() -> Any:
    """Return pyarrow, which is slow to import and seldom needed."""
    import pyarrow

    return pyarrow


@contextmanager
def _opened(file: IO[bytes], dictionaries: Sequence[str] = ()) -> Iterator[Any]:
    """Open a table; errors of Arrow become :class:`ValueError`.

    Yields:
        The table; repeated cells of the columns in ``dictionaries`` are kept once.
    """
    from pyarrow import parquet

    file.seek(0)
    try:
        with parquet.ParquetFile(file, read_dictionary=list(dictionaries)) as table:
            yield table
    except arrow().ArrowException as error:
        raise ValueError(str(error)) from error


def _check_memory(file: IO[bytes], table: Any, num_bytes: int = 0) -> None:
    """Raise if a table unpacks to too much, or if its rows take too many bytes."""
    # What is said of single columns must not be asked for: where that is damaged, Arrow
    # ends the process.
    groups = map(table.metadata.row_group, range(table.metadata.num_row_groups))
    unpacked = max(num_bytes, sum(group.total_byte_size for group in groups))
    place = file.tell()
    size = file.seek(0, os.SEEK_END)
    file.seek(place)
    check_unpacked(unpacked, size, _UNPACKED_RATIO)


def parquet_rows(
    file: IO[bytes], chosen: Callable[[Sequence[str]], list[str]]
) -> Iterator[dict[str, Any]]:
    """Yield the cells of a Parquet table row by row, by column.

    Args:
        file: The table.
        chosen: Returns which of its columns to read; they hold text or numbers.

    Yields:
        A row.
    """
    from pyarrow import compute

    types = arrow().types
    with _opened(file) as table:
        schema = table.schema_arrow
    columns = chosen(schema.names)
    for field in schema:
        kind = _decoded_type(field.type)
        is_plain = _is_text(kind) or _is_number(kind) or types.is_null(kind)
        if field.name in columns and not is_plain:
            raise ValueError(f"'{field.name}' holds {field.type}, not text or numbers")
    with _opened(file, columns) as table:
        _check_memory(file, table)
        for batch in table.iter_batches(_TEXTS_AT_ONCE, columns=columns):
            decoded = []
            for column in batch.columns:
                is_dictionary = types.is_dictionary(column.type)
                if is_dictionary and types.is_string(column.type.value_type):
                    lengths = compute.binary_length(column.dictionary)
                    longest = compute.max(lengths).as_py() or 0
                    if longest > TEXT_BYTES:
                        most = f"at most {TEXT_BYTES:,}"
                        raise ValueError(f"a text has {longest:,} bytes; {most}")
                decoded.append(column.dictionary_decode() if is_dictionary else column)
            yield from arrow().table(decoded, names=batch.schema.names).to_pylist()


def parquet_vectors(
    file: IO[bytes], name_columns: Sequence[str]
) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    """Return the numbers of a table as rows, and the names of the rows.

    The numbers are a column of lists, or else all columns of numbers, side by side. The
    names are in the first of ``name_columns`` that is there, or in the only column of
    text.
    """
    with _opened(file) as table:
        schema, num_rows = table.schema_arrow, table.metadata.num_rows
    texts = [field.name for field in schema if _is_text(_decoded_type(field.type))]
    known = [name for name in name_columns if name in texts]
    lists = [field.name for field in schema if _is_list(field.type)]
    numbers = [field.name for field in schema if _is_number(field.type)]
    columns = lists or [name for name in numbers if name not in _NO_FEATURES]
    is_clear = len(lists) <= 1 and (known or len(texts) <= 1)
    if not is_clear or not columns or len(set(schema.names)) < len(schema.names):
        seen = ", ".join(f"{field.name} ({field.type})" for field in schema)
        raise ValueError(f"it has the columns {seen or 'none'}")
    rows, done = np.empty((0, len(columns)), dtype=np.float32), 0
    for part in _vector_parts(file, columns, num_rows):
        if not done:
            rows = np.empty((num_rows, part.shape[1]), dtype=np.float32)
        rows[done : done + len(part)] = part
        done += len(part)
    if done != len(rows):
        raise ValueError(f"it announces {len(rows)} rows, and has {done}")
    named = (known or texts)[:1]
    return rows, tuple(_names(file, named[0])) if named else None


def _vector_parts(
    file: IO[bytes], columns: Sequence[str], num_kept: int = 1
) -> Iterator[NDArray[np.float32]]:
    """Yield one column of lists, or columns of numbers, as rows, some at a time.

    Missing numbers become NaN, those beyond float32 infinite. Files are refused whose
    rows, of which the caller keeps ``num_kept``, would take too much memory.
    """
    with _opened(file) as table:
        _check_memory(file, table)
        kinds = [table.schema_arrow.field(name).type for name in columns]
        is_list = _is_list(kinds[0])
        if not _is_number(kinds[0].value_type if is_list else kinds[0]):
            raise ValueError(f"'{columns[0]}' holds {kinds[0]}, not lists of numbers")
        first = next(table.iter_batches(1, columns=columns), None)
        if first is None:
            return
        width = len(first.column(0).flatten()) if is_list else len(columns)
        _check_memory(file, table, num_kept * (width * _NUMBER_BYTES + _NAME_BYTES))
        done, at_once = 0, max(1, min(_CELLS_AT_ONCE, _MOST_NUMBERS // max(1, width)))
        for batch in table.iter_batches(at_once, columns=columns):
            part = np.empty((len(batch), width), dtype=np.float32)
            with np.errstate(over="ignore"):
                if is_list:
                    part[:] = _stacked_lists(batch.column(0), width, done)
                else:
                    for place, name in enumerate(columns):
                        cells = batch.column(name).to_numpy(zero_copy_only=False)
                        part[:, place] = cells
            done += len(batch)
            yield part


def _stacked_lists(lists: Any, width: int, num_before: int) -> NDArray[Any]:
    """Return a column of lists as rows; raise unless each list has ``width`` numbers.

    The number of rows before these is for the message.
    """
    from pyarrow import compute

    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    lengths = np.nan_to_num(lengths)  # the length of a missing list is NaN
    wrong = np.flatnonzero(lengths != width)
    if len(wrong):
        row, length = num_before + wrong[0] + 1, int(lengths[wrong[0]])
        raise ValueError(f"row {row} has {length} numbers, not {width}")
    numbers: NDArray[Any] = lists.flatten().to_numpy(zero_copy_only=False)
    return numbers.reshape(len(lists), width)


def _names(file: IO[bytes], column: str) -> Iterator[str]:
    """Yield the names in a column; missing ones are empty, repeated ones one object."""
    with _opened(file, [column]) as table:
        for batch in table.iter_batches(_TEXTS_AT_ONCE, columns=[column]):
            cells = batch.column(0)
            if not arrow().types.is_dictionary(cells.type):
                cells = cells.dictionary_encode()
            places = cells.indices.to_pylist()
            used = sorted({place for place in places if place is not None})
            words = cells.dictionary.take(arrow().array(used, "int64")).to_pylist()
            names = dict(zip(used, words, strict=True))
            yield from (names.get(place) or "" for place in places)


def shape_of(file: IO[bytes]) -> tuple[int, list[str]]:
    """Return how many rows a table has, and its columns."""
    with _opened(file) as table:
        return table.metadata.num_rows, list(table.schema_arrow.names)


def list_column(file: IO[bytes], column: str) -> Iterator[NDArray[np.float32]]:
    """Yield a column of equally long lists of numbers as rows (n, width), in parts."""
    with _opened(file) as table:
        kind = table.schema_arrow.field(column).type
    if not _is_list(kind):
        raise ValueError(f"'{column}' holds {kind}, not lists of numbers")
    yield from _vector_parts(file, [column])


def plain_column(file: IO[bytes], column: str) -> Iterator[Any]:
    """Yield a column of a table in parts, as Arrow arrays."""
    with _opened(file) as table:
        _check_memory(file, table)
        for batch in table.iter_batches(_CELLS_AT_ONCE, columns=[column]):
            yield batch.column(0)


class ImageTable(NamedTuple):
    """Where a table holds images.

    They are in a column of bytes, or of structs with the fields ``bytes`` and ``path``
    as in data sets of Hugging Face.
    """

    column: str
    """Where the images are."""
    id_column: str | None
    """Where their names are, if anywhere."""
    num_rows: int


def find_images(path: Path) -> ImageTable | None:
    """Return where a table holds images; None if it holds none."""
    with _opened_images(path) as (_, images):
        return images


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
    with _opened_images(path) as (table, images):
        if images is None:
            raise DataError(f"The table '{path}' holds no images anymore.")
        columns = [images.column, *([images.id_column] if images.id_column else [])]
        groups, end, start = list[int](), 0, 0  # of rows, and those before them
        for group in range(table.metadata.num_row_groups):
            begin, end = end, end + table.metadata.row_group(group).num_rows
            if end > first and begin < first + number:
                start = start if groups else first - begin
                groups.append(group)
        batches = table.iter_batches(
            _IMAGES_AT_ONCE, row_groups=groups, columns=columns
        )
        for batch in batches:
            for row in batch.slice(max(0, start)).to_pylist():
                if not number:
                    return
                name = row[images.id_column] if images.id_column else None
                cell = row[images.column]
                content = cell.get("bytes") if isinstance(cell, dict) else cell
                yield None if name in {None, ""} else str(name), content or b""
                number -= 1
            start -= len(batch)


@contextmanager
def _opened_images(path: Path) -> Iterator[tuple[Any, ImageTable | None]]:
    with open_untrusted(path, _MOST_BYTES) as file, _opened(file) as table:
        fields = list(table.schema_arrow)
        held = [field.name for field in fields if holds_bytes(field.type)]
        usual = [name for name in _IMAGE_COLUMNS if name in held]
        names = [
            field.name
            for field in fields
            if _is_text(field.type) or arrow().types.is_integer(field.type)
        ]
        images = None
        if usual or len(held) == 1:
            id_column = next((name for name in _ID_COLUMNS if name in names), None)
            images = ImageTable((usual or held)[0], id_column, table.metadata.num_rows)
        yield table, images


def holds_bytes(kind: Any, *, in_struct: bool = False) -> bool:
    """Return whether a column of this type holds structs with bytes, or plain bytes."""
    types = arrow().types
    if types.is_struct(kind):
        return any(field.name == "bytes" and holds_bytes(field.type) for field in kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(is_bytes and not in_struct)


def _is_list(kind: Any) -> bool:
    types = arrow().types
    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_kind(kind) for is_kind in kinds)


def _is_number(kind: Any) -> bool:
    return bool(arrow().types.is_floating(kind) or arrow().types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    return bool(arrow().types.is_string(kind) or arrow().types.is_large_string(kind))


def _decoded_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind
