"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size and the e_tag of what is committed at its path, so paths whose entries at a branch head have
the size of a candidate, and may have its bytes (`content_sums.py`), are looked up on those branches, one by one or, where
they lie close together, by pages of the branch's listing. Candidates that a branch reads are kept. When the requests
would be too many, the sizes that take the most of them are given up: their candidates are kept as undecided.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.ranges import range_ids_of_commits
from lakesweep.collector.judge.meeting import seconds_of_reading
from lakesweep.collector.judge.suspects import Sizes, Suspects
from lakesweep.collector.lakefs.between_runs.saved import load_range_index
from lakesweep.collector.lakefs.checks.content_sums import Contents, reading_seconds, sum_contents
from lakesweep.collector.lakefs.checks.reupload_answers import LookUps, Span
from lakesweep.collector.lakefs.checks.reupload_lookups import (
    COSTS_SCHEMA,
    FAR,
    GARBAGE,
    MOST_REQUESTS,
    NEAR,
    READ,
    SPANS_SCHEMA,
    UNDECIDED,
    RangeToSearch,
    Reuploads,
    SizeCosts,
    count_requests,
    find_spans,
    requests_in,
    split_parts,
)
from lakesweep.collector.lakefs.live import LiveRead
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.collector.mark import Settled
from lakesweep.collector.outcomes import OUTCOMES_SCHEMA, Outcomes
from lakesweep.collector.parts import Part, tally_of
from lakesweep.collector.resources import Resources
from lakesweep.domain.commits import BranchId, MetaRangeId, RangeId
from lakesweep.engine.tasks import SECONDS_PER_FILE, Scatter, Work, tasks_for
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.commit_columns import Ids

logger = logging.getLogger(__name__)

_MOST_SIZES_NAMED = 5
# Entries that are read to see that e_tags are sums: in all, but so many of each range.
_MOST_TRIED, _LEAST_TRIED = 500, 2
_SECONDS_PER_SPLIT_ROW = 1e-5
_Row = dict[str, Any]


@dataclass(slots=True)
class SearchedRanges:
    """Where entries of some contents lie in ranges: a round of a sweep leaves it to the next one, as ranges never change."""

    contents: Contents = field(default_factory=Contents)
    gap: int = NEAR
    spans: dict[RangeId, list[_Row]] = field(default_factory=dict)
    of_metaranges: dict[MetaRangeId, Ids] = field(default_factory=dict)


def find_reuploads(
    repository: LakeFSRepository,
    resources: Resources,
    live: LiveRead,
    suspects: Suspects,
    garbage: Sequence[Part],
    searched: SearchedRanges,
    unreferenced: int | None = None,
) -> Reuploads:
    """Look for staged re-uploads among unreferenced garbage; `searched` is what the round before knew, brought up to date.

    `unreferenced` is how much of the garbage no commit holds, where that is known: by it goes what this costs.
    An embedded lake lists them itself, so there is nothing to find.
    """
    sizes = suspects.sizes
    if repository.profile.is_embedded:
        return Reuploads()
    if not sizes.is_complete:
        return Reuploads(undecided=sizes, reasons=("their sizes are too many, or not known",))
    if not len(sizes):
        return Reuploads()
    given_up: dict[str, Sizes] = {}
    if searched.spans and not len(sizes - searched.contents.sizes):
        # What is left to delete is part of what an earlier round asked for.
        contents = searched.contents
    else:
        contents = sum_contents(resources, sizes, garbage, unreferenced)
    search = _RangeSearch(resources, live, searched)
    try:
        looked_for = search.affordable_spans(contents)
    except _UntrueSumsError:
        said = "repo#%s entries have e_tags that are no MD5 sums of their bytes: candidates are looked up by size alone"
        logger.info(said, repository.name)
        contents = contents.without_sums()
        looked_for = search.affordable_spans(contents)
    if looked_for is None:
        crowded = search.crowded_sizes(contents)
        given_up[f"looking up paths of {_named(crowded)} would take too many requests"] = crowded
        looked_for = search.affordable_spans(contents.without(crowded))
    if looked_for is None:
        return Reuploads(undecided=sizes, reasons=("looking them up would take too many requests",))
    spans, unaskable = looked_for
    if len(unaskable):
        given_up["paths of their sizes are not text, and can't be asked for"] = unaskable
    look_ups = LookUps(repository, suspects)
    look_ups.look_at_all(spans)
    given_up |= look_ups.given_up
    for reason, of_sizes in given_up.items():
        said = "repo#%s garbage of %s is kept, undecided: %s"
        logger.warning(said, repository.name, _named(of_sizes), reason)
    said = "repo#%s staged re-uploads: %d requests, %d found"
    logger.info(said, repository.name, look_ups.requests, len(look_ups.found))
    return Reuploads(
        frozenset(look_ups.found), reduce(Sizes.__or__, given_up.values(), Sizes()), tuple(given_up)
    )


