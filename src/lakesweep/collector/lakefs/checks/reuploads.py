"""Staged re-uploads of identical content, which a real lakeFS server leaves out of its uncommitted list.

Such an entry has the size and the e_tag of what is committed at its path, so paths whose entries at a branch head have
the size of a candidate, and may have its bytes (`content_sums.py`), are looked up on those branches, one by one or, where
they lie close together, by pages of the branch's listing. Candidates that a branch reads are kept. When the requests
would be too many, the sizes that take the most of them are given up: their candidates are kept as undecided.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa

from lakesweep.catalogs.lakefs.client import EntriesPage, EntryAsked, PageAsked
from lakesweep.catalogs.lakefs.ranges import ranges_of_commits
from lakesweep.catalogs.lakefs.wire import ObjectStatsWire
from lakesweep.collector.judge.meeting import seconds_of_reading
from lakesweep.collector.judge.suspects import Sizes, Suspects
from lakesweep.collector.lakefs.between_runs.saved import load_range_index
from lakesweep.collector.lakefs.checks.content_sums import Contents, reading_seconds, sum_contents
from lakesweep.collector.lakefs.checks.reupload_lookups import (
    COSTS_SCHEMA,
    FAR,
    GARBAGE,
    MOST_REQUESTS,
    NEAR,
    PAGE,
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
from lakesweep.engine.tasks import SECONDS_PER_FILE, Scatter, Work, chunked, tasks_for
from lakesweep.errors import CatalogNotFoundError, UnsafeToSweepError

logger = logging.getLogger(__name__)

_IN_FLIGHT = 16
_SHORTEST_PAGE = 10
_MOST_ADDRESSES = 1_000_000
_MOST_SIZES_NAMED = 5
# Entries that are read to see that e_tags are sums: in all, but so many of each range.
_MOST_TRIED, _LEAST_TRIED = 500, 2
_SECONDS_PER_SPLIT_ROW = 1e-5
_Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Span:
    """Paths of one branch from `first` to `last`, how many committed entries lie there, and the sizes in question."""

    branch: BranchId
    first: str
    last: str
    entries: int
    sizes: Sizes


@dataclass(slots=True)
class SearchedRanges:
    """Where entries of some contents lie in ranges: a round of a sweep leaves it to the next one, as ranges never change."""

    contents: Contents = field(default_factory=Contents)
    gap: int = NEAR
    spans: dict[RangeId, list[_Row]] = field(default_factory=dict)
    of_metaranges: dict[MetaRangeId, list[RangeId]] = field(default_factory=dict)


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
    look_ups = _LookUps(repository, suspects)
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


class _LookUps:
    """Suspects that branches read, found by many threads, and the sizes of spans that could not be read in full."""

    def __init__(self, repository: LakeFSRepository, suspects: Suspects) -> None:
        self._repository = repository
        self._suspects = suspects
        self.found: set[str] = set()
        self.requests = 0
        self.given_up: dict[str, Sizes] = {}
        self._lock = Lock()
        self._is_over = False

    def look_at_all(self, spans: Sequence[_Span]) -> None:
        """Look at every span: by one request of each from this thread, and in others where that does not tell all of it."""
        questions = [_first_question(span) for span in spans]
        answers = self._repository.client.look_at(self._repository.name, questions, _IN_FLIGHT)
        with ThreadPoolExecutor(_IN_FLIGHT) as pool:
            unsettled = [
                pool.submit(self.look, span)
                for span, answer in zip(spans, answers, strict=True)
                if not self._is_settled(span, answer)
            ]
            for look in unsettled:
                look.result()

    def look(self, span: _Span) -> None:
        """Ask for a span of one path, and list a longer one."""
        try:
            for entries in self._entries(span):
                if self._is_over:
                    self._give_up(span, "looking them up takes too many requests")
                    return
                self._note(entries)
        except _UntrueListingError as error:
            self._give_up(span, str(error))
        except BaseException:
            self._is_over = True
            raise

    def _is_settled(self, span: _Span, answer: EntriesPage | CatalogNotFoundError) -> bool:
        """Whether the first answer has a span whole and in order, from its first path on; it is noted then."""
        if self._is_over or isinstance(answer, CatalogNotFoundError) or not answer.entries:
            return False
        first, last = answer.entries[0].path, answer.entries[-1].path
        if first != span.first or (answer.next_offset and last <= span.last):
            return False
        try:
            self._note(list(_up_to(span, span.first, answer.entries)))
        except _UntrueListingError:
            return False
        return True

    def _note(self, entries: Sequence[ObjectStatsWire]) -> None:
        """Count a request, and find the suspects among what it told."""
        addresses = (entry.physical_address for entry in entries)
        readings = map(self._repository.addresses.readings, addresses)
        found = self._suspects.among([a for read in readings for a in read])
        with self._lock:
            self.requests += 1
            self.found.update(found)
            if len(self.found) > _MOST_ADDRESSES or self.requests > MOST_REQUESTS:
                self._is_over = True

    def _give_up(self, span: _Span, reason: str) -> None:
        with self._lock:
            self.given_up[reason] = self.given_up.get(reason, Sizes()) | span.sizes

    def _entries(self, span: _Span) -> Iterator[list[ObjectStatsWire]]:
        client, name = self._repository.client, self._repository.name
        if self._is_over:
            yield []
            return
        after = text_before(span.first)
        is_first_seen = span.last == span.first or after is None
        if is_first_seen:
            yield self._at(span.branch, span.first)
            if span.last == span.first:
                return
        after = span.first if after is None else after
        listed = client.list_objects(name, span.branch, after=after, page=_page_for(span))
        try:
            for entries in chunked(_up_to(span, after, listed), PAGE):
                is_first_seen |= any(entry.path == span.first for entry in entries)
                yield entries
        except CatalogNotFoundError:
            # A branch that went away took with it what it alone read. Any other reason is an error.
            if span.branch in {head.id for head in client.branches(name)}:
                raise
            return
        # Mostly one that was deleted on the branch and not committed. A listing that leaves out what is there says nothing.
        if not is_first_seen and self._at(span.branch, span.first):
            raise _UntrueListingError(f"the listing of {span.branch} leaves out {span.first!r}")

    def _at(self, branch: BranchId, path: str) -> list[ObjectStatsWire]:
        """The entry at a path of a branch, where there is one."""
        entry = self._repository.client.stat_object(self._repository.name, branch, path)
        return [entry] if entry is not None else []


def _first_question(span: _Span) -> EntryAsked | PageAsked:
    """What tells of a whole span, as a rule."""
    after = None if span.last == span.first else text_before(span.first)
    if after is None:
        return EntryAsked(span.branch, span.first)
    return PageAsked(span.branch, after, _page_for(span))


def _page_for(span: _Span) -> int:
    """How many entries to ask for: a server takes as long as its answer has entries, and some may be staged in between."""
    return min(PAGE, max(_SHORTEST_PAGE, 2 * span.entries))


class _UntrueSumsError(Exception):
    """An e_tag that looks like the MD5 of its entry's bytes and is not."""


