"""Iceberg's own files written straight, without a table library: metadata, manifest lists, manifests.

They carry the field ids of the specification, so Iceberg and pyiceberg read them too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakesweep_testing.avro_writer import write_avro

__all__ = [
    "ADDED",
    "DELETED",
    "EXISTING",
    "Entry",
    "ListedManifest",
    "table_metadata",
    "view_metadata",
    "write_manifest",
    "write_manifest_list",
]

EXISTING, ADDED, DELETED = range(3)
_DATA, _POSITION_DELETES, _EQUALITY_DELETES = range(3)
_UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"
_SCHEMA = {
    "type": "struct",
    "schema-id": 0,
    "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a manifest. `content`: 0 data, 1 position deletes (also deletion vectors), 2 equality deletes."""

    path: str
    status: int = ADDED
    content: int = _DATA
    deletion_vector_of: str | None = None


@dataclass(frozen=True, slots=True)
class ListedManifest:
    """One manifest as its list tells of it; counts of None are written as null."""

    path: str
    length: int
    added: int | None = 0
    existing: int | None = 0
    deleted: int | None = 0
    is_deletes: bool = False
    key_metadata: bytes | None = None


def write_manifest(
    entries: Sequence[Entry], *, version: int = 2, snapshot_id: int = 1, codec: str = "deflate"
) -> bytes:
    """A manifest of an unpartitioned table with one column."""
    is_deletes = any(entry.content != _DATA for entry in entries)
    metadata = {
        "schema": json.dumps(_SCHEMA).encode(),
        "schema-id": b"0",
        "partition-spec": b"[]",
        "partition-spec-id": b"0",
        "format-version": str(version).encode(),
    }
    if version > 1:
        metadata["content"] = b"deletes" if is_deletes else b"data"
    rows = [_entry_row(entry, version, snapshot_id) for entry in entries]
    return write_avro(_entry_schema(version), rows, codec=codec, metadata=metadata)


def write_manifest_list(
    manifests: Sequence[ListedManifest],
    *,
    version: int = 2,
    snapshot_id: int = 1,
    codec: str = "deflate",
    old_names: bool = False,
) -> bytes:
    """A manifest list. `old_names` writes the counts under the names from before there were delete files."""
    metadata = {"snapshot-id": str(snapshot_id).encode(), "format-version": str(version).encode()}
    rows = [_manifest_row(one, version, snapshot_id, old_names) for one in manifests]
    return write_avro(_list_schema(version, old_names), rows, codec=codec, metadata=metadata)


def table_metadata(
    location: str,
    snapshots: Sequence[Mapping[str, Any]] = (),
    /,
    *,
    version: int = 2,
    current: int | None = None,
    **more: Any,
) -> bytes:
    """A `metadata.json`. A snapshot needs only its id and its manifest list or manifests; `more` adds or replaces fields."""
    fields: dict[str, Any] = {
        "format-version": version,
        "table-uuid": _UUID,
        "location": location,
        "last-updated-ms": 1_700_000_000_000,
        "last-column-id": 1,
        "properties": {},
        "current-snapshot-id": -1 if current is None else current,
        "snapshots": [_snapshot(number, one, version) for number, one in enumerate(snapshots, 1)],
        "snapshot-log": [],
        "metadata-log": [],
        "schemas": [_SCHEMA],
        "current-schema-id": 0,
        "partition-specs": [{"spec-id": 0, "fields": []}],
        "default-spec-id": 0,
        "last-partition-id": 999,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
    }
    if version == 1:
        fields |= {"schema": _SCHEMA, "partition-spec": []}
        del fields["table-uuid"]
    else:
        fields["last-sequence-number"] = len(snapshots)
    if version == 3:
        fields["next-row-id"] = 0
    fields |= {name.replace("_", "-"): value for name, value in more.items()}
    return json.dumps(fields).encode()


def view_metadata(location: str) -> bytes:
    """A view's `metadata.json`."""
    version = {
        "version-id": 1,
        "timestamp-ms": 1_700_000_000_000,
        "schema-id": 0,
        "summary": {},
        "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
        "default-namespace": ["db"],
    }
    fields = {
        "view-uuid": _UUID,
        "format-version": 1,
        "location": location,
        "schemas": [_SCHEMA],
        "current-version-id": 1,
        "versions": [version],
        "version-log": [{"timestamp-ms": 1_700_000_000_000, "version-id": 1}],
    }
    return json.dumps(fields).encode()


def _snapshot(number: int, given: Mapping[str, Any], version: int) -> dict[str, Any]:
    fields = {
        "timestamp-ms": 1_700_000_000_000 + number,
        "summary": {"operation": "append"},
        "schema-id": 0,
    }
    if version > 1:
        fields["sequence-number"] = number
    if version > 2:
        fields |= {"first-row-id": 0, "added-rows": 0}
    return {**fields, **given}


def _field(name: str, type_: Any, id_: int, *, is_optional: bool = False) -> dict[str, Any]:
    if is_optional:
        return {"name": name, "type": ["null", type_], "default": None, "field-id": id_}
    return {"name": name, "type": type_, "field-id": id_}