def _named(sizes: Sizes) -> str:
    """A few of the sizes in words, the smallest first."""
    named = ", ".join(map(str, sizes.values[:_MOST_SIZES_NAMED].tolist()))
    more = len(sizes) - _MOST_SIZES_NAMED
    return f"{named} bytes" + (f" and {more} more sizes" if more > 0 else "")


class _UntrueSumsError(Exception):
    """An e_tag that looks like the MD5 of its entry's bytes and is not."""


def undecided_notes(undecided: Sequence[Part], reasons: Sequence[str]) -> tuple[str, ...]:
    """Why these parts are undecided, for the record."""
    if not undecided:
        return ()
    said = f"kept, undecided: {tally_of(undecided)} may be staged re-uploads that the server does not list"
    return tuple(f"{said}; {reason}" for reason in reasons)


def split_garbage(
    resources: Resources, found: Reuploads, garbage: Sequence[Part], folder: str
) -> Settled:
    """Take re-uploads out of the garbage: those that were found, and those that may be some."""
    if not found:
        return Settled(list(garbage))
    work = partial(split_parts, resources.target, folder, found)
    seconds = tally_of(garbage).objects * _SECONDS_PER_SPLIT_ROW
    split = Outcomes.of(resources.run_on_parts(garbage, work, OUTCOMES_SCHEMA, seconds))
    if split.objects != tally_of(garbage).objects:
        raise UnsafeToSweepError(
            f"Rows were lost while staged re-uploads were taken out of the plan for {resources.name}. Nothing was deleted. Run again.",
            kind="not-conserved",
        )
    parts = split.parts
    return Settled(parts[GARBAGE], parts[READ], parts[UNDECIDED], found.reasons)


