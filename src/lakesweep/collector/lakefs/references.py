"""Read the references of a repository (ranges, staged lists, events, canaries) and emit their hashes as cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.judge.candidate_filter import load_filter
from lakesweep.collector.judge.magnitudes import magnitudes_of
from lakesweep.collector.judge.references import LIVE, ReferenceCells, counts_schema
from lakesweep.collector.lakefs.between_runs.range_cache import (
    HashedRange,
    read_pack,
    size_bits,
    sizes_beside,
    write_pack,
    write_sizes,
)
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.lakefs.paths import RANGE_CACHE
from lakesweep.collector.parts import read_addresses
from lakesweep.collector.target import Target, own_name
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.engine.cells import Hashes
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.entries import AddressType
from lakesweep.formats.hashing import hash_addresses
from lakesweep.formats.ranges import read_range_addresses, read_range_hashes
from lakesweep.formats.tables import read_uncommitted
from lakesweep.storage import ObjectStore

# 32 MB of hashes: large enough to save requests, small enough to hold while a task runs.
HASHES_PER_PACK = 4_000_000

# What a server may decode or fold on its way to the store.
_SEVERAL_READINGS = r"%|//|/\.|^[./]|/$|:"

# Names at the root of the namespace that a server gave: where there are any, such names may be candidates.
COUNTS_SCHEMA = counts_schema(pa.field("root_names", pa.int64(), nullable=False))


class CachedRange(Protocol):
    """A range whose hashes may be in a pack."""

    @property
    def range_id(self) -> RangeId: ...
    @property
    def count(self) -> int: ...
    @property
    def pack(self) -> str: ...


@dataclass(frozen=True, slots=True)
class RangeReference:
    """A range of commits to read: its promised count, and what its addresses are (LIVE or EXPIRED).

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
    """One Parquet file of the server's list of uncommitted objects. It has no sizes."""

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
    references: Iterator[Reference],
    *,
    keep_hashes: bool = True,
    keep_sizes: bool = False,
    filter_key: str = "",
) -> Iterator[pa.RecordBatch]:
    """Work function: cells of hashes by kind, and one COUNTS cell per item.

    Hashes of ranges are kept for later runs, and sizes for the search for staged re-uploads.
    """
    store = target.open()
    normaliser = normaliser_of(target)
    bitmap = load_filter(target, filter_key) if filter_key else None
    cells = ReferenceCells(partitions, COUNTS_SCHEMA, bitmap)
    items = list(references)
    ranges = [item for item in items if isinstance(item, RangeReference)]
    kept = _read_ranges(store, normaliser, ranges, keep_hashes, keep_sizes)
    for range_item, entry, pack in kept:
        yield from cells.take(
            range_item.name,
            range_item.kind,
            entry.hashes,
            entry.magnitudes if range_item.is_measured else None,
            entries=entry.count,
            promised=range_item.count,
            outside=entry.outside,
            pack=pack,
            root_names=entry.root_names,
        )
    for item in items:
        match item:
            case StagedFile():
                data = _read_or_refuse(store, item.key)
                with named_damage(item.key):
                    rows = read_uncommitted(data)
                entries, hashes = _staged_hashes(rows, normaliser)
                unsized = np.zeros(len(hashes), np.uint8) if item.is_measured else None
                yield from cells.take(
                    item.name, LIVE, hashes, unsized, entries=entries, root_names=0
                )
            case EventFile():
                lists = read_addresses(_read_or_refuse(store, item.key), item.key)
                chunks = list(map(hash_addresses, lists))
                hashes = np.concatenate([np.empty(0, dtype=np.uint64), *chunks])
                cells.count(item.name, item.kind, len(hashes), root_names=0)
                yield from cells.add_events(item.kind, hashes, item.order)
            case AddressList():
                hashes = hash_addresses(pa.array(item.addresses, pa.string()))
                promised = len(item.addresses)
                yield from cells.take(item.name, item.kind, hashes, promised=promised, root_names=0)
            case RangeReference():
                pass
    yield from cells.flush()


