"""Read references (ranges, staged lists, events, canaries) and emit their hashes as cells.

Every item also sends one row of counts along with its hashes, through the same shuffle: the driver can then prove
that each range and page arrived once and whole, whichever attempt of a task it came from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.judge.magnitudes import Magnitudes, magnitudes_of
from lakesweep.collector.lakefs.range_cache import RangeHashes, read_pack, write_pack
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.target import Target, own_name
from lakesweep.domain.commits import RangeId
from lakesweep.engine.cells import Hashes, flush_threshold, pack_hashes, pack_rows, single_cell
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.ranges import read_range_hashes
from lakesweep.formats.tables import read_uncommitted
from lakesweep.storage import ObjectStore

# Kinds of reference cells.
LIVE, EXPIRED, GONE, RESTORED, CANARY, COUNTS, LIVE_SIZED = 1, 2, 3, 4, 5, 6, 7

SIZED_ROWS = pa.schema([pa.field("hash", pa.uint64()), pa.field("magnitude", pa.uint8())])

# 32 MB of hashes: large enough to save requests, small enough to hold while a task runs.
HASHES_PER_PACK = 4_000_000

# What a server may decode or fold on its way to the store.
_SEVERAL_READINGS = r"%|//|/\.|^\.|:"

COUNTS_SCHEMA = pa.schema(
    [
        pa.field("item", pa.string(), nullable=False),
        pa.field("promised", pa.int64()),  # null: nobody promised a count
        pa.field("entries", pa.int64(), nullable=False),  # read from the item
        pa.field("sent", pa.int64(), nullable=False),  # hashes emitted for them
        pa.field("kind", pa.int8(), nullable=False),
        pa.field("pack", pa.string(), nullable=False),
        pa.field("root_names", pa.int64(), nullable=False),  # given by a server, at the root
        pa.field("outside", pa.int64(), nullable=False),  # entries that need no hash
    ]
)


@dataclass(frozen=True, slots=True)
class RangeReference:
    """A range to read: its promised count, and what its addresses are (LIVE or EXPIRED).

    A blast radius measures live addresses by `is_measured` references, where no listing tells how many there are.
    """

    range_id: RangeId
    count: int
    kind: int
    pack: str = ""
    is_measured: bool = False

    @property
    def name(self) -> str:
        return f"range:{self.range_id}"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """One Parquet file of the server's list of uncommitted objects, which tells no sizes."""

    key: str
    is_measured: bool = False

    @property
    def name(self) -> str:
        return f"staged:{self.key}"


@dataclass(frozen=True, slots=True)
class EventFile:
    """Addresses that a sweep deleted (GONE) or a restore brought back (RESTORED); `order` is when."""

    key: str
    kind: int
    order: int

    @property
    def name(self) -> str:
        return f"event:{self.key}"


@dataclass(frozen=True, slots=True)
class AddressList:
    """Addresses that the driver holds itself: canaries, and what else is few."""

    label: str
    addresses: tuple[str, ...]
    kind: int

    @property
    def name(self) -> str:
        return f"list:{self.label}"


Reference = RangeReference | StagedFile | EventFile | AddressList


