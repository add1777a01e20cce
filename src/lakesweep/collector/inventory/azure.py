"""Azure Blob inventory: the manifest of one run of a rule, which names its files with their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from lakesweep.collector.inventory.values import (
    ELSEWHERE,
    INCOMPLETE,
    Inventory,
    InventoryFile,
    Manifest,
    doubt_about,
)
from lakesweep.domain.durations import parse_time
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError
from lakesweep.formats.inventory_files import Layout

KIND = "Azure Blob inventory"

# By the filter of a rule that lists more than blobs, the role of the column that tells them apart.
_TELLS_APART = {
    "includeBlobVersions": "is_latest",
    "includeSnapshots": "snapshot",
    "includeDeleted": "is_deleted",
}


def is_azure(manifest: Manifest) -> bool:
    """Whether the manifest is one of an Azure Blob inventory."""
    return "ruleDefinition" in manifest.values


def azure_inventory(manifest: Manifest, namespace: Location) -> Inventory:
    """The inventory that a manifest tells of, which may list many containers of one account."""
    uri, rule = manifest.location.uri, manifest.values["ruleDefinition"]
    if not isinstance(rule, Mapping):
        raise manifest.damaged("its ruleDefinition is not understood")
    status = manifest.text("status")
    if status != "Succeeded":
        raise doubt_about(
            uri, f"its run ended as {status!r}, and not as 'Succeeded'", kind=INCOMPLETE
        )
    kind = manifest.text("ruleDefinition", "objectType")
    if kind.lower() != "blob":
        raise manifest.damaged(f"it lists objects of the type {kind!r}, and not blobs")
    _refuse_other_account(manifest, namespace)
    filters = rule.get("filters") or {}
    if not isinstance(filters, Mapping):
        raise manifest.damaged("its filters are not understood")
    return Inventory(
        kind=KIND,
        uri=uri,
        taken_at=_time(manifest),
        files=tuple(_file(manifest, file) for file in manifest.values.get("files") or ()),
        layout=_layout(manifest, filters),
        bucket=namespace.container,
        begins_with_container=True,
        filters=_filters_text(filters),
    )


def _refuse_other_account(manifest: Manifest, namespace: Location) -> None:
    endpoint = manifest.text("endpoint").rstrip("/")
    try:
        account = Location.parse(f"{endpoint}/{namespace.container}").account
    except ConfigError as error:
        raise manifest.damaged(f"its endpoint {endpoint!r} is not understood") from error
    if namespace.account and account != namespace.account:
        why = f"it lists blobs of the account {account}, and {namespace.uri} lies in another"
        raise doubt_about(manifest.location.uri, why, kind=ELSEWHERE)


def _time(manifest: Manifest) -> datetime:
    try:
        return parse_time(manifest.text("inventoryStartTime"))
    except ConfigError as error:
        raise manifest.damaged("its inventoryStartTime is not understood") from error


def _layout(manifest: Manifest, filters: Mapping[str, object]) -> Layout:
    """A rule that lists versions, snapshots or deleted blobs, too, must tell them from blobs that can be read."""
    needs = tuple(role for switch, role in _TELLS_APART.items() if filters.get(switch))
    match manifest.text("ruleDefinition", "format").lower():
        case "parquet":
            return Layout("parquet", needs=needs)
        case "csv":
            return Layout("csv", needs=needs)
        case other:
            raise manifest.damaged(f"its files are {other!r}, and not Parquet or CSV")


def _file(manifest: Manifest, told: object) -> InventoryFile:
    """A file lies in the manifest's folder, also where both were copied."""
    match told:
        case {"blob": str(blob), "size": int(size)} if blob:
            return InventoryFile(manifest.file_at(manifest.folder, blob.rpartition("/")[2]), size)
    raise manifest.damaged("one of its files lacks its blob or its size")


def _filters_text(filters: Mapping[str, object]) -> str:
    found = [
        f"{name} {', '.join(map(str, value))}"
        for name in ("blobTypes", "prefixMatch", "excludePrefix")
        if isinstance(value := filters.get(name), list) and value
    ]
    days = filters.get("creationTime")
    return "; ".join([*found, *([f"creationTime {days}"] if days else [])])
