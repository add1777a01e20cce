"""What would a cut-off of N days free in a Nessie catalog? The commits and the lake are read once for many N.

Where a table is on no reference within the cut-off, its files stay, so a shorter cut-off may free less than a longer one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial, reduce
from operator import or_
from typing import Any

import pyarrow as pa

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.days_kept import KeptContents, contents_by_days
from lakesweep.collector.judge.account import check_once, counts_in, doubt, sums_of
from lakesweep.collector.judge.meeting import ReferenceSide
from lakesweep.collector.listing import TaskPieces
from lakesweep.collector.nessie.collected import find_collected
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folders import (
    BaseFolder,
    TableFolders,
    find_base_folders,
    named_files,
    outermost,
)
from lakesweep.collector.nessie.listing import FoundTable, ListedFolders, cut
from lakesweep.collector.nessie.live_catalog import refuse_own_files_below
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.requests import GRACE
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.nessie.what_if.file_fates import (
    FATES_SCHEMA,
    KEPT_COUNTS,
    LISTED_COUNTS,
    TABLES_SCHEMA,
    FilesMeeting,
    Judgement,
    KeptManifest,
    KeptNames,
    list_files,
    read_kept_names,
)
from lakesweep.collector.nessie.what_if.kept_files import (
    AT_HEAD,
    KeptFiles,
    UnreadableFile,
    read_kept_files,
)
from lakesweep.collector.nessie.what_if.saved_answers import save_answer
from lakesweep.domain.cutoff_policies import CutoffPolicies
from lakesweep.domain.location import Location
from lakesweep.domain.verdicts import Tally
from lakesweep.domain.what_if import Curve, NamedCurve, Point, WhatIf
from lakesweep.engine.tasks import CELL_SCHEMA, Scatter, chunked, tasks_for
from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep.formats.iceberg.manifests import Promised

__all__ = ["CutoffsRequest", "WhatIf", "what_if_cutoffs"]

_NO_TABLE = "(of no table)"
_NAMES_PER_ITEM = 5_000
_ROWS_PER_PARTITION = 2_000_000
_COST_OF_A_FILE = 200
_ENTRIES_OF_A_MANIFEST = 1_000
_SECONDS_PER_MANIFEST = 3e-4


@dataclass(frozen=True, slots=True)
class CutoffsRequest:
    """Which commits are kept: the policies without their default, which is varied, and what else a mark is told."""

    policies: CutoffPolicies
    reference_time: datetime
    keep_state_at_cutoff: bool = False
    keep_all_snapshots: bool = False
    grace: timedelta = GRACE
    days: tuple[int, ...] = ()  # that are asked for whether something changes on them or not
    price: float | None = None
    parallelism: int = 4
    save: bool = True  # keep the answer in the work location, for pages of runs


def what_if_cutoffs(
    context: NessieContext, client: NessieClient, request: CutoffsRequest
) -> WhatIf:
    """Answer what a default cut-off of N days would free, for every day on which that changes. Nothing is deleted.

    Raises:
        UnsafeToSweepError: files of contents at heads can't be read, or a number is wrong.
    """
    started_at = context.clock()
    with context.phases.phase("identify") as step:
        kept = contents_by_days(
            client,
            request.policies,
            request.reference_time,
            request.days,
            keep_state_at_cutoff=request.keep_state_at_cutoff,
            parallelism=request.parallelism,
        )
        step.items = kept.commits
        step.said = f"{kept.commits} commits, {len(kept.days)} cut-offs"
    cutoff = started_at - request.grace
    under_way = _WhatIf(context, request, kept)
    answer = under_way.answer(client.uri, started_at, cutoff)
    if request.save:
        try:
            refuse_own_files_below({"--work-location": context.work_location.uri}, under_way.bases)
        except ConfigError as error:
            return replace(answer, notes=(*answer.notes, f"not kept for reports: {error.message}"))
        save_answer(context.resources.store, answer)
    return answer


class _WhatIf:
    """One what-if under way."""

    def __init__(self, context: NessieContext, request: CutoffsRequest, kept: KeptContents) -> None:
        self._context = context
        self._table_reader: TableReader = context.table_reader
        self._request = request
        self._kept = kept
        self._every = (1 << len(kept.days)) - 1
        self._bad: list[UnreadableFile] = []
        self.bases: set[BaseFolder] = set()

    def answer(self, name: str, started_at: datetime, cutoff: datetime) -> WhatIf:
        table_reader, kept = self._table_reader, self._kept
        states = {
            state: bits | (AT_HEAD if state.metadata_location in kept.at_heads else 0)
            for state, bits in kept.states.items()
        }
        live = read_kept_files(table_reader, states, all_snapshots=self._request.keep_all_snapshots)
        folders = self._folders(live)
        overlaps = [of_days.overlaps_a_base() for of_days in folders]
        dropped = read_kept_files(
            table_reader, kept.last, all_snapshots=True, interest=partial(_overlapping, overlaps)
        )
        folders = [
            replace(of_days, dropped=dropped.with_bit(1 << number))
            for number, of_days in enumerate(folders)
        ]
        self._note_unreadable(live.unreadable)
        bases = self.bases = {base for of_days in folders for base in of_days.bases}
        tables = _tables(live, kept, bases)
        with table_reader.phases.phase("judge") as step:
            sums = self._meet(live, dropped, folders, bases, tables, cutoff)
            step.items = sums.listed.objects
            step.said = f"{sums.listed}"
        days = self._answered_days()
        return WhatIf(
            catalog="nessie",
            name=name,
            what="files of tables",
            asked_at=started_at,
            now=self._request.reference_time,
            cutoff=cutoff,
            curve=sums.curve(days),
            unreferenced=sums.unreferenced,
            kept={why: tally for why, tally in sums.kept.items() if tally != Tally()},
            groups=tuple(_groups(sums, tables.names, days)),
            price=self._request.price,
            seconds=(self._context.clock() - started_at).total_seconds(),
            notes=tuple(self._notes(days)),
        )

    def _folders(self, live: KeptFiles) -> list[TableFolders]:
        """What decides by folders, for each cut-off; dropped tables are not among it yet."""
        found = []
        for number in range(len(self._kept.days)):
            bit = 1 << number
            of_days = live.with_bit(bit)
            bases, bad = find_base_folders(of_days)
            self._bad += [UnreadableFile(p.file, p.what, p.why, bit, False) for p in bad]
            others = [other for other, bits in self._kept.others.items() if bits & bit]
            found.append(TableFolders(bases, of_days, KeptFiles().with_bit(0), others, ()))
        return found

    def _note_unreadable(self, unreadable: Sequence[UnreadableFile]) -> None:
        """Files without which a mark refuses. One that is missing from old commits may have been collected."""
        old = [one for one in unreadable if one.is_missing and not one.bits & AT_HEAD]
        record = self._context.record_of_collected.open()
        collected = find_collected(record, [one.uri for one in old])
        self._bad += [one for one in unreadable if one not in old or one.uri not in collected]

    def _answered_days(self) -> list[int]:
        """Places of the cut-offs for which everything could be read. Raises where there is none."""
        bad = reduce(or_, (one.bits for one in self._bad), 0)
        days = [number for number in range(len(self._kept.days)) if not bad & (1 << number)]
        if not days or days[0] != 0:
            one = self._bad[0]
            raise UnsafeToSweepError(
                f"{one.what} {one.uri} can't be read ({one.why}), and a content at the head of a reference needs it: what "
                "its table has is not known. No answer was used. Restore the file, or drop the table.",
                kind="unreadable",
            )
        return days

    def _notes(self, days: Sequence[int]) -> Iterator[str]:
        kept = self._kept
        if len(days) < len(kept.days):
            first = min(kept.days[n] for n in range(len(kept.days)) if n not in days)
            one = self._bad[0]
            yield (
                f"for cut-offs of {first} days and more there is no answer, as a mark would refuse: {one.what} {one.uri} "
                f"can't be read ({one.why})"
            )
        if kept.left_out:
            yield f"the curve changes on {kept.left_out} more days than are shown, in between"

    def _meet(
        self,
        live: KeptFiles,
        dropped: KeptFiles,
        folders: Sequence[TableFolders],
        bases: set[BaseFolder],
        tables: _Tables,
        cutoff: datetime,
    ) -> _Sums:
        """The sums by what is known of folders. Where the listing shows a table that nobody knew, it is done again."""
        references = list(self._references(live, dropped))
        seen: set[FoundTable] = set()
        protections = _protections(folders, seen)
        while True:
            judgement = Judgement(protections, tables.index, cutoff, self._every)
            met, listed = self._list(references, bases, judgement)
            rows = counts_in(met, "tables_seen", TABLES_SCHEMA)
            seen |= {FoundTable(row["kind"], row["folder"]) for row in rows}
            told, protections = protections, _protections(folders, seen)
            if protections == told:
                return self._checked_sums(met, references, listed, live, dropped)

    def _list(
        self,
        references: Sequence[KeptManifest | KeptNames],
        bases: set[BaseFolder],
        judgement: Judgement,
    ) -> tuple[pa.Table, list[TaskPieces[Location]]]:
        """List the base locations once, and bring files and references together."""
        table_reader, engine = self._table_reader, self._table_reader.engine
        catalog = ListedFolders(table_reader.stores)
        pieces = cut(table_reader.stores, outermost(base.location for base in bases), engine.slots)
        tasks = tasks_for(len(pieces), engine.slots, at_most=table_reader.most_tasks, waves=4)
        listed = [TaskPieces(number, tuple(pieces[number::tasks])) for number in range(tasks)]
        entries = sum(_entries(item) for item in references)
        partitions = max(1, math.ceil(entries / _ROWS_PER_PARTITION))
        left = ReferenceSide(
            references,
            lambda n: partial(read_kept_names, table_reader.stores, n),
            table_reader.most_tasks,
            [_entries(item) for item in references],
            (),
            _COST_OF_A_FILE,
            per_task=8,
            seconds_per_file=_SECONDS_PER_MANIFEST,
        )
        met = engine.meet(
            left.scatter(engine.slots, partitions),
            Scatter(
                listed, partial(list_files, catalog, judgement, partitions), CELL_SCHEMA, tasks
            ),
            FilesMeeting(len(self._kept.days)),
            FATES_SCHEMA,
            partitions,
        )
        return met, listed

    def _checked_sums(
        self,
        met: pa.Table,
        references: Sequence[KeptManifest | KeptNames],
        listed: Sequence[TaskPieces[Location]],
        live: KeptFiles,
        dropped: KeptFiles,
    ) -> _Sums:
        counts = counts_in(met, "kept_counts", KEPT_COUNTS)
        check_once("reference", (row["item"] for row in counts), (r.name for r in references))
        self._note_unreadable(list(_bad_manifests(counts, live, dropped)))
        sums = _Sums.of(met, len(self._kept.days), self._kept.days)
        sent = sum(row["sent"] for row in counts)
        if sums.references != sent:
            raise doubt(f"{sent} references were sent, {sums.references} came")
        counted = counts_in(met, "listed_counts", LISTED_COUNTS)
        check_once("listing", (row["item"] for row in counted), (item.name for item in listed))
        return sums.checked(counted)

    def _references(
        self, live: KeptFiles, dropped: KeptFiles
    ) -> Iterator[KeptManifest | KeptNames]:
        for path in sorted({*live.manifests, *dropped.manifests}):
            bits = live.manifests.get(path, 0) | dropped.manifests.get(path, 0)
            promised = live.promised.get(path, Promised())
            promised = promised.at_least(dropped.promised.get(path, Promised()))
            yield KeptManifest(path, promised, bits)
        number = 0
        for files in (live, dropped):
            for bits, uris in files.names().items():
                for some in chunked(uris, _NAMES_PER_ITEM):
                    yield KeptNames(number, tuple(some), bits)
                    number += 1
        for other, bits in self._kept.others.items():
            named = named_files("other", [other])
            if named is not None:
                yield KeptNames(number, named.uris, bits)
                number += 1


@dataclass(frozen=True, slots=True)
class _Tables:
    """Tables by number, and the folders that are theirs."""

    names: Sequence[str]
    index: FolderIndex


def _tables(live: KeptFiles, kept: KeptContents, bases: set[BaseFolder]) -> _Tables:
    names: dict[str, int] = {}
    labels: list[tuple[str, str]] = []
    for base in sorted(bases, key=lambda b: b.spelled):
        owners = {owner for source in live.bases[base.spelled] for owner in live.owners[source]}
        name = " and ".join(sorted(".".join(kept.keys[owner]) for owner in owners))
        number = names.setdefault(name, len(names))
        labels += [(uri, str(number)) for uri in (base.spelled, base.location.uri)]
    none = names.setdefault(_NO_TABLE, len(names))
    return _Tables(list(names), FolderIndex.of(labels, elsewhere=str(none)))


def _overlapping(overlaps: Sequence[Callable[[str], bool]], folder: str) -> int:
    """The bits of the cut-offs for which a folder lies in, is or holds a base location."""
    found = (1 << n for n, is_overlapping in enumerate(overlaps) if is_overlapping(folder))
    return reduce(or_, found, 0)


def _protections(
    folders: Sequence[TableFolders], seen: set[FoundTable]
) -> list[tuple[FolderIndex, int]]:
    """What is said of folders, with the bits of the cut-offs that say the same."""
    found: list[tuple[FolderIndex, int]] = []
    for number, of_days in enumerate(folders):
        index = of_days.protection(seen)
        if found and found[-1][0] == index:
            found[-1] = (index, found[-1][1] | 1 << number)
        else:
            found.append((index, 1 << number))
    return found


def _bad_manifests(
    counts: Sequence[Mapping[str, Any]], live: KeptFiles, dropped: KeptFiles
) -> Iterator[UnreadableFile]:
    """Manifests that could not be read. A dropped table's own missing ones were collected or purged, and no trouble."""
    for row in counts:
        if row["problem"]:
            path, is_missing = row["item"].removeprefix("manifest:"), row["is_missing"]
            bits = live.manifests.get(path, 0)
            bits |= 0 if is_missing else dropped.manifests.get(path, 0)
            if bits:
                yield UnreadableFile(path, "manifest", row["problem"], bits, is_missing)


