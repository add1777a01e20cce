"""Find paths whose entries have one of given sizes, and split garbage into what stays and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.domain.commits import RangeId
from lakesweep.formats.ranges import read_range_addresses, read_range_records
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.runs.work.parts import PartWriter
from lakesweep.runs.work.sizes import Sizes
from lakesweep.runs.work.target import Target

MOST_LOOKUPS = 50_000

PATHS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string()),
        pa.field("path", pa.string()),
        pa.field("too_many", pa.bool_()),
    ]
)

SPLIT_SCHEMA = pa.schema(
    [
        pa.field("part", pa.string()),
        pa.field("kept", pa.bool_()),
        pa.field("key", pa.string()),
        pa.field("rows", pa.int64()),
        pa.field("bytes", pa.int64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Reuploads:
    """Candidates that a branch reads after all, by address; or sizes to keep whole where looking would take too long."""

    addresses: frozenset[str] = frozenset()
    sizes: Sizes = field(default_factory=Sizes)

    def __bool__(self) -> bool:
        return bool(self.addresses) or bool(len(self.sizes)) or not self.sizes.is_complete


def find_paths(target: Target, sizes: Sizes, ranges: Iterator[RangeId]) -> Iterator[pa.RecordBatch]:
    """Work function: paths of entries with one of these sizes; it stops counting where the look-ups are too many."""
    store = target.open()
    wanted = {f"_lakefs/{range_id}": range_id for range_id in ranges}
    for key, data in store.read_many(list(wanted)):
        entries = read_range_addresses(data, expected_count=None)
        matches = sizes.matches(entries.column("size").to_numpy())
        if not matches.any():
            continue
        too_many = int(matches.sum()) > MOST_LOOKUPS
        paths = [
            path.decode(errors="surrogateescape")
            for (path, _), is_match in zip(read_range_records(data), matches, strict=True)
            if is_match
        ]
        paths = paths[:1] if too_many else paths
        yield pa.RecordBatch.from_pydict(
            {
                "range_id": [wanted[key]] * len(paths),
                "path": paths,
                "too_many": [too_many] * len(paths),
            },
            schema=PATHS_SCHEMA,
        )


def split_parts(
    target: Target, folder: str, found: Reuploads, parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: each part as what stays garbage and what is kept."""
    store = target.open()
    addresses = pa.array(sorted(found.addresses), pa.string())
    for key, data in store.read_many(list(parts)):
        rows = read_mark(data)
        sizes = rows.column("size_bytes").fill_null(-1).to_numpy()
        # Only what no commit holds can be a staged re-upload; an address that a branch reads is live anyway.
        of_size = pc.and_(
            pa.array(found.sizes.matches(sizes)), pc.equal(rows.column("reason"), "unreferenced")
        )
        kept = pc.or_(pc.is_in(rows.column("address"), addresses), of_size)
        split = []
        for is_kept, chosen in ((False, rows.filter(pc.invert(kept))), (True, rows.filter(kept))):
            writer = PartWriter(store, folder, "kept" if is_kept else "garbage", MARK_SCHEMA)
            for batch in chosen.to_batches():
                writer.add(batch)
            split += [
                {"part": key, "kept": is_kept, "key": p.key, "rows": p.rows, "bytes": p.bytes}
                for p in writer.close()
            ]
        yield pa.RecordBatch.from_pylist(split, schema=SPLIT_SCHEMA)
