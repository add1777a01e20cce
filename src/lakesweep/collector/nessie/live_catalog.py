"""Read what a live set stands for: what is live, what was dropped, what was given up, and which folders count."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent, LiveSetStore
from lakesweep.collector.judge.references import LIVE, PROTECTING
from lakesweep.collector.nessie.collected import find_collected
from lakesweep.collector.nessie.collected_places import (
    CollectedPlaces,
    find_collected_places,
    recorded_bases,
)
from lakesweep.collector.nessie.folders import (
    BaseFolder,
    TableFolders,
    find_base_folders,
    named_files,
)
from lakesweep.collector.nessie.live_files import (
    LiveFiles,
    name_owners,
    read_live_files,
    states_of,
)
from lakesweep.collector.nessie.metadata import MISSING, NAMED_SCHEMA
from lakesweep.collector.nessie.places import Unreadable, table_folder
from lakesweep.collector.nessie.problems import Problem, refuse_unreadable
from lakesweep.collector.nessie.references import ReferenceItem, find_bad_manifests
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.target import Target
from lakesweep.domain.file_names import fold, is_below
from lakesweep.domain.head_contents import HeadContents
from lakesweep.domain.live_sets import LiveSet, MarkFacts
from lakesweep.errors import ConfigError

_MOST_CANARIES = 1000
_COLLECTED = "{}s of old commits are missing, as earlier sweeps collected them: these states can't be read any more"


@dataclass(frozen=True, slots=True)
class LiveReader:
    """Reads what contents need. A file that can't be read ends the run, unless only contents that the user gave up need
    it, or it was collected: it is missing where no head needs it, and on the record of our own sweeps."""

    table_reader: TableReader
    collected: Target  # where that record lies
    command: str  # goes on, once it is told which contents to give up
    give_up: frozenset[str] = frozenset()  # content ids
    all_snapshots: bool = False
    heads: HeadContents | None = None  # None: nobody knows which contents are at heads

    def read(self, states: Sequence[DistinctContent]) -> LiveFiles:
        """The files of these contents; what can't be read is a problem, and no error yet."""
        return read_live_files(self.table_reader, states, all_snapshots=self.all_snapshots)

    def read_newly_live(self, states: Sequence[DistinctContent]) -> LiveFiles:
        """The files of contents that became live since the mark, which are at heads."""
        live = self.read(states)
        self.of_heads.refuse_problems(live, live.problems)
        return live

    @property
    def of_heads(self) -> LiveReader:
        """Reads what heads need: a file that is missing there ends the run, collected or not."""
        return replace(self, heads=None)

    def refuse_problems(
        self, live: LiveFiles, problems: Sequence[Problem], undone: str = "Nothing was deleted."
    ) -> None:
        """End the run where one of these is not settled."""
        if not self._unsettled(live, problems):
            return
        # One look names them all, so that nobody repairs a catalog file by file.
        rows = self.table_reader.read(live.manifest_items(LIVE), find_bad_manifests, NAMED_SCHEMA)
        bad = {r["source"]: Unreadable(r["value"], r["kind"] == MISSING) for r in rows}
        found = [*problems, *name_owners(self.table_reader, live, bad)]
        refuse_unreadable(self._unsettled(live, found), self.command, undone)

    def _unsettled(self, live: LiveFiles, problems: Sequence[Problem]) -> list[Problem]:
        """Problems of contents that were not given up, without files that our sweeps collected; those are noted."""
        left = [p for p in problems if not p.content_ids or not self.give_up >= {*p.content_ids}]
        old = [problem for problem in left if self._is_old(problem)]
        collected = find_collected(self.collected.open(), [p.file for p in old])
        for problem in old:
            if problem.file in collected:
                live.notices.setdefault(_COLLECTED.format(problem.what), set()).add(problem.file)
                live.collected.update(problem.sources)
        return [problem for problem in left if problem.file not in collected]

    def _is_old(self, problem: Problem) -> bool:
        """Whether a file is missing and only contents that no reference has at its head need it."""
        heads = self.heads
        return (
            heads is not None
            and problem.is_missing
            and bool(problem.sources)
            and not any(source in heads for source in problem.sources)
        )


