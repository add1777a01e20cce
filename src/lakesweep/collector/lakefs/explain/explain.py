"""Explain: why objects of a repository are kept or go. Only questions are asked: nothing is written or deleted.

The judgement is the collector's own: `verdict` on facts about each object, `retention_ends` for the day on which
commits let it go. What a mark reads from lists that it has a server write (staged objects, commits that no branch
reaches) is asked for otherwise here, and where a server can't be asked, the answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lakesweep.catalogs.lakefs.graph import RepositoryRefs, read_refs_without_dump
from lakesweep.catalogs.lakefs.ranges import every_other_range
from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep.collector.lakefs.context import repository_name
from lakesweep.collector.lakefs.explain.deletions import (
    Events,
    deletions_by_server,
    read_events_about,
)
from lakesweep.collector.lakefs.explain.holding_commits import (
    CommitRanges,
    CommitsOfObjects,
    HeldBy,
    read_commit_ranges,
)
from lakesweep.collector.lakefs.explain.questions import AddressResolver, AskedObject
from lakesweep.collector.lakefs.explain.range_search import (
    FoundInRanges,
    addresses_below,
    search_ranges,
)
from lakesweep.collector.lakefs.explain.staged_search import look_up_paths, staged_paths
from lakesweep.collector.lakefs.opening import open_client
from lakesweep.collector.lakefs.repository import (
    LakeFSRepository,
    namespace_of,
    refuse_without_default_branch,
)
from lakesweep.collector.resources import utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.addresses import KeyKind, classify_key
from lakesweep.domain.commits import BranchId, CommitGraph, CommitId, RangeId
from lakesweep.domain.cutoff import SAFETY_FULL, Cutoff, SafetyMargins
from lakesweep.domain.explained_why import why_object
from lakesweep.domain.explanations import (
    Deletion,
    Explanation,
    Explanations,
    HeldOutside,
    HolderKind,
    Said,
    first_old_enough,
    latest_end,
    said,
)
from lakesweep.domain.verdicts import Facts, Source, Verdict, verdict
from lakesweep.engine.tasks import Engine
from lakesweep.errors import ConfigError
from lakesweep.settings.values import Settings
from lakesweep.storage import ObjectInfo
from lakesweep.storage.keys import is_odd_key

__all__ = [
    "DEFAULT_LIMIT",
    "ExplainRequest",
    "ExplainSource",
    "Explanations",
    "explain",
    "open_source",
]

DEFAULT_LIMIT = 20
# Up to so many objects are looked for on the driver; for more, ranges are read on Spark.
FEW = 200
_TAGS_NAMED = 5

_DANGLING = "commits that no branch or tag reaches: this server tells of them in a refs dump only, which a mark asks for"
_LOCAL_FILES = (
    "the server keeps its data in local files, where its list of staged objects is not whole: a mark leaves objects "
    "alone that are in no commit"
)
_NOT_TOLD = "not known by this server: deleted branches, tracked copies, uploads under way"


@dataclass(frozen=True, slots=True)
class ExplainSource:
    """Where the answers come from: the server, the repository and its store; an engine for many objects."""

    repository: LakeFSRepository
    target: Target
    engine: Engine | None = None
    clock: Callable[[], datetime] = utc_now
    margins: SafetyMargins = SAFETY_FULL


@dataclass(frozen=True, slots=True)
class ExplainRequest:
    """By which rules objects are judged (those of a mark), and which objects of a mark are explained."""

    keep_refs: tuple[str, ...] = ()
    keep_tags: bool = False
    min_age: timedelta | None = None  # None: as old as a mark asks for
    mark_id: str | None = None
    prefix: str = ""
    limit: int = DEFAULT_LIMIT


@contextmanager
def open_source(
    settings: Settings, repository: str, engine: Engine | None = None
) -> Iterator[ExplainSource]:
    """The repository as the settings describe it; a read-only one can be explained as well."""
    with open_client(settings) as client:
        found = client.repository(repository_name(repository))
        target = namespace_of(found, settings.storage, settings.namespace_root)
        yield ExplainSource(LakeFSRepository.of(client, found, target), target, engine)


def explain(
    source: ExplainSource, objects: Sequence[str], request: ExplainRequest | None = None
) -> Explanations:
    """Say of each object whether it is live, young, protected, garbage or deleted, why, and when it goes.

    Args:
        source: the repository and how to reach it.
        objects: addresses, `PATH[@REF]`, `lakefs://repo/ref/path`, or URIs of objects in the namespace.
        request: rules as for a mark; with a mark id, objects of that mark are explained too.

    Raises:
        ConfigError: nothing is asked, or a question names another repository.
        UnsafeToSweepError: a file that says what is live is missing or damaged, so nothing can be said.
    """
    request = request or ExplainRequest()
    if not objects and request.mark_id is None:
        raise ConfigError(
            "Which object? Name addresses, PATH[@REF] or lakefs://repo/ref/path, or give --mark. Nothing was touched.",
            kind="no-object",
        )
    return _Explaining(source, request).explain(objects)


class _Explaining:
    """One call: what is asked of the server and the store, and in which order."""

    def __init__(self, source: ExplainSource, request: ExplainRequest) -> None:
        self._source, self._request, self._repository = source, request, source.repository
        self._client, self._name = source.repository.client, source.repository.name
        self._store = source.target.open()
        # A lower age is never refused: nothing is deleted by what is said here.
        self._cutoff = source.repository.cutoff(
            source.clock(), request.min_age, source.margins, allow_lower=True
        )

    def explain(self, objects: Sequence[str]) -> Explanations:
        questions = AddressResolver(self._repository, self._source.target)
        asked = [questions.parse(text) for text in objects]
        is_embedded = self._repository.profile.tells_address_holders
        # Before commits, as in a mark: what is staged now may be committed while this reads.
        outside, unread = self._held_outside([q.address for q in asked if q.address])
        kept = [commit.id for commit in self._repository.named_commits(self._request.keep_refs)]
        refs = read_refs_without_dump(
            self._client, self._name, lists_commits=is_embedded, further=kept
        )
        refuse_without_default_branch(self._repository, refs.heads)
        kept += [tag.commit_id for tag in refs.tags] if self._request.keep_tags else []
        ranges = read_commit_ranges(self._store, refs)
        notes: list[str] = []
        if self._request.mark_id is not None:
            marked, more = self._marked(questions, ranges)
            notes += more
            held, said_of_them = self._held_outside([q.address for q in marked])
            asked, outside = [*asked, *marked], [*outside, *held]
            unread = tuple(dict.fromkeys((*unread, *said_of_them)))
        addresses = list(dict.fromkeys(q.address for q in asked if q.address))
        infos = self._stat(addresses)
        facts = self._read(refs, kept, ranges, addresses, infos, outside, unread)
        if not is_embedded:
            notes.append(_NOT_TOLD)
        return Explanations(
            self._name,
            self._cutoff.reference_time,
            self._cutoff.min_age,
            tuple(_answer(question, facts) for question in asked),
            tuple(notes),
        )

    def _marked(
        self, questions: AddressResolver, ranges: CommitRanges
    ) -> tuple[list[AskedObject], tuple[str, ...]]:
        """Objects of the mark whose address, or path in some commit, begins with the prefix."""
        request = self._request
        assert request.mark_id is not None
        below = (
            addresses_below(self._source.target, ranges.counts, ranges.bounds, request.prefix)
            if request.prefix
            else frozenset()
        )
        found: list[AskedObject] = []
        for address, reason in questions.of_mark(request.mark_id):
            if address.startswith(request.prefix) or address in below:
                if len(found) == request.limit:
                    said_so = f"mark {request.mark_id} names more such objects; --limit shows more"
                    return found, (said_so,)
                found.append(AskedObject(address, address, marked=f"{request.mark_id} ({reason})"))
        if not found:
            return [], (f"mark {request.mark_id} names no such object",)
        return found, ()

    def _held_outside(self, addresses: Sequence[str]) -> tuple[list[HeldOutside], tuple[str, ...]]:
        """Uploads under way, staged entries and tracked copies, before any commit is read."""
        if not addresses:
            return [], ()
        if self._repository.profile.tells_address_holders:
            told = self._client.address_holders(self._name, addresses)
            return [
                HeldOutside(HolderKind(h.kind), h.address, h.branch_id, h.path, h.until)
                for h in told
            ], ()
        places, unread = staged_paths(self._repository)
        looked_up = look_up_paths(self._repository, places, frozenset(addresses))
        return list(looked_up.holders), (*unread, *looked_up.unread)

    def _stat(self, addresses: Iterable[str]) -> dict[str, ObjectInfo | None]:
        # A key that may turn into another one on its way to the store would be answered for that other one.
        return dict(self._store.stat_many([a for a in addresses if not is_odd_key(a)]))

    def _read(
        self,
        refs: RepositoryRefs[CommitGraph],
        kept: Sequence[CommitId],
        ranges: CommitRanges,
        addresses: list[str],
        infos: dict[str, ObjectInfo | None],
        outside: list[HeldOutside],
        unread: tuple[str, ...],
    ) -> _Read:
        wanted = frozenset(addresses)
        # For a few addresses Spark takes longer to start than the ranges take to read.
        engine = self._source.engine if len(wanted) > FEW else None
        target, now = self._source.target, self._cutoff.reference_time
        found = search_ranges(target, ranges.counts, wanted, engine=engine)
        rules = self._client.rules(self._name)
        commits = CommitsOfObjects(refs, rules, kept, now, ranges, found)
        elsewhere: frozenset[str] = frozenset()
        if not refs.complete:
            # All range files of the store are read for these, so only for what no known commit holds.
            orphans = wanted - set(found.places)
            others = every_other_range(self._store, ranges.counts) if orphans else {}
            elsewhere = frozenset(search_ranges(target, others, orphans, engine=engine).places)
            more, not_asked = self._staged_again(refs, ranges, infos, orphans - elsewhere)
            outside, unread = [*outside, *more], (*unread, *not_asked)
        # Deletions are in many files, and only what is gone was deleted.
        gone = [address for address, info in infos.items() if info is None]
        events = read_events_about(self._store, addresses, with_deletions=bool(gone))
        by_server = deletions_by_server(self._repository, gone)
        return _Read(
            self._repository.profile,
            self._cutoff,
            infos,
            commits,
            found,
            tuple(outside),
            events,
            elsewhere,
            unread,
            refs.complete,
            self._request.keep_tags,
            by_server,
        )

    def _staged_again(
        self,
        refs: RepositoryRefs[CommitGraph],
        ranges: CommitRanges,
        infos: dict[str, ObjectInfo | None],
        orphans: frozenset[str],
    ) -> tuple[list[HeldOutside], tuple[str, ...]]:
        """Objects that a branch reads in place of an identical committed one, of which a server does not tell."""
        # Only its size tells where such an object may be staged: its own path is in no list.
        there = {address: infos.get(address) for address in orphans}
        sizes = frozenset(info.size for info in there.values() if info is not None)
        if not sizes:
            return [], ()
        branches: dict[RangeId, list[BranchId]] = {}
        for head in refs.heads:
            metarange = refs.graph[head.commit_id].meta_range_id
            for range_id in ranges.of_metarange.get(metarange, ()):
                branches.setdefault(range_id, []).append(head.id)
        counts = {range_id: ranges.counts[range_id] for range_id in branches}
        found = search_ranges(self._source.target, counts, frozenset(), sizes)
        places = (
            (branch, path.decode(errors="surrogateescape"))
            for range_id, paths in found.paths_of_size.items()
            for path, _ in paths
            for branch in branches[range_id]
        )
        looked_up = look_up_paths(self._repository, places, orphans)
        return list(looked_up.holders), looked_up.unread


@dataclass(frozen=True, slots=True)
class _Read:
    """Everything that was read, from which each object is judged."""

    profile: ServerProfile
    cutoff: Cutoff
    infos: dict[str, ObjectInfo | None]
    commits: CommitsOfObjects
    found: FoundInRanges
    outside: tuple[HeldOutside, ...]
    events: Events
    elsewhere: frozenset[str]  # in range files of no commit that was read
    unread: tuple[str, ...]
    knows_all_commits: bool
    keeps_tags: bool
    deleted_by_server: dict[str, Deletion]

    @property
    def now(self) -> datetime:
        return self.cutoff.reference_time


def _answer(question: AskedObject, read: _Read) -> Explanation:
    if not question.address:
        return Explanation(
            question.asked, "", Said.UNKNOWN, question.not_found, notes=question.notes
        )
    explained = _explain_address(question.address, read)
    notes = (*question.notes, *explained.notes)
    found = replace(explained, asked=question.asked, marked=question.marked, notes=notes)
    return replace(found, why=why_object(found))


def _explain_address(address: str, read: _Read) -> Explanation:
    info = read.infos.get(address)
    held = read.commits.of(address)
    outside = tuple(holder for holder in read.outside if holder.address == address)
    shape = classify_key(address, is_odd=is_odd_key(address), root_names=read.found.has_root_names)
    known = Explanation(
        asked=address,
        address=address,
        said=Said.UNKNOWN,
        why="",
        commits=held.lines if held is not None else (),
        outside=outside,
    )
    if info is None:
        deletion = read.events.deletion(address) or read.deleted_by_server.get(address)
        if deletion is not None:
            return replace(known, said=Said.DELETED, deletion=deletion)
        missed = read.events.missed(address)
        return replace(known, notes=(missed,)) if missed else known
    known = replace(known, size_bytes=info.size, last_modified=info.last_modified)
    restored_until = read.events.restored_until(address, read.cutoff.min_age)
    facts = Facts(
        Source.LISTED,
        info.last_modified,
        is_live=bool(outside) or (held is not None and held.longest.is_retained(read.now)),
        is_expired=held is not None,
        is_protected=shape.kind is not KeyKind.CANDIDATE,
        is_restored_lately=restored_until is not None and read.now < restored_until,
    )
    judged = verdict(facts, read.cutoff.at)
    unread = _unread(address, judged, held, read)
    known = replace(known, said=said(judged, unread), unread=unread)
    if facts.is_protected:
        protected = shape.reason.value if shape.reason is not None else ""
        return replace(known, stays=True, reason=protected)
    goes_at = latest_end(
        [
            *((held.until,) if held is not None else ()),
            *(holder.until for holder in outside),
            *((restored_until,) if restored_until is not None else ()),
            _young_until(info.last_modified, read.cutoff),
        ]
    )
    known = replace(known, notes=(*_notes(judged, goes_at, read), *_of_tags(held, read)))
    if judged in (Verdict.EXPIRED, Verdict.UNREFERENCED):
        since = held.until if held is not None else None
        return replace(known, reason=judged.value, since=since)
    return replace(known, stays=goes_at is None, goes_at=goes_at)


def _of_tags(held: HeldBy | None, read: _Read) -> Iterator[str]:
    """That tags name the object and do not keep it, which people expect of a tag."""
    if held is not None and held.tags and not read.keeps_tags:
        some = ", ".join(held.tags[:_TAGS_NAMED])
        more = f" and {len(held.tags) - _TAGS_NAMED} more" if len(held.tags) > _TAGS_NAMED else ""
        yield f"tagged {some}{more}; a tag keeps nothing, unless a mark is given --keep-tags"


def _young_until(written: datetime | None, cutoff: Cutoff) -> datetime | None:
    """An object without a time is young for ever."""
    return None if written is None else first_old_enough(written, cutoff.min_age)


def _unread(address: str, judged: Verdict, held: HeldBy | None, read: _Read) -> tuple[str, ...]:
    """What may hold the object and was not read."""
    unread = list(read.unread) if held is None or judged is not Verdict.LIVE else []
    # Such a commit may hold the object longer than all others do, whatever range it is in.
    if address in read.elsewhere or (judged is Verdict.EXPIRED and not read.knows_all_commits):
        unread.append(_DANGLING)
    if judged is Verdict.UNREFERENCED and not read.profile.lists_linked_objects:
        unread.append(_LOCAL_FILES)
    return tuple(unread) if judged is not Verdict.PROTECTED else ()


def _notes(judged: Verdict, goes_at: datetime | None, read: _Read) -> tuple[str, ...]:
    """A day by commits that are not all known may come later than it is said."""
    is_open = judged in (Verdict.LIVE, Verdict.YOUNG) and goes_at is not None
    if read.knows_all_commits or not is_open:
        return ()
    return (f"at the earliest; not read: {_DANGLING}",)
