"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size of what is committed at its path, so paths whose entries at a branch head have the size of a
candidate are looked up on those branches, one by one or, where they lie close together, by pages of the branch's
listing. Candidates that a branch reads are kept. An etag may differ for the same bytes and excludes nothing. When the
requests would be too many, the sizes that take the most of them are given up: their candidates are kept as undecided.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from threading import Lock
from typing import Any

import numpy as np

from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.catalogs.lakefs.wire import ObjectStatsWire
from lakesweep.collector.judge.suspects import Sizes, Suspects
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.namespace import normaliser_of
from lakesweep.collector.lakefs.reupload_lookups import (
    COSTS_SCHEMA,
    FAR,
    GARBAGE,
    MOST_REQUESTS,
    NEAR,
    PAGE,
    READ,
    SPANS_SCHEMA,
    SPLIT_SCHEMA,
    UNDECIDED,
    Reuploads,
    SizeCosts,
    count_requests,
    find_spans,
    requests_in,
    split_parts,
)
from lakesweep.collector.parts import Part, tally_of
from lakesweep.domain.commits import BranchId, MetaRangeId, RangeId
from lakesweep.engine.tasks import Scatter, chunked, tasks_for
from lakesweep.errors import CatalogNotFoundError, UnsafeToSweepError

logger = logging.getLogger(__name__)

_IN_FLIGHT = 16
_MOST_ADDRESSES = 1_000_000
_MOST_SIZES_NAMED = 5
_Row = dict[str, Any]  # of SPANS_SCHEMA


@dataclass(frozen=True, slots=True)
class _Span:
    """Paths of one branch from `first` to `last`, how many committed entries lie there, and the sizes in question."""

    branch: BranchId
    first: str
    last: str
    entries: int
    sizes: Sizes


@dataclass(frozen=True, slots=True)
class _LookedFor:
    """Spans to look up, and sizes that some path of no text stands for, which no request can carry."""

    spans: list[_Span]
    unaskable: Sizes


@dataclass(slots=True)
class SearchedRanges:
    """Where entries of some sizes lie in ranges: a round of a sweep leaves it to the next one, as ranges never change."""

    sizes: Sizes = field(default_factory=Sizes)
    gap: int = NEAR
    spans: dict[RangeId, list[_Row]] = field(default_factory=dict)
    of_metaranges: dict[MetaRangeId, list[RangeId]] = field(default_factory=dict)


def find_reuploads(
    context: RunContext, live: LiveRead, suspects: Suspects, searched: SearchedRanges
) -> Reuploads:
    """Look for staged re-uploads among unreferenced garbage; `searched` is what the round before knew, brought up to date.

    An embedded lake lists them itself, so there is nothing to find.
    """
    sizes = suspects.sizes
    if context.profile.is_embedded:
        return Reuploads()
    if not sizes.is_complete:
        return Reuploads(undecided=sizes, reasons=("their sizes are too many, or not known",))
    if not len(sizes):
        return Reuploads()
    given_up: dict[str, Sizes] = {}
    branches = _branches_by_range(context, live, searched)
    looked_for = _affordable_spans(context, branches, sizes, searched)
    if looked_for is None:
        crowded = _crowded_sizes(context, branches, sizes)
        given_up[f"looking up paths of {_named(crowded)} would take too many requests"] = crowded
        looked_for = _affordable_spans(context, branches, sizes - crowded, searched)
    if looked_for is None:
        return Reuploads(undecided=sizes, reasons=("looking them up would take too many requests",))
    if len(looked_for.unaskable):
        given_up["paths of their sizes are no text, and can't be asked for"] = looked_for.unaskable
    look_ups = _LookUps(context, suspects)
    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        for _ in pool.map(look_ups.look, looked_for.spans):
            pass
    given_up |= look_ups.given_up
    for reason, of_sizes in given_up.items():
        logger.warning(
            "repo#%s garbage of %s is kept, undecided: %s", context.name, _named(of_sizes), reason
        )
    logger.info(
        "repo#%s staged re-uploads: %d requests, %d found",
        context.name,
        look_ups.requests,
        len(look_ups.found),
    )
    return Reuploads(
        frozenset(look_ups.found), reduce(Sizes.__or__, given_up.values(), Sizes()), tuple(given_up)
    )


def _named(sizes: Sizes) -> str:
    """A few of the sizes in words, the smallest first."""
    named = ", ".join(map(str, sizes.values[:_MOST_SIZES_NAMED].tolist()))
    more = len(sizes) - _MOST_SIZES_NAMED
    return f"{named} bytes" + (f" and {more} more sizes" if more > 0 else "")


