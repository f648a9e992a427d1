"""Parquet tables: rows, vectors, images, within bounds of memory.

A column may store a long text once and repeat it a million times in a few bytes, so
texts are looked at before they are copied, and few rows are decoded at once. A table
that is damaged, or holds something else than it should, raises :class:`ValueError`.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from fewlabels.data.untrusted import FILE_COLUMNS, check_unpacked, open_untrusted
from fewlabels.errors import DataError

_ID_COLUMNS = ("id", "__key__", *FILE_COLUMNS)
_IMAGE_COLUMNS = ("image", "bytes", "content", "jpg", "jpeg", "png", "webp")
_NO_FEATURES = frozenset({"label", "split", "__index_level_0__"})
"""Columns of numbers that are no features."""

_IMAGES_AT_ONCE, _TEXTS_AT_ONCE, _CELLS_AT_ONCE, _MOST_NUMBERS = 16, 1024, 8192, 2**24
_MOST_BYTES, _UNPACKED_RATIO = 2**42, 8
_TEXT_BYTES = 2**17
"""Longest text in a table: as long as a cell of a CSV table may be."""
_NUMBER_BYTES, _NAME_BYTES = 4, 8


def arrow() -> Any:
    """Return pyarrow, which is slow to import and seldom needed."""
    import pyarrow

    return pyarrow


@contextmanager
def _opened(
    file: IO[bytes], dictionaries: Sequence[str] = (), *, is_bounded: bool = True
) -> Iterator[Any]:
    """Open a table; errors of Arrow become :class:`ValueError`.

    Args:
        file: The table.
        dictionaries: Columns whose repeated cells are kept once.
        is_bounded: Whether a table is refused that unpacks to too much.

    Yields:
        The table.
    """
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(file, read_dictionary=list(dictionaries)) as table:
            # What is said of single columns must not be asked for: where that is
            # damaged, Arrow ends the process.
            groups = map(table.metadata.row_group, range(table.num_row_groups))
            if is_bounded:
                _check_memory(file, sum(group.total_byte_size for group in groups))
            yield table
    except arrow().ArrowException as error:
        raise ValueError(str(error)) from error


def _check_memory(file: IO[bytes], num_bytes: int) -> None:
    """Raise if the rows of a table take too many bytes."""
    check_unpacked(num_bytes, file.seek(0, os.SEEK_END), _UNPACKED_RATIO)


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
        for batch in table.iter_batches(_TEXTS_AT_ONCE, columns=columns):
            decoded = []
            for column in batch.columns:
                is_dictionary = types.is_dictionary(column.type)
                if is_dictionary and types.is_string(column.type.value_type):
                    lengths = compute.binary_length(column.dictionary)
                    longest = compute.max(lengths).as_py() or 0
                    if longest > _TEXT_BYTES:
                        most = f"at most {_TEXT_BYTES:,}"
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
        kinds = [table.schema_arrow.field(name).type for name in columns]
        is_list = _is_list(kinds[0])
        if not _is_number(kinds[0].value_type if is_list else kinds[0]):
            raise ValueError(f"'{columns[0]}' holds {kinds[0]}, not lists of numbers")
        first = next(table.iter_batches(1, columns=columns), None)
        if first is None:
            return
        width = len(first.column(0).flatten()) if is_list else len(columns)
        _check_memory(file, num_kept * (width * _NUMBER_BYTES + _NAME_BYTES))
        done, at_once = 0, max(1, min(_CELLS_AT_ONCE, _MOST_NUMBERS // max(1, width)))
        for batch in table.iter_batches(at_once, columns=columns):
            if is_list:
                cells = _stacked_lists(batch.column(0), width, done)
            else:
                parts = [part.to_numpy(zero_copy_only=False) for part in batch.columns]
                cells = np.column_stack(parts)
            done += len(batch)
            with np.errstate(over="ignore"):
                rows = cells.astype(np.float32)
            yield rows


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
    known: dict[str, str] = {}
    with _opened(file, [column]) as table:
        for batch in table.iter_batches(_TEXTS_AT_ONCE, columns=[column]):
            for cell in batch.column(0):
                name = cell.as_py() or ""
                yield known.setdefault(name, name)


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
        for batch in table.iter_batches(_CELLS_AT_ONCE, columns=[column]):
            yield batch.column(0)


def num_images(path: Path) -> int | None:
    """Return how many rows a table of images has; None if it holds no images."""
    with _opened_images(path) as (table, columns):
        return table.metadata.num_rows if columns else None


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
    with _opened_images(path) as (table, columns):
        if not columns:
            raise DataError(f"The table '{path}' holds no images anymore.")
        image_column, *id_columns = columns
        groups, end, start = list[int](), 0, 0  # of rows, and those before them
        for group in range(table.num_row_groups):
            begin, end = end, end + table.metadata.row_group(group).num_rows
            if end > first and begin < first + number:
                start = start if groups else first - begin
                groups.append(group)
        for batch in table.iter_batches(_IMAGES_AT_ONCE, groups, columns):
            part = batch.slice(start, number)
            for row in part.to_pylist():
                cell = row[image_column]
                name = row[id_columns[0]] if id_columns else None
                content = cell.get("bytes") if isinstance(cell, dict) else cell
                yield None if name in {None, ""} else str(name), content or b""
            start, number = max(0, start - len(batch)), number - len(part)
            if not number:
                return


@contextmanager
def _opened_images(path: Path) -> Iterator[tuple[Any, list[str]]]:
    """Yield a table, and the columns of its images and their names, if it has them.

    Images are in a column of bytes, or of structs with the fields ``bytes`` and
    ``path`` as in data sets of Hugging Face.
    """
    with (
        open_untrusted(path, _MOST_BYTES) as file,
        _opened(file, is_bounded=False) as table,
    ):
        fields, types = list(table.schema_arrow), arrow().types
        held = [field.name for field in fields if holds_bytes(field.type)]
        usual = [name for name in _IMAGE_COLUMNS if name in held]
        names = [f.name for f in fields if _is_text(f.type) or types.is_integer(f.type)]
        columns = (usual or held)[:1] if usual or len(held) == 1 else []
        yield table, columns and columns + [n for n in _ID_COLUMNS if n in names][:1]


def holds_bytes(kind: Any, *, in_struct: bool = False) -> bool:
    """Return whether a column of this type holds structs with bytes, or plain bytes."""
    types = arrow().types
    if types.is_struct(kind):
        return any(field.name == "bytes" and holds_bytes(field.type) for field in kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return bool(is_bytes and not in_struct)


def _is_list(kind: Any) -> bool:
    pa = arrow()
    return isinstance(kind, pa.ListType | pa.LargeListType | pa.FixedSizeListType)


def _is_number(kind: Any) -> bool:
    return bool(arrow().types.is_floating(kind) or arrow().types.is_integer(kind))


def _is_text(kind: Any) -> bool:
    return bool(arrow().types.is_string(kind) or arrow().types.is_large_string(kind))


def _decoded_type(kind: Any) -> Any:
    return kind.value_type if arrow().types.is_dictionary(kind) else kind
