"""The meeting of a Nessie what-if: listed files with the cut-offs that keep them, added up by cut-off and table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge import candidates as cand
from lakesweep.collector.judge.candidates import candidate_cells, counts_schema
from lakesweep.collector.judge.row_format import Mask
from lakesweep.collector.listing import TaskPieces, joined
from lakesweep.collector.nessie.listing import FoundTable, ListedFolders, find_tables
from lakesweep.collector.nessie.places import TableStores, Unreadable
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.references import hash_live_files
from lakesweep.collector.parts import sum_of
from lakesweep.domain.location import Location
from lakesweep.engine.cells import Hashes, is_in, pack_rows, packed_stream, single_cell, unpack_rows
from lakesweep.formats.file_hashes import hash_listed_files
from lakesweep.formats.iceberg.manifests import Promised, read_manifest

__all__ = [
    *("FATES_SCHEMA", "TABLES_SCHEMA", "FileFates", "FilesMeeting", "Judgement"),
    *("KEPT_COUNTS", "LISTED_COUNTS", "KeptManifest", "KeptNames"),
    *("list_files", "read_kept_names"),
]

_KEPT, _COUNTS, _TABLES = 21, 22, 23
_KEPT_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("bits", pa.int64())])
KEPT_COUNTS = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("sent", pa.int64(), nullable=False),
        pa.field("problem", pa.string(), nullable=False),
        pa.field("is_missing", pa.bool_(), nullable=False),
    ]
)
_LISTED_ROWS = pa.schema(
    [
        pa.field("hash", pa.uint64()),
        pa.field("size_bytes", pa.int64()),
        pa.field("is_old", pa.bool_()),
        pa.field("protecting", pa.int64()),  # bits of the cut-offs for which it stays by its place
        pa.field("table", pa.int64()),
    ]
)
LISTED_COUNTS = counts_schema(
    pa.field("protected", pa.int64()), pa.field("protected_bytes", pa.int64())
)
TABLES_SCHEMA = pa.schema([pa.field("kind", pa.string()), pa.field("folder", pa.string())])
_BYTES_PER_ROW = 40

FATES_SCHEMA = pa.schema(
    [
        pa.field("kept_counts", pa.binary()),  # Arrow streams, these three
        pa.field("listed_counts", pa.binary()),
        pa.field("tables_seen", pa.binary()),
        pa.field("kept_references", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("row_bytes", pa.int64()),
        *(
            pa.field(f"{fate}{suffix}", pa.int64())
            for fate in ("live", "young", "protected", "unreferenced")
            for suffix in ("", "_bytes")
        ),
        pa.field("tables", pa.list_(pa.int64())),
        # For each table so many numbers as there are cut-offs.
        pa.field("objects", pa.list_(pa.int64())),
        pa.field("bytes", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True, slots=True)
class KeptManifest:
    """A manifest to read, and the cut-offs that keep what it names."""

    path: str
    promised: Promised
    bits: int

    @property
    def name(self) -> str:
        return f"manifest:{self.path}"


@dataclass(frozen=True, slots=True)
class KeptNames:
    """Files known by name, and the cut-offs that keep them."""

    number: int
    uris: tuple[str, ...]
    bits: int

    @property
    def name(self) -> str:
        return f"named:{self.number}"


def read_kept_names(
    stores: TableStores, partitions: int, items: Iterator[KeptManifest | KeptNames]
) -> Iterator[pa.RecordBatch]:
    """Work function: hashes of files with their bits, and the counts of every item."""
    counts: list[dict[str, object]] = []
    manifests: dict[str, KeptManifest] = {}

    def cells(name: str, bits: int, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        counts.append({"item": name, "sent": len(hashes), "problem": "", "is_missing": False})
        if len(hashes):
            columns = [pa.array(hashes), pa.array(np.full(len(hashes), bits, np.int64))]
            rows = pa.RecordBatch.from_arrays(columns, schema=_KEPT_ROWS)
            yield pack_rows(_KEPT, rows, hashes, partitions)

    for item in items:
        if isinstance(item, KeptManifest):
            manifests[item.path] = item
        else:
            hashes = hash_live_files(pa.array(item.uris, pa.string()))
            yield from cells(item.name, item.bits, hashes)

    def hashed(data: bytes, path: str) -> Hashes:
        return hash_live_files(read_manifest(data, path, manifests[path].promised).files)

    for path, found in stores.parse_many(manifests, hashed):
        item = manifests[path]
        if isinstance(found, Unreadable):
            problem = {"problem": found.why, "is_missing": found.is_missing}
            counts.append({"item": item.name, "sent": 0, **problem})
        else:
            yield from cells(item.name, item.bits, found)
    if counts:
        told = pa.RecordBatch.from_pylist(counts, schema=KEPT_COUNTS)
        yield single_cell(_COUNTS, len(counts) % partitions, told)


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is said of files by their place and age. Small and picklable."""

    protections: Sequence[tuple[FolderIndex, int]]  # with the bits of the cut-offs that it is for
    tables: FolderIndex  # its labels are numbers of tables
    newest: datetime  # what was written at it, or before it, may go
    every: int  # the bits of all cut-offs

    def rows(self, page: pa.RecordBatch) -> pa.RecordBatch:
        uris, modified = page.column("key").cast(pa.string()), page.column("last_modified")
        modified = modified.cast(pa.timestamp("us", tz="UTC"))
        hashes, is_sound = hash_listed_files(uris)
        protecting = np.where(is_sound, 0, self.every)
        for index, bits in self.protections:
            has_label = pc.not_equal(index.labels_of(uris, modified), "")
            protecting |= np.where(has_label.to_numpy(zero_copy_only=False), bits, 0)
        is_old = pc.fill_null(pc.less_equal(modified, pa.scalar(self.newest)), False)
        tables = self.tables.labels_of(uris, modified).cast(pa.int64())
        sizes = page.column("size").cast(pa.int64())
        columns = [pa.array(hashes), sizes, is_old, pa.array(protecting), tables]
        return pa.RecordBatch.from_arrays(columns, schema=_LISTED_ROWS)


