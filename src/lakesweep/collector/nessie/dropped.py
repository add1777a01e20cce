"""List dropped tables: until when a reference had them, what lies in their places, and whether it would be collected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.collector.nessie.collected_places import (
    DROPPED,
    CollectedPlaces,
    find_collected_places,
)
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.folder_sums import FolderSum, sum_up_folders
from lakesweep.collector.nessie.folders import (
    BaseFolder,
    TableFolders,
    base_folder,
    find_base_folders,
)
from lakesweep.collector.nessie.identify import mark_live
from lakesweep.collector.nessie.live_files import LiveFiles, read_live_files
from lakesweep.collector.nessie.requests import DROPPED_GRACE, MarkRequest
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.domain.durations import format_time
from lakesweep.domain.live_sets import DroppedTable


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A dropped table and what is left of it."""

    table: DroppedTable
    locations: tuple[str, ...]
    files: FolderSum | None  # None: not told apart from the files of others
    not_before: datetime | None  # the earliest time of a mark that collects it
    why_kept: str  # empty where --collect-dropped would collect it now

    def as_json(self) -> dict[str, object]:
        """The table as plain JSON values; times are UTC."""
        table = self.table
        return {
            "content_key": list(table.content_key),
            "content_id": table.content_id,
            "content_type": table.content_type.value,
            "last_seen": _utc(table.last_seen),
            "locations": list(self.locations),
            **_sum_json(self.files),
            "is_collectable": not self.why_kept,
            "not_before": _utc(self.not_before),
            "why_kept": self.why_kept or None,
        }


@dataclass(frozen=True, slots=True)
class DroppedList:
    """All dropped tables, and the other places that --collect-dropped would collect or keep."""

    tables: tuple[ListedTable, ...]
    places: Mapping[str, tuple[str, FolderSum]]  # left locations and write paths → what, and files
    kept: Mapping[str, str]  # places that stay → why
    unreadable: int  # live metadata files that can't be read: a sweep would refuse

    @property
    def left(self) -> list[ListedTable]:
        """Tables that have files, or may have some."""
        return [one for one in self.tables if one.files is None or one.files.files]

    def as_json(self) -> dict[str, object]:
        """The list as one document."""
        return {
            "schema": "lakesweep.nessie-dropped/1",
            "tables": [one.as_json() for one in self.tables],
            "places": [
                {"location": place, "what": what, **_sum_json(files)}
                for place, (what, files) in self.places.items()
            ],
            "kept": dict(self.kept),
            "unreadable_live_files": self.unreadable,
        }


def list_dropped(context: NessieContext, client: NessieClient, request: MarkRequest) -> DroppedList:
    """Mark what is live, and look at what dropped tables left. Nothing is deleted."""
    grace = request.dropped_grace if request.dropped_grace is not None else DROPPED_GRACE
    marked = mark_live(client, context.live_sets, request, context.phases, context.clock)
    states = list(context.live_sets.distinct_contents(marked.live_set_id))
    table_reader, record = context.table_reader, context.record_of_collected
    live = read_live_files(
        table_reader, states, all_snapshots=False, is_of_interest=lambda base: False
    )
    bases, bad = find_base_folders(live)
    folders = TableFolders(bases, live, LiveFiles(), marked.others, ())
    with context.phases.phase("look at places") as step:
        old_until = marked.created - grace
        found = find_collected_places(
            table_reader, record, folders, marked.dropped, old_until, context.live_sets
        )
        locations = _locations_of(found)
        overlaps = folders.overlaps_a_base()
        apart = {base for own in locations.values() for base in own if not overlaps(base)}
        sums = _sums(table_reader, apart, found)
        step.items = sum(files.files for files in sums.values())
    tables = []
    for table in marked.dropped:
        own = locations.get(table.content_id, ())
        is_apart = bool(own) and apart.issuperset(own)
        not_before = table.last_seen + grace if table.last_seen is not None else None
        tables.append(
            ListedTable(
                table=table,
                locations=own,
                files=sum((sums[base] for base in own), FolderSum()) if is_apart else None,
                not_before=not_before,
                why_kept=_why_kept(table, own, found, not_before),
            )
        )
    return DroppedList(
        tables=tuple(tables),
        places={
            place.folder.spelled: (place.what, files)
            for place, files in found.sums.items()
            if place.what != DROPPED
        },
        kept=found.kept,
        unreadable=len(live.problems) + len(bad),
    )


def _locations_of(found: CollectedPlaces) -> dict[str, tuple[str, ...]]:
    """Base locations by content id: what metadata says, else where metadata lay that we collected."""
    own: dict[str, dict[str, None]] = {}
    for content_id, base in found.was.base_locations():
        own.setdefault(content_id, {})[base] = None
    for place in found.places:
        for content_id in place.owners if place.what == DROPPED else ():
            own.setdefault(content_id, {})[place.folder.spelled] = None
    return {content_id: tuple(bases) for content_id, bases in own.items()}


def _sums(
    table_reader: TableReader, bases: Iterable[str], found: CollectedPlaces
) -> dict[str, FolderSum]:
    known = {place.folder.spelled: files for place, files in found.sums.items()}
    others = (base_folder(base, "not this table's alone") for base in bases if base not in known)
    places = {one.spelled: one.location for one in others if isinstance(one, BaseFolder)}
    sums = sum_up_folders(table_reader, list(dict.fromkeys(places.values())))
    known |= {base: sums[location] for base, location in places.items()}
    return {base: known.get(base, FolderSum()) for base in bases}


def _why_kept(
    table: DroppedTable,
    locations: Iterable[str],
    found: CollectedPlaces,
    not_before: datetime | None,
) -> str:
    if not table.is_collected:
        return f"within its grace or a cut-off; not before {_utc(not_before)}"
    if table.content_id not in found.kept_tables:
        return ""
    reasons = (found.kept.get(place, "") for place in (table.metadata_location, *locations))
    return next(filter(None, reasons), "its place is not known")


def _sum_json(files: FolderSum | None) -> dict[str, object]:
    return {
        "files": files.files if files else None,
        "bytes": files.bytes if files else None,
        "oldest_file": _utc(files.oldest) if files else None,
        "newest_file": _utc(files.newest) if files else None,
    }


def _utc(time: datetime | None) -> str | None:
    return format_time(time) if time is not None else None