@dataclass(frozen=True, slots=True)
class LiveCatalog:
    """What is live by one live set: the folders it lies in, and the states of contents they were read from."""

    states: Sequence[DistinctContent]
    folders: TableFolders
    reader: LiveReader
    collected: CollectedPlaces | None = None  # None: nothing of dropped tables is collected

    @property
    def known(self) -> set[tuple[str, int]]:
        """Pairs of metadata location and snapshot id of every state that was read, but for those of contents given up alone, which need not be whole."""
        return {
            (one.metadata_location, one.snapshot_id)
            for one in self.states
            if one.content_id not in self.reader.give_up
        }

    def references(self) -> list[ReferenceItem]:
        """References for the judge to read: what is live, and what dropped tables had, which protects."""
        g = self.folders
        items: list[ReferenceItem] = [*g.live.items(LIVE), *g.dropped.items(PROTECTING)]
        named = named_files("others", g.others)
        if named is not None:
            items.append(named)
        return items

    def canaries(self) -> tuple[str, ...]:
        """Metadata files of the live set, as the catalog names them."""
        of_no_place = self.folders.live.of_no_place
        locations = [where for _, _, where, _ in self.states if where not in of_no_place]
        step = max(1, len(locations) // _MOST_CANARIES)
        return tuple(dict.fromkeys(locations[::step]))

    def refuse_bad_manifests(
        self, bad: Mapping[str, Unreadable], undone: str, live_now: LiveFiles | None = None
    ) -> None:
        """End the run where manifests can't be read that must be, also by what became live since the mark (`live_now`).

        Each of the two answers for what it needs: one may be given up or old, and the other is neither.
        """
        live, reader = self.folders.live, self.reader
        needed_now = live_now.manifests if live_now is not None else {}
        if live_now is not None:
            new = {path: why for path, why in bad.items() if path in needed_now}
            problems = name_owners(reader.table_reader, live_now, new)
            reader.of_heads.refuse_problems(live_now, problems, undone)
        rest = {p: why for p, why in bad.items() if p in live.manifests or p not in needed_now}
        reader.refuse_problems(live, name_owners(reader.table_reader, live, rest), undone)


def read_live_catalog(
    reader: LiveReader, live_sets: LiveSetStore, live_set: LiveSet, facts: MarkFacts | None
) -> LiveCatalog:
    """Read the live set's contents down to their manifests, or refuse, naming every file that can't be read."""
    states = list(live_sets.distinct_contents(live_set.id))
    _refuse_unknown(reader.give_up, states, live_set)
    live = reader.read(states)
    bases, bad_bases = find_base_folders(live)
    reader.refuse_problems(live, [*live.problems, *bad_bases])
    folders = TableFolders(
        bases=bases,
        live=live,
        dropped=LiveFiles(),
        others=facts.others if facts is not None else (),
        given_up=_locations_given_up(live_sets, live, states, reader.give_up),
    )
    kept = facts.dropped if facts is not None else ()
    collected = None
    if facts is not None and facts.dropped_grace is not None:
        old_until = live_set.created - facts.dropped_grace
        collected = find_collected_places(
            reader.table_reader, reader.collected, folders, kept, old_until, live_sets
        )
        kept = tuple(t for t in kept if t.content_id in collected.kept_tables)
        folders = replace(
            folders,
            bases=[*bases, *(place.folder for place in collected.places)],
            places=collected.places,
            old_until=old_until,
        )
    if kept:
        # What can't be read of a dropped table was purged with it: nothing is known, and its folder is protected all the same.
        overlaps = folders.overlaps_a_base()
        dropped = read_live_files(
            reader.table_reader, states_of(kept), all_snapshots=True, is_of_interest=overlaps
        )
        folders = replace(folders, dropped=dropped)
    return LiveCatalog(states, folders, reader, collected)


def refuse_own_files_below(ours: Mapping[str, str], bases: Iterable[BaseFolder]) -> None:
    """A listing of a base location must not find our own files (what → where) there."""
    for what, uri in ours.items():
        for base in bases:
            if any(is_below(fold(uri), fold(b)) for b in (base.spelled, base.location.uri)):
                raise ConfigError(
                    f"{what} {uri} lies below the base location {base.spelled}, where it would be taken for garbage. "
                    "Nothing was touched. Choose another place.",
                    kind="own-files-below-base",
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
    live_sets: LiveSetStore,
    live: LiveFiles,
    states: Sequence[DistinctContent],
    give_up: frozenset[str],
) -> tuple[str, ...]:
    """Every folder that a content given up could own: what its metadata says or said, where its properties send
    writers to, and where its metadata lies."""
    if not give_up:
        return ()
    known = [(content_id, table_folder(location)) for content_id, _, location, _ in states]
    known += live.base_locations()
    known += recorded_bases(live_sets)
    for folders in (live.earlier, live.write_paths):
        for folder, sources in folders.items():
            known += [(owner, folder) for owner in live.owners_of(sources)]
    return tuple(sorted({folder for content_id, folder in known if content_id in give_up}))
