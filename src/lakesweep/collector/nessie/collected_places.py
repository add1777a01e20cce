"""Places beside live base locations that a mark with --collect-dropped lets go: which they are, and which must stay.

Such a place is the base location of a dropped table, a location that a table has left, or one that a table's properties
send writers to. It stays where anybody else could own files there (docs/design/022-dropped-tables.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from lakesweep.catalogs.nessie.live_sets.store import LiveSetStore
from lakesweep.collector.nessie.collected import find_collected
from lakesweep.collector.nessie.folder_sums import FolderSum, sum_up_folders
from lakesweep.collector.nessie.folders import (
    Place,
    TableFolders,
    base_folder,
    folded_places,
    other_folders,
    real_places,
)
from lakesweep.collector.nessie.live_files import LiveFiles, read_live_files, states_of
from lakesweep.collector.nessie.metadata import (
    BASE,
    NAMED_SCHEMA,
    MetadataItem,
    read_metadata,
)
from lakesweep.collector.nessie.places import table_folder
from lakesweep.collector.nessie.requests import GRACE
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.target import Target
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.domain.durations import format_time
from lakesweep.domain.file_names import fold, folders_around
from lakesweep.domain.live_sets import ContentKind, DroppedTable
from lakesweep.domain.location import Location

_WHOLE_STORE = "it is a whole store"
DROPPED, LEFT, WRITE_PATH = "a dropped table", "a location that a table left", "a write path"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NAMED_AT_MOST = 3
_NOTES_AT_MOST = 50


@dataclass(frozen=True, slots=True)
class CollectedPlaces:
    """What was decided about every place and every dropped table."""

    places: tuple[Place, ...]
    sums: Mapping[Place, FolderSum]
    kept: Mapping[str, str]  # a place, or a metadata file that can't be read → why it stays
    kept_tables: frozenset[str]  # content ids of dropped tables whose files stay
    was: LiveFiles  # what the metadata of dropped tables says

    def notes(self) -> list[str]:
        """What the record of a run says about it."""
        collected = [
            f"{place.folder.spelled} of {place.what} is collected: {files.files} files of {files.bytes} bytes"
            for place, files in self.sums.items()
            if files.files
        ]
        kept = [f"{place} stays: {why}" for place, why in sorted(self.kept.items())]
        return [*_first(collected, "places are collected"), *_first(kept, "places stay")]


def find_collected_places(
    table_reader: TableReader,
    record: Target,
    folders: TableFolders,
    dropped: Sequence[DroppedTable],
    old_until: datetime,
    live_sets: LiveSetStore,
) -> CollectedPlaces:
    """Decide about every place, by what the whole catalog claims and by what lies there.

    Args:
        table_reader: where the files of dropped tables are read.
        record: the folder with the record of what our own sweeps deleted.
        folders: what is live, its base locations, and what is nobody's to collect.
        dropped: all dropped tables, those that are not collected too.
        old_until: when the grace of dropped tables began.
        live_sets: tell which base locations earlier runs found.
    """
    was = read_live_files(
        table_reader,
        states_of(dropped),
        all_snapshots=True,
        is_of_interest=lambda base: False,
        name_logs=True,
    )
    deciding = _Deciding(folders, was, dropped)
    deciding.gather(record)
    places = deciding.settle({})
    sums = sum_up_folders(table_reader, [place.folder.location for place in places])
    names = (name for files in (was, folders.live) for name in (*files.owners, *files.logged))
    known = {fold(name) for name in real_places(names)}
    by_place = {place: sums[place.folder.location] for place in places}
    views = _places_of_views(places, dropped)
    unknown = _unknown_places(table_reader, live_sets, by_place)
    in_use = {
        place: _why_in_use(place, by_place[place], known, old_until)
        or _why_no_views(place in views, by_place[place])
        or ("nobody knows whether it was its table's" if place in unknown else "")
        or _why_used_again(place, by_place[place], _dropped_at(place, dropped))
        for place in places
    }
    places = deciding.settle({place: why for place, why in in_use.items() if why})
    return CollectedPlaces(
        places=tuple(places),
        sums={place: by_place[place] for place in places},
        kept=deciding.kept | {p.folder.spelled: why for p, why in deciding.refused.items()},
        kept_tables=frozenset(deciding.kept_tables),
        was=was,
    )


class _Deciding:
    """Gathers the places that dropped tables had, and that live ones have left or write to, each once with all its
    owners; refuses some, and then what stands or falls with them, until nothing changes any more."""

    def __init__(
        self, folders: TableFolders, was: LiveFiles, dropped: Sequence[DroppedTable]
    ) -> None:
        live = folders.live
        self._live, self._was, self._dropped = live, was, dropped
        self._live_ids = {owner for owners in live.owners.values() for owner in owners}
        self._live_bases = _Claims(
            (owner, base.spelled)
            for base in folders.bases
            for owner in live.owners_of(live.bases[base.spelled])
        )
        self._claims = [*_claims_of(folders), *_folders_of(live)]
        self._places: dict[Location, Place] = {}
        self.kept: dict[str, str] = {}  # what can't be looked into → why
        self.kept_tables = {t.content_id for t in dropped if not t.is_collected}
        self.refused: dict[Place, str] = {}

    def gather(self, record: Target) -> None:
        """Find all places; those that can't be looked into are kept at once."""
        self._add_unreadable(record)
        for what, folders in (
            (DROPPED, self._was.bases),
            (LEFT, dict(_left_by(self._was))),
            (WRITE_PATH, self._was.write_paths),
        ):
            for folder, sources in folders.items():
                # A place of a table that is kept is none; where one of several owners is, its claim keeps it.
                owners = set(self._was.owners_of(sources)) - self.kept_tables
                if owners:
                    self._add(folder, what, owners)
        for folder, sources in _left_by(self._live):
            self._add(folder, LEFT, self._live.owners_of(sources))
        for folder, sources in self._live.write_paths.items():
            self._add(folder, WRITE_PATH, self._live.owners_of(sources), is_written=True)

    def _add_unreadable(self, record: Target) -> None:
        """A table whose metadata our own sweep collected lay where that was; of any other nobody knows where.

        It had a metadata folder there, and a table mostly one for data: a property may have sent the metadata elsewhere.
        What else lies beside need not be its own.
        """
        missing = [p.file for p in self._was.problems if p.is_missing]
        collected = find_collected(record.open(), missing)
        for problem in self._was.problems:
            owners = set(problem.content_ids) - self.kept_tables
            if not owners:
                continue
            folder = table_folder(problem.file)
            if problem.file in collected and problem.file.startswith(f"{folder}/metadata/"):
                own = [t for t in self._dropped if t.content_id in owners]
                until = max((t.last_seen for t in own if t.last_seen is not None), default=None)
                has_data = any(t.content_type is ContentKind.ICEBERG_TABLE for t in own)
                base = base_folder(folder, _WHOLE_STORE)
                if isinstance(base, str):
                    self._keep(folder, base, owners)
                elif not self._live_bases.at(Place(base, DROPPED, frozenset(owners))):
                    for inner in ("data", "metadata") if has_data else ("metadata",):
                        self._add(
                            f"{folder}/{inner}",
                            DROPPED,
                            owners,
                            metadata_until=until,
                            is_guessed=inner == "data",
                        )
            else:
                self.kept[problem.file] = (
                    f"it can't be read, so its table's place is not known: {problem.why}"
                )
                self.kept_tables |= owners

    def _keep(self, spelled: str, why: str, owners: Iterable[str]) -> None:
        self.kept[spelled] = why
        self.kept_tables |= set(owners)

    def _add(
        self,
        spelled: str,
        what: str,
        owners: Iterable[str],
        *,
        is_written: bool = False,
        metadata_until: datetime | None = None,
        is_guessed: bool = False,
    ) -> None:
        folder = base_folder(spelled, _WHOLE_STORE)
        if isinstance(folder, str):
            self._keep(spelled, folder, owners if what == DROPPED else ())
            return
        left_at = self._left_at(spelled) if what == LEFT else None
        place = Place(
            folder,
            what,
            frozenset(owners),
            is_written=is_written,
            metadata_until=metadata_until,
            left_at=left_at,
            is_guessed=is_guessed,
        )
        # What lies below a live table's location is listed anyway, and a table created again has its own files there.
        if self._live_bases.at(place) or (what != DROPPED and self._live_bases.around(place)):
            return
        known = self._places.setdefault(folder.location, place)
        self._places[folder.location] = replace(
            known,
            owners=known.owners | place.owners,
            is_written=known.is_written or is_written,
            metadata_until=known.metadata_until or metadata_until,
            left_at=known.left_at or left_at,
            is_guessed=known.is_guessed and is_guessed,
        )

    def _left_at(self, folder: str) -> datetime | None:
        """When the last metadata file was written in a folder that tables left, as their metadata logs say."""
        times = (files.earlier_until.get(folder) for files in (self._was, self._live))
        known = max((time for time in times if time is not None), default=None)
        try:
            return None if known is None else _EPOCH + timedelta(milliseconds=known)
        except OverflowError:
            return None  # no time in milliseconds

    def settle(self, refused: Mapping[Place, str]) -> list[Place]:
        """The places that are left when these are refused."""
        newly = dict(refused)
        while True:
            self.refused |= newly
            self.kept_tables |= {o for p in newly if p.what == DROPPED for o in p.owners}
            of_kept = ((o, f) for o, f in _folders_of(self._was) if o in self.kept_tables)
            claims = _Claims([*self._claims, *of_kept])
            left = [place for place in self._places.values() if place not in self.refused]
            newly = {place: why for place in left if (why := self._why_not_its_own(place, claims))}
            if not newly:
                return left

    def _why_not_its_own(self, place: Place, claims: _Claims) -> str:
        if inside := self._live_bases.inside(place):
            return f"live tables lie in it ({_named(inside)})"
        if kept := place.owners & self.kept_tables:
            return f"the files of its table stay ({_named(kept)})"
        shared = claims.around(place) | claims.inside(place)
        # Of several owners, none may be live.
        if len(place.owners) == 1 or self._live_ids.isdisjoint(place.owners):
            shared -= place.owners
        # A dropped table inside a live one lies among files that are judged one by one anyway.
        shared -= self._live_bases.around(place)
        return f"others may own files there ({_named(shared)})" if shared else ""