class _UntrueListingError(Exception):
    """A listing whose paths do not ascend, so that its end can't be told, or that leaves out a path that can be looked up."""


def text_before(path: str) -> str | None:
    """A text that sorts before a path, as servers sort, and after what is likely to stand before it; None where none is known.

    A listing begins after a path, so the listing after this one has the path itself.
    """
    last = ord(path[-1]) - 1 if path else 0
    is_text = last >= ord(" ") and not 0xD800 <= last <= 0xDFFF
    return f"{path[:-1]}{chr(last)}{chr(sys.maxunicode)}" if is_text else None


def _up_to(
    span: _Span, before: str, listed: Iterable[ObjectStatsWire]
) -> Iterator[ObjectStatsWire]:
    """Entries up to the last path, listed after `before`. Only an ordered listing tells by one path that all before it were seen."""
    for entry in listed:
        # The server writes bytes that are not text as U+FFFD, which sorts, and goes on, elsewhere.
        if entry.path < before or "\ufffd" in entry.path:
            raise _UntrueListingError(
                f"the listing of {span.branch} is out of order at {entry.path!r}"
            )
        if entry.path > span.last:
            return
        yield entry
        before = entry.path


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
        for metarange, ranges in ranges_of_commits(resources.store, unread):
            searched.of_metaranges[metarange] = [info.id for info in ranges]
        self._branches: dict[RangeId, list[BranchId]] = {}
        for metarange, names in heads.items():
            for range_id in searched.of_metaranges.get(metarange, ()):
                self._branches.setdefault(range_id, []).extend(names)

    def affordable_spans(self, contents: Contents) -> tuple[list[_Span], Sizes] | None:
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
    ) -> tuple[list[_Span], Sizes]:
        found: list[_Span] = []
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
                found += [_Span(branch, *place) for branch in self._branches[range_id]]
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
