"""Iceberg manifests read by our Avro reader, by fastavro and by pyiceberg: the live paths of the same files.

The manifests are written by fastavro, as Iceberg's own writers leave them: deflated, with partition and column statistics.
fastavro reads them in two ways: whole entries, and with a reader's schema that leaves out all but status and path (pyiceberg
can't leave out maps). Each reader runs in one thread, is judged by its CPU time, and ends where a collector goes on, with an Arrow array of the paths.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa
import pyiceberg
from pyiceberg.avro.file import AvroFile
from pyiceberg.io import InputFile
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, DataFile, ManifestEntry

from lakesweep.formats.iceberg.manifests import Promised, read_manifest

_COLUMNS = 20  # of the table, each with its statistics
_DELETED = 2
_LEAST_TIMES = 2.0  # below that a library would do


def _field(number: int, name: str, type_: Any, *, default: Any = ...) -> dict[str, Any]:
    field = {"name": name, "type": type_, "field-id": number}
    return field if default is ... else field | {"default": default}


def _map(name: str, number: int, key: int, value: int, values: str) -> dict[str, Any]:
    pair = {
        "type": "record",
        "name": f"k{key}_v{value}",
        "fields": [_field(key, "key", "int"), _field(value, "value", values)],
    }
    array = {"type": "array", "items": pair, "logicalType": "map"}
    return _field(number, name, ["null", array], default=None)


_PARTITION = {
    "type": "record",
    "name": "r102",
    "fields": [_field(1000, "day", ["null", {"type": "int", "logicalType": "date"}])],
}
_DATA_FILE = {
    "type": "record",
    "name": "r2",
    "fields": [
        _field(134, "content", "int"),
        _field(100, "file_path", "string"),
        _field(101, "file_format", "string"),
        _field(102, "partition", _PARTITION),
        _field(103, "record_count", "long"),
        _field(104, "file_size_in_bytes", "long"),
        _map("column_sizes", 108, 117, 118, "long"),
        _map("value_counts", 109, 119, 120, "long"),
        _map("null_value_counts", 110, 121, 122, "long"),
        _map("lower_bounds", 125, 126, 127, "bytes"),
        _map("upper_bounds", 128, 129, 130, "bytes"),
        _field(140, "sort_order_id", ["null", "int"], default=None),
    ],
}
_ENTRY = {
    "type": "record",
    "name": "manifest_entry",
    "fields": [
        _field(0, "status", "int"),
        _field(1, "snapshot_id", ["null", "long"], default=None),
        _field(3, "sequence_number", ["null", "long"], default=None),
        _field(4, "file_sequence_number", ["null", "long"], default=None),
        _field(2, "data_file", _DATA_FILE),
    ],
}
_ONLY_PATHS = fastavro.parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {
                "name": "data_file",
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [{"name": "file_path", "type": "string"}],
                },
            },
        ],
    }
)


@dataclass(frozen=True, slots=True)
class Shape:
    """So many manifests of so many entries each."""

    manifests: int
    entries: int

    def __str__(self) -> str:
        return f"{self.manifests:,} manifests of {self.entries:,} entries"


def written(shape: Shape) -> list[bytes]:
    """The manifests' bytes, from a seed."""
    chance = random.Random(17)
    return [_manifest(chance, shape.entries) for _ in range(shape.manifests)]


def _manifest(chance: random.Random, entries: int) -> bytes:
    out = io.BytesIO()
    rows = (_entry(chance) for _ in range(entries))
    fastavro.writer(out, _ENTRY, rows, codec="deflate", metadata={"format-version": "2"})
    return out.getvalue()