class _Claims:
    """Folders by folded name, with who claims them; found from folders inside and around them."""

    def __init__(self, claims: Iterable[tuple[str, str]]) -> None:
        self._at: dict[str, set[str]] = {}
        self._below: dict[str, set[str]] = {}
        for owner, uri in dict.fromkeys(claims):
            for folded in {fold(place) for place in real_places([uri])}:
                self._at.setdefault(folded, set()).add(owner)
                for parent in folders_around(folded):
                    self._below.setdefault(parent, set()).add(owner)

    def at(self, place: Place) -> set[str]:
        """Who claims the place itself."""
        return {owner for folded in place.folded for owner in self._at.get(folded, ())}

    def around(self, place: Place) -> set[str]:
        """Who claims the place or a folder around it."""
        return {
            owner
            for folded in place.folded
            for folder in (folded, *folders_around(folded))
            for owner in self._at.get(folder, ())
        }

    def inside(self, place: Place) -> set[str]:
        """Who claims a folder inside the place."""
        return {owner for folded in place.folded for owner in self._below.get(folded, ())}


def _why_in_use(place: Place, files: FolderSum, known: set[str], old_until: datetime) -> str:
    """Why somebody may still use a place that nobody of this catalog writes to; empty where nothing tells so."""
    if place.is_written:
        return ""
    if files.untimed:
        return "files there have no time"
    if files.newest is not None and files.newest > old_until:
        return f"a file was written there at {format_time(files.newest)}, within the grace of dropped tables"
    strange = sorted(name for name in files.newest_metadata if fold(name) not in known)
    at, until = files.newest_metadata_at, place.metadata_until
    # Of a table whose newest metadata we collected, older files are left that nothing names any more.
    is_left_by_us = at is not None and until is not None and at <= until + SAFETY_FULL.clock_skew
    if strange and not is_left_by_us:
        return f"its newest metadata file is not of this catalog, so another one may have the table: {strange[0]}"
    return ""


