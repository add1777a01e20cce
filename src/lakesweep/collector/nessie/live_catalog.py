"""Read what a live set stands for: what is live, what was dropped, what was given up, and which folders count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.judge.references import LIVE, PROTECTING
from lakesweep.collector.nessie.collected import find_collected
from lakesweep.collector.nessie.collected_places import (
    CollectedPlaces,
    claims_of,
    find_collected_places,
)
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folders import TableFolders, find_base_folders, named_files
from lakesweep.collector.nessie.live_files import (
    LiveFiles,
    name_owners,
    read_live_files,
    states_of,
)
from lakesweep.collector.nessie.metadata import MISSING, NAMED_SCHEMA
from lakesweep.collector.nessie.places import Unreadable, table_folder
from lakesweep.collector.nessie.problems import Problem, refuse_unreadable
from lakesweep.collector.nessie.references import (
    ReferenceItem,
    find_bad_manifests,
)
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.domain.file_names import fold, is_below
from lakesweep.domain.head_contents import HeadContents
from lakesweep.domain.live_sets import DroppedTable, LiveSet, LiveSetStatus, MarkFacts
from lakesweep.engine.tasks import SECONDS_PER_FILE, Scatter, tasks_for
from lakesweep.errors import ConfigError

_MOST_CANARIES = 1000
_COLLECTED = "{}s of old commits are missing, as earlier sweeps collected them: these states can't be read any more"


@dataclass(frozen=True, slots=True)
class LiveCatalog:
    """What is live by one live set: the folders it lies in, and the states of contents they were read from."""

    states: Sequence[DistinctContent]
    folders: TableFolders
    heads: HeadContents | None  # None: nobody knows which contents are at heads
    collected: CollectedPlaces | None = None  # None: nothing of dropped tables is collected

    @property
    def known(self) -> set[tuple[str, int]]:
        """(metadata location, snapshot id) of everything read."""
        return {(location, snapshot_id) for _, _, location, snapshot_id in self.states}

    def references(self) -> list[ReferenceItem]:
        """What is live and what dropped tables had, as work."""
        g = self.folders
        items: list[ReferenceItem] = [*g.live.items(LIVE), *g.dropped.items(PROTECTING)]
        named = named_files("others", g.others)
        if named is not None:
            items.append(named)
        return items

    def canaries(self) -> tuple[str, ...]:
        """Metadata files of the live set, as the catalog names them."""
        locations = [location for _, _, location, _ in self.states]
        step = max(1, len(locations) // _MOST_CANARIES)
        return tuple(dict.fromkeys(locations[::step]))


def read_live_catalog(
    context: NessieContext, live_set: LiveSet, facts: MarkFacts | None, request: ExpireRequest
) -> LiveCatalog:
    """Read the live set's contents down to their manifests, or refuse, naming every file that can't be read."""
    states = list(context.live_sets.distinct_contents(live_set.id))
    _refuse_unknown(request.give_up, states, live_set)
    live = read_live_files(context, states, all_snapshots=request.keep_all_snapshots)
    bases, bad_bases = find_base_folders(live)
    heads = facts.head_contents if facts is not None else None
    refuse_problems(context, live, [*live.problems, *bad_bases], request, heads)
    given_up = _locations_given_up(context, live, states, request.give_up)
    folders = TableFolders(
        bases=bases,
        live=live,
        dropped=LiveFiles(),
        others=facts.others if facts is not None else (),
        given_up=given_up,
    )
    kept = facts.dropped if facts is not None else ()
    collected = None
    if facts is not None and facts.dropped_grace is not None:
        old_until = live_set.created - facts.dropped_grace
        collected = collected_places(context, folders, facts.dropped, old_until)
        kept = tuple(t for t in kept if t.content_id in collected.kept_tables)
        folders = replace(
            folders,
            bases=[*bases, *(place.folder for place in collected.places)],
            places=collected.places,
            old_until=old_until,
        )
    if kept:
        folders = _with_dropped(context, folders, kept)
    _refuse_own_files_below(context, folders)
    return LiveCatalog(states, folders, heads, collected)


def collected_places(
    context: NessieContext,
    folders: TableFolders,
    dropped: Sequence[DroppedTable],
    old_until: datetime,
) -> CollectedPlaces:
    """What a mark with --collect-dropped lets go beside the live base locations of `folders`."""
    claims = claims_of(folders.others, folders.given_up)
    return find_collected_places(context, folders.live, folders.bases, dropped, claims, old_until)


def refuse_problems(
    context: NessieContext,
    live: LiveFiles,
    problems: Sequence[Problem],
    request: ExpireRequest,
    heads: HeadContents | None,
    undone: str = "Nothing was deleted.",
) -> None:
    """End the run unless each unreadable file is needed only by contents that the user gave up, or was collected.

    A file that is missing where no head needs it, and is on the record of our own sweeps, has been collected.
    """
    if not _unsettled(context, live, problems, request, heads):
        return
    # One look names them all, so that nobody repairs a catalog file by file.
    manifests = live.manifest_items(LIVE)
    tasks = tasks_for(len(manifests), context.engine.slots, at_most=context.most_tasks, per_task=8)
    work = partial(find_bad_manifests, context.table_stores)
    seconds = len(manifests) * SECONDS_PER_FILE
    scatter = Scatter(manifests, work, NAMED_SCHEMA, tasks, seconds=seconds)
    rows = context.engine.collect(scatter).to_pylist()
    bad = {r["source"]: Unreadable(r["value"], r["kind"] == MISSING) for r in rows}
    found = [*problems, *name_owners(context, live, bad)]
    status = context.live_sets.get(request.live_set_id).status
    name = "deferred-deletes" if status is LiveSetStatus.EXPIRY_SUCCESS else "expire"
    command = f"lakesweep nessie {name} --live-set-id {request.live_set_id}"
    refuse_unreadable(_unsettled(context, live, found, request, heads), command, undone)


def refuse_bad_manifests(
    context: NessieContext,
    found: LiveCatalog,
    request: ExpireRequest,
    undone: str,
    bad: Mapping[str, Unreadable],
) -> None:
    """End the run where manifests can't be read that must be."""
    live = found.folders.live
    refuse_problems(context, live, name_owners(context, live, bad), request, found.heads, undone)