def _entries(item: KeptManifest | KeptNames) -> int:
    if isinstance(item, KeptNames):
        return len(item.uris)
    return item.promised.entries or _ENTRIES_OF_A_MANIFEST


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over a listing, by table and cut-off."""

    days: Sequence[int]
    by_table: Mapping[int, list[Tally]]
    kept: Mapping[str, Tally]
    unreferenced: Tally
    judged: Tally
    references: int
    listed: Tally = field(default_factory=Tally)

    @classmethod
    def of(cls, met: pa.Table, cutoffs: int, days: Sequence[int]) -> _Sums:
        sums = sums_of(met)
        by_table: dict[int, list[Tally]] = {}
        for row in met.select(["tables", "objects", "bytes"]).to_pylist():
            for place, table in enumerate(row["tables"]):
                own = slice(place * cutoffs, (place + 1) * cutoffs)
                tallies = map(Tally, row["objects"][own], row["bytes"][own])
                before = by_table.get(table, [Tally()] * cutoffs)
                by_table[table] = [a + b for a, b in zip(before, tallies, strict=True)]

        def tally(fate: str) -> Tally:
            return Tally(sums[fate], sums[f"{fate}_bytes"])

        return cls(
            days,
            by_table,
            {"live": tally("live"), "too young": tally("young"), "protected": tally("protected")},
            tally("unreferenced"),
            Tally(sums["rows"], sums["row_bytes"]),
            sums["kept_references"],
        )

    def checked(self, counted: Sequence[Mapping[str, int]]) -> _Sums:
        """These sums with what the listing saw; refused where they do not account for it."""
        sent = Tally(*(sum(row[c] for row in counted) for c in ("rows", "bytes")))
        if sent != self.judged:
            raise doubt(f"{sent} were listed, {self.judged} were looked at")
        never = Tally(*(sum(row[c] for row in counted) for c in ("protected", "protected_bytes")))
        kept = {**self.kept, "protected": self.kept["protected"] + never}
        return replace(self, kept=kept, listed=sent + never)

    def curve(self, numbers: Sequence[int], table: int | None = None) -> Curve:
        """What these cut-offs free, of all tables or of one."""
        tallies = self.by_table.values() if table is None else [self.by_table[table]]
        points: list[Point] = []
        for number in numbers:
            freed = sum((of_table[number] for of_table in tallies), Tally())
            if not points or points[-1].tally != freed:
                points.append(Point(self.days[number], freed.objects, freed.bytes))
        return Curve(tuple(points))


def _groups(sums: _Sums, names: Sequence[str], numbers: Sequence[int]) -> Iterator[NamedCurve]:
    """Curves by table, the largest first."""
    curves = [(names[table], sums.curve(numbers, table)) for table in sums.by_table]
    curves.sort(key=lambda item: (-max(p.bytes for p in item[1].points), item[0]))
    for name, curve in curves:
        yield NamedCurve("table", name, curve)