def _entry(chance: random.Random) -> dict[str, Any]:
    counts = [{"key": c, "value": chance.randrange(1 << 24)} for c in range(_COLUMNS)]
    bounds = [{"key": c, "value": chance.randbytes(8)} for c in range(_COLUMNS)]
    day = chance.randrange(19_000, 20_000)
    return {
        "status": chance.choice((0, 1, 1, 1, _DELETED)),
        "snapshot_id": chance.randrange(1 << 62),
        "sequence_number": 7,
        "file_sequence_number": 7,
        "data_file": {
            "content": 0,
            "file_path": f"s3://lake/warehouse/sales/data/day={day}/{chance.randbytes(16).hex()}-00001.parquet",
            "file_format": "PARQUET",
            "partition": {"day": day},
            "record_count": chance.randrange(1 << 20),
            "file_size_in_bytes": chance.randrange(1 << 28),
            "column_sizes": counts,
            "value_counts": counts,
            "null_value_counts": counts,
            "lower_bounds": bounds,
            "upper_bounds": bounds,
            "sort_order_id": 0,
        },
    }


def by_ours(data: bytes) -> pa.Array:
    return read_manifest(data, "a manifest", Promised()).files


def by_fastavro(data: bytes, schema: Any = None) -> pa.Array:
    entries: Any = fastavro.reader(io.BytesIO(data), reader_schema=schema)
    paths = [e["data_file"]["file_path"] for e in entries if e["status"] != _DELETED]
    return pa.array(paths, pa.string())


def by_fastavro_only_paths(data: bytes) -> pa.Array:
    return by_fastavro(data, _ONLY_PATHS)


class _InMemory(InputFile):
    """Bytes as pyiceberg wants them."""

    def __init__(self, data: bytes) -> None:
        super().__init__("memory")
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def exists(self) -> bool:
        return True

    def open(self, seekable: bool = True) -> Any:
        return io.BytesIO(self._data)


def by_pyiceberg(data: bytes) -> pa.Array:
    types = {-1: ManifestEntry, 2: DataFile}
    schema = MANIFEST_ENTRY_SCHEMAS[2]
    with AvroFile[ManifestEntry](_InMemory(data), schema, read_types=types) as entries:
        paths = [e.data_file.file_path for e in entries if e.status != _DELETED]
    return pa.array(paths, pa.string())


READERS: dict[str, Callable[[bytes], pa.Array]] = {
    "ours": by_ours,
    "fastavro, whole entries": by_fastavro,
    "fastavro, status and path": by_fastavro_only_paths,
    "pyiceberg, whole entries": by_pyiceberg,
}


def measure(shape: Shape, rounds: int) -> float:
    """How many times as long as ours the quickest of the others takes; all in turns, each the best of some rounds."""
    files = written(shape)
    total = shape.manifests * shape.entries
    print(f"{shape}, {sum(map(len, files)) / total:.0f} bytes an entry", flush=True)
    best = dict.fromkeys(READERS, float("inf"))
    for _ in range(rounds):
        found: dict[str, list[pa.Array]] = {}
        for name, read in READERS.items():
            started = time.process_time()
            found[name] = [read(data) for data in files]
            best[name] = min(best[name], time.process_time() - started)
        if any(arrays != found["ours"] for arrays in found.values()):
            raise SystemExit("the readers do not agree")
    for name, seconds in best.items():
        print(
            f"  {name}: {total / seconds:,.0f} entries/s, {seconds / shape.manifests * 1e3:.2f} ms a manifest, "
            f"{seconds / best['ours']:.1f} × ours"
        )
    return min(seconds for name, seconds in best.items() if name != "ours") / best["ours"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="five times as many manifests")
    options = parser.parse_args()
    print(
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, fastavro {fastavro.__version__}, "
        f"pyiceberg {pyiceberg.__version__}; load {os.getloadavg()[0]:.1f}"
    )
    many = 5 if options.full else 1
    by_ours(written(Shape(1, 1))[0])  # compiles or loads our reader
    shapes = (Shape(200 * many, 10), Shape(10 * many, 1_000), Shape(many, 10_000))
    times = [measure(shape, rounds=3) for shape in shapes]
    is_kept = min(times) >= _LEAST_TIMES
    print(
        f"least: {min(times):.1f} × the quickest library (at least {_LEAST_TIMES:g} ×): {'ok' if is_kept else 'MISSED'}"
    )
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