class _RangeSearch:
    """Looks in the ranges at the heads of branches for entries of given sizes."""

    def __init__(self, resources: Resources, live: LiveRead, searched: SearchedRanges) -> None:
        self._resources, self._searched = resources, searched
        self._entries = live.live_ranges
        heads: dict[MetaRangeId, list[BranchId]] = {}
        for head in live.refs.heads:
            metarange = live.refs.graph.meta_range_id(head.commit_id)
            if metarange:  # a repository's first commit has none
                heads.setdefault(metarange, []).append(head.id)
        unread = [metarange for metarange in heads if metarange not in searched.of_metaranges]
        searched.of_metaranges.update(range_ids_of_commits(resources.store, unread))
        self._branches: dict[RangeId, list[BranchId]] = {}
        for metarange, names in heads.items():
            if metarange in searched.of_metaranges:
                for range_id in searched.of_metaranges[metarange].astype(str).tolist():
                    self._branches.setdefault(RangeId(range_id), []).extend(names)

    def affordable_spans(self, contents: Contents) -> tuple[list[Span], Sizes] | None:
        """Where entries of these contents lie on which branch; None where looking there takes too many requests.

        With the spans come sizes that some path of no text stands for, which no request can carry.
        """
        searched = self._searched
        tries: list[tuple[int, dict[RangeId, list[_Row]]]] = [(NEAR, {}), (FAR, {})]
        if searched.spans and contents is searched.contents:
            tries.insert(0, (searched.gap, searched.spans))
        for gap, known in tries:
            spans = self._search(contents, gap, known)
            if spans is None:
                continue
            found, unaskable = self._on_branches(contents.sizes, spans)
            if sum(requests_in(span.entries) for span in found) <= MOST_REQUESTS:
                searched.contents, searched.gap, searched.spans = contents, gap, spans
                return found, unaskable
        return None

    def crowded_sizes(self, contents: Contents) -> Sizes:
        """Sizes that so many entries of so many branches have that the others can be looked up without them only."""
        ranges = [(range_id, len(names)) for range_id, names in self._branches.items()]
        work = partial(count_requests, self._resources.target, contents, FAR)
        costs = SizeCosts.sum(
            (np.frombuffer(row["sizes"], np.int64), np.frombuffer(row["requests"], np.int64))
            for row in self._read(ranges, work, COSTS_SCHEMA, self._seconds(self._branches, {}))
        )
        return costs.beyond(MOST_REQUESTS)

    def _search(
        self, contents: Contents, gap: int, known: dict[RangeId, list[_Row]]
    ) -> dict[RangeId, list[_Row]] | None:
        """The spans of each range, read where they are not known; None where they are too many."""
        spans = {range_id: known.get(range_id, []) for range_id in self._branches}
        unread = [range_id for range_id in self._branches if range_id not in known]
        if not unread:
            return spans
        tried = max(_LEAST_TRIED, math.ceil(_MOST_TRIED / len(unread)))
        work = partial(find_spans, self._resources.target, contents, gap, tried)
        largest = int(max(contents.summed.values, default=0))
        packs = load_range_index(self._resources.store, may_remove=False)
        # Of a range whose sizes are kept, mostly none is one of these, and nothing is tried there.
        fresh = sum(range_id not in packs for range_id in unread)
        objects = tried * fresh + min(_MOST_TRIED, tried * (len(unread) - fresh))
        seconds = self._seconds(unread, packs, objects, largest)
        # Ranges of one pack come together, as their sizes lie in one file.
        items = sorted(
            (
                RangeToSearch(range_id, self._entries.get(range_id, -1), packs.get(range_id, ""))
                for range_id in unread
            ),
            key=lambda item: item.pack,
        )
        rows = self._read(items, work, SPANS_SCHEMA, seconds)
        if any(row["has_untrue_sums"] for row in rows):
            raise _UntrueSumsError
        if any(row["are_too_many"] for row in rows):
            return None
        for row in rows:
            spans[RangeId(row["range_id"])].append(row)
        return spans

    def _on_branches(
        self, sizes: Sizes, spans: dict[RangeId, list[_Row]]
    ) -> tuple[list[Span], Sizes]:
        found: list[Span] = []
        unaskable = Sizes()
        for range_id, rows in spans.items():
            for row in rows:
                of_span = Sizes(np.frombuffer(row["sizes"], np.int64))
                if not sizes.matches(of_span.values).any():
                    continue  # an earlier round asked for more sizes
                if row["first"] is None:
                    unaskable |= of_span
                    continue
                place = row["first"], row["last"], row["entries"], of_span
                found += [Span(branch, *place) for branch in self._branches[range_id]]
        return found, unaskable

    def _seconds(
        self,
        ranges: Collection[RangeId],
        packs: Mapping[RangeId, str],
        objects: int = 0,
        largest: int = 0,
    ) -> float | None:
        """About what it costs to read these ranges, and so many objects; None where a range's length is not known."""
        if any(range_id not in self._entries for range_id in ranges):
            return None
        entries = [self._entries[range_id] for range_id in ranges]
        kept_in = [packs.get(range_id, "") for range_id in ranges]
        seconds = seconds_of_reading(entries, kept_in, SECONDS_PER_FILE)
        tried = min(objects, sum(entries))
        return seconds + reading_seconds(tried, tried * largest)

    def _read(
        self, ranges: Sequence[object], work: Work, schema: pa.Schema, seconds: float | None
    ) -> list[_Row]:
        engine, most = self._resources.engine, self._resources.most_readers
        tasks = tasks_for(len(ranges), engine.slots, at_most=most, per_task=4)
        # Neighbours go to one task.
        task_of = [number * tasks // len(ranges) for number in range(len(ranges))]
        scatter = Scatter(ranges, work, schema, tasks, task_of, seconds)
        rows: list[_Row] = engine.collect(scatter).to_pylist()
        return rows
