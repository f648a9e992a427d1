"""Rows of a Parquet table, without what a few bytes of it can blow up to.

A column may say a long text once and repeat it a million times in a few bytes, so that
texts are looked at before they are copied, and few rows are unfolded at once.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

_UNPACKED_BYTES, _UNPACKED_RATIO = 2**28, 8
"""What may be unpacked from any table, and from each byte of a large one."""

_LONGEST_TEXT = 2**17
"""As long as a cell of a CSV table may be."""

_ROWS_AT_ONCE, _CELLS_AT_ONCE = 1024, 8192
_NUMBER_BYTES, _NAME_BYTES = 4, 8

_NO_FEATURES = frozenset({"label", "split", "__index_level_0__"})
"""Columns of numbers that tell nothing of what an item looks like."""

Row = dict[str, Any]
"""The cells of one row by column."""


def parquet_rows(
    file: IO[bytes], chosen: Callable[[Sequence[str]], list[str]]
) -> Iterator[Row]:
    """Yield the cells of a Parquet table row by row.

    ``chosen`` says which of its columns to read; they hold text or numbers. A table
    that is damaged, or holds something else there, raises :class:`ValueError`.

    Yields:
        A row.
    """
    from pyarrow import ArrowException  # slow to import, and seldom needed

    try:
        yield from _rows(file, chosen)
    except ArrowException as error:
        raise ValueError(str(error)) from error


def parquet_vectors(
    file: IO[bytes], name_columns: Sequence[str]
) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    """Return the numbers of a table, a row of them for each of its rows, and names.

    The numbers are a column of lists, or else all columns of numbers, side by side;
    names are in the first of ``name_columns`` that is there, or in the only column of
    text. A table in which that cannot be found raises :class:`ValueError`.
    """
    from pyarrow import ArrowException

    try:
        return _vectors(file, name_columns)
    except ArrowException as error:
        raise ValueError(str(error)) from error


def shape_of(file: IO[bytes]) -> tuple[int, list[str]]:
    """Return how many rows a table has, and its columns; :class:`ValueError`: none."""
    from pyarrow import ArrowException, parquet

    try:
        with parquet.ParquetFile(file) as table:
            return table.metadata.num_rows, list(table.schema_arrow.names)
    except ArrowException as error:
        raise ValueError(str(error)) from error


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
            msg = f"the column '{column}' holds {lists.type}, not lists of numbers"
            raise ValueError(msg)
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
    from pyarrow import ArrowException, parquet

    num_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        with parquet.ParquetFile(file) as table:
            _check_unpacked(table.metadata, num_bytes)
            for some in table.iter_batches(_CELLS_AT_ONCE, columns=[column]):
                yield some.column(0)
    except ArrowException as error:
        raise ValueError(str(error)) from error


def _vectors(
    file: IO[bytes], name_columns: Sequence[str]
) -> tuple[NDArray[np.float32], tuple[str, ...] | None]:
    from pyarrow import parquet

    num_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    schema = parquet.read_schema(file)
    named = _name_column(schema, name_columns)
    columns = _number_columns(schema, named)
    texts = [] if named is None else [named]
    file.seek(0)
    with parquet.ParquetFile(file, read_dictionary=texts) as table:
        _check_unpacked(table.metadata, num_bytes)
        rows, names, done = _empty_rows(table, columns, num_bytes), [], 0
        for some in table.iter_batches(_ROWS_AT_ONCE, columns=[*columns, *texts]):
            part = rows[done : done + len(some)]
            _fill(part, [some.column(name) for name in columns], done)
            names += _names(some.column(named)) if named is not None else []
            done += len(some)
    if done != len(rows):
        raise ValueError(f"it says that it has {len(rows)} rows, and has {done}")
    return rows, None if named is None else tuple(names)


def _name_column(schema: Any, known: Sequence[str]) -> str | None:
    from pyarrow import types

    texts = [f.name for f in schema if types.is_string(_plain_type(f.type))]
    texts += [f.name for f in schema if types.is_large_string(_plain_type(f.type))]
    usual = [name for name in known if name in texts]
    if len(texts) > 1 and not usual:
        msg = f"it has the text columns {', '.join(texts)}; which holds names?"
        raise ValueError(f"{msg} Call that one '{known[0]}'")
    return (usual or texts or [None])[0]


def _number_columns(schema: Any, named: str | None) -> list[str]:
    """Return the column of lists, or the columns of numbers."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise ValueError(f"it has several columns called '{twice[0]}'")
    lists = [f for f in schema if _is_list(f.type)]
    if len(lists) > 1:
        told = ", ".join(f.name for f in lists)
        raise ValueError(f"it has several columns of lists, {told}")
    if lists and not _is_number(lists[0].type.value_type):
        raise ValueError(f"its lists hold {lists[0].type.value_type}, not numbers")
    numbers = [f.name for f in schema if _is_number(f.type)]
    found = [f.name for f in lists] or [n for n in numbers if n not in _NO_FEATURES]
    if not found:
        said = ", ".join(f"{f.name} ({f.type})" for f in schema if f.name != named)
        raise ValueError(f"no column holds numbers; there are {said or 'none'}")
    return found


