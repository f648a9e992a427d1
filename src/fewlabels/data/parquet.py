"""Rows of a Parquet table, without what a few bytes of it can blow up to.

A column may say a long text once and repeat it a million times in a few bytes, so that
texts are looked at before they are copied, and few rows are unfolded at once.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

_UNPACKED_BYTES, _UNPACKED_RATIO = 2**28, 8
"""What may be unpacked from any table, and from each byte of a large one."""

_LONGEST_TEXT = 2**17
"""As long as a cell of a CSV table may be."""

_ROWS_AT_ONCE = 1024

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
