"""Read ranges that are kept for some days, and emit for each address its hash, its class, and the folder of its path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.lakefs.references import (
    Reference,
    hash_range,
    read_many_or_refuse,
    read_packs,
    read_references,
)
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.engine.cells import Hashes, flush_threshold, pack_rows, single_cell
from lakesweep.formats.damage import named_damage
from lakesweep.formats.entries import AddressType
from lakesweep.formats.hashing import hash_address, hash_addresses
from lakesweep.formats.metaranges import RangeInfo
from lakesweep.formats.ranges import open_range, read_range_addresses
from lakesweep.formats.sstable import Records

__all__ = [
    "KEPT",
    "KEPT_COUNTS",
    "KEPT_COUNTS_SCHEMA",
    "KEPT_ROWS",
    "KeptRange",
    "kept_range",
    "read_kept_references",
]

# Kinds of reference cells, beside those of the judge.
KEPT, KEPT_COUNTS = 21, 22

KEPT_ROWS = pa.schema(
    [
        pa.field("hash", pa.uint64()),
        pa.field("keeping", pa.int32()),  # the number of a class
        pa.field("folder", pa.uint64()),  # the hash of the folder's name
    ]
)
KEPT_COUNTS_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("promised", pa.int64(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
        pa.field("outside", pa.int64(), nullable=False),
        pa.field("sent", pa.int64(), nullable=False),
        pa.field("root_names", pa.int64(), nullable=False),
        pa.field("folders", pa.list_(pa.string()), nullable=False),
    ]
)
_BYTES_PER_ROW = 20
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, slots=True)
class KeptRange:
    """A range whose addresses are kept for some days. `folder` is that of all its paths; None: they lie in several."""

    range_id: RangeId
    count: int
    keeping: int
    folder: str | None
    pack: str = ""  # where a run kept its hashes; empty: nowhere

    @property
    def name(self) -> str:
        return f"kept:{self.range_id}"


def kept_range(info: RangeInfo, keeping: int, depth: int, pack: str) -> KeptRange:
    """The range as work. One whose first and last path share a folder of full depth has no other."""
    folder = folder_of(info.min_key, depth)
    is_one = folder.count(b"/") == depth and folder == folder_of(info.max_key, depth)
    return KeptRange(info.id, info.count, keeping, _name(folder) if is_one else None, pack)


def folder_of(path: bytes, depth: int) -> bytes:
    """The first folders of a path, so many of them at most, with the closing slash: `a/b/` of `a/b/c/d` at depth 2."""
    end = 0
    for _ in range(depth):
        slash = path.find(b"/", end)
        if slash < 0:
            break
        end = slash + 1
    return path[:end]


def read_kept_references(
    target: Target, partitions: int, depth: int, items: Iterator[Reference | KeptRange]
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of what is live, as for a mark, and cells of what is kept for some days. Nothing is written."""
    wanted = list(items)
    others = [item for item in wanted if not isinstance(item, KeptRange)]
    yield from read_references(target, partitions, iter(others), keep_hashes=False)
    ranges = [item for item in wanted if isinstance(item, KeptRange)]
    cells = _KeptCells(partitions)
    store, normaliser = target.open(), normaliser_of(target)
    by_key = {f"_lakefs/{item.range_id}": item for item in ranges}
    packed = [item for item in ranges if item.folder is not None]
    for range_id, entry in read_packs(store, target.namespace, packed).items():
        item = by_key.pop(f"_lakefs/{range_id}")
        folders = np.full(len(entry.hashes), hash_address(item.folder or ""), np.uint64)
        found = _Found(entry.hashes, folders, (item.folder or "",), entry.root_names, entry.outside)
        yield from cells.add(item, entry.count, found)
    for key, data in read_many_or_refuse(store, list(by_key)):
        item = by_key[key]
        with named_damage(key):
            found = _read(item, data, normaliser, depth)
        yield from cells.add(item, item.count, found)
    yield from cells.flush()


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """The addresses of one range: hashes, and for each the hash of its path's folder."""

    hashes: Hashes
    folders: Hashes
    names: tuple[str, ...]
    root_names: int
    outside: int


