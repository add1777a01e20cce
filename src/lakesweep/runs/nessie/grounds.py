"""Read all that a judgement stands on: what is live, what was dropped, what was given up, and which folders count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.domain.file_names import fold, is_below
from lakesweep.domain.live_sets import LiveSet, MarkFacts
from lakesweep.engine.tasks import Scatter, tasks_for
from lakesweep.errors import ConfigError
from lakesweep.runs.nessie.context import NessieContext
from lakesweep.runs.nessie.folders import Grounds, find_base_folders, named_files
from lakesweep.runs.nessie.live_files import (
    LiveFiles,
    name_owners,
    read_live_files,
)
from lakesweep.runs.nessie.requests import ExpireRequest
from lakesweep.runs.nessie.work.metadata import NAMED_SCHEMA
from lakesweep.runs.nessie.work.places import table_folder
from lakesweep.runs.nessie.work.problems import Problem, refuse_unreadable
from lakesweep.runs.nessie.work.references import (
    CANARY,
    DROPPED,
    LIVE,
    NamedFiles,
    ReferenceItem,
    find_bad_manifests,
)

_MOST_CANARIES = 1000


@dataclass(frozen=True, slots=True)
class LiveGrounds:
    """The grounds of one run, and the states of contents they were read from."""

    states: Sequence[DistinctContent]
    grounds: Grounds

    @property
    def known(self) -> set[tuple[str, int]]:
        """(metadata location, snapshot id) of everything read."""
        return {(location, snapshot_id) for _, _, location, snapshot_id in self.states}

    def references(self) -> list[ReferenceItem]:
        """What is live, what dropped tables had, and canaries, as work."""
        g = self.grounds
        items: list[ReferenceItem] = [*g.live.items(LIVE), *g.dropped.items(DROPPED)]
        named = named_files("others", g.others)
        if named is not None:
            items.append(named)
        locations = [location for _, _, location, _ in self.states]
        step = max(1, len(locations) // _MOST_CANARIES)
        canaries = tuple(dict.fromkeys(locations[::step]))
        if canaries:
            items.append(NamedFiles("canaries", canaries, CANARY))
        return items


def read_grounds(
    context: NessieContext, live_set: LiveSet, facts: MarkFacts | None, request: ExpireRequest
) -> LiveGrounds:
    """Read the live set's contents down to their manifests, or refuse, naming every file that can't be read."""
    states = list(context.live_sets.distinct_contents(live_set.id))
    _refuse_unknown(request.give_up, states, live_set)
    live = read_live_files(context, states, all_snapshots=request.keep_all_snapshots)
    bases, bad_bases = find_base_folders(live)
    refuse_problems(context, live, [*live.problems, *bad_bases], request.give_up)
    given_up = _locations_given_up(context, live_set, live, states, request.give_up)
    grounds = Grounds(
        bases=bases,
        live=live,
        dropped=LiveFiles(),
        others=facts.others if facts is not None else (),
        given_up=given_up,
    )
    if facts is not None and facts.dropped:
        grounds = _with_dropped(context, grounds, facts)
    _refuse_own_files_below(context, grounds)
    return LiveGrounds(states, grounds)


def refuse_problems(
    context: NessieContext, live: LiveFiles, problems: Sequence[Problem], give_up: frozenset[str]
) -> None:
    """End the run unless every unreadable file is needed only by contents that the user gave up."""
    if all(_is_given_up(problem, give_up) for problem in problems):
        return
    # One look names them all, so that nobody repairs a catalog file by file.
    manifests = live.manifest_items(LIVE)
    tasks = tasks_for(len(manifests), context.engine.slots, at_most=context.most_tasks, per_task=8)
    work = partial(find_bad_manifests, context.lake)
    rows = context.engine.collect(Scatter(manifests, work, NAMED_SCHEMA, tasks)).to_pylist()
    bad = {row["source"]: row["value"] for row in rows}
    found = [*problems, *name_owners(context, live, bad)]
    refuse_unreadable([problem for problem in found if not _is_given_up(problem, give_up)])


def read_newly_live(
    context: NessieContext, states: list[DistinctContent], request: ExpireRequest
) -> LiveFiles:
    """The files of contents that became live since the mark; one that can't be read stops the deletes."""
    live = read_live_files(context, states, all_snapshots=request.keep_all_snapshots)
    refuse_problems(context, live, live.problems, request.give_up)
    return live


def _is_given_up(problem: Problem, give_up: frozenset[str]) -> bool:
    return bool(problem.content_ids) and give_up.issuperset(problem.content_ids)


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
    live_set: LiveSet,
    live: LiveFiles,
    states: Sequence[DistinctContent],
    give_up: frozenset[str],
) -> tuple[str, ...]:
    """Every folder that a content given up could own: what its metadata says, and where its metadata lies."""
    if not give_up:
        return ()
    folders = {
        table_folder(location) for content_id, _, location, _ in states if content_id in give_up
    }
    folders |= {base for content_id, base in live.base_locations() if content_id in give_up}
    recorded = context.live_sets.base_locations(live_set.id)
    folders |= {base for content_id, base in recorded if content_id in give_up}
    return tuple(sorted(folders))


def _with_dropped(context: NessieContext, grounds: Grounds, facts: MarkFacts) -> Grounds:
    states = [
        DistinctContent(t.content_id, t.content_type, t.metadata_location, t.snapshot_id)
        for t in facts.dropped
    ]
    # What can't be read of a dropped table was purged with it: nothing is known, and its folder is protected all the same.
    dropped = read_live_files(
        context, states, all_snapshots=True, is_of_interest=grounds.overlaps_a_base
    )
    return Grounds(grounds.bases, grounds.live, dropped, grounds.others, grounds.given_up)


def _refuse_own_files_below(context: NessieContext, grounds: Grounds) -> None:
    """A listing of a base location must not find our own files there."""
    ours = {"--work-location": context.work.uri}
    database = context.live_sets.local_file
    if database is not None:
        ours["the database of live sets"] = database
    for what, uri in ours.items():
        for base in grounds.bases:
            if any(is_below(fold(uri), fold(b)) for b in (base.spelled, base.location.uri)):
                raise ConfigError(
                    f"{what} {uri} lies below the base location {base.spelled}, where it would be taken for garbage. "
                    "Nothing was touched. Choose another place.",
                    kind="own-files-below-base",
                )
