"""From a URI to an inventory: its manifest is found, checked and read; its files are not."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime, timedelta

from lakesweep.collector.inventory import azure, gcs, s3
from lakesweep.collector.inventory.values import (
    ELSEWHERE,
    INCOMPLETE,
    Inventory,
    InventoryFile,
    Manifest,
    doubt_about,
    folder_of,
    name_of,
)
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.durations import format_duration, format_time
from lakesweep.domain.location import Location, StoreKind
from lakesweep.errors import ConfigError
from lakesweep.formats.inventory_files import Layout
from lakesweep.json_text import parse_json
from lakesweep.storage import ObjectStore, open_store

PLAIN = "Parquet list"

# The stores that each service lists; memory stands for any of them.
_STORES: dict[str, tuple[StoreKind, ...]] = {
    s3.KIND: ("s3", "mem"),
    azure.KIND: ("azure", "mem"),
    gcs.KIND: ("gs", "mem"),
}
_MANIFEST = re.compile(r"(?:.+[-_])?manifest\.json")
_DATED_FOLDER = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\dZ")


def open_inventory(namespace: Target, uri: str) -> Inventory:
    """The inventory at a URI, which must be one of the store that the namespace lies in.

    The URI names a manifest, the folder of one, the folder of an S3 Inventory configuration (its newest is taken), or a
    Parquet file or a folder of such.

    Raises:
        ConfigError: nothing there is an inventory.
        UnsafeToSweepError: what is there can't be believed, or lists another place.
    """
    location = Location.parse(uri, namespace_root=namespace.namespace_root)
    if location.key.endswith(".json"):
        return _from_manifest(namespace, location)
    if location.key.endswith(".parquet"):
        folder = open_store(folder_of(location), namespace.storage)
        found = folder.find(name_of(location))
        if found is None:
            raise _nothing_at(uri)
        return _plain(namespace, location, [(location, found.size, found.last_modified)])
    store = open_store(location, namespace.storage)
    manifest = _manifest_in(store)
    if manifest is not None:
        return _from_manifest(namespace, manifest)
    files = _parquet_files(store)
    if not files:
        raise _nothing_at(uri)
    return _plain(namespace, location, files)


def check_time(inventory: Inventory, now: datetime, max_age: timedelta) -> None:
    """Refuse an inventory that says it was taken later than now, or one that is too old to be of use."""
    age = now - inventory.taken_at
    # The store's clock and ours may differ by this much; a time beyond that is nobody's present.
    if -age > SAFETY_FULL.clock_skew:
        why = f"it says that it was taken at {format_time(inventory.taken_at)}, and now it is {format_time(now)}"
        raise doubt_about(inventory.uri, why, kind="inventory-from-the-future")
    if age > max_age:
        limit = format_duration(max_age)
        why = f"it was taken at {format_time(inventory.taken_at)}, more than {limit} ago (--max-inventory-age)"
        raise doubt_about(inventory.uri, why, kind="inventory-too-old")


def _from_manifest(namespace: Target, location: Location) -> Inventory:
    manifest = _read_manifest(open_store(folder_of(location), namespace.storage), location)
    if s3.is_s3(manifest):
        inventory = s3.s3_inventory(manifest)
    elif azure.is_azure(manifest):
        inventory = azure.azure_inventory(manifest, namespace.namespace)
    elif gcs.is_gcs(manifest):
        inventory = gcs.gcs_inventory(manifest, namespace.namespace)
    else:
        raise manifest.damaged(
            "it is none of S3 Inventory, Azure Blob inventory or Google's reports"
        )
    place = namespace.namespace
    # Keys of another bucket may be keys of this one, too, with other objects behind them.
    if place.kind not in _STORES[inventory.kind] or inventory.bucket != place.container:
        why = f"it lists the bucket {inventory.bucket} ({inventory.kind}), and the repository lies in {place.uri}"
        raise doubt_about(inventory.uri, why, kind=ELSEWHERE)
    return inventory


def _read_manifest(folder: ObjectStore, location: Location) -> Manifest:
    name = name_of(location)
    if folder.find(name) is None:
        raise _nothing_at(location.uri)
    data = folder.read(name)
    # S3 writes it last, so that a manifest with the wrong sum is one that is being written or was cut.
    checksum = folder.find(f"{name.removesuffix('.json')}.checksum")
    if checksum is not None:
        digest = hashlib.md5(data, usedforsecurity=False).digest()
        said = folder.read(checksum.key).decode("ascii", errors="replace").strip()
        if said.lower() != digest.hex() and said != base64.b64encode(digest).decode():
            why = f"the MD5 sum of its manifest is not the one in {checksum.key}"
            raise doubt_about(location.uri, why, kind=INCOMPLETE)
    try:
        values = parse_json(data)
    except ValueError as error:
        raise Manifest(location).damaged(f"it is no JSON ({error})") from error
    if not isinstance(values, dict):
        raise Manifest(location).damaged("it is no JSON object")
    return Manifest(location, values)


def _manifest_in(store: ObjectStore) -> Location | None:
    """The one manifest of a folder, or that of the newest inventory in the folder of an S3 Inventory configuration."""
    told = store.list_folder()
    names = [n for n in told.objects.column("key").to_pylist() if _MANIFEST.fullmatch(n)]
    if len(names) > 1:
        raise ConfigError(
            f"{store.root.uri} holds {len(names)} manifests of inventories. Nothing was touched. Name one of them: "
            f"{', '.join(sorted(names)[:3])}",
            kind="no-inventory",
        )
    if names:
        return store.root.child(names[0])
    # The folders' names are times: a later one without a manifest is not complete yet.
    for folder in sorted(told.folders, reverse=True):
        name = f"{folder}manifest.json"
        if _DATED_FOLDER.fullmatch(folder.rstrip("/")) and store.find(name) is not None:
            return store.root.child(name)
    return None


_Told = tuple[Location, int, datetime | None]


def _parquet_files(store: ObjectStore) -> list[_Told]:
    """The Parquet files of a folder; names that begin with "_" or "." are those of other tools."""
    found: list[_Told] = []
    for page in store.list(""):
        for row in page.select(["key", "size", "last_modified"]).to_pylist():
            segments = row["key"].split("/")
            if row["key"].endswith(".parquet") and not any(s[:1] in ("_", ".") for s in segments):
                found.append((store.root.child(row["key"]), row["size"], row["last_modified"]))
    return found


def _plain(namespace: Target, location: Location, files: list[_Told]) -> Inventory:
    """Parquet files without a manifest: as old as the oldest of them."""
    times = [at for _, _, at in files if at is not None]
    if len(times) < len(files):
        why = "the store does not say when its files were written"
        raise doubt_about(location.uri, why, kind="inventory-too-old")
    return Inventory(
        kind=PLAIN,
        uri=location.uri,
        taken_at=min(times),
        files=tuple(InventoryFile(at, size) for at, size, _ in files),
        layout=Layout("parquet"),
        bucket=namespace.namespace.container,
    )


def _nothing_at(uri: str) -> ConfigError:
    return ConfigError(
        f"--inventory {uri}: there is no manifest of an inventory and no Parquet file. Nothing was touched. Name the "
        "manifest, its folder, or a Parquet file or folder.",
        kind="no-inventory",
    )