def _why_no_views(is_views: bool, files: FolderSum) -> str:
    """Why the place of a view is somebody else's, too: a view writes nothing but metadata files."""
    is_alone = not is_views or files.files == files.metadata_files
    return "" if is_alone else "files lie there that no view has"


def _unknown_places(
    table_reader: TableReader, live_sets: LiveSetStore, files: Mapping[Place, FolderSum]
) -> set[Place]:
    """Guessed and left places with files in them that were no location of their tables, as far as anybody says.

    A property may have sent metadata to a folder called `metadata`, and what lies around that is somebody else's. Metadata
    that lies there tells the location, or an earlier run found it.
    """
    locations = {
        place: folded_places([where])
        for place, found in files.items()
        if found.files and (where := _location_of(place))
    }
    names = sorted({name for place in locations for name in files[place].newest_metadata})
    items = [MetadataItem(name, ContentKind.ICEBERG_TABLE, ()) for name in names]
    rows = table_reader.read(items, read_metadata, NAMED_SCHEMA) if items else ()
    said = folded_places([row["value"] for row in rows if row["kind"] == BASE])
    left = {place: own for place, own in locations.items() if said.isdisjoint(own)}
    if not left:
        return set()
    owners = {owner for place in left for owner in place.owners}
    recorded = {(o, base) for o, base in recorded_bases(live_sets) if o in owners}
    bases = {(o, at) for o, base in recorded for at in folded_places([base])}
    return {
        p for p, own in left.items() if bases.isdisjoint((o, at) for o in p.owners for at in own)
    }


