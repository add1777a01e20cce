"""Files of an inventory, an object store's own list of what it holds: Parquet, ORC or CSV, read in columns and batches.

The services name their columns each in its own way. A column is found by its role, whatever its spelling, and a file that
lacks the name, the size or the time of its objects is an error: a zero in their place would look like a fact.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote_plus

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.errors import FormatError
from lakesweep.formats.tables import UNREADABLE, open_parquet

__all__ = ["INVENTORY_ROWS", "VERSIONS", "FileFormat", "Layout", "read_inventory_file"]

FileFormat = Literal["parquet", "orc", "csv"]
_Columns = dict[str, pa.Array]  # by role

VERSIONS = "inventory-versions"
_KIND = "bad-inventory"

INVENTORY_ROWS = pa.schema(
    [
        pa.field("bucket", pa.string()),  # null where the file does not tell
        pa.field("key", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("last_modified", pa.timestamp("us", "UTC")),
        # False for an old version, a delete marker, a snapshot, a folder, or what is deleted softly.
        pa.field("is_current", pa.bool_()),
    ]
)

# By role, the names that S3 Inventory, S3 Metadata, Azure and Google give a column: lower case, letters and digits only.
_NAMES = {
    "bucket": ("bucket",),
    "key": ("key", "name"),
    "size": ("size", "sizebytes", "contentlength"),
    "last_modified": ("lastmodifieddate", "lastmodified", "updated"),
    "is_latest": ("islatest", "iscurrentversion"),
    "version_id": ("versionid",),
    "is_deleted": ("isdeletemarker", "deleted"),
    "is_folder": ("hdiisfolder",),
    "snapshot": ("snapshot",),
    "deleted_at": ("timedeleted", "deletedtime"),
}
_REQUIRED = ("key", "size", "last_modified")
_TYPES = {
    "size": pa.int64(),
    "last_modified": pa.timestamp("us", "UTC"),
}

_ROWS_AT_ONCE = 200_000
_CSV_BLOCK_BYTES = 8 * 1024 * 1024
_HEADER_BYTES = 64 * 1024
_DAMAGED = (*UNREADABLE, KeyError, ValueError, EOFError, zlib.error, csv.Error)


@dataclass(frozen=True, slots=True)
class Layout:
    """How the files of an inventory are written."""

    file_format: FileFormat
    columns: tuple[str, ...] = ()  # of CSV files without a header, in order
    delimiter: str = ","
    is_gzip: bool = False  # of CSV files
    is_url_encoded: bool = False  # of keys in CSV files
    needs: tuple[str, ...] = ()  # further roles that a file must have a column for


def read_inventory_file(file: pa.NativeFile, layout: Layout) -> Iterator[pa.RecordBatch]:
    """Batches of `INVENTORY_ROWS`: every row of the file.

    Raises:
        FormatError: it can't be read to its end, lacks a column, or does not say which versions are current.
    """
    with _damage():
        if layout.file_format == "parquet":
            batches = _parquet(file, layout)
        elif layout.file_format == "orc":
            batches = _orc(file, layout)
        else:
            batches = _csv(file, layout)
        for batch in batches:
            yield _rows(batch)


def _parquet(file: pa.NativeFile, layout: Layout) -> Iterator[_Columns]:
    parquet = open_parquet(file)
    roles = _roles(parquet.schema_arrow.names, layout)
    rows = 0
    for batch in parquet.iter_batches(columns=list(roles.values()), batch_size=_ROWS_AT_ONCE):
        rows += batch.num_rows
        yield _by_role(batch, roles)
    # A page with a damaged header just ends the reading.
    _check_rows(rows, parquet.metadata.num_rows)


def _orc(file: pa.NativeFile, layout: Layout) -> Iterator[_Columns]:
    from pyarrow import orc

    stripes = orc.ORCFile(file)
    roles = _roles(stripes.schema.names, layout)
    rows = 0
    for number in range(stripes.nstripes):
        batch = stripes.read_stripe(number, columns=list(roles.values()))
        rows += batch.num_rows
        yield _by_role(batch, roles)
    _check_rows(rows, stripes.nrows)


def _csv(file: pa.NativeFile, layout: Layout) -> Iterator[_Columns]:
    from pyarrow import csv as arrow_csv

    begin = _text(file, layout).read(_HEADER_BYTES)
    if not begin:
        return  # no line, and so no object
    roles = _roles(layout.columns or _header(begin, layout.delimiter), layout)
    reader = arrow_csv.open_csv(
        _text(file, layout),
        arrow_csv.ReadOptions(
            column_names=list(layout.columns) or None, block_size=_CSV_BLOCK_BYTES
        ),
        # A key that is not encoded may hold a line break.
        arrow_csv.ParseOptions(
            delimiter=layout.delimiter, newlines_in_values=not layout.is_url_encoded
        ),
        arrow_csv.ConvertOptions(
            column_types={name: _TYPES.get(role, pa.string()) for role, name in roles.items()},
            include_columns=list(roles.values()),
        ),
    )
    for batch in reader:
        told = _by_role(batch, roles)
        if layout.is_url_encoded:
            told["key"] = _decoded(told["key"])
        yield told


def _text(file: pa.NativeFile, layout: Layout) -> pa.NativeFile:
    """A CSV file from its begin. Python's reader of gzip tells where a file was cut short."""
    file.seek(0)
    return pa.PythonFile(gzip.GzipFile(fileobj=file), mode="r") if layout.is_gzip else file


