"""Explain: why files of a Nessie catalog are kept or go. Nothing is written or deleted, and no live set is stored.

What is live is found as a mark finds it, in memory, and each file is judged as a sweep judges it. The day on which a file
goes is tried out: the same judgement is made once more as of that day, by the commits that are there now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pyarrow as pa

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.content_ends import ContentEnds, HeldByReference
from lakesweep.catalogs.nessie.identify import CatalogHistory, identify_in, read_catalog
from lakesweep.catalogs.nessie.live_sets.memory import InMemoryLiveSets
from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.nessie.ages import newest_to_go
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.explain.file_search import FileHolders, find_holders, is_named
from lakesweep.collector.nessie.explain.past_sweeps import find_deferred, find_deletions
from lakesweep.collector.nessie.explain.whereabouts import Whereabouts, locate, tables_around
from lakesweep.collector.nessie.folders import TableFolders, named_files
from lakesweep.collector.nessie.identify import collect_dropped, facts_of
from lakesweep.collector.nessie.live_catalog import LiveCatalog, LiveReader, read_live_catalog
from lakesweep.collector.nessie.protection import DROPPED_TABLE, NOT_UNDERSTOOD, TOO_NEW
from lakesweep.collector.nessie.references import hash_live_files
from lakesweep.collector.nessie.requests import ExpireRequest, MarkRequest
from lakesweep.domain.cutoff_policies import parse_policies
from lakesweep.domain.explained_why import on_the_day
from lakesweep.domain.explanations import Said, end_order, latest_end, said
from lakesweep.domain.live_sets import new_live_set_id
from lakesweep.domain.nessie_explanations import (
    FileExplanation,
    FileExplanations,
    HeldByContent,
    why_file,
)
from lakesweep.domain.verdicts import Facts, Source, Verdict, verdict
from lakesweep.errors import ConfigError, UnsafeToSweepError

__all__ = ["explain_files"]

# The age rule of a sweep is inclusive: rows tell times in whole microseconds.
_TICK = timedelta(microseconds=1)


def explain_files(
    context: NessieContext,
    client: NessieClient,
    uris: Sequence[str],
    marking: MarkRequest,
    sweeping: ExpireRequest,
) -> FileExplanations:
    """Say of each file whether it is live, young, protected, garbage or deleted, why, and when it goes.

    Args:
        context: stores and engine; its live sets and work location are only read, for what earlier sweeps did.
        client: the catalog.
        uris: files, as tables or listings spell them.
        marking: cut-off policies, as for a mark of now.
        sweeping: grace and the other rules of a sweep.

    Raises:
        ConfigError: nothing is asked.
        UnsafeToSweepError: something that says what is live can't be read, so a sweep would refuse as well.
    """
    if not uris:
        raise ConfigError("Which file? Name one or more URIs. Nothing was touched.", kind="no-file")
    return _Explaining(context, client, marking, sweeping).explain(uris)


@dataclass(frozen=True, slots=True)
class _Moment:
    """What is live as of a time."""

    catalog: LiveCatalog
    newest: datetime  # what was modified then, or before, may go


@dataclass(frozen=True, slots=True)
class _Judged:
    """The verdict on a file as of a moment, and why it is protected."""

    verdict: Verdict
    protection: str = ""


class _Explaining:
    """One call: the catalog's commits are read once, and judged as of now and as of later days."""

    def __init__(
        self,
        context: NessieContext,
        client: NessieClient,
        marking: MarkRequest,
        sweeping: ExpireRequest,
    ) -> None:
        self._context, self._client = context, client
        self._table_reader = context.table_reader
        self._marking, self._sweeping = marking, sweeping
        self._now = marking.reference_time
        self._moments: dict[tuple[datetime, bool], _Moment] = {}
        self._history: CatalogHistory = read_catalog(client, parallelism=marking.parallelism)
        self._ends = ContentEnds(
            self._history,
            marking.default_policy,
            marking.policy_texts,
            self._now,
            keep_state_at_cutoff=marking.keep_state_at_cutoff,
        )

    def explain(self, uris: Sequence[str]) -> FileExplanations:
        now = self._moment(self._now)
        places = [locate(self._table_reader.stores, uri) for uri in uris]
        held = self._holders(now, [p.listed for p in places])
        gone = [place.listed for place in places if place.info is None]
        store, record = self._context.resources.store, self._context.record_of_collected
        deletions = find_deletions(store, record, gone)
        deferred = find_deferred(self._context.live_sets, [place.listed for place in places])
        explained = []
        for place in places:
            holders = tuple(_holders_of(held, place, self._ends))
            known = FileExplanation(
                place.asked,
                place.listed,
                Said.UNKNOWN,
                "",
                holders=holders,
                deletion=deletions.get(place.listed),
                deferred_in=tuple(deferred.get(place.listed, ())),
            )
            if place.info is not None:
                is_held = place.hash in held.of_hash
                known = self._judged(known, place, now, is_held=is_held)
            elif known.deletion is not None:
                known = replace(known, said=Said.DELETED)
            explained.append(known)
        explained = self._with_past(explained, places)
        told = tuple(replace(known, why=why_file(known)) for known in explained)
        return FileExplanations(self._client.uri, self._now, self._sweeping.least_age, told)

    def _with_past(
        self, explained: Sequence[FileExplanation], places: Sequence[Whereabouts]
    ) -> list[FileExplanation]:
        """Garbage with what it was, by all commits that references reach, cut off or not."""
        garbage = [
            p.listed for e, p in zip(explained, places, strict=True) if e.said is Said.GARBAGE
        ]
        if not garbage:
            return list(explained)
        try:
            held = self._holders(self._moment(self._now, cuts_off=False), garbage)
        except UnsafeToSweepError as error:
            # Files of old commits may be collected by now, which takes nothing from today's verdict.
            unread = (f"commits that are cut off: {error.message}",)
            return [replace(e, unread=unread) if e.said is Said.GARBAGE else e for e in explained]
        whole = ContentEnds(self._history, "NONE", (), self._now, keep_state_at_cutoff=False)
        return [
            self._was(e, held, p, whole) if e.said is Said.GARBAGE else e
            for e, p in zip(explained, places, strict=True)
        ]

    def _was(
        self, known: FileExplanation, held: FileHolders, place: Whereabouts, whole: ContentEnds
    ) -> FileExplanation:
        last = max(_holders_of(held, place, whole), key=lambda one: one.made_at, default=None)
        ends = [
            self._ends.last_end(state.content_id, state.metadata_location, state.snapshot_id)
            for state, _ in held.of_hash.get(place.hash, ())
        ]
        since = max((end for end in ends if end is not None), default=None)
        return replace(known, was=last, since=since)

    def _judged(
        self, known: FileExplanation, place: Whereabouts, now: _Moment, *, is_held: bool
    ) -> FileExplanation:
        info = place.info
        assert info is not None
        judged = self._judge(place, now, is_live=is_held)
        known = replace(
            known,
            size_bytes=info.size,
            last_modified=info.last_modified,
            said=said(judged.verdict, known.unread),
            protection=judged.protection,
        )
        if known.said is Said.GARBAGE:
            return known
        if known.said is Said.PROTECTED:
            return self._protected(known, place)
        return self._until_the_day(known, place)

    def _until_the_day(self, known: FileExplanation, place: Whereabouts) -> FileExplanation:
        """The day on which nothing holds the file and it is old enough; and what a sweep says of it then."""
        written = known.last_modified
        ends = [holder.until for holder in known.holders]
        old_enough = written + self._sweeping.least_age if written is not None else None
        day = latest_end([*ends, old_enough])
        is_other_kind = known.said is Said.LIVE and not known.holders
        if day is None or is_other_kind:
            return replace(known, stays=True)
        return self._tried_out(known, place, day)

    def _protected(self, known: FileExplanation, place: Whereabouts) -> FileExplanation:
        """Files in a dropped table's place go with --collect-dropped after its grace; all others stay."""
        if known.protection not in (DROPPED_TABLE, TOO_NEW):
            return replace(known, stays=True)
        if self._marking.dropped_grace is None:
            note = "--collect-dropped collects files of dropped tables"
            return replace(known, stays=True, notes=(note,))
        return self._tried_out(known, place, self._now)

    def _tried_out(
        self, known: FileExplanation, place: Whereabouts, day: datetime
    ) -> FileExplanation:
        """The file with the first day, from this one on, on which a sweep would take it."""
        try:
            judged = self._judged_at(place, day)
            if judged.verdict is Verdict.UNREFERENCED:
                return replace(known, goes_at=day)
            later = self._day_of_dropped(place, day, judged)
        except UnsafeToSweepError as error:
            said_of_it = f"what a sweep says of it on {on_the_day(day)}: {error.message}"
            return replace(known, unread=(said_of_it,))
        if later is not None:
            return replace(known, goes_at=later)
        return replace(known, stays=True, then=judged.protection or judged.verdict.value)

    def _day_of_dropped(
        self, place: Whereabouts, day: datetime, judged: _Judged
    ) -> datetime | None:
        """The first day on which a file of a table that is dropped by then is collected; None where it never is.

        What is collectable stays so, and this changes at certain instants only: the first of them is found by halving.
        """
        grace = self._marking.dropped_grace
        if grace is None or judged.protection not in (DROPPED_TABLE, TOO_NEW):
            return None
        assert place.info is not None
        written = place.info.last_modified
        # Between these instants nothing changes, so no other day need be tried.
        days = self._ends.turning_points(grace)
        if written is not None:
            days |= {written + grace, written + self._sweeping.least_age}
        return _first_day(
            sorted(one for one in days if one > day),
            lambda one: self._judged_at(place, one).verdict is Verdict.UNREFERENCED,
        )

    def _judged_at(self, place: Whereabouts, day: datetime) -> _Judged:
        moment = self._moment(day)
        held = self._holders(moment, [place.listed])
        return self._judge(place, moment, is_live=place.hash in held.of_hash)

    def _moment(self, at: datetime, *, cuts_off: bool = True) -> _Moment:
        """What is live as of a time, found as a mark of that time would find it, or one that cuts nothing off."""
        if (at, cuts_off) not in self._moments:
            marking = self._marking
            if not cuts_off:
                marking = replace(marking, default_policy="NONE", policy_texts=())
            request = replace(
                marking,
                reference_time=at,
                policies=parse_policies(marking.default_policy, marking.policy_texts, at),
            )
            found = identify_in(
                self._client,
                self._history,
                request.policies,
                keep_state_at_cutoff=request.keep_state_at_cutoff,
                collect_dropped=collect_dropped(request, at),
                parallelism=request.parallelism,
            )
            # In memory: a live set of a day to come, left in the user's database, could be swept.
            live_sets, live_set_id = InMemoryLiveSets(), new_live_set_id()
            live_sets.start_identify(live_set_id, at)
            live_sets.add_contents(live_set_id, found.references)
            facts = facts_of(self._client, request, found)
            live_sets.finish_identify(live_set_id, at, facts)
            live_set = live_sets.get(live_set_id)
            reader = LiveReader(
                self._table_reader,
                self._context.record_of_collected,
                "lakesweep nessie explain",
                self._sweeping.give_up,
                self._sweeping.keep_all_snapshots,
                facts.head_contents,
            )
            catalog = read_live_catalog(reader, live_sets, live_set, facts)
            newest, _ = newest_to_go(live_set, facts, self._sweeping)
            self._moments[at, cuts_off] = _Moment(catalog, newest)
        return self._moments[at, cuts_off]

    def _holders(self, moment: _Moment, uris: Sequence[str]) -> FileHolders:
        """Live states that lead to files; refuses where a sweep would, for a manifest that can't be read."""
        catalog = moment.catalog
        found = find_holders(
            self._table_reader,
            catalog.folders.live,
            catalog.states,
            uris,
            all_snapshots=self._sweeping.keep_all_snapshots,
        )
        catalog.refuse_bad_manifests(found.unreadable, "Nothing was said of any file.")
        return found

    def _judge(self, place: Whereabouts, moment: _Moment, *, is_live: bool) -> _Judged:
        """The verdict of a sweep on one file."""
        assert place.info is not None
        folders = moment.catalog.folders
        protection = ""
        if not is_live:
            is_live = _is_other_kind(folders, place)
            protection = self._protection(place, folders)
        facts = Facts(
            Source.LISTED,
            place.info.last_modified,
            is_live=is_live,
            is_protected=bool(protection),
            is_date_final=True,
        )
        # `newest` is inclusive, and a cut-off is exclusive.
        judged = verdict(facts, moment.newest + _TICK)
        return _Judged(judged, protection if judged is Verdict.PROTECTED else "")

    def _protection(self, place: Whereabouts, folders: TableFolders) -> str:
        if place.protection:
            return place.protection
        assert place.info is not None
        bases = [base.location for base in folders.bases]
        seen = tables_around(self._table_reader.stores, place, bases)
        labels = folders.protection(seen).labels_of(
            pa.array([place.listed], pa.string()),
            pa.array([place.info.last_modified], pa.timestamp("us", tz="UTC")),
        )
        if is_named(self._table_reader, folders.dropped, place.hash):
            return DROPPED_TABLE
        return str(labels[0].as_py()) if place.is_sound else NOT_UNDERSTOOD


