"""Ask a server what its branches read at stretches of paths, to find candidates that are staged re-uploads."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock

from lakesweep.catalogs.lakefs.entry_questions import EntriesPage, EntryAsked, PageAsked
from lakesweep.catalogs.lakefs.wire import ObjectStatsWire
from lakesweep.collector.judge.suspects import Sizes, Suspects
from lakesweep.collector.lakefs.checks.reupload_lookups import MOST_REQUESTS, PAGE
from lakesweep.collector.lakefs.repository import LakeFSRepository
from lakesweep.domain.commits import BranchId
from lakesweep.engine.tasks import chunked
from lakesweep.errors import CatalogNotFoundError

_IN_FLIGHT = 32
_SHORTEST_PAGE = 10
_MOST_ADDRESSES = 1_000_000


@dataclass(frozen=True, slots=True)
class Span:
    """Paths of one branch from `first` to `last`, how many committed entries lie there, and the sizes in question."""

    branch: BranchId
    first: str
    last: str
    entries: int
    sizes: Sizes


class LookUps:
    """Suspects that branches read, found by many requests, and the sizes of spans that could not be read in full."""

    def __init__(self, repository: LakeFSRepository, suspects: Suspects) -> None:
        self._repository = repository
        self._suspects = suspects
        self.found: set[str] = set()
        self.requests = 0
        self.given_up: dict[str, Sizes] = {}
        self._lock = Lock()
        self._is_over = False

    def look_at_all(self, spans: Sequence[Span]) -> None:
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

    def look(self, span: Span) -> None:
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

    def _is_settled(self, span: Span, answer: EntriesPage | CatalogNotFoundError) -> bool:
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

    def _give_up(self, span: Span, reason: str) -> None:
        with self._lock:
            self.given_up[reason] = self.given_up.get(reason, Sizes()) | span.sizes

    def _entries(self, span: Span) -> Iterator[list[ObjectStatsWire]]:
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


def _first_question(span: Span) -> EntryAsked | PageAsked:
    """What tells of a whole span, as a rule."""
    after = None if span.last == span.first else text_before(span.first)
    if after is None:
        return EntryAsked(span.branch, span.first)
    return PageAsked(span.branch, after, _page_for(span))


def _page_for(span: Span) -> int:
    """How many entries to ask for: a server takes as long as its answer has entries, and some may be staged in between."""
    return min(PAGE, max(_SHORTEST_PAGE, 2 * span.entries))


class _UntrueListingError(Exception):
    """A listing whose paths do not ascend, so that its end can't be told, or that leaves out a path that can be looked up."""


def text_before(path: str) -> str | None:
    """A text that sorts before a path, as servers sort, and after what is likely to stand before it; None where none is known.

    A listing begins after a path, so the listing after this one has the path itself.
    """
    last = ord(path[-1]) - 1 if path else 0
    is_text = last >= ord(" ") and not 0xD800 <= last <= 0xDFFF
    return f"{path[:-1]}{chr(last)}{chr(sys.maxunicode)}" if is_text else None


def _up_to(span: Span, before: str, listed: Iterable[ObjectStatsWire]) -> Iterator[ObjectStatsWire]:
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
