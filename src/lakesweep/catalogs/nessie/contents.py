"""Contents from Nessie's JSON: tables and views by their fields, and of all else every location that it names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakesweep.catalogs.nessie.values import CatalogContent, TableState
from lakesweep.catalogs.nessie.wire import ContentWire, KeyWire
from lakesweep.domain.live_sets import ContentKind, OtherContent
from lakesweep.errors import CatalogError

__all__ = ["read_content"]

_NAMESPACE = "NAMESPACE"
_SNAPSHOT_FIELD = {ContentKind.ICEBERG_TABLE: "snapshotId", ContentKind.ICEBERG_VIEW: "versionId"}

_WHOLE_LOCATION = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/")
# Locations inside longer text, such as a checkpoint that is kept as JSON, also where text goes on behind a sign that a
# location may have, as in lists and statements. One too many, or too short, can only protect more.
_LOCATION_WITHIN = (
    re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/[^\s\"'<>]+"),
    re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/[^\s\"'<>,;|`\\)\]}]+"),
)


def read_content(operation: str, key: KeyWire, wire: ContentWire) -> CatalogContent | None:
    """A content as a value; None for a namespace, which has no files.

    Raises:
        CatalogError: a field that tells a live file is missing.
    """
    if wire.type == _NAMESPACE:
        return None
    elements = tuple(key.elements)
    if not wire.id:
        raise _incomplete(operation, elements, wire, "id")
    if wire.type not in ContentKind.__members__:
        locations = tuple(dict.fromkeys(_locations(wire.fields())))
        return OtherContent(wire.id, elements, wire.type, locations)
    kind = ContentKind[wire.type]
    fields = wire.fields()
    location = fields.get("metadataLocation")
    if not isinstance(location, str) or not location:
        raise _incomplete(operation, elements, wire, "metadataLocation")
    snapshot_id = fields.get(_SNAPSHOT_FIELD[kind])
    if not isinstance(snapshot_id, int) or isinstance(snapshot_id, bool):
        raise _incomplete(operation, elements, wire, _SNAPSHOT_FIELD[kind])
    return TableState(wire.id, elements, kind, location, snapshot_id)


def _incomplete(
    operation: str, elements: tuple[str, ...], wire: ContentWire, field: str
) -> CatalogError:
    return CatalogError(
        f"{operation}: the {wire.type} at {'.'.join(elements)} has no {field}, so its live files are not known. "
        "It was not used. Check that the server is a Nessie server, and its version.",
        kind="catalog-nonsense",
    )


def _locations(value: object) -> Iterator[str]:
    """Every string in a JSON value that looks like a place in a store."""
    if isinstance(value, str):
        if _WHOLE_LOCATION.match(value):
            yield value
        for within in _LOCATION_WITHIN:
            yield from within.findall(value)
    elif isinstance(value, dict):
        for inner in (*value, *value.values()):
            yield from _locations(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _locations(inner)
