"""Find where entries of given sizes lie, and split garbage into what stays and what is kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.domain.commits import RangeId
from lakesweep.formats.ranges import read_range_addresses, read_range_records
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.runs.work.parts import PartWriter
from lakesweep.runs.work.suspects import Sizes
from lakesweep.runs.work.target import Target

# Requests to the server, in all: some minutes' worth.
MOST_REQUESTS = 50_000
# A page of a branch's listing costs the server as much as some twenty look-ups of single paths.
_GAP = 50

SPANS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string()),
        pa.field("first", pa.string()),
        pa.field("last", pa.string()),
        pa.field("entries", pa.int64()),  # from first to last, both included
        pa.field("is_hopeless", pa.bool_()),  # too many, or a path that can't be asked for
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


def find_spans(target: Target, sizes: Sizes, ranges: Iterator[RangeId]) -> Iterator[pa.RecordBatch]:
    """Work function: stretches of paths in which entries of these sizes lie close together."""
    store = target.open()
    wanted = {f"_lakefs/{range_id}": range_id for range_id in ranges}
    requests = 0
    for key, data in store.read_many(list(wanted)):
        entries = read_range_addresses(data, expected_count=None)
        at = np.flatnonzero(sizes.matches(entries.column("size").to_numpy()))
        if not len(at):
            continue
        spans = close_together(at)
        requests += len(spans)
        rows = _named(data, wanted[key], spans) if requests <= MOST_REQUESTS else None
        if rows is None:
            hopeless = {"range_id": wanted[key], "entries": 0, "is_hopeless": True}
            yield pa.RecordBatch.from_pylist([hopeless], schema=SPANS_SCHEMA)
            return
        yield pa.RecordBatch.from_pylist(rows, schema=SPANS_SCHEMA)


def close_together(at: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """(first, last) of each run of numbers with no large gap; the numbers ascend."""
    cuts = np.flatnonzero(np.diff(at) > _GAP)
    firsts = at[np.concatenate(([0], cuts + 1))]
    lasts = at[np.concatenate((cuts, [len(at) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def _named(
    data: bytes, range_id: RangeId, spans: list[tuple[int, int]]
) -> list[dict[str, object]] | None:
    """Spans by their paths; None where a path is no text, which no request can carry."""
    wanted = {number for span in spans for number in span}
    paths = {n: path for n, (path, _) in enumerate(read_range_records(data)) if n in wanted}
    try:
        return [
            {
                "range_id": range_id,
                "first": paths[first].decode(),
                "last": paths[last].decode(),
                "entries": last - first + 1,
                "is_hopeless": False,
            }
            for first, last in spans
        ]
    except UnicodeDecodeError:
        return None


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