def _header(begin: bytes, delimiter: str) -> list[str]:
    """The names in the first line of a CSV file."""
    text = begin.decode("utf-8-sig", errors="replace")
    return next(csv.reader(io.StringIO(text), delimiter=delimiter), [])


def _decoded(keys: pa.Array) -> pa.Array:
    """Keys of S3's CSV files, where a space is a plus."""
    is_encoded = pc.match_substring_regex(keys, "[%+]")
    some = [unquote_plus(key, errors="strict") for key in keys.filter(is_encoded).to_pylist()]
    return pc.replace_with_mask(keys, is_encoded, pa.array(some, pa.string()))


def _roles(names: Sequence[str], layout: Layout) -> dict[str, str]:
    """Which column has which role. Two for one role, or none for one that is needed, can't be understood."""
    roles: dict[str, str] = {}
    for name in names:
        plain = "".join(letter for letter in name.lower() if letter.isalnum())
        for role in (role for role, known in _NAMES.items() if plain in known):
            if role in roles:
                raise FormatError(
                    f"its columns {roles[role]!r} and {name!r} have the same meaning", kind=_KIND
                )
            roles[role] = name
    missing = [role for role in (*_REQUIRED, *layout.needs) if role not in roles]
    if missing:
        wanted = "; ".join(f"{role}: one of {', '.join(_NAMES[role])}" for role in missing)
        raise FormatError(
            f"it lacks a column ({wanted}); it has {', '.join(names) or 'none'}", kind=_KIND
        )
    return roles


def _by_role(batch: pa.RecordBatch, roles: Mapping[str, str]) -> _Columns:
    return {role: batch.column(name) for role, name in roles.items()}


def _rows(told: _Columns) -> pa.RecordBatch:
    count = len(told["key"])
    is_current = _is_current(told, count)
    columns = {
        "bucket": _cast(told, "bucket") if "bucket" in told else pa.nulls(count, pa.string()),
        **{role: _cast(told, role) for role in _REQUIRED},
        "is_current": is_current,
    }
    for role in ("key", "size"):
        if pc.any(pc.and_(is_current, pc.is_null(columns[role]))).as_py():
            raise FormatError(f"an object has no {role}", kind=_KIND)
    if pc.any(pc.less(columns["size"], 0)).as_py():
        raise FormatError("an object has a size below zero", kind=_KIND)
    return pa.RecordBatch.from_arrays(
        [columns[field.name] for field in INVENTORY_ROWS], schema=INVENTORY_ROWS
    )


def _cast(told: _Columns, role: str) -> pa.Array:
    """A column in its own type. A number is no time: nobody tells its unit."""
    column, wanted = told[role], INVENTORY_ROWS.field(role).type
    if role == "last_modified":
        if not (pa.types.is_timestamp(column.type) or _is_text(column.type)):
            raise FormatError(f"its times are of the type {column.type}", kind=_KIND)
        # Times without a zone are UTC, in Parquet and in ORC; finer than a microsecond is no store.
        return column.cast(wanted, safe=not pa.types.is_timestamp(column.type))
    return column.cast(wanted)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_current(told: _Columns, count: int) -> pa.Array:
    """Which rows are objects that can be read by their keys. What does not say that it is the latest version is not."""
    is_current = pa.array([True]).take(pa.array(np.zeros(count, np.int64)))
    if "is_latest" in told:
        is_current = _is_true(told["is_latest"])
    elif "version_id" in told and pc.any(_is_told(told["version_id"])).as_py():
        raise FormatError(
            "it lists versions of objects and does not say which are the latest", kind=VERSIONS
        )
    for role in ("is_deleted", "is_folder"):
        if role in told:
            is_current = pc.and_not(is_current, _is_true(told[role]))
    for role in ("snapshot", "deleted_at"):
        if role in told:
            is_current = pc.and_not(is_current, _is_told(told[role]))
    return is_current


def _is_true(column: pa.Array) -> pa.Array:
    if not pa.types.is_boolean(column.type):
        column = pc.equal(pc.utf8_lower(column.cast(pa.string())), "true")
    return pc.fill_null(column, False)


def _is_told(column: pa.Array) -> pa.Array:
    """Which rows have a value; an empty text is none."""
    return pc.fill_null(pc.not_equal(column.cast(pa.string()), ""), False)


def _check_rows(read: int, promised: int) -> None:
    if read != promised:
        raise FormatError(f"{read} of {promised} rows could be read", kind=_KIND)


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except FormatError:
        raise
    except _DAMAGED as error:
        said = str(error).splitlines() or [type(error).__name__]
        raise FormatError(said[0][:200], kind=_KIND) from error