def _map(key_id: int, value: Any, value_id: int) -> dict[str, Any]:
    """Avro's maps have texts for keys, so Iceberg writes an array of pairs."""
    fields = [_field("key", "int", key_id), _field("value", value, value_id)]
    pair = {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": fields}
    return {"type": "array", "logicalType": "map", "items": pair}


def _entry_schema(version: int) -> dict[str, Any]:
    partition = {"type": "record", "name": "r102", "fields": []}
    file = [
        *([_field("content", "int", 134)] if version > 1 else []),
        _field("file_path", "string", 100),
        _field("file_format", "string", 101),
        _field("partition", partition, 102),
        _field("record_count", "long", 103),
        _field("file_size_in_bytes", "long", 104),
        *([_field("block_size_in_bytes", "long", 105)] if version == 1 else []),
        _field("column_sizes", _map(117, "long", 118), 108, is_optional=True),
        _field("lower_bounds", _map(126, "bytes", 127), 125, is_optional=True),
        _field("key_metadata", "bytes", 131, is_optional=True),
    ]
    if version > 2:
        file += [
            _field("first_row_id", "long", 142, is_optional=True),
            _field("referenced_data_file", "string", 143, is_optional=True),
            _field("content_offset", "long", 144, is_optional=True),
            _field("content_size_in_bytes", "long", 145, is_optional=True),
        ]
    fields = [_field("status", "int", 0)]
    if version == 1:
        fields.append(_field("snapshot_id", "long", 1))
    else:
        fields += [
            _field("snapshot_id", "long", 1, is_optional=True),
            _field("sequence_number", "long", 3, is_optional=True),
            _field("file_sequence_number", "long", 4, is_optional=True),
        ]
    fields.append(_field("data_file", {"type": "record", "name": "r2", "fields": file}, 2))
    return {"type": "record", "name": "manifest_entry", "fields": fields}


def _entry_row(entry: Entry, version: int, snapshot_id: int) -> dict[str, Any]:
    is_vector = entry.deletion_vector_of is not None
    file = {
        "content": entry.content,
        "file_path": entry.path,
        "file_format": "PUFFIN" if is_vector else "PARQUET",
        "partition": {},
        "record_count": 1,
        "file_size_in_bytes": 1000,
        "block_size_in_bytes": 1,
        "column_sizes": [{"key": 1, "value": 40}],
        "lower_bounds": [{"key": 1, "value": bytes(8)}],
        "key_metadata": None,
        # Row lineage: new files inherit the manifest's number, carried ones have their own.
        "first_row_id": 0 if entry.status == EXISTING and entry.content == _DATA else None,
        "referenced_data_file": entry.deletion_vector_of,
        "content_offset": 4 if is_vector else None,
        "content_size_in_bytes": 40 if is_vector else None,
    }
    return {
        "status": entry.status,
        "snapshot_id": snapshot_id,
        "sequence_number": 1,
        "file_sequence_number": 1,
        "data_file": file,
    }


def _list_schema(version: int, old_names: bool) -> dict[str, Any]:
    is_optional = version == 1
    files = "data_files" if old_names else "files"
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [
            _field("contains_null", "boolean", 509),
            _field("contains_nan", "boolean", 518, is_optional=True),
            _field("lower_bound", "bytes", 510, is_optional=True),
            _field("upper_bound", "bytes", 511, is_optional=True),
        ],
    }
    summaries = {"type": "array", "items": summary, "element-id": 508}
    fields = [
        _field("manifest_path", "string", 500),
        _field("manifest_length", "long", 501),
        _field("partition_spec_id", "int", 502),
    ]
    if version > 1:
        fields += [
            _field("content", "int", 517),
            _field("sequence_number", "long", 515),
            _field("min_sequence_number", "long", 516),
        ]
    fields += [
        _field("added_snapshot_id", "long", 503),
        _field(f"added_{files}_count", "int", 504, is_optional=is_optional),
        _field(f"existing_{files}_count", "int", 505, is_optional=is_optional),
        _field(f"deleted_{files}_count", "int", 506, is_optional=is_optional),
        _field("added_rows_count", "long", 512, is_optional=is_optional),
        _field("existing_rows_count", "long", 513, is_optional=is_optional),
        _field("deleted_rows_count", "long", 514, is_optional=is_optional),
        _field("partitions", summaries, 507, is_optional=True),
        _field("key_metadata", "bytes", 519, is_optional=True),
    ]
    if version > 2:
        fields.append(_field("first_row_id", "long", 520, is_optional=True))
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _manifest_row(
    one: ListedManifest, version: int, snapshot_id: int, old_names: bool
) -> dict[str, Any]:
    files = "data_files" if old_names else "files"
    return {
        "manifest_path": one.path,
        "manifest_length": one.length,
        "partition_spec_id": 0,
        "content": int(one.is_deletes),
        "sequence_number": 1,
        "min_sequence_number": 1,
        "added_snapshot_id": snapshot_id,
        f"added_{files}_count": one.added,
        f"existing_{files}_count": one.existing,
        f"deleted_{files}_count": one.deleted,
        "added_rows_count": one.added,
        "existing_rows_count": one.existing,
        "deleted_rows_count": one.deleted,
        "partitions": [],
        "key_metadata": one.key_metadata,
        "first_row_id": None if one.is_deletes else 0,
    }
