"""Storage Insights inventory reports of Google Cloud Storage: the manifest of one, which names its shards."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from lakesweep.collector.inventory.values import (
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

KIND = "Storage Insights inventory report"


def is_gcs(manifest: Manifest) -> bool:
    """Whether the manifest is one of a Storage Insights inventory report."""
    return "report_shards_file_names" in manifest.values


def gcs_inventory(manifest: Manifest, namespace: Location) -> Inventory:
    """The report that a manifest tells of. Which bucket it lists, its rows say."""
    values = manifest.values
    names = values["report_shards_file_names"]
    if not isinstance(names, list) or not all(isinstance(n, str) and n for n in names):
        raise manifest.damaged("its list of shards is not understood")
    if values.get("shard_count", len(names)) != len(names):
        why = f"{values['shard_count']} shards are promised, and {len(names)} are named"
        raise doubt_about(manifest.location.uri, why, kind=INCOMPLETE)
    rows = values.get("records_processed")
    return Inventory(
        kind=KIND,
        uri=manifest.location.uri,
        taken_at=_time(manifest),
        # Shards lie in the manifest's folder.
        files=tuple(
            InventoryFile(manifest.file_at(manifest.folder, name.rpartition("/")[2]))
            for name in names
        ),
        layout=_layout(manifest, names),
        bucket=namespace.container,
        has_bucket_column=True,
        rows=rows if isinstance(rows, int) else None,
    )


def _time(manifest: Manifest) -> datetime:
    try:
        return parse_time(manifest.text("snapshot_time"))
    except ConfigError as error:
        raise manifest.damaged("its snapshot_time is not understood") from error


def _layout(manifest: Manifest, names: list[str]) -> Layout:
    if all(name.endswith(".parquet") for name in names):
        return Layout("parquet")
    if not all(name.endswith(".csv") for name in names):
        raise manifest.damaged("its shards are neither all Parquet nor all CSV")
    config = manifest.values.get("report_config")
    csv = _either(config, "csv_options", "csvOptions")
    options = _either(config, "object_metadata_report_options", "objectMetadataReportOptions")
    fields = _either(options, "metadata_fields", "metadataFields")
    delimiter = _either(csv, "delimiter", "delimiter") or ","
    if _either(csv, "header_required", "headerRequired"):
        return Layout("csv", delimiter=delimiter)
    if not isinstance(fields, list) or not fields:
        raise manifest.damaged("its shards have no header, and it does not name their columns")
    return Layout("csv", tuple(map(str, fields)), delimiter=delimiter)


def _either(values: object, snake: str, camel: str) -> Any:
    """A value by its name in the one spelling or the other: the API has both."""
    if not isinstance(values, Mapping):
        return None
    return values.get(snake, values.get(camel))