def _empty_rows(
    table: Any, columns: Sequence[str], num_bytes: int
) -> NDArray[np.float32]:
    """Return room for all rows, unless that is too much for a file of this size."""
    width, num_rows = len(columns), table.metadata.num_rows
    first = next(table.iter_batches(1, columns=columns), None)
    if first is None:
        num_rows = 0
    elif _is_list(first.column(columns[0]).type):
        width = len(first.column(columns[0]).flatten())
    _check_room(num_rows * (width * _NUMBER_BYTES + _NAME_BYTES), num_bytes)
    return np.empty((num_rows, width), dtype=np.float32)


def _fill(part: NDArray[np.float32], columns: Sequence[Any], done: int) -> None:
    """Write one column of lists, or columns of numbers, into rows.

    What is missing becomes NaN, and what is beyond float32 infinite.
    """
    with np.errstate(over="ignore"):
        if _is_list(columns[0].type):
            _check_lists(columns[0], part.shape[1], done)
            numbers = columns[0].flatten().to_numpy(zero_copy_only=False)
            part[:] = numbers.reshape(part.shape)
            return
        for number, column in enumerate(columns):
            part[:, number] = column.to_numpy(zero_copy_only=False)


def _check_lists(lists: Any, width: int, done: int) -> None:
    """Raise unless all lists are there and equally long."""
    from pyarrow import compute

    lengths = compute.list_value_length(lists).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != width)  # what is missing is NaN
    if len(other):
        row, seen = done + int(other[0]) + 1, lists[int(other[0])]
        if not seen.is_valid:
            raise ValueError(f"row {row} has no list of numbers")
        raise ValueError(f"row 1 has {width} numbers and row {row} has {len(seen)}")


def _names(column: Any) -> list[str]:
    """Return a column of names; what is missing is empty, what is repeated is one."""
    from pyarrow import int64, types

    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    places = column.indices.cast(int64()).fill_null(-1).to_numpy()
    used, which = np.unique(places[places >= 0], return_inverse=True)
    texts = column.dictionary.take(used).to_pylist()
    names = [""] * len(places)
    for place, text in zip(np.flatnonzero(places >= 0), which, strict=True):
        names[place] = texts[text] or ""
    return names


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    return any(is_it(kind) for is_it in kinds)


def is_whole(kind: Any) -> bool:
    """Return whether a type of Arrow is one of whole numbers."""
    from pyarrow import types

    return bool(types.is_integer(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return any(is_it(kind) for is_it in (types.is_floating, types.is_integer))


def _plain_type(kind: Any) -> Any:
    from pyarrow import types

    return kind.value_type if types.is_dictionary(kind) else kind


def _rows(
    file: IO[bytes], chosen: Callable[[Sequence[str]], list[str]]
) -> Iterator[Row]:
    import pyarrow as pa
    from pyarrow import parquet

    num_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    schema = parquet.read_schema(file)
    columns = chosen(schema.names)
    for field in schema:
        if field.name in columns and not _is_plain(field.type):
            msg = f"the column '{field.name}' holds {field.type}, not text or numbers"
            raise ValueError(msg)
    file.seek(0)
    with parquet.ParquetFile(file, read_dictionary=columns) as table:
        _check_unpacked(table.metadata, num_bytes)
        for some in table.iter_batches(_ROWS_AT_ONCE, columns=columns):
            unfolded = [_unfolded(column) for column in some.columns]
            yield from pa.table(unfolded, names=some.schema.names).to_pylist()


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    tests = (types.is_string, types.is_large_string, types.is_integer)
    return any(is_it(kind) for is_it in (*tests, types.is_floating, types.is_null))


def _check_unpacked(metadata: Any, num_bytes: int) -> None:
    # What is said of single columns must not be asked for: where that is damaged, Arrow
    # ends the process.
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    _check_room(sum(group.total_byte_size for group in groups), num_bytes)


def _check_room(unpacked: int, num_bytes: int) -> None:
    most = max(_UNPACKED_BYTES, _UNPACKED_RATIO * num_bytes)
    if unpacked > most:
        msg = f"it would unpack to {unpacked:,} bytes; at most {most:,} are read"
        raise ValueError(msg)


def _unfolded(column: Any) -> Any:
    """Return a column with each text in its row, if none is too long."""
    from pyarrow import compute, types

    if not types.is_dictionary(column.type):
        return column
    if types.is_string(column.type.value_type):
        longest = compute.max(compute.binary_length(column.dictionary)).as_py() or 0
        if longest > _LONGEST_TEXT:
            msg = f"a text has {longest:,} bytes; at most {_LONGEST_TEXT:,} are read"
            raise ValueError(msg)
    return column.dictionary_decode()