def list_files(
    catalog: ListedFolders,
    judgement: Judgement,
    partitions: int,
    items: Iterator[TaskPieces[Location]],
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of listed files without their names, the counts of every item, and table folders seen."""
    seen: set[FoundTable] = set()

    def read(item: TaskPieces[Location]) -> Iterator[tuple[pa.RecordBatch, Mapping[str, int]]]:
        for page in joined(catalog.pages(item.pieces)):
            is_candidate = catalog.is_candidate(page)
            rest = page.filter(pc.invert(is_candidate))
            said = {"protected": rest.num_rows, "protected_bytes": sum_of(rest, "size")}
            files = page.filter(is_candidate)
            seen.update(find_tables(files.column("key")))
            yield judgement.rows(files), said

    yield from candidate_cells(
        items,
        read,
        lambda rows: rows.column("hash").to_numpy(),
        partitions,
        bytes_per_row=_BYTES_PER_ROW,
        counts=LISTED_COUNTS,
    )
    if seen:
        rows = [table._asdict() for table in sorted(seen)]
        told = pa.RecordBatch.from_pylist(rows, schema=TABLES_SCHEMA)
        yield single_cell(_TABLES, len(seen) % partitions, told)


@dataclass(frozen=True, slots=True, eq=False)
class FileFates:
    """The files of one partition. `goes` has the bits of the cut-offs that free them; a young file has none."""

    hashes: Hashes
    sizes: npt.NDArray[np.int64]
    tables: npt.NDArray[np.int64]
    goes: npt.NDArray[np.int64]
    is_old: Mask
    is_protected: Mask  # for all cut-offs


@dataclass(frozen=True, slots=True)
class FilesMeeting:
    """Brings one partition's files and references together, for so many cut-offs. Picklable."""

    cutoffs: int

    @property
    def every(self) -> int:
        return (1 << self.cutoffs) - 1

    def __call__(self, references: pa.Table, listed: pa.Table) -> pa.Table:
        """Judge the files of one partition; returns their sums by cut-off and table."""
        found = self.fates(references, listed)
        is_unreferenced = found.goes == self.every
        is_live = found.is_old & ~found.is_protected & (found.goes == 0)
        result: dict[str, object] = {
            "kept_counts": packed_stream(references, _COUNTS, KEPT_COUNTS),
            "listed_counts": packed_stream(listed, cand.COUNTS, LISTED_COUNTS),
            "tables_seen": packed_stream(listed, _TABLES, TABLES_SCHEMA),
            "kept_references": unpack_rows(references, _KEPT, _KEPT_ROWS).num_rows,
            "rows": len(found.hashes),
            "row_bytes": int(found.sizes.sum()),
        }
        for fate, mask in (
            ("unreferenced", is_unreferenced),
            ("young", ~found.is_old & ~found.is_protected),
            ("protected", found.is_protected),
            ("live", is_live),
        ):
            result[fate] = int(np.count_nonzero(mask))
            result[f"{fate}_bytes"] = int(found.sizes[mask].sum())
        result |= self._by_table(found, (found.goes != 0) & ~is_unreferenced)
        return pa.Table.from_pylist([result], schema=FATES_SCHEMA)

    def fates(self, references: pa.Table, listed: pa.Table) -> FileFates:
        """For each file of a partition, the bits of the cut-offs that would free it."""
        rows = unpack_rows(listed, cand.ROWS, _LISTED_ROWS).combine_chunks()
        hashes: Hashes = rows.column("hash").to_numpy()
        kept = unpack_rows(references, _KEPT, _KEPT_ROWS)
        names, bits = kept.column("hash").to_numpy(), kept.column("bits").to_numpy() & self.every
        wanted = is_in(names, np.sort(hashes))
        order = np.argsort(names[wanted], kind="stable")
        names, bits = names[wanted][order], bits[wanted][order]
        is_first = np.ones(len(names), dtype=bool)
        is_first[1:] = names[1:] != names[:-1]
        starts = np.flatnonzero(is_first)
        keeping = rows.column("protecting").to_numpy().copy()
        is_protected = keeping == self.every
        if len(starts):
            joined = np.bitwise_or.reduceat(bits, starts)
            at = np.searchsorted(names[starts], hashes)
            at[at == len(starts)] = 0
            keeping |= np.where(names[starts][at] == hashes, joined[at], 0)
        is_old = rows.column("is_old").to_numpy()
        return FileFates(
            hashes,
            rows.column("size_bytes").fill_null(0).to_numpy(),
            rows.column("table").to_numpy(),
            np.where(is_old, self.every & ~keeping, 0),
            is_old,
            is_protected,
        )

    def _by_table(self, found: FileFates, counted: Mask) -> dict[str, object]:
        order = np.flatnonzero(counted)
        order = order[np.argsort(found.tables[order], kind="stable")]
        tables, sizes, goes = found.tables[order], found.sizes[order], found.goes[order]
        if not len(order):
            return {"tables": [], "objects": [], "bytes": []}
        starts = np.flatnonzero(np.append(True, tables[1:] != tables[:-1]))
        objects = np.empty((len(starts), self.cutoffs), np.int64)
        size = np.empty_like(objects)
        for number in range(self.cutoffs):
            is_freed = (goes >> number) & 1
            objects[:, number] = np.add.reduceat(is_freed, starts)
            size[:, number] = np.add.reduceat(is_freed * sizes, starts)
        return {
            "tables": tables[starts].tolist(),
            "objects": objects.reshape(-1).tolist(),
            "bytes": size.reshape(-1).tolist(),
        }
