"""Inventories of a bucket in memory, written as each service documents its own."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq

from lakesweep.collector.lakefs.request import MarkRequest
from lakesweep.storage.memory import memory_container
from lakesweep_testing.scene import AGED, Scene

__all__ = ["FORMATS", "Row", "WrittenInventory", "by", "inventory_of", "rows_of", "taken"]

_ETAG = "d41d8cd98f00b204e9800998ecf8427e"


@dataclass(frozen=True, slots=True)
class Row:
    """An object as an inventory has it. The last three are told by inventories of versions."""

    key: str
    size: int
    at: datetime
    bucket: str
    version: str | None = None
    is_latest: bool | None = None
    is_deleted: bool = False


@dataclass(slots=True)
class WrittenInventory:
    """An inventory in a container of its own, whose files may be changed before it is used."""

    container: str
    manifest: str  # its key, empty where there is none
    files: list[str] = field(default_factory=list)
    folder: str = ""

    @property
    def uri(self) -> str:
        """What `--inventory` is given."""
        return f"mem://{self.container}/{self.manifest or self.folder}"

    def read(self, key: str) -> bytes:
        """The bytes of one of its files."""
        return memory_container(self.container).objects[key].data

    def write(self, key: str, data: bytes) -> None:
        """Write a file, and remember nothing of it."""
        memory_container(self.container).store(key, data)

    def remove(self, key: str) -> None:
        """Take a file away."""
        del memory_container(self.container).objects[key]

    def change_manifest(self, **values: object) -> None:
        """Set values of the manifest; its checksum is written anew."""
        told = json.loads(self.read(self.manifest)) | values
        self.write_manifest(told)

    def write_manifest(self, values: object) -> None:
        """Write the manifest and its checksum."""
        data = json.dumps(values).encode()
        self.write(self.manifest, data)
        checksum = hashlib.md5(data).hexdigest().encode()
        self.write(f"{self.manifest.removesuffix('.json')}.checksum", checksum)


def rows_of(bucket: str) -> list[Row]:
    """Every object of a container in memory."""
    objects = memory_container(bucket).objects
    return [Row(k, len(o.data), o.last_modified, bucket) for k, o in sorted(objects.items())]


def inventory_of(
    kind: str,
    rows: Sequence[Row],
    bucket: str,
    at: datetime,
    *,
    files: int = 2,
    clock: Callable[[], datetime] | None = None,
) -> WrittenInventory:
    """An inventory of one of the `FORMATS`, taken at a time, in so many files."""
    container = f"{bucket}-{kind}-{len(memory_container(f'{bucket}-inventories').objects)}"
    memory_container(f"{bucket}-inventories").store(container, b"")
    memory_container(container).clock = clock or (lambda: at)
    parts = [list(rows[number::files]) for number in range(files)]
    return FORMATS[kind](container, parts, bucket, at)


def _s3(file_format: str, suffix: str, schema: str, encode: Callable[[list[Row]], bytes]) -> _Write:
    def write(
        container: str, parts: list[list[Row]], bucket: str, at: datetime
    ) -> WrittenInventory:
        folder = f"inventories/{bucket}/daily"
        written = WrittenInventory(container, f"{folder}/{at:%Y-%m-%dT%H-%MZ}/manifest.json")
        told = []
        for number, rows in enumerate(parts):
            key, data = f"{folder}/data/{number}{suffix}", encode(rows)
            written.write(key, data)
            written.files.append(key)
            told.append(
                {"key": key, "size": len(data), "MD5checksum": hashlib.md5(data).hexdigest()}
            )
        written.write_manifest(
            {
                "sourceBucket": bucket,
                "destinationBucket": "arn:aws:s3:::elsewhere",
                "version": "2016-11-30",
                "creationTimestamp": str(int(at.timestamp() * 1000)),
                "fileFormat": file_format,
                "fileSchema": schema,
                "files": told,
            }
        )
        return written

    return write


_Write = Callable[[str, list[list[Row]], str, datetime], WrittenInventory]


def _s3_table(rows: list[Row]) -> pa.Table:
    columns: dict[str, pa.Array] = {
        "bucket": pa.array([r.bucket for r in rows], pa.string()),
        "key": pa.array([r.key for r in rows], pa.string()),
    }
    if any(r.version is not None for r in rows):
        columns["version_id"] = pa.array([r.version for r in rows], pa.string())
    if any(r.is_latest is not None for r in rows):
        columns["is_latest"] = pa.array([r.is_latest for r in rows], pa.bool_())
        columns["is_delete_marker"] = pa.array([r.is_deleted for r in rows], pa.bool_())
    columns |= {
        "size": pa.array([None if r.is_deleted else r.size for r in rows], pa.int64()),
        "last_modified_date": pa.array([_millis(r.at) for r in rows], pa.timestamp("ms")),
        "e_tag": pa.array([_ETAG for _ in rows], pa.string()),
    }
    return pa.table(columns)


def _millis(at: datetime) -> datetime:
    return at.replace(microsecond=at.microsecond // 1000 * 1000, tzinfo=None)


def _parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def _orc(rows: list[Row]) -> bytes:
    out = io.BytesIO()
    pa.orc.write_table(_s3_table(rows), out)
    return out.getvalue()


def _s3_csv(rows: list[Row]) -> bytes:
    lines = [
        [r.bucket, quote_plus(r.key, safe="/"), r.size, f"{_millis(r.at).isoformat()}Z", _ETAG]
        for r in rows
    ]
    return gzip.compress(_csv_text(lines, quoting=csv.QUOTE_ALL))


def _csv_text(lines: Sequence[Sequence[object]], quoting: int = csv.QUOTE_MINIMAL) -> bytes:
    out = io.StringIO()
    csv.writer(out, quoting=quoting, lineterminator="\n").writerows(lines)  # type: ignore[arg-type]
    return out.getvalue().encode()


def _azure(file_format: str) -> _Write:
    def write(
        container: str, parts: list[list[Row]], bucket: str, at: datetime
    ) -> WrittenInventory:
        folder = f"{at:%Y/%m/%d/%H-%M-%S}/rule"
        written = WrittenInventory(container, f"{folder}/rule-manifest.json")
        told = []
        for number, rows in enumerate(parts):
            names = [f"{r.bucket}/{r.key}" for r in rows]
            if file_format == "csv":
                head = ["Name", "Last-Modified", "Content-Length", "BlobType"]
                times = [f"{_millis(r.at).isoformat()}Z" for r in rows]
                sizes = [r.size for r in rows]
                lines = [
                    [n, t, s, "BlockBlob"] for n, t, s in zip(names, times, sizes, strict=True)
                ]
                data = _csv_text([head, *lines])
            else:
                data = _parquet(
                    pa.table(
                        {
                            "Name": names,
                            "Last-Modified": pa.array(
                                [_millis(r.at) for r in rows], pa.timestamp("ms")
                            ),
                            "Content-Length": pa.array([r.size for r in rows], pa.int64()),
                        }
                    )
                )
            key = f"{folder}/rule_{number}.{file_format}"
            written.write(key, data)
            written.files.append(key)
            told.append({"blob": key, "size": len(data)})
        written.write_manifest(
            {
                "destinationContainer": container,
                "endpoint": "https://account.blob.core.windows.net",
                "files": told,
                "inventoryCompletionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "inventoryStartTime": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "ruleDefinition": {
                    "filters": {
                        "blobTypes": ["blockBlob"],
                        "includeBlobVersions": False,
                        "includeSnapshots": False,
                        "prefixMatch": [bucket],
                    },
                    "format": file_format,
                    "objectType": "blob",
                    "schedule": "daily",
                    "schemaFields": ["Name", "Last-Modified", "Content-Length", "BlobType"],
                },
                "ruleName": "rule",
                "status": "Succeeded",
                "summary": {
                    "objectCount": sum(map(len, parts)),
                    "totalObjectSize": sum(r.size for rows in parts for r in rows),
                },
                "version": "1.0",
            }
        )
        return written

    return write


_GCS_FIELDS = ["project", "bucket", "name", "size", "updated", "timeDeleted"]


def _gcs(file_format: str) -> _Write:
    def write(
        container: str, parts: list[list[Row]], bucket: str, at: datetime
    ) -> WrittenInventory:
        stem = f"reports/8e11-config_{at:%Y-%m-%dT%H:%M}"
        written = WrittenInventory(container, f"{stem}_manifest.json")
        for number, rows in enumerate(parts):
            times = [f"{_millis(r.at).isoformat()}Z" for r in rows]
            values = [
                ["1234", r.bucket, r.key, r.size, time, ""]
                for r, time in zip(rows, times, strict=True)
            ]
            if file_format == "csv":
                data = _csv_text([_GCS_FIELDS, *values])
            else:
                columns = {n: [v[i] for v in values] for i, n in enumerate(_GCS_FIELDS)}
                columns["updated"] = pa.array([r.at for r in rows], pa.timestamp("us", "UTC"))
                columns["timeDeleted"] = pa.nulls(len(rows), pa.timestamp("us", "UTC"))
                data = _parquet(pa.table(columns))
            key = f"{stem}_{number}.{file_format}"
            written.write(key, data)
            written.files.append(key)
        written.write_manifest(
            {
                "report_config": {
                    "display_name": "report",
                    "csv_options": {"delimiter": ",", "header_required": True},
                    "object_metadata_report_options": {"metadata_fields": _GCS_FIELDS},
                },
                "records_processed": sum(map(len, parts)),
                "snapshot_time": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                "shard_count": len(parts),
                "report_shards_file_names": [key.rpartition("/")[2] for key in written.files],
            }
        )
        return written

    return write


def _plain(container: str, parts: list[list[Row]], bucket: str, at: datetime) -> WrittenInventory:
    written = WrittenInventory(container, "", folder="list")
    for number, rows in enumerate(parts):
        key = f"list/part={number}/{number}.parquet"
        table = pa.table(
            {
                "Key": pa.array([r.key for r in rows], pa.large_string()),
                "size_bytes": pa.array([r.size for r in rows], pa.int32()),
                "last_modified": pa.array([r.at for r in rows], pa.timestamp("us", "UTC")),
            }
        )
        written.write(key, _parquet(table))
        written.files.append(key)
    written.write("list/_SUCCESS", b"")
    return written


_SCHEMA = "Bucket, Key, Size, LastModifiedDate, ETag"
FORMATS: dict[str, _Write] = {
    "s3-parquet": _s3(
        "Parquet", ".parquet", "message s3.inventory {}", lambda rows: _parquet(_s3_table(rows))
    ),
    "s3-orc": _s3("ORC", ".orc", "struct<bucket:string>", _orc),
    "s3-csv": _s3("CSV", ".csv.gz", _SCHEMA, _s3_csv),
    "azure-csv": _azure("csv"),
    "azure-parquet": _azure("parquet"),
    "gcs-csv": _gcs("csv"),
    "gcs-parquet": _gcs("parquet"),
    "plain": _plain,
}
"""Writers by the name of what they write."""


def by(inventory: WrittenInventory | str | None, **more: Any) -> MarkRequest:
    """A mark by this inventory; by a listing where there is none."""
    uri = inventory.uri if isinstance(inventory, WrittenInventory) else inventory
    return replace(AGED, inventory=uri, **more)


def taken(
    scene: Scene, kind: str = "s3-parquet", rows: Iterable[Row] | None = None, files: int = 2
) -> WrittenInventory:
    """An inventory of the scene's bucket, taken now."""
    listed = list(rows_of(scene.name) if rows is None else rows)
    clock = scene.lake.clock
    return inventory_of(kind, listed, scene.name, clock.now, files=files, clock=clock)
