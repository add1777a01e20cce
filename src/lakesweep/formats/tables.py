"""Parquet files under `_lakefs/retention/gc/`: the server's uncommitted lists and our marks."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

from lakesweep.errors import FormatError

__all__ = [
    "MARK_SCHEMA",
    "UNCOMMITTED_SCHEMA",
    "UNREADABLE",
    "as_written",
    "open_parquet",
    "read_mark",
    "read_uncommitted",
    "write_mark",
    "write_uncommitted",
]

# `creation_date` counts seconds since 1970, as the server writes it.
UNCOMMITTED_SCHEMA = pa.schema(
    [
        pa.field("physical_address", pa.string(), nullable=False),
        pa.field("creation_date", pa.int64(), nullable=False),
    ]
)
MARK_SCHEMA = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size_bytes", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", "UTC")),
        pa.field("reason", pa.string()),
    ]
)


# What Arrow raises on bytes that are no Parquet file, or not the one that was written.
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)


def write_uncommitted(batches: pa.Table | Iterable[pa.RecordBatch]) -> bytes:
    """A file as the server's prepare call writes it (GZIP, dictionary of addresses)."""
    return _write(batches, UNCOMMITTED_SCHEMA, compression="gzip")


def read_uncommitted(data: bytes) -> pa.Table:
    """A file of an uncommitted list, as UNCOMMITTED_SCHEMA. Raises FormatError; a null is an error too."""
    return _read(
        data, UNCOMMITTED_SCHEMA, "uncommitted list", required=("physical_address", "creation_date")
    )


def write_mark(batches: pa.Table | Iterable[pa.RecordBatch]) -> bytes:
    """One file of a mark."""
    return _write(batches, MARK_SCHEMA, compression="snappy")


def read_mark(data: bytes) -> pa.Table:
    """One file of a mark, as MARK_SCHEMA. Marks of older clients have the address alone; what is missing is null."""
    return _read(data, MARK_SCHEMA, "mark", required=("address",))


def open_parquet(data: bytes | pa.NativeFile) -> pq.ParquetFile:
    """A Parquet file whose pages are checked where they carry checksums. Raises one of `UNREADABLE`.

    Arrow believes one of the row counts in a footer, and a damaged one would hide rows, so they have to agree. Counts of
    single columns are not looked at: asking a damaged footer for them ends the process.
    """
    source = io.BytesIO(data) if isinstance(data, bytes) else data
    file = pq.ParquetFile(source, page_checksum_verification=True)
    footer = file.metadata
    rows = sum(footer.row_group(number).num_rows for number in range(footer.num_row_groups))
    if rows != footer.num_rows:
        raise pa.ArrowInvalid(f"its footer promises {footer.num_rows} rows, its parts {rows}")
    return file


def _write(
    batches: pa.Table | Iterable[pa.RecordBatch], schema: pa.Schema, *, compression: str
) -> bytes:
    table = (
        batches if isinstance(batches, pa.Table) else pa.Table.from_batches(list(batches), schema)
    )
    out = io.BytesIO()
    pq.write_table(table.cast(schema), out, compression=compression, write_page_checksum=True)
    return out.getvalue()


def _read(data: bytes, schema: pa.Schema, what: str, *, required: tuple[str, ...]) -> pa.Table:
    try:
        table = open_parquet(data).read()
        missing = [name for name in required if name not in table.column_names]
        if missing:
            raise FormatError(
                f"a file of the {what} has no column {', '.join(missing)}", kind="bad-parquet"
            )
        columns = [
            as_written(table[field.name], field)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        ]
    except UNREADABLE as error:
        raise FormatError(
            f"a file of the {what} can't be read: {error}", kind="bad-parquet"
        ) from error
    for name, column in zip(schema.names, columns, strict=True):
        if name in required and column.null_count:
            raise FormatError(
                f"a file of the {what} has nulls in column {name}", kind="bad-parquet"
            )
    return pa.table(columns, schema=schema)


def as_written(column: pa.Array | pa.ChunkedArray, field: pa.Field) -> pa.Array | pa.ChunkedArray:
    """A column as the field has it; times in another unit than the field's are damage. Raises one of `UNREADABLE`."""
    # One flipped bit of a footer names another unit, and what is young would be fifty years old.
    if pa.types.is_timestamp(field.type) and column.type != field.type:
        raise pa.ArrowInvalid(f"{field.name} is {column.type} where {field.type} was written")
    return column.cast(field.type)
