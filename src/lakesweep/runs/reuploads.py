"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size of what is committed at its path, so candidates with the size of an entry at a branch head
are looked up by path on those branches, and kept when they are what the branch reads. An etag may differ for the same
bytes and excludes nothing. When the look-ups would be too many, all candidates of these sizes are kept.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.domain.commits import BranchId, MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.runs.context import RunContext
from lakesweep.runs.live import LiveRead
from lakesweep.runs.work.parts import Part
from lakesweep.runs.work.reuploads import (
    MOST_LOOKUPS,
    PATHS_SCHEMA,
    SPLIT_SCHEMA,
    Reuploads,
    find_paths,
    split_parts,
)
from lakesweep.runs.work.sizes import Sizes

logger = logging.getLogger(__name__)

_IN_FLIGHT = 16


def find_reuploads(context: RunContext, live: LiveRead, sizes: Sizes) -> Reuploads:
    """Look for staged re-uploads among unreferenced garbage of these sizes.

    An embedded lake lists them itself, so there is nothing to find.
    """
    if context.profile.is_embedded:
        return Reuploads()
    if not sizes.is_complete:
        return Reuploads(sizes=sizes)
    if not len(sizes):
        return Reuploads()
    branches = _branches_by_range(context, live)
    lookups: list[tuple[BranchId, str]] = []
    for range_id, path, too_many in _paths_of_size(context, list(branches), sizes):
        lookups += [(branch, path) for branch in branches[range_id]]
        if too_many or len(lookups) > MOST_LOOKUPS:
            return Reuploads(sizes=sizes)
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
    context: RunContext, ranges: Sequence[RangeId], sizes: Sizes
) -> list[tuple[RangeId, str, bool]]:
    scatter = Scatter(
        list(ranges),
        partial(find_paths, context.target, sizes),
        PATHS_SCHEMA,
        tasks_for(
            len(ranges), context.engine.slots, at_most=context.parallelism.range_tasks, per_task=4
        ),
    )
    rows = context.engine.collect(scatter).to_pylist()
    return [(RangeId(r["range_id"]), r["path"], r["too_many"]) for r in rows]