class _LookUps:
    """Suspects that branches read, found by many threads, and the sizes of spans that could not be read in full."""

    def __init__(self, context: RunContext, suspects: Suspects) -> None:
        self._context = context
        self._normaliser = normaliser_of(context.target)
        self._suspects = suspects
        self.found: set[str] = set()
        self.requests = 0
        self.given_up: dict[str, Sizes] = {}
        self._lock = Lock()
        self._is_over = False

    def look(self, span: _Span) -> None:
        """Ask for the first path, and list the others."""
        try:
            for entries in self._entries(span):
                if self._is_over:
                    self._give_up(span, "looking them up takes too many requests")
                    return
                self.requests += 1
                readings = map(self._normaliser.readings, (e.physical_address for e in entries))
                self.found.update(self._suspects.among([a for read in readings for a in read]))
                if len(self.found) > _MOST_ADDRESSES or self.requests > MOST_REQUESTS:
                    self._is_over = True
        except _OutOfOrderError as error:
            self._give_up(span, str(error))
        except BaseException:
            self._is_over = True
            raise

    def _give_up(self, span: _Span, reason: str) -> None:
        with self._lock:
            self.given_up[reason] = self.given_up.get(reason, Sizes()) | span.sizes

    def _entries(self, span: _Span) -> Iterator[list[ObjectStatsWire]]:
        client, name = self._context.client, self._context.name
        if self._is_over:
            yield []
            return
        first = client.stat_object(name, span.branch, span.first)
        yield [first] if first is not None else []
        if span.last == span.first:
            return
        listed = client.list_objects(name, span.branch, after=span.first)
        try:
            yield from chunked(_up_to(span, listed), PAGE)
        except CatalogNotFoundError:
            # A branch that went away took with it what it alone read. Any other reason is an error.
            if span.branch in {head.id for head in client.branches(name)}:
                raise


class _OutOfOrderError(Exception):
    """A listing whose paths do not ascend, so that its end can't be told."""


def _up_to(span: _Span, listed: Iterable[ObjectStatsWire]) -> Iterator[ObjectStatsWire]:
    """Entries up to the last path. Only an ordered listing tells by one path that all before it were seen."""
    before = span.first
    for entry in listed:
        # The server writes bytes that are no text as U+FFFD, which sorts, and goes on, elsewhere.
        if entry.path < before or "\ufffd" in entry.path:
            raise _OutOfOrderError(
                f"the listing of {span.branch} is out of order at {entry.path!r}"
            )
        if entry.path > span.last:
            return
        yield entry
        before = entry.path


@dataclass(frozen=True, slots=True)
class SplitGarbage:
    """Garbage, apart from what a branch reads and what nobody could decide: both are kept and carried to the next run."""

    garbage: list[Part]
    read: list[Part]
    undecided: list[Part]
    reasons: tuple[str, ...] = ()

    @property
    def kept(self) -> list[Part]:
        """All that is no garbage any more."""
        return [*self.read, *self.undecided]

    @property
    def notes(self) -> tuple[str, ...]:
        """Why some of it is undecided, for the record."""
        return undecided_notes(self.undecided, self.reasons)


def undecided_notes(undecided: Sequence[Part], reasons: Sequence[str]) -> tuple[str, ...]:
    """Why these parts are undecided, for the record."""
    if not undecided:
        return ()
    said = f"kept, undecided: {tally_of(undecided)} may be staged re-uploads that the server does not list"
    return tuple(f"{said}; {reason}" for reason in reasons)