def _read_ranges(
    store: ObjectStore,
    normaliser: AddressNormaliser,
    ranges: list[RangeReference],
    keep_hashes: bool,
    keep_sizes: bool,
) -> Iterator[tuple[RangeReference, HashedRange, str]]:
    """Each range with its hashes and the key of the pack that keeps them: an earlier run's, a new one, or no pack."""
    by_key = {f"_lakefs/{r.range_id}": r for r in ranges}
    for range_id, entry in read_packs(store, normaliser.namespace, ranges).items():
        item = by_key.pop(f"_lakefs/{range_id}")
        yield item, entry, item.pack
    fresh: list[tuple[RangeReference, HashedRange]] = []

    def packed() -> Iterator[tuple[RangeReference, HashedRange, str]]:
        pack = own_name(RANGE_CACHE, "pack", ".arrow") if keep_hashes else ""
        if pack:
            entries = [entry for _, entry in fresh]
            store.write(pack, write_pack(entries, normaliser.namespace))
            if keep_sizes:
                store.write(sizes_beside(pack), write_sizes(entries, normaliser.namespace))
        yield from ((item, entry, pack) for item, entry in fresh)
        fresh.clear()

    waiting = 0
    for key, data in read_many_or_refuse(store, list(by_key)):
        item = by_key[key]
        with named_damage(key):
            entry = hash_range(item.range_id, data, item.count, normaliser)
        fresh.append((item, entry))
        waiting += len(entry.hashes)
        if waiting >= HASHES_PER_PACK:
            yield from packed()
            waiting = 0
    if fresh:
        yield from packed()


def read_packs(
    store: ObjectStore, namespace: Location, ranges: Iterable[CachedRange]
) -> dict[RangeId, HashedRange]:
    """The kept hashes of these ranges; a range whose pack is gone or damaged is missing among them, and is read."""
    wanted: dict[str, dict[RangeId, int]] = {}
    for item in ranges:
        if item.pack:
            wanted.setdefault(item.pack, {})[item.range_id] = item.count
    found: dict[RangeId, HashedRange] = {}
    for pack, counts in wanted.items():
        try:
            data = store.read(pack)
        except ObjectNotFoundError:
            continue
        found |= read_pack(data, namespace, counts)
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
) -> HashedRange:
    """The hashes of a range's addresses; each counts as every object of the namespace it may mean."""
    read = read_range_hashes(data, expected_count=count)
    readings = [normaliser.readings(full) for full in read.full_addresses]
    inside = [address for some in readings for address in some]
    if read.several_readings:
        inside += _other_readings(data, normaliser)
    hashes, magnitudes = read.hashes, magnitudes_of(read.sizes)
    if inside:
        hashes = np.concatenate((hashes, hash_addresses(pa.array(inside, pa.string()))))
        # Which of its readings an address means is not known, so none of them has a size.
        magnitudes = np.concatenate((magnitudes, np.zeros(len(inside), np.uint8)))
    outside = readings.count(())
    # Sizes of full addresses are not among those that were read, nor is one that no object has, which their number tells.
    sizes = size_bits(read.sizes[read.sizes >= 0])
    return HashedRange(range_id, read.count, hashes, magnitudes, read.root_names, outside, sizes)


def _other_readings(data: bytes, normaliser: AddressNormaliser) -> list[str]:
    """What relative addresses may mean beside themselves. A few were staged in another spelling; most ranges have none."""
    rows = read_range_addresses(data, expected_count=None)
    is_full = pc.equal(rows.column("address_type"), int(AddressType.FULL))
    relative = rows.column("address").filter(pc.invert(is_full))
    unusual = relative.filter(pc.match_substring_regex(relative, _SEVERAL_READINGS)).to_pylist()
    return [other for name in unusual for other in normaliser.readings(name) if other != name]


def _read_or_refuse(store: ObjectStore, key: str) -> bytes:
    return next(data for _, data in read_many_or_refuse(store, [key]))


def read_many_or_refuse(store: ObjectStore, keys: list[str]) -> Iterator[tuple[str, bytes]]:
    """Read files that must be there; a missing one ends the run: it is doubt about what is live, and never 'nothing live'."""
    try:
        yield from store.read_many(keys)
    except ObjectNotFoundError as error:
        raise UnsafeToSweepError(
            f"A file that says what is live is missing: {error.message} "
            "Nothing was deleted. Restore the file, or find out which commit or branch needs it.",
            kind="reference-missing",
        ) from error