def read_references(
    target: Target,
    partitions: int,
    cache_folder: str,
    references: Iterator[Reference],
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of hashes by kind, and one COUNTS cell per item."""
    store = target.open()
    normaliser = target.normaliser()
    emit = _Emitter(partitions)
    items = list(references)
    ranges = [item for item in items if isinstance(item, RangeReference)]
    yield from _read_ranges(store, target, normaliser, ranges, cache_folder, emit)
    for item in items:
        match item:
            case StagedFile():
                data = _read_or_refuse(store, item.key)
                with named_damage(item.key):
                    rows = read_uncommitted(data)
                yield from emit.staged(item, *_staged_hashes(rows, normaliser))
            case EventFile():
                lists = read_addresses(_read_or_refuse(store, item.key), item.key)
                chunks = list(map(hash_addresses, lists))
                empty = np.empty(0, dtype=np.uint64)
                yield from emit.events(item, np.concatenate([empty, *chunks]))
            case AddressList():
                hashed = hash_addresses(pa.array(item.addresses, pa.string()))
                yield from emit.item(item.name, item.kind, hashed, promised=len(item.addresses))
            case RangeReference():
                pass
    yield from emit.flush()


def _read_ranges(
    store: ObjectStore,
    target: Target,
    normaliser: AddressNormaliser,
    ranges: list[RangeReference],
    cache_folder: str,
    emit: _Emitter,
) -> Iterator[pa.RecordBatch]:
    by_key = {f"_lakefs/{r.range_id}": r for r in ranges}
    cached = _read_packs(store, target, ranges)
    for range_id, entry in cached.items():
        item = by_key.pop(f"_lakefs/{range_id}")
        yield from emit.range(item, entry, item.pack)
    fresh: list[tuple[RangeReference, RangeHashes]] = []
    waiting = 0
    for key, data in _read_many_or_refuse(store, list(by_key)):
        item = by_key[key]
        with named_damage(key):
            entry = hash_range(item.range_id, data, item.count, normaliser)
        fresh.append((item, entry))
        waiting += len(entry.hashes)
        if waiting >= HASHES_PER_PACK:
            yield from _emit_fresh(store, target, cache_folder, fresh, emit)
            fresh, waiting = [], 0
    yield from _emit_fresh(store, target, cache_folder, fresh, emit)


def _emit_fresh(
    store: ObjectStore,
    target: Target,
    cache_folder: str,
    fresh: list[tuple[RangeReference, RangeHashes]],
    emit: _Emitter,
) -> Iterator[pa.RecordBatch]:
    pack = ""
    if cache_folder and fresh:
        pack = own_name(cache_folder, "pack", ".arrow")
        store.write(pack, write_pack((entry for _, entry in fresh), target.namespace))
    for item, entry in fresh:
        yield from emit.range(item, entry, pack)


def _read_packs(
    store: ObjectStore, target: Target, ranges: list[RangeReference]
) -> dict[RangeId, RangeHashes]:
    wanted: dict[str, dict[RangeId, int]] = {}
    for item in ranges:
        if item.pack:
            wanted.setdefault(item.pack, {})[item.range_id] = item.count
    found: dict[RangeId, RangeHashes] = {}
    for pack, counts in wanted.items():
        try:
            data = store.read(pack)
        except ObjectNotFoundError:
            continue
        found |= read_pack(data, target.namespace, counts)
    return found


def _staged_hashes(rows: pa.Table, normaliser: AddressNormaliser) -> tuple[int, Hashes]:
    """The hashes of a staged list; an address that can be read in several ways counts in each of them."""
    addresses = rows.column("physical_address").combine_chunks()
    hashes = hash_addresses(addresses)
    unusual = addresses.filter(pc.match_substring_regex(addresses, _SEVERAL_READINGS)).to_pylist()
    if unusual:
        readings = [reading for address in unusual for reading in normaliser.readings(address)]
        hashes = np.concatenate((hashes, hash_addresses(pa.array(readings, pa.string()))))
    return len(addresses), hashes


def hash_range(
    range_id: RangeId, data: bytes, count: int | None, normaliser: AddressNormaliser
) -> RangeHashes:
    """The hashes of a range's addresses; a full address counts as every object of the namespace it may mean."""
    read = read_range_hashes(data, expected_count=count)
    readings = [normaliser.readings(full) for full in read.full_addresses]
    inside = [address for some in readings for address in some]
    hashes, magnitudes = read.hashes, magnitudes_of(read.sizes)
    if inside:
        hashes = np.concatenate((hashes, hash_addresses(pa.array(inside, pa.string()))))
        # Which of its readings an address means is not known, so none of them has a size.
        magnitudes = np.concatenate((magnitudes, np.zeros(len(inside), np.uint8)))
    outside = readings.count(())
    return RangeHashes(range_id, read.count, hashes, magnitudes, read.root_names, outside)


class _Emitter:
    """Gathers hashes by kind and emits cells before any grows too large."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._limit = flush_threshold(partitions, 8)
        self._waiting: dict[int, list[Hashes]] = {}
        self._sized: list[tuple[Hashes, Magnitudes]] = []
        self._rows = 0
        self._counts: list[dict[str, object]] = []

    def range(
        self, item: RangeReference, entry: RangeHashes, pack: str
    ) -> Iterator[pa.RecordBatch]:
        self._count(
            item.name,
            item.kind,
            item.count,
            entry.count,
            len(entry.hashes),
            pack,
            entry.root_names,
            entry.outside,
        )
        if item.is_measured:
            yield from self._measure(entry.hashes, entry.magnitudes)
        else:
            yield from self._gather(item.kind, entry.hashes)

    def item(
        self, name: str, kind: int, hashes: Hashes, promised: int | None
    ) -> Iterator[pa.RecordBatch]:
        self._count(name, kind, promised, len(hashes), len(hashes))
        yield from self._gather(kind, hashes)

    def staged(self, item: StagedFile, entries: int, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        self._count(item.name, LIVE, None, entries, len(hashes))
        if item.is_measured:
            yield from self._measure(hashes, np.zeros(len(hashes), np.uint8))
        else:
            yield from self._gather(LIVE, hashes)

    def _gather(self, kind: int, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        self._waiting.setdefault(kind, []).append(hashes)
        yield from self._grown(len(hashes))

    def _measure(self, hashes: Hashes, magnitudes: Magnitudes) -> Iterator[pa.RecordBatch]:
        self._sized.append((hashes, magnitudes))
        yield from self._grown(len(hashes))

    def _grown(self, rows: int) -> Iterator[pa.RecordBatch]:
        self._rows += rows
        if self._rows >= self._limit:
            yield from self.flush()

    def events(self, item: EventFile, hashes: Hashes) -> Iterator[pa.RecordBatch]:
        # Hash and order side by side: what happened last to an address decides.
        self._count(item.name, item.kind, None, len(hashes), len(hashes))
        if len(hashes):
            rows = pa.RecordBatch.from_pydict(
                {
                    "hash": pa.array(hashes, pa.uint64()),
                    "order": pa.array(np.full(len(hashes), item.order, dtype=np.int64)),
                }
            )
            yield pack_rows(item.kind, rows, hashes, self._partitions)

    def flush(self) -> Iterator[pa.RecordBatch]:
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
            rows = pa.RecordBatch.from_pylist(self._counts, schema=COUNTS_SCHEMA)
            home = sum(len(str(c["item"])) for c in self._counts) % self._partitions
            yield single_cell(COUNTS, home, rows)
            self._counts = []

    def _count(
        self,
        name: str,
        kind: int,
        promised: int | None,
        entries: int,
        sent: int,
        pack: str = "",
        root_names: int = 0,
        outside: int = 0,
    ) -> None:
        self._counts.append(
            {
                "item": name,
                "promised": promised,
                "entries": entries,
                "sent": sent,
                "kind": kind,
                "pack": pack,
                "root_names": root_names,
                "outside": outside,
            }
        )


def _read_or_refuse(store: ObjectStore, key: str) -> bytes:
    return next(data for _, data in _read_many_or_refuse(store, [key]))


def _read_many_or_refuse(store: ObjectStore, keys: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read what must be there. A missing range or page is doubt about what is live, never 'nothing live'."""
    try:
        yield from store.read_many(keys)
    except ObjectNotFoundError as error:
        raise UnsafeToSweepError(
            f"A file that says what is live is missing: {error.message} "
            "Nothing was deleted. Restore the file, or find out which commit or branch needs it.",
            kind="reference-missing",
        ) from error
