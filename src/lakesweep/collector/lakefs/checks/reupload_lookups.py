"""Find where entries lie that candidates may be re-uploads of, what looking them up costs, and split garbage by it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.collector.judge.bitmap import Bitmap
from lakesweep.collector.judge.suspects import Ints, Sizes, is_in
from lakesweep.collector.lakefs.between_runs.range_cache import read_sizes, size_bits, sizes_beside
from lakesweep.collector.lakefs.checks.content_sums import Contents, Trial, are_true, trial_of
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, write_outcome
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError
from lakesweep.formats.ranges import read_range_records, read_range_sums
from lakesweep.formats.tables import read_mark
from lakesweep.storage import ObjectStore

# Requests to the server, in all: some minutes' worth.
MOST_REQUESTS = 50_000
PAGE = 1000
# A page of a branch's listing costs the server as much as some twenty look-ups of single paths.
NEAR = 50
# Entries one page apart still cost fewer requests together than alone.
FAR = PAGE

SPANS_SCHEMA = pa.schema(
    [
        pa.field("range_id", pa.string()),
        pa.field("first", pa.string()),  # null where a path is not text, which no request can carry
        pa.field("last", pa.string()),
        pa.field("entries", pa.int64()),  # from first to last, both included
        pa.field("sizes", pa.binary()),  # distinct sizes in question there
        pa.field("are_too_many", pa.bool_()),
        pa.field("has_untrue_sums", pa.bool_()),  # e_tags that are no sums of their bytes
    ]
)

# Ranges whose entries are tried together: many small reads at once cost less.
_TRIALS_AT_ONCE = 200

COSTS_SCHEMA = pa.schema([pa.field("sizes", pa.binary()), pa.field("requests", pa.binary())])

# What becomes of garbage that may be a staged re-upload.
GARBAGE, READ, UNDECIDED = "garbage", "read", "undecided"


@dataclass(frozen=True, slots=True)
class Reuploads:
    """Garbage to keep: addresses that a branch reads after all, and sizes that could not be looked up, with the reasons."""

    addresses: frozenset[str] = frozenset()
    undecided: Sizes = field(default_factory=Sizes)
    reasons: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.addresses) or bool(len(self.undecided)) or not self.undecided.is_complete


@dataclass(frozen=True, slots=True)
class RangeToSearch:
    """A range at the head of a branch, how many entries it has, and the pack with its hashes; empty: none is known."""

    range_id: RangeId
    count: int
    pack: str = ""


def find_spans(
    target: Target, contents: Contents, gap: int, tried: int, ranges: Iterator[RangeToSearch]
) -> Iterator[pa.RecordBatch]:
    """Work function: stretches of paths in which entries that may be meant lie no further apart than `gap`.

    Of each range, `tried` entries that sums rule out are read, to see that the sums are true.
    """
    requests = 0
    store = target.open()
    trials: list[Trial] = []
    range_id = RangeId("")
    found = _read_ranges(store, with_sizes(store, target.namespace, contents, ranges))
    for range_id, data in found:
        entries = read_range_sums(data)
        has_size, is_ruled_out = contents.have_size(entries), contents.are_ruled_out(entries)
        ruled_out = np.flatnonzero(has_size & is_ruled_out)
        if len(ruled_out):
            trials.append(trial_of(data, entries, ruled_out, tried))
        at = np.flatnonzero(has_size & ~is_ruled_out)
        spans = close_together(at, gap) if len(at) else []
        requests += len(spans)
        if len(trials) >= _TRIALS_AT_ONCE or requests > MOST_REQUESTS:
            # Where sums are not true, it is not true either that there are too many.
            if not are_true(store, trials):
                yield _refusal(range_id, has_untrue_sums=True)
                return
            trials.clear()
        if requests > MOST_REQUESTS:
            yield _refusal(range_id, are_too_many=True)
            return
        if not spans:
            continue
        rows = _named(data, range_id, spans)
        for row, (first, last) in zip(rows, spans, strict=True):
            within = entries.sizes[at[(at >= first) & (at <= last)]]
            row["sizes"] = contents.sizes_among(within).tobytes()
        yield pa.RecordBatch.from_pylist(rows, schema=SPANS_SCHEMA)
    if not are_true(store, trials):
        yield _refusal(range_id, has_untrue_sums=True)


def with_sizes(
    store: ObjectStore, namespace: Location, contents: Contents, ranges: Iterable[RangeToSearch]
) -> Iterator[RangeId]:
    """Ranges that may have an entry of a candidate's size: all but those whose sizes are kept beside their pack and differ."""
    by_pack: dict[str, dict[RangeId, int]] = {}
    for one in ranges:
        # Where not all sizes in question are known, any range may have an entry of one.
        pack = one.pack if contents.sizes.is_complete else ""
        by_pack.setdefault(pack, {})[one.range_id] = one.count
    yield from by_pack.pop("", {})
    looked_for = np.unique(size_bits(contents.sizes.values))
    bitmap = Bitmap.of(looked_for)
    for pack, unread in by_pack.items():
        with suppress(ObjectNotFoundError):
            ids, ends, sizes = read_sizes(store.read(sizes_beside(pack)), namespace)
            places = np.flatnonzero(bitmap.may_have(sizes))
            places = places[is_in(sizes[places], looked_for)]
            # Where in the file each range begins, counted in entries, and in entries of such a size.
            bounds = [0, *ends]
            before = np.searchsorted(places, bounds).tolist()
            for number, range_id in enumerate(ids):
                has_all = bounds[number + 1] - bounds[number] == unread.get(range_id)
                if has_all and before[number] == before[number + 1]:
                    del unread[range_id]
        yield from unread