def _first_day(
    days: Sequence[datetime], is_collected: Callable[[datetime], bool]
) -> datetime | None:
    """The first of some days on which a file is collected; None where it is not even on the last."""
    if not days or not is_collected(days[-1]):
        return None
    low, high = 0, len(days) - 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_collected(days[middle]) else (middle + 1, high)
    return days[low]


def _is_other_kind(folders: TableFolders, place: Whereabouts) -> bool:
    """Whether a content that is neither table nor view names the file."""
    files = named_files("others", folders.others)
    if files is None:
        return False
    return place.hash in set(hash_live_files(pa.array(files.uris, pa.string())).tolist())


def _holders_of(
    found: FileHolders, place: Whereabouts, ends: ContentEnds
) -> Iterator[HeldByContent]:
    """For every content and reference the state that the reference keeps longest."""
    best: dict[tuple[str, str], tuple[HeldByReference, DistinctContent, str]] = {}
    states: dict[tuple[str, str], set[DistinctContent]] = {}
    for state, role in found.of_hash.get(place.hash, ()):
        for held in ends.of(state.content_id, state.metadata_location, state.snapshot_id):
            key = (state.content_id, held.reference)
            states.setdefault(key, set()).add(state)
            known = best.get(key)
            if known is None or end_order(held.until) > end_order(known[0].until):
                best[key] = (held, state, role)
    for key, (held, state, role) in best.items():
        yield HeldByContent(
            content_key=".".join(held.content_key),
            content_id=state.content_id,
            role=role,
            reference=held.reference,
            policy=held.policy,
            states=len(states[key]),
            commit=held.commit,
            made_at=held.made_at,
            snapshot_id=state.snapshot_id,
            metadata_location=state.metadata_location,
            until=held.until,
        )
