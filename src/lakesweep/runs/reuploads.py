"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size of what is committed at its path, so candidates with the size of an entry at a branch head
are looked up by path on those branches, and kept when they are what the branch reads. An etag may differ for the same
bytes and excludes nothing. When the look-ups would be too many, all candidates of these sizes are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.domain.commits import BranchId, MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.ranges import read_range_addresses, read_range_records
from lakesweep.formats.tables import MARK_SCHEMA, read_mark
from lakesweep.runs.context import RunContext
from lakesweep.runs.live import LiveRead
from lakesweep.runs.work.parts import Part, PartWriter
from lakesweep.runs.work.target import Target

logger = logging.getLogger(__name__)

MOST_LOOKUPS = 50_000
_MOST_SIZES = 1_000_000
_IN_FLIGHT = 16

SIZES_SCHEMA = pa.schema([pa.field("size", pa.int64())])
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
    sizes: frozenset[int] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.addresses or self.sizes)


def find_reuploads(context: RunContext, live: LiveRead, garbage: Sequence[Part]) -> Reuploads:
    """Look for staged re-uploads among the garbage. An embedded lake lists them itself, so there is nothing to find."""
    if context.profile.is_embedded or not garbage:
        return Reuploads()
    sizes = _sizes(context, garbage)
    if len(sizes) > _MOST_SIZES:
        return Reuploads(sizes=frozenset(sizes))
    branches = _branches_by_range(context, live)
    lookups: list[tuple[BranchId, str]] = []
    for range_id, path, too_many in _paths_of_size(context, list(branches), sizes):
        lookups += [(branch, path) for branch in branches[range_id]]
        if too_many or len(lookups) > MOST_LOOKUPS:
            return Reuploads(sizes=frozenset(sizes))
    if not lookups:
        return Reuploads()
    normaliser = context.target.normaliser()

    def look_up(lookup: tuple[BranchId, str]) -> tuple[str, ...]:
        entry = context.client.stat_object(context.name, *lookup)
        return normaliser.readings(entry.physical_address) if entry is not None else ()

    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        read = {address for found in pool.map(look_up, lookups) for address in found}
    logger.info("repo#%s looked up %d paths for staged re-uploads", context.name, len(lookups))
    return Reuploads(addresses=frozenset(read))


def drop_reuploads(
    context: RunContext, found: Reuploads, garbage: Sequence[Part], folder: str
) -> tuple[list[Part], list[Part]]:
    """The garbage without the re-uploads, and the re-uploads: they are live, and carried to the next run."""
    if not found:
        return list(garbage), []
    scatter = Scatter(
        [part.key for part in garbage],
        partial(split_parts, context.target, folder, found),
        SPLIT_SCHEMA,
        tasks_for(len(garbage), context.engine.slots, at_most=context.parallelism.partitions),
    )
    rows = context.engine.collect(scatter).to_pylist()
    stay, kept = (
        [Part(r["key"], r["rows"], r["bytes"]) for r in rows if r["kept"] is is_kept]
        for is_kept in (False, True)
    )
    if sum(p.rows for p in (*stay, *kept)) != sum(p.rows for p in garbage):
        raise UnsafeToSweepError(
            f"Rows were lost while staged re-uploads were taken out of the plan for {context.name}. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    return stay, kept


def split_parts(
    target: Target, folder: str, found: Reuploads, parts: Iterator[str]
) -> Iterator[pa.RecordBatch]:
    """Work function: each part as what stays garbage and what is kept."""
    store = target.open()
    addresses = pa.array(sorted(found.addresses), pa.string())
    sizes = pa.array(sorted(found.sizes), pa.int64())
    for key, data in store.read_many(list(parts)):
        rows = read_mark(data)
        # Only what no commit holds can be a staged re-upload; an address that a branch reads is live anyway.
        of_size = pc.and_(
            pc.is_in(rows.column("size_bytes"), sizes),
            pc.equal(rows.column("reason"), "unreferenced"),
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


def _sizes(context: RunContext, garbage: Sequence[Part]) -> set[int]:
    scatter = Scatter(
        [part.key for part in garbage],
        partial(read_sizes, context.target),
        SIZES_SCHEMA,
        tasks_for(len(garbage), context.engine.slots, at_most=context.parallelism.partitions),
    )
    return set(context.engine.collect(scatter).column("size").to_pylist())


def read_sizes(target: Target, parts: Iterator[str]) -> Iterator[pa.RecordBatch]:
    """Work function: the distinct sizes of unreferenced candidates."""
    store = target.open()
    for _, data in store.read_many(list(parts)):
        rows = read_mark(data)
        rows = rows.filter(pc.equal(rows.column("reason"), "unreferenced"))
        sizes = pc.unique(rows.column("size_bytes")).cast(pa.int64())
        yield pa.RecordBatch.from_arrays([sizes], schema=SIZES_SCHEMA)


def _branches_by_range(context: RunContext, live: LiveRead) -> dict[RangeId, list[BranchId]]:
    heads: dict[MetaRangeId, list[BranchId]] = {}
    for head in live.refs.heads:
        heads.setdefault(live.refs.graph[head.commit_id].meta_range_id, []).append(head.id)
    branches: dict[RangeId, list[BranchId]] = {}
    for metarange, ranges in ranges_of_commits(context.store, [m for m in heads if m]):
        for info in ranges:
            branches.setdefault(info.id, []).extend(heads[metarange])
    return branches


def _paths_of_size(
    context: RunContext, ranges: Sequence[RangeId], sizes: Iterable[int]
) -> list[tuple[RangeId, str, bool]]:
    wanted = np.array(sorted(sizes), dtype=np.int64)
    scatter = Scatter(
        list(ranges),
        partial(find_paths, context.target, wanted),
        PATHS_SCHEMA,
        tasks_for(len(ranges), context.engine.slots, at_most=context.parallelism.range_tasks),
    )
    rows = context.engine.collect(scatter).to_pylist()
    return [(RangeId(r["range_id"]), r["path"], r["too_many"]) for r in rows]


def find_paths(
    target: Target, sizes: np.ndarray[tuple[int], np.dtype[np.int64]], ranges: Iterator[RangeId]
) -> Iterator[pa.RecordBatch]:
    """Work function: paths of entries with one of these sizes; it stops counting where the look-ups are too many."""
    store = target.open()
    for range_id in ranges:
        data = store.read(f"_lakefs/{range_id}")
        matches = np.isin(
            read_range_addresses(data, expected_count=None).column("size").to_numpy(), sizes
        )
        if not matches.any():
            continue
        too_many = int(matches.sum()) > MOST_LOOKUPS
        paths = [
            key.decode(errors="surrogateescape")
            for (key, _), is_match in zip(read_range_records(data), matches, strict=True)
            if is_match
        ]
        paths = paths[:1] if too_many else paths
        yield pa.RecordBatch.from_pydict(
            {
                "range_id": [range_id] * len(paths),
                "path": paths,
                "too_many": [too_many] * len(paths),
            },
            schema=PATHS_SCHEMA,
        )