def _location_of(place: Place) -> str:
    """The location that a place is taken for, or is in; empty where metadata names the place itself."""
    if place.is_guessed:
        return place.folder.spelled.rpartition("/")[0]
    return place.folder.spelled if place.what == LEFT and not place.is_written else ""


def recorded_bases(live_sets: LiveSetStore) -> Iterator[tuple[str, str]]:
    """Pairs of content id and base location that runs on any live set found."""
    for live_set in live_sets.all():
        yield from live_sets.base_locations(live_set.id)


def _places_of_views(places: Sequence[Place], dropped: Sequence[DroppedTable]) -> set[Place]:
    """Places that dropped views had, and no table that is collected."""
    views = {t.content_id for t in dropped if t.content_type is ContentKind.ICEBERG_VIEW}
    of_views = {place for place in places if place.owners <= views}
    tables = {place.folder.location for place in places if place not in of_views}
    return {p for p in of_views if tables.isdisjoint((at := p.folder.location, *at.parents()))}


def _dropped_at(place: Place, dropped: Sequence[DroppedTable]) -> datetime | None:
    """When the last of the tables that had a place was dropped; None where one is live, or nobody knows."""
    last_seen = {table.content_id: table.last_seen for table in dropped}
    times = [last_seen.get(owner) for owner in place.owners]
    known = [time for time in times if time is not None]
    return max(known) if known and len(known) == len(times) else None


def _why_used_again(place: Place, files: FolderSum, dropped_at: datetime | None) -> str:
    """Why files in a place may be somebody else's; empty where all are as old as its table was there."""
    if files.newest is None:
        return ""
    until, what = dropped_at, "was dropped"
    if place.what == LEFT and not place.is_written:
        # Its metadata there may be collected, and what others put there since is not the table's.
        until, what = files.newest_metadata_at or place.left_at, "had left"
        if until is None:
            return "nobody knows when its table left it"
    if until is None or files.newest <= until + GRACE:
        return ""
    return f"a file was written there at {format_time(files.newest)}, after its table {what}"


def _claims_of(folders: TableFolders) -> Iterator[tuple[str, str]]:
    """(owner, folder) of contents of other kinds, and of contents given up."""
    for other in folders.others:
        yield from ((f"content {other.content_id}", folder) for folder in other_folders([other]))
    yield from (("a content given up", folder) for folder in folders.given_up)


def _folders_of(files: LiveFiles) -> Iterator[tuple[str, str]]:
    """(content id, folder) of everything that tables name as theirs."""
    for source, owners in files.owners.items():
        yield from ((owner, table_folder(source)) for owner in owners)
    for folders in (files.bases, files.earlier, files.write_paths):
        for folder, sources in folders.items():
            yield from ((owner, folder) for owner in files.owners_of(sources))


def _left_by(files: LiveFiles) -> Iterator[tuple[str, set[str]]]:
    """Folders that only earlier metadata lay in: where present metadata lies, a property may have sent it."""
    present = {fold(folder) for folder in real_places(files.folders)}
    for folder, sources in files.earlier.items():
        if present.isdisjoint(map(fold, real_places([folder]))):
            yield folder, sources


def _first(notes: Sequence[str], what: str) -> list[str]:
    more = len(notes) - _NOTES_AT_MOST
    return [*notes[:_NOTES_AT_MOST], *([f"{more} more {what}"] if more > 0 else [])]


def first_few(names: Sequence[str], at_most: int) -> str:
    """Some of these names, for a message."""
    return ", ".join(names[:at_most]) + (", …" if len(names) > at_most else "")


def _named(owners: Iterable[str]) -> str:
    return first_few(sorted(owners), _NAMED_AT_MOST)