def _refusal(range_id: RangeId, **why: bool) -> pa.RecordBatch:
    row = {"range_id": range_id, "entries": 0, "are_too_many": False, "has_untrue_sums": False}
    return pa.RecordBatch.from_pylist([row | why], schema=SPANS_SCHEMA)


def count_requests(
    target: Target, contents: Contents, gap: int, ranges: Iterator[tuple[RangeId, int]]
) -> Iterator[pa.RecordBatch]:
    """Work function: how many requests each size would take by itself; a range comes with the number of its branches."""
    branches = dict(ranges)
    parts = []
    for range_id, data in _read_ranges(target.open(), iter(branches)):
        entries = read_range_sums(data)
        at = np.flatnonzero(contents.have_size(entries) & ~contents.are_ruled_out(entries))
        of_size, requests = requests_by_size(at, entries.sizes[at], gap)
        parts.append((of_size, requests * branches[range_id]))
    total = SizeCosts.sum(parts)
    row = {"sizes": total.sizes.tobytes(), "requests": total.requests.tobytes()}
    yield pa.RecordBatch.from_pylist([row], schema=COSTS_SCHEMA)


@dataclass(frozen=True, slots=True, eq=False)
class SizeCosts:
    """Distinct sizes, and how many requests it takes to look up all entries of each."""

    sizes: Ints
    requests: Ints

    @classmethod
    def sum(cls, parts: Iterable[tuple[Ints, Ints]]) -> SizeCosts:
        """The costs of all parts together."""
        none = (np.empty(0, np.int64), np.empty(0, np.int64))
        sizes, requests = map(np.concatenate, zip(none, *parts, strict=True))
        distinct, at = np.unique(sizes, return_inverse=True)
        total = np.zeros(len(distinct), np.int64)
        np.add.at(total, at, requests)
        return cls(distinct, total)

    def beyond(self, budget: int) -> Sizes:
        """The dearest sizes: those that are left when the cheapest are looked up first and the budget is spent."""
        cheapest_first = np.argsort(self.requests, kind="stable")
        is_beyond = np.cumsum(self.requests[cheapest_first]) > budget
        return Sizes(np.sort(self.sizes[cheapest_first[is_beyond]]))


def _read_ranges(store: ObjectStore, ranges: Iterator[RangeId]) -> Iterator[tuple[RangeId, bytes]]:
    wanted = {f"_lakefs/{range_id}": range_id for range_id in ranges}
    for key, data in store.read_many(list(wanted)):
        yield wanted[key], data


def requests_in(entries: int) -> int:
    """How many requests a stretch of so many entries takes: one for a path alone, else one for each page."""
    return math.ceil(entries / PAGE)


def close_together(at: Ints, gap: int) -> list[tuple[int, int]]:
    """(first, last) of each run of numbers without a step larger than `gap`; the numbers ascend."""
    cuts = np.flatnonzero(np.diff(at) > gap)
    firsts = at[np.concatenate(([0], cuts + 1))]
    lasts = at[np.concatenate((cuts, [len(at) - 1]))]
    return list(zip(firsts.tolist(), lasts.tolist(), strict=True))


def requests_by_size(at: Ints, sizes: Ints, gap: int) -> tuple[Ints, Ints]:
    """(sizes, requests) for the entries at these ascending places, where each size is looked up by itself."""
    order = np.lexsort((at, sizes))
    at, sizes = at[order], sizes[order]
    is_first = np.ones(len(at), dtype=bool)
    is_first[1:] = (np.diff(sizes) != 0) | (np.diff(at) > gap)
    firsts = np.flatnonzero(is_first)
    lasts = np.append(firsts[1:], len(at))[: len(firsts)] - 1
    entries = at[lasts] - at[firsts] + 1
    return sizes[firsts], -(-entries // PAGE)


def _named(data: bytes, range_id: RangeId, spans: list[tuple[int, int]]) -> list[dict[str, object]]:
    """Spans by their paths."""
    wanted = {number for span in spans for number in span}
    paths = {n: path for n, (path, _) in enumerate(read_range_records(data)) if n in wanted}
    rows: list[dict[str, object]] = []
    for first, last in spans:
        row = {"range_id": range_id, "entries": last - first + 1}
        row |= {"are_too_many": False, "has_untrue_sums": False}
        with suppress(UnicodeDecodeError):
            row |= {"first": paths[first].decode(), "last": paths[last].decode()}
        rows.append(row)
    return rows


def split_parts(
    target: Target, folder: str, found: Reuploads, parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: each part as what stays garbage, what a branch reads, and what is undecided."""
    store = target.open()
    addresses = pa.array(sorted(found.addresses), pa.string())
    for _, data in store.read_many(list(parts)):
        rows = read_mark(data)
        sizes = rows.column("size_bytes").fill_null(-1).to_numpy()
        is_read = pc.is_in(rows.column("address"), addresses)
        # Only what no commit holds can be a staged re-upload; an address that a branch reads is live anyway.
        is_undecided = pc.and_(
            pc.and_(
                pa.array(found.undecided.matches(sizes)),
                pc.equal(rows.column("reason"), "unreferenced"),
            ),
            pc.invert(is_read),
        )
        is_garbage = pc.invert(pc.or_(is_read, is_undecided))
        split = ((GARBAGE, is_garbage), (READ, is_read), (UNDECIDED, is_undecided))
        yield pa.RecordBatch.from_pylist(
            [write_outcome(store, folder, o, rows.filter(chosen), stem=o) for o, chosen in split],
            schema=OUTCOMES_SCHEMA,
        )