def split_garbage(
    context: RunContext, found: Reuploads, garbage: Sequence[Part], folder: str
) -> SplitGarbage:
    """Take re-uploads out of the garbage: those that were found, and those that may be some."""
    if not found:
        return SplitGarbage(list(garbage), [], [])
    scatter = Scatter(
        [part.key for part in garbage],
        partial(split_parts, context.target, folder, found),
        SPLIT_SCHEMA,
        tasks_for(len(garbage), context.engine.slots, at_most=context.parallelism.partitions),
    )
    parts: dict[str, list[Part]] = {GARBAGE: [], READ: [], UNDECIDED: []}
    for row in context.engine.collect(scatter).to_pylist():
        parts[row["fate"]].append(Part(row["key"], row["rows"], row["bytes"]))
    split = SplitGarbage(parts[GARBAGE], parts[READ], parts[UNDECIDED], found.reasons)
    if tally_of([*split.garbage, *split.kept]).objects != sum(p.rows for p in garbage):
        raise UnsafeToSweepError(
            f"Rows were lost while staged re-uploads were taken out of the plan for {context.name}. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    return split


def _branches_by_range(
    context: RunContext, live: LiveRead, searched: SearchedRanges
) -> dict[RangeId, list[BranchId]]:
    heads: dict[MetaRangeId, list[BranchId]] = {}
    for head in live.refs.heads:
        heads.setdefault(live.refs.graph[head.commit_id].meta_range_id, []).append(head.id)
    unread = [m for m in heads if m and m not in searched.of_metaranges]
    for metarange, ranges in ranges_of_commits(context.store, unread):
        searched.of_metaranges[metarange] = [info.id for info in ranges]
    branches: dict[RangeId, list[BranchId]] = {}
    for metarange, names in heads.items():
        for range_id in searched.of_metaranges.get(metarange, ()):
            branches.setdefault(range_id, []).extend(names)
    return branches


def _affordable_spans(
    context: RunContext,
    branches: dict[RangeId, list[BranchId]],
    sizes: Sizes,
    searched: SearchedRanges,
) -> _LookedFor | None:
    """Where entries of these sizes lie on which branch; None where looking there takes too many requests."""
    tries: list[tuple[int, dict[RangeId, list[_Row]]]] = [(NEAR, {}), (FAR, {})]
    if searched.spans and not len(sizes - searched.sizes):
        tries.insert(0, (searched.gap, searched.spans))
    for gap, known in tries:
        spans = _search(context, branches, sizes, gap, known)
        if spans is None:
            continue
        found = _spans_on_branches(branches, sizes, spans)
        if sum(requests_in(span.entries) for span in found.spans) <= MOST_REQUESTS:
            searched.sizes, searched.gap, searched.spans = sizes, gap, spans
            return found
    return None


def _search(
    context: RunContext,
    branches: dict[RangeId, list[BranchId]],
    sizes: Sizes,
    gap: int,
    known: dict[RangeId, list[_Row]],
) -> dict[RangeId, list[_Row]] | None:
    """The spans of each range, read where they are not known; None where they are too many."""
    spans = {range_id: known.get(range_id, []) for range_id in branches}
    unread = {r: on_branches for r, on_branches in branches.items() if r not in known}
    if not unread:
        return spans
    scatter = Scatter(
        list(unread),
        partial(find_spans, context.target, sizes, gap),
        SPANS_SCHEMA,
        _tasks(context, unread),
    )
    rows = context.engine.collect(scatter).to_pylist()
    if any(row["are_too_many"] for row in rows):
        return None
    for row in rows:
        spans[RangeId(row["range_id"])].append(row)
    return spans


def _spans_on_branches(
    branches: dict[RangeId, list[BranchId]], sizes: Sizes, spans: dict[RangeId, list[_Row]]
) -> _LookedFor:
    looked_for = _LookedFor([], Sizes())
    for range_id, rows in spans.items():
        for row in rows:
            of_span = Sizes(np.frombuffer(row["sizes"], np.int64))
            if not sizes.matches(of_span.values).any():
                continue  # an earlier round asked for more sizes
            if row["first"] is None:
                looked_for = replace(looked_for, unaskable=looked_for.unaskable | of_span)
                continue
            looked_for.spans.extend(
                _Span(branch, row["first"], row["last"], row["entries"], of_span)
                for branch in branches[range_id]
            )
    return looked_for


def _crowded_sizes(
    context: RunContext, branches: dict[RangeId, list[BranchId]], sizes: Sizes
) -> Sizes:
    """Sizes that so many entries of so many branches have that the others can be looked up without them only."""
    scatter = Scatter(
        [(range_id, len(of_range)) for range_id, of_range in branches.items()],
        partial(count_requests, context.target, sizes, FAR),
        COSTS_SCHEMA,
        _tasks(context, branches),
    )
    rows = context.engine.collect(scatter).to_pylist()
    costs = SizeCosts.sum(
        (np.frombuffer(row["sizes"], np.int64), np.frombuffer(row["requests"], np.int64))
        for row in rows
    )
    return costs.beyond(MOST_REQUESTS)


def _tasks(context: RunContext, branches: dict[RangeId, list[BranchId]]) -> int:
    return tasks_for(
        len(branches), context.engine.slots, at_most=context.parallelism.range_tasks, per_task=4
    )
