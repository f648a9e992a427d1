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

_ROWS_AT_ONCE = 1024

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
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Return the numbers of a table, a row of them for each of its rows, and names.

    The numbers are a column of lists, or else all columns of numbers, side by side;
    names are in the first of ``name_columns`` that is there, or in the only column of
    text. A table in which that cannot be found raises :class:`ValueError`.
    """
    from pyarrow import ArrowException, parquet

    try:
        num_bytes = file.seek(0, os.SEEK_END)
        file.seek(0)
        with parquet.ParquetFile(file) as table:
            _check_unpacked(table.metadata, num_bytes)
            schema = table.schema_arrow
            named = _name_column(schema, name_columns)
            columns = _number_columns(schema, named)
            chosen = columns if named is None else [*columns, named]
            found = table.read(chosen)
            names = None if named is None else _texts(found.column(named))
            return _matrix([found.column(name) for name in columns]), names
    except ArrowException as error:
        raise ValueError(str(error)) from error


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
    from pyarrow import types

    kinds = (types.is_list, types.is_large_list, types.is_fixed_size_list)
    lists = [f.name for f in schema if any(is_it(f.type) for is_it in kinds)]
    if len(lists) > 1:
        raise ValueError(f"it has several columns of lists, {', '.join(lists)}")
    numbers = [
        f.name for f in schema if types.is_floating(f.type) or types.is_integer(f.type)
    ]
    found = lists or [name for name in numbers if name not in _NO_FEATURES]
    if not found:
        said = ", ".join(f"{f.name} ({f.type})" for f in schema if f.name != named)
        raise ValueError(f"no column holds numbers; there are {said or 'none'}")
    return found


def _matrix(columns: Sequence[Any]) -> NDArray[Any]:
    """Return one column of lists, or columns of numbers, as rows."""
    from pyarrow import compute, types

    first = columns[0].combine_chunks()
    if types.is_floating(first.type) or types.is_integer(first.type):
        return np.stack([_numbers(column) for column in columns], axis=1)
    if first.null_count:
        raise ValueError(f"{first.null_count} of {len(first)} lists are missing")
    lengths = compute.list_value_length(first).to_numpy(zero_copy_only=False)
    other = np.flatnonzero(lengths != lengths[:1])
    if len(other):
        msg = f"row 1 has {lengths[0]} numbers and row {other[0] + 1} has "
        raise ValueError(f"{msg}{lengths[other[0]]}")
    values = compute.list_flatten(first)
    if not types.is_floating(values.type) and not types.is_integer(values.type):
        raise ValueError(f"its lists hold {values.type}, not numbers")
    return _numbers(values).reshape(len(first), -1)


def _numbers(column: Any) -> NDArray[np.float64]:
    """Return a column of numbers; what is missing is NaN."""
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)


def _texts(column: Any) -> tuple[str, ...]:
    """Return a column of names; what is missing is empty."""
    return tuple(one or "" for one in column.to_pylist())


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
    unpacked = sum(group.total_byte_size for group in groups)
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
