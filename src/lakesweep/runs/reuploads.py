"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size of what is committed at its path, so paths whose entries at a branch head have the size of a
candidate are looked up on those branches, one by one or, where they lie close together, by pages of the branch's
listing. Candidates that a branch reads are kept. An etag may differ for the same bytes and excludes nothing. When the
requests would be too many, all candidates of these sizes are kept.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.catalogs.lakefs.wire import ObjectStatsWire
from lakesweep.domain.commits import BranchId, MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, chunked, tasks_for
from lakesweep.errors import CatalogNotFoundError, UnsafeToSweepError
from lakesweep.runs.context import RunContext
from lakesweep.runs.live import LiveRead
from lakesweep.runs.work.parts import Part
from lakesweep.runs.work.reuploads import (
    MOST_REQUESTS,
    SPANS_SCHEMA,
    SPLIT_SCHEMA,
    Reuploads,
    find_spans,
    split_parts,
)
from lakesweep.runs.work.suspects import Sizes, Suspects

logger = logging.getLogger(__name__)

_IN_FLIGHT = 16
_PAGE = 1000
_MOST_ADDRESSES = 1_000_000


@dataclass(frozen=True, slots=True)
class _Span:
    """Paths of one branch from `first` to `last`, and how many committed entries lie there."""

    branch: BranchId
    first: str
    last: str
    entries: int

    @property
    def requests(self) -> int:
        """The first path is looked up, as a listing begins after a path; the others come in pages."""
        return 1 + math.ceil((self.entries - 1) / _PAGE)


def find_reuploads(context: RunContext, live: LiveRead, suspects: Suspects) -> Reuploads:
    """Look for staged re-uploads among unreferenced garbage.

    An embedded lake lists them itself, so there is nothing to find.
    """
    sizes = suspects.sizes
    if context.profile.is_embedded:
        return Reuploads()
    if not sizes.is_complete:
        return Reuploads(sizes=sizes)
    if not len(sizes):
        return Reuploads()
    spans = _spans_of_sizes(context, live, sizes)
    if spans is None or sum(span.requests for span in spans) > MOST_REQUESTS:
        logger.warning("repo#%s too many look-ups: all of these sizes are kept", context.name)
        return Reuploads(sizes=sizes)
    look_ups = _LookUps(context, suspects)
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        for _ in pool.map(look_ups.look, spans):
            pass
    if look_ups.doubt:
        logger.warning("repo#%s %s: all of these sizes are kept", context.name, look_ups.doubt)
        return Reuploads(sizes=sizes)
    logger.info(
        "repo#%s staged re-uploads: %d requests, %d found",
        context.name,
        look_ups.requests,
        len(look_ups.found),
    )
    return Reuploads(addresses=frozenset(look_ups.found))


class _LookUps:
    """Suspects that branches read, found by many threads. Once one of them is in doubt, all stop."""

    def __init__(self, context: RunContext, suspects: Suspects) -> None:
        self._context = context
        self._normaliser = context.target.normaliser()
        self._suspects = suspects
        self.found: set[str] = set()
        self.requests = 0
        self.doubt = ""

    def look(self, span: _Span) -> None:
        """Ask for the first path, and list the others."""
        try:
            for entries in self._entries(span):
                self.requests += 1
                readings = map(self._normaliser.readings, (e.physical_address for e in entries))
                self.found.update(self._suspects.among([a for read in readings for a in read]))
                if len(self.found) > _MOST_ADDRESSES or self.requests > MOST_REQUESTS:
                    self.doubt = "too much to look at"
                if self.doubt:
                    return
        except BaseException as error:
            self.doubt = repr(error)
            raise

    def _entries(self, span: _Span) -> Iterator[list[ObjectStatsWire]]:
        client, name = self._context.client, self._context.name
        if self.doubt:
            return
        first = client.stat_object(name, span.branch, span.first)
        yield [first] if first is not None else []
        if span.last == span.first:
            return
        listed = client.list_objects(name, span.branch, after=span.first)
        try:
            yield from chunked(self._up_to(span, listed), _PAGE)
        except CatalogNotFoundError:
            # A branch that went away took with it what it alone read. Any other reason is an error.
            if span.branch in {head.id for head in client.branches(name)}:
                raise

    def _up_to(self, span: _Span, listed: Iterable[ObjectStatsWire]) -> Iterator[ObjectStatsWire]:
        """Entries up to the last path. Only an ordered listing tells by one path that all before it were seen."""
        before = span.first
        for entry in listed:
            # The server writes bytes that are no text as U+FFFD, which sorts, and goes on, elsewhere.
            if entry.path < before or "\ufffd" in entry.path:
                self.doubt = f"the listing of {span.branch} is out of order at {entry.path!r}"
                return
            if entry.path > span.last:
                return
            yield entry
            before = entry.path


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


def _spans_of_sizes(context: RunContext, live: LiveRead, sizes: Sizes) -> list[_Span] | None:
    """Where entries of these sizes lie on which branch; None where looking there is hopeless."""
    branches = _branches_by_range(context, live)
    scatter = Scatter(
        list(branches),
        partial(find_spans, context.target, sizes),
        SPANS_SCHEMA,
        tasks_for(
            len(branches), context.engine.slots, at_most=context.parallelism.range_tasks, per_task=4
        ),
    )
    rows = context.engine.collect(scatter).to_pylist()
    if any(row["is_hopeless"] for row in rows):
        return None
    return [
        _Span(branch, row["first"], row["last"], row["entries"])
        for row in rows
        for branch in branches[RangeId(row["range_id"])]
    ]
