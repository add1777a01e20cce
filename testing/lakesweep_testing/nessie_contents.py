"""Contents as Nessie's JSON has them, for tests that write to a fake or to a real server."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

__all__ = ["Content", "Key", "delta_table", "namespace", "parents_of", "table", "udf", "view"]

Key = tuple[str, ...]
Content = dict[str, object]


def table(metadata_location: str, snapshot_id: int = -1, *, id: str | None = None) -> Content:
    """An Iceberg table. Without an id it keeps the one that its key has, or is a new table."""
    numbers: Content = {
        "snapshotId": snapshot_id,
        "schemaId": 0,
        "specId": 0,
        "sortOrderId": 0,
    }
    return _content("ICEBERG_TABLE", id, {"metadataLocation": metadata_location, **numbers})


def view(metadata_location: str, version_id: int = 1, *, id: str | None = None) -> Content:
    """An Iceberg view."""
    fields: Content = {
        "metadataLocation": metadata_location,
        "versionId": version_id,
        "schemaId": 0,
    }
    return _content("ICEBERG_VIEW", id, fields)


def delta_table(
    metadata_locations: Iterable[str],
    checkpoint_locations: Iterable[str] = (),
    *,
    last_checkpoint: str | None = None,
    id: str | None = None,
) -> Content:
    """A Delta Lake table."""
    fields: Content = {
        "metadataLocationHistory": list(metadata_locations),
        "checkpointLocationHistory": list(checkpoint_locations),
        "lastCheckpoint": last_checkpoint,
    }
    return _content("DELTA_LAKE_TABLE", id, fields)


def udf(metadata_location: str, *, id: str | None = None) -> Content:
    """A user-defined function that lies in a file."""
    fields: Content = {
        "metadataLocation": metadata_location,
        "versionId": "1",
        "signatureId": "1",
    }
    return _content("UDF", id, fields)


def namespace(elements: Iterable[str]) -> Content:
    """A namespace."""
    return _content("NAMESPACE", None, {"elements": list(elements), "properties": {}})


def _content(kind: str, id: str | None, fields: Mapping[str, object]) -> Content:
    return {"type": kind, **({} if id is None else {"id": id}), **fields}


def parents_of(key: Key) -> list[Key]:
    """The namespaces that a key lies in, outermost first."""
    return [key[:length] for length in range(1, len(key))]
