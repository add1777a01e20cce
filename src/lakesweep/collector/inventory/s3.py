"""S3 Inventory: the manifest.json of one, which names its files with their sizes and MD5 sums."""

from __future__ import annotations

from datetime import UTC, datetime

from lakesweep.collector.inventory.values import Inventory, InventoryFile, Manifest, folder_of
from lakesweep.domain.location import Location
from lakesweep.formats.inventory_files import Layout

KIND = "S3 Inventory"


def is_s3(manifest: Manifest) -> bool:
    """Whether the manifest is one of S3 Inventory."""
    return "sourceBucket" in manifest.values and "fileSchema" in manifest.values


def s3_inventory(manifest: Manifest) -> Inventory:
    """The inventory that a manifest tells of."""
    files = manifest.values.get("files")
    if not isinstance(files, list):
        raise manifest.damaged("it has no list of files")
    return Inventory(
        kind=KIND,
        uri=manifest.location.uri,
        taken_at=_time(manifest),
        files=tuple(_file(manifest, file) for file in files),
        layout=_layout(manifest),
        bucket=manifest.text("sourceBucket"),
        has_bucket_column=True,
    )


def _time(manifest: Manifest) -> datetime:
    """When the store began to list; the manifest has milliseconds since 1970, as a text."""
    text = str(manifest.values.get("creationTimestamp"))
    if not text.isascii() or not text.isdigit() or len(text) > 14:
        raise manifest.damaged(f"its creationTimestamp is {text!r}")
    return datetime.fromtimestamp(int(text) / 1000, UTC)


def _layout(manifest: Manifest) -> Layout:
    match manifest.text("fileFormat").lower():
        case "parquet":
            return Layout("parquet")
        case "orc":
            return Layout("orc")
        case "csv":
            names = tuple(name.strip() for name in manifest.text("fileSchema").split(","))
            return Layout("csv", names, is_gzip=True, is_url_encoded=True)
        case other:
            raise manifest.damaged(f"its files are {other!r}, and not Parquet, ORC or CSV")


def _file(manifest: Manifest, told: object) -> InventoryFile:
    match told:
        case {"key": str(key), "size": int(size), "MD5checksum": str(md5)} if key and md5:
            return InventoryFile(_location(manifest, key), size, md5.lower())
    raise manifest.damaged("one of its files lacks its key, its size or its MD5checksum")


def _location(manifest: Manifest, key: str) -> Location:
    """Where a file lies: its key is one of the destination bucket. In a copy of the inventory it keeps its place
    beside the manifest's folder: <configuration>/<date>/manifest.json and <configuration>/data/<file>."""
    at, bucket = manifest.location, manifest.text("destinationBucket").rpartition(":")[2]
    if at.kind == "s3" and at.container == bucket:
        return manifest.file_at(Location(at.kind, at.container, ""), key)
    return manifest.file_at(folder_of(manifest.folder), "/".join(key.split("/")[-2:]))