def read_newly_live(
    context: NessieContext, states: list[DistinctContent], request: ExpireRequest
) -> LiveFiles:
    """The files of contents that became live since the mark; one that can't be read stops the deletes."""
    live = read_live_files(context, states, all_snapshots=request.keep_all_snapshots)
    refuse_problems(context, live, live.problems, request, heads=None)
    return live


def _unsettled(
    context: NessieContext,
    live: LiveFiles,
    problems: Sequence[Problem],
    request: ExpireRequest,
    heads: HeadContents | None,
) -> list[Problem]:
    """Problems of contents that were not given up, without files that our sweeps collected; those are noted."""
    left = [
        problem
        for problem in problems
        if not problem.content_ids or not request.give_up.issuperset(problem.content_ids)
    ]
    old = [problem for problem in left if heads is not None and _is_old(problem, heads)]
    collected = find_collected(context.record_of_collected.open(), [p.file for p in old])
    for problem in old:
        if problem.file in collected:
            live.notices.setdefault(_COLLECTED.format(problem.what), set()).add(problem.file)
    return [problem for problem in left if problem.file not in collected]


def _is_old(problem: Problem, heads: HeadContents) -> bool:
    """Whether a file is missing and only contents that no reference has at its head need it."""
    return (
        problem.is_missing
        and bool(problem.sources)
        and not any(source in heads for source in problem.sources)
    )


def _refuse_unknown(
    give_up: frozenset[str], states: Sequence[DistinctContent], live_set: LiveSet
) -> None:
    unknown = sorted(give_up - {content_id for content_id, _, _, _ in states})
    if unknown:
        raise ConfigError(
            f"--give-up {', '.join(unknown)}: live set {live_set.id} has no such content. Nothing was touched. "
            "`lakesweep nessie show --with-content-references` lists them.",
            kind="unknown-content",
        )


def _locations_given_up(
    context: NessieContext,
    live: LiveFiles,
    states: Sequence[DistinctContent],
    give_up: frozenset[str],
) -> tuple[str, ...]:
    """Every folder that a content given up could own: what its metadata says or said, and where its metadata lies."""
    if not give_up:
        return ()
    folders = {
        table_folder(location) for content_id, _, location, _ in states if content_id in give_up
    }
    folders |= {base for content_id, base in live.base_locations() if content_id in give_up}
    for earlier in context.live_sets.all():
        recorded = context.live_sets.base_locations(earlier.id)
        folders |= {base for content_id, base in recorded if content_id in give_up}
    folders |= {
        folder
        for folder, sources in live.earlier.items()
        if not give_up.isdisjoint(live.owners_of(sources))
    }
    return tuple(sorted(folders))


def _with_dropped(
    context: NessieContext, folders: TableFolders, kept: Sequence[DroppedTable]
) -> TableFolders:
    # What can't be read of a dropped table was purged with it: nothing is known, and its folder is protected all the same.
    dropped = read_live_files(
        context, states_of(kept), all_snapshots=True, is_of_interest=folders.overlaps_a_base
    )
    return replace(folders, dropped=dropped)


def _refuse_own_files_below(context: NessieContext, folders: TableFolders) -> None:
    """A listing of a base location must not find our own files there."""
    ours = {
        "--work-location": context.work.uri,
        "the record of collected files": context.record_of_collected.namespace.uri,
    }
    database = context.live_sets.local_file
    if database is not None:
        ours["the database of live sets"] = database
    for what, uri in ours.items():
        for base in folders.bases:
            if any(is_below(fold(uri), fold(b)) for b in (base.spelled, base.location.uri)):
                raise ConfigError(
                    f"{what} {uri} lies below the base location {base.spelled}, where it would be taken for garbage. "
                    "Nothing was touched. Choose another place.",
                    kind="own-files-below-base",
                )