def _read(item: KeptRange, data: bytes, normaliser: AddressNormaliser, depth: int) -> _Found:
    entry = hash_range(item.range_id, data, item.count, normaliser)
    if item.folder is not None:
        folders = np.full(len(entry.hashes), hash_address(item.folder), np.uint64)
        return _Found(entry.hashes, folders, (item.folder,), entry.root_names, entry.outside)
    rows = read_range_addresses(data, expected_count=item.count)
    records = open_range(data, expected_count=item.count).records()
    of_paths, names = _folders(records, depth)
    # An address that is a URI may mean several objects, or none; each has the folder of its path.
    hashes: list[int] = []
    of_hashes: list[int] = []
    plain = np.ones(item.count, dtype=bool)
    types = rows.column("address_type").to_numpy()
    for at in np.flatnonzero(types != AddressType.RELATIVE).tolist():
        address = rows.column("address")[at].as_py()
        if types[at] == AddressType.FULL or _SCHEME.match(address):
            plain[at] = False
            for reading in normaliser.readings(address):
                hashes.append(hash_address(reading))
                of_hashes.append(int(of_paths[at]))
    relative = hash_addresses(rows.column("address").filter(pa.array(plain)))
    return _Found(
        np.concatenate((relative, np.array(hashes, np.uint64))),
        np.concatenate((of_paths[plain], np.array(of_hashes, np.uint64))),
        names,
        entry.root_names,
        entry.outside,
    )


def _folders(records: Records, depth: int) -> tuple[Hashes, tuple[str, ...]]:
    """The hash of each path's folder, and the folders' names. Paths of one folder of full depth are neighbours."""
    folders = np.empty(len(records), np.uint64)
    names: dict[str, int] = {}
    at = 0
    while at < len(records):
        folder = folder_of(records.key(at), depth)
        end = _end_of(folder, records, at) if folder.count(b"/") == depth else at + 1
        name = _name(folder)
        folders[at:end] = names.setdefault(name, hash_address(name))
        at = end
    return folders, tuple(names)


def _end_of(folder: bytes, records: Records, start: int) -> int:
    """The first record behind those whose keys begin with the folder."""
    low, high = start, len(records)
    while low < high:
        middle = (low + high) // 2
        if records.key(middle).startswith(folder):
            low = middle + 1
        else:
            high = middle
    return low


def _name(folder: bytes) -> str:
    return folder.decode("utf-8", "replace")


class _KeptCells:
    """Gathers rows of kept addresses, and emits cells before any grows too large."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._limit = flush_threshold(partitions, _BYTES_PER_ROW)
        self._waiting: list[tuple[Hashes, npt.NDArray[np.int32], Hashes]] = []
        self._rows = 0
        self._counts: list[dict[str, object]] = []

    def add(self, item: KeptRange, entries: int, found: _Found) -> Iterator[pa.RecordBatch]:
        keeping = np.full(len(found.hashes), item.keeping, np.int32)
        self._waiting.append((found.hashes, keeping, found.folders))
        self._counts.append(
            {
                "item": item.name,
                "promised": item.count,
                "entries": entries,
                "outside": found.outside,
                "sent": len(found.hashes),
                "root_names": found.root_names,
                "folders": list(found.names),
            }
        )
        self._rows += len(found.hashes)
        if self._rows >= self._limit:
            yield from self._packed()

    def flush(self) -> Iterator[pa.RecordBatch]:
        yield from self._packed()
        if self._counts:
            counts = pa.RecordBatch.from_pylist(self._counts, schema=KEPT_COUNTS_SCHEMA)
            yield single_cell(KEPT_COUNTS, len(self._counts) % self._partitions, counts)

    def _packed(self) -> Iterator[pa.RecordBatch]:
        if self._rows:
            columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
            rows = pa.RecordBatch.from_arrays(list(map(pa.array, columns)), schema=KEPT_ROWS)
            yield pack_rows(KEPT, rows, columns[0], self._partitions)
        self._waiting, self._rows = [], 0
