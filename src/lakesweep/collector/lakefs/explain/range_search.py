"""Find addresses in the ranges of commits: in which range, at which path. A work function, also called on the driver."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import compress

import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.namespace import AddressNormaliser
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import ROOT_CANDIDATE_PATTERN
from lakesweep.domain.commits import RangeId
from lakesweep.engine.tasks import Engine, Scatter, tasks_for
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.damage import named_damage
from lakesweep.formats.entries import AddressType
from lakesweep.formats.ranges import read_range_addresses, read_range_records

__all__ = [
    *("FoundInRanges", "addresses_below", "find_in_ranges", "search_ranges"),
]

_MOST_TASKS = 200

FOUND_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string(), nullable=False),
        pa.field("path", pa.binary(), nullable=False),
        pa.field("address", pa.string(), nullable=False),  # empty: the entry has a size asked for
        pa.field("size", pa.int64(), nullable=False),
        pa.field("is_root_name", pa.bool_(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class FoundInRanges:
    """Where addresses are: by address, the ranges and the paths in each; and paths of entries of the sizes asked for."""

    places: Mapping[str, Mapping[RangeId, Sequence[str]]] = field(default_factory=dict)
    paths_of_size: Mapping[RangeId, Sequence[tuple[bytes, int]]] = field(default_factory=dict)
    has_root_names: bool = False


def search_ranges(
    target: Target,
    ranges: Mapping[RangeId, int | None],
    addresses: frozenset[str],
    sizes: frozenset[int] = frozenset(),
    engine: Engine | None = None,
) -> FoundInRanges:
    """Read these ranges (with the counts that they promise): here, or on the engine where there is one."""
    work = partial(find_in_ranges, target, addresses, sizes)
    items = list(ranges.items())
    if engine is None:
        found = pa.Table.from_batches(work(iter(items)), schema=FOUND_SCHEMA)
    else:
        tasks = tasks_for(len(items), engine.slots, at_most=_MOST_TASKS, per_task=4)
        found = engine.collect(Scatter(items, work, FOUND_SCHEMA, tasks))
    places: dict[str, dict[RangeId, list[str]]] = {}
    of_size: dict[RangeId, list[tuple[bytes, int]]] = {}
    has_root_names = False
    for row in found.to_pylist():
        range_id = RangeId(row["range_id"])
        if row["is_root_name"]:
            has_root_names = True
        elif row["address"]:
            path = row["path"].decode(errors="replace")
            places.setdefault(row["address"], {}).setdefault(range_id, []).append(path)
        else:
            of_size.setdefault(range_id, []).append((row["path"], row["size"]))
    return FoundInRanges(places, of_size, has_root_names)


def addresses_below(
    target: Target,
    counts: Mapping[RangeId, int],
    bounds: Mapping[RangeId, tuple[bytes, bytes]],
    prefix: str,
) -> frozenset[str]:
    """Addresses of entries whose path begins with a prefix; only ranges that may hold such paths are read."""
    start = prefix.encode()
    keys = {
        f"_lakefs/{range_id}": counts[range_id]
        for range_id, (first, last) in bounds.items()
        if first[: len(start)] <= start <= last
    }
    store, normaliser = target.open(), normaliser_of(target)
    found: set[str] = set()
    for key, data in store.read_many(list(keys)):
        with named_damage(key):
            entries = read_range_addresses(data, expected_count=keys[key])
        is_below = [path.startswith(start) for path, _ in read_range_records(data)]
        for text in entries.filter(pa.array(is_below)).column("address").to_pylist():
            # A full address that can be read in several ways holds each object that it may mean.
            found.update(normaliser.readings(text) if "://" in text else (text,))
    return frozenset(found)


def find_in_ranges(
    target: Target,
    addresses: frozenset[str],
    sizes: frozenset[int],
    items: Iterator[tuple[RangeId, int | None]],
) -> Iterator[pa.RecordBatch]:
    """Work function: a row for each entry with one of the addresses, and for each with one of the sizes."""
    store, normaliser = target.open(), normaliser_of(target)
    counts = {f"_lakefs/{range_id}": count for range_id, count in items}
    # Whether commits hold names at the root matters to an address there alone.
    wants_root_names = any(len(a) == 32 and "/" not in a for a in addresses)
    try:
        for key, data in store.read_many(list(counts)):
            with named_damage(key):
                entries = read_range_addresses(data, expected_count=counts[key])
            rows = list(_found(data, entries, addresses, sizes, normaliser))
            if wants_root_names and _has_root_name(entries):
                rows.append((b"", "", 0, True))
            range_id = key.removeprefix("_lakefs/")
            yield pa.RecordBatch.from_pylist(
                [dict(zip(FOUND_SCHEMA.names, (range_id, *row), strict=True)) for row in rows],
                schema=FOUND_SCHEMA,
            )
    except ObjectNotFoundError as error:
        raise UnsafeToSweepError(
            f"A file that says what is live is missing: {error.message} So nothing can be said of the objects. "
            "Restore the file, or find out which commit needs it.",
            kind="reference-missing",
        ) from error


_Row = tuple[bytes, str, int, bool]


def _found(
    data: bytes,
    entries: pa.RecordBatch,
    addresses: frozenset[str],
    sizes: frozenset[int],
    normaliser: AddressNormaliser,
) -> Iterator[_Row]:
    """Path, address, size of what is asked for; paths are taken out of the file only where there is something."""
    texts = entries.column("address")
    is_wanted = pc.is_in(texts, value_set=pa.array(sorted(addresses), pa.string()))
    # A full address may mean an object of the namespace in some other spelling.
    is_full = pc.or_(
        pc.equal(entries.column("address_type"), int(AddressType.FULL)),
        pc.match_substring(texts, "://"),
    )
    has_size = pc.is_in(entries.column("size"), value_set=pa.array(sorted(sizes), pa.int64()))
    is_looked_at = pc.or_(pc.or_(is_wanted, is_full), has_size)
    if not pc.any(is_looked_at).as_py():
        return
    looked_at = is_looked_at.to_pylist()
    keys = [key for key, _ in compress(read_range_records(data), looked_at)]
    some = entries.filter(is_looked_at)
    full = is_full.filter(is_looked_at).to_pylist()
    sized = has_size.filter(is_looked_at).to_pylist()
    texts, lengths = some.column("address").to_pylist(), some.column("size").to_pylist()
    for key, text, size, is_uri, is_of_size in zip(keys, texts, lengths, full, sized, strict=True):
        readings = normaliser.readings(text) if is_uri else (text,)
        for address in addresses.intersection(readings):
            yield key, address, size, False
        if is_of_size:
            yield key, "", size, False


def _has_root_name(entries: pa.RecordBatch) -> bool:
    """Whether an entry lies at the root of the namespace by its own name, as the judge asks."""
    is_root = pc.match_substring_regex(entries.column("address"), ROOT_CANDIDATE_PATTERN)
    is_full = pc.equal(entries.column("address_type"), int(AddressType.FULL))
    return bool(pc.any(pc.and_not(is_root, is_full)).as_py())
