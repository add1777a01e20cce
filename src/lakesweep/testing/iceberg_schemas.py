"""Avro schemas of Iceberg's manifests and manifest lists, as much of them as writers in the wild agree on."""

from __future__ import annotations

from typing import Any

__all__ = ["manifest_list_schema", "manifest_schema"]


def manifest_schema(format_version: int) -> dict[str, Any]:
    """Entries of a manifest."""
    is_new = format_version > 1
    data_file = [
        *([_field(134, "content", "int")] if is_new else []),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", {"type": "record", "name": "r102", "fields": []}),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        *([] if is_new else [_field(105, "block_size_in_bytes", "long")]),
        _optional(135, "equality_ids", {"type": "array", "items": "int", "element-id": 136}),
    ]
    entry = [
        _field(0, "status", "int"),
        _optional(1, "snapshot_id", "long") if is_new else _field(1, "snapshot_id", "long"),
        *(
            [
                _optional(3, "sequence_number", "long"),
                _optional(4, "file_sequence_number", "long"),
            ]
            if is_new
            else []
        ),
        _field(2, "data_file", {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return {"type": "record", "name": "manifest_entry", "fields": entry}


def manifest_list_schema(format_version: int) -> dict[str, Any]:
    """Entries of a manifest list."""
    is_new = format_version > 1
    counts = [
        _field(504, "added_files_count", "int"),
        _field(505, "existing_files_count", "int"),
        _field(506, "deleted_files_count", "int"),
        _field(512, "added_rows_count", "long"),
        _field(513, "existing_rows_count", "long"),
        _field(514, "deleted_rows_count", "long"),
    ]
    old_counts = [_optional(f["field-id"], f["name"], f["type"]) for f in counts]
    summary = {
        "type": "record",
        "name": "r508",
        "fields": [_field(509, "contains_null", "boolean")],
    }
    fields = [
        _field(500, "manifest_path", "string"),
        _field(501, "manifest_length", "long"),
        _field(502, "partition_spec_id", "int"),
        *(
            [
                _field(517, "content", "int"),
                _field(515, "sequence_number", "long"),
                _field(516, "min_sequence_number", "long"),
            ]
            if is_new
            else []
        ),
        _field(503, "added_snapshot_id", "long"),
        *(counts if is_new else old_counts),
        _optional(507, "partitions", {"type": "array", "items": summary, "element-id": 508}),
    ]
    return {"type": "record", "name": "manifest_file", "fields": fields}


def _field(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "field-id": field_id}


def _optional(field_id: int, name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", kind], "default": None, "field-id": field_id}
