"""References as cells: hashes of what is live, expired, protecting, deleted or restored, and a row of counts for each item.

Counts travel with the hashes through the same shuffle: the driver can then prove that each item arrived once and whole,
whichever attempt of a task it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np
import pyarrow as pa

from lakesweep.collector.judge.bitmap import Bitmap, Mask
from lakesweep.collector.judge.magnitudes import Magnitudes
from lakesweep.engine.cells import Hashes, flush_threshold, pack_hashes, pack_rows, single_cell
from lakesweep.progress import advance

# Kinds of reference cells. LIVE_SIZED hashes are live, and counted with LIVE; a PROTECTING one keeps what it names though
# nothing live does.
LIVE, EXPIRED, GONE, RESTORED, CANARY, COUNTS, LIVE_SIZED, PROTECTING = range(1, 9)

SIZED_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("magnitude", pa.uint8())])
# Of what is to be measured, where most of it is left out.
SAMPLED_ONE_OF = 64
_FILTERED = (LIVE, EXPIRED, PROTECTING)

EVENT_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("order", pa.int64())])

_COUNTS = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("promised", pa.int64()),  # null: nobody promised a count
        pa.field("entries", pa.int64(), nullable=False),  # read from the item
        pa.field("outside", pa.int64(), nullable=False),  # entries that need no hash
        pa.field("sent", pa.int64(), nullable=False),  # hashes emitted for the others
        pa.field("left_out", pa.int64(), nullable=False),  # hashes that no candidate has
        pa.field("pack", pa.string(), nullable=False),  # where its hashes are kept; empty: nowhere
    ]
)


def event_order(time: datetime) -> int:
    """The number by which events are ordered: their time in milliseconds since 1970."""
    return int(time.timestamp() * 1000)


def is_sampled(hashes: Hashes) -> Mask:
    """Which hashes are in the sample. The hash alone decides, so an address that comes twice is in both times or never."""
    found: Mask = hashes % np.uint64(SAMPLED_ONE_OF) == 0
    return found


def counts_schema(*more: pa.Field) -> pa.Schema:
    """The schema of the counts that come with each source of references, with a catalog's own columns at its end."""
    return pa.schema([*_COUNTS, *more])


class ReferenceCells:
    """Gathers hashes by their kind and emits them as cells of bounded size. A `bitmap` says which hashes are worth it."""

    def __init__(self, partitions: int, counts: pa.Schema, bitmap: Bitmap | None = None) -> None:
        self._partitions = partitions
        self._bitmap = bitmap
        self._schema = counts
        self._limit = flush_threshold(partitions, 8)
        self._waiting: dict[int, list[Hashes]] = {}
        self._sized: list[tuple[Hashes, Magnitudes]] = []
        self._rows = 0
        self._counts: list[dict[str, object]] = []

    def count(
        self,
        item: str,
        kind: int,
        sent: int,
        *,
        entries: int | None = None,
        promised: int | None = None,
        outside: int = 0,
        pack: str = "",
        left_out: int = 0,
        **more: object,
    ) -> None:
        """Note how many entries of an item were read, and how many hashes of it are sent; by default as many entries as hashes."""
        advance(sent if entries is None else entries)
        self._counts.append(
            {
                "item": item,
                "kind": kind,
                "promised": promised,
                "entries": sent if entries is None else entries,
                "outside": outside,
                "sent": sent,
                "left_out": left_out,
                "pack": pack,
                **more,
            }
        )

    def take(
        self,
        item: str,
        kind: int,
        hashes: Hashes,
        magnitudes: Magnitudes | None = None,
        *,
        entries: int | None = None,
        promised: int | None = None,
        outside: int = 0,
        pack: str = "",
        **more: object,
    ) -> Iterator[pa.RecordBatch]:
        """Count an item and add its hashes: with a bitmap, those that it admits and a sample of those with magnitudes."""
        understood = len(hashes)
        if self._bitmap is not None and kind in _FILTERED:
            is_wanted = self._bitmap.may_have(hashes)
            if magnitudes is not None:
                is_wanted |= is_sampled(hashes)
                magnitudes = magnitudes[is_wanted]
            hashes = hashes[is_wanted]
        self.count(
            item,
            kind,
            len(hashes),
            entries=understood if entries is None else entries,
            promised=promised,
            outside=outside,
            pack=pack,
            left_out=understood - len(hashes),
            **more,
        )
        if magnitudes is not None:
            yield from self.add_sized(hashes, magnitudes)
        else:
            yield from self.add(kind, hashes)

    def add(self, kind: int, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        """Add hashes of one kind; emits cells when enough have come together."""
        self._waiting.setdefault(kind, []).append(hashes)
        yield from self._grown(len(hashes))

    def add_sized(self, hashes: Hashes, magnitudes: Magnitudes) -> Iterator[pa.RecordBatch]:
        """Add hashes of live objects with the magnitudes of their sizes; emits cells when enough have come together."""
        self._sized.append((hashes, magnitudes))
        yield from self._grown(len(hashes))

    def add_events(self, kind: int, hashes: Hashes, order: int) -> Iterator[pa.RecordBatch]:
        """Emit deletions or restorations with their `order`: of several events of an object, the last decides."""
        if len(hashes):
            orders = pa.array(np.full(len(hashes), order, dtype=np.int64))
            rows = pa.RecordBatch.from_arrays([pa.array(hashes), orders], schema=EVENT_ROWS)
            yield pack_rows(kind, rows, hashes, self._partitions)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Emit the hashes and counts that still wait as cells."""
        for kind, chunks in self._waiting.items():
            joined = np.concatenate(chunks)
            if len(joined):
                yield pack_hashes(kind, joined, self._partitions)
        if any(len(hashes) for hashes, _ in self._sized):
            hashes, magnitudes = map(np.concatenate, zip(*self._sized, strict=True))
            sized = pa.RecordBatch.from_arrays(
                [pa.array(hashes), pa.array(magnitudes)], schema=SIZED_ROWS
            )
            yield pack_rows(LIVE_SIZED, sized, hashes, self._partitions)
        self._waiting, self._sized, self._rows = {}, [], 0
        if self._counts:
            rows = pa.RecordBatch.from_pylist(self._counts, schema=self._schema)
            # Tasks spread their counts over the partitions.
            home = sum(len(str(c["item"])) for c in self._counts) % self._partitions
            yield single_cell(COUNTS, home, rows)
            self._counts = []

    def _grown(self, rows: int) -> Iterator[pa.RecordBatch]:
        self._rows += rows
        if self._rows >= self._limit:
            yield from self.flush()
