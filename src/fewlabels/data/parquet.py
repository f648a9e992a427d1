"""Rows of a Parquet table, without what a few bytes of it can blow up to.

A column may say a long text once and repeat it a million times in a few bytes, so that
texts are looked at before they are copied, and few rows are unfolded at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import IO, Any

_MOST_BYTES = 2**28
_LONGEST_TEXT = 2**17
"""As long as a cell of a CSV table may be."""

_ROWS_AT_ONCE = 1024

Row = dict[str, Any]
"""The cells of one row by column."""


def parquet_rows(
    file: IO[bytes], chosen: Callable[[Sequence[str]], list[str]]
) -> Iterator[Row]:
    """Read the rows of a Parquet table one after the other.

    Args:
        file: The table.
        chosen: Says which of its columns to read; they hold text or numbers.

    Yields:
        The cells of a row.

    Raises:
        ValueError: If the table is damaged, or a column holds something else.
    """
    import pyarrow as pa  # slow to import, and seldom needed
    from pyarrow import parquet

    schema = parquet.read_schema(file)
    columns = chosen(schema.names)
    for field in schema:
        if field.name in columns and not _is_plain(field.type):
            msg = f"the column '{field.name}' holds {field.type}, not text or numbers"
            raise ValueError(msg)
    file.seek(0)
    with parquet.ParquetFile(file, read_dictionary=columns) as table:
        _check_unpacked(table.metadata, columns)
        for some in table.iter_batches(_ROWS_AT_ONCE, columns=columns):
            unfolded = [_unfolded(column) for column in some.columns]
            yield from pa.table(unfolded, names=some.schema.names).to_pylist()


def _is_plain(kind: Any) -> bool:
    from pyarrow import types

    if types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    tests = (types.is_string, types.is_large_string, types.is_integer)
    return any(is_it(kind) for is_it in (*tests, types.is_floating, types.is_null))


def _check_unpacked(metadata: Any, columns: Sequence[str]) -> None:
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    parts = (group.column(i) for group in groups for i in range(group.num_columns))
    unpacked = sum(
        part.total_uncompressed_size for part in parts if part.path_in_schema in columns
    )
    if unpacked > _MOST_BYTES:
        msg = f"it would unpack to {unpacked:,} bytes; at most {_MOST_BYTES:,} are read"
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
