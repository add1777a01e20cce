"""Which folders a run may look into, and what is said of files because of the folder they lie in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from lakesweep.collector.judge.references import LIVE
from lakesweep.collector.nessie.listing import ICEBERG, MANIFESTS, FoundTable
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.places import location_of, without_links
from lakesweep.collector.nessie.problems import Problem
from lakesweep.collector.nessie.protection import DROPPED_TABLE, OLD_ONLY, VIEW_ONLY, FolderIndex
from lakesweep.collector.nessie.references import NamedFiles
from lakesweep.domain.file_names import fold, folders_around
from lakesweep.domain.live_sets import OtherContent
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, FormatError

OUTSIDE = "outside base locations"
UNKNOWN_TABLE = "of a table that no live content knows: dropped, or another catalog's"
OTHER_KIND = "of a content of another kind"
GIVEN_UP = "below a location of a content given up"


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """A base location: as its table spells it, and where it really lies."""

    spelled: str
    location: Location


@dataclass(frozen=True, slots=True)
class Place:
    """A folder beside live base locations whose files may go, once they are older than the grace of dropped tables."""

    folder: BaseFolder
    what: str
    owners: frozenset[str]  # content ids
    is_written: bool = False  # a live table may write there
    metadata_until: datetime | None = None  # when a table had it whose metadata we collected
    left_at: datetime | None = None  # about when a table wrote its last metadata there
    # It lies beside metadata that we collected, which does not make it the table's.
    is_guessed: bool = False

    @property
    def uris(self) -> tuple[str, str]:
        """The URI of the base location as its table spells it, and the URI of the place where it really lies."""
        return self.folder.spelled, self.folder.location.uri

    @property
    def folded(self) -> set[str]:
        return {fold(uri) for uri in self.uris}


def find_base_folders(live: LiveFiles) -> tuple[list[BaseFolder], list[Problem]]:
    """Every base location, and those that can't be looked into."""
    found: list[BaseFolder] = []
    problems: list[Problem] = []
    whole_store = "a table there would take whatever else lies in this whole store for garbage"
    for spelled, sources in sorted(live.bases.items()):
        base = base_folder(spelled, whole_store)
        if isinstance(base, BaseFolder):
            found.append(base)
        else:
            problems.append(Problem(spelled, "base location", base, live.owners_of(sources)))
    return found, problems


def base_folder(spelled: str, whole_store: str) -> BaseFolder | str:
    """The folder of this name, or why it can't be looked into; `whole_store` is said of one that holds everything."""
    try:
        location = without_links(location_of(spelled))
        if not location.key:
            return whole_store
        fold(spelled)
    except (ConfigError, FormatError) as error:
        return error.message
    return BaseFolder(spelled, location)


def outermost(folders: Iterable[Location]) -> list[Location]:
    """The locations that lie in no other one: listing these lists each file once."""
    known = set(folders)
    return sorted((f for f in known if known.isdisjoint(f.parents())), key=lambda f: f.uri)


class Overlaps:
    """Folders by their folded names: another one may lie in one of them, be one, or hold one."""

    def __init__(self, folded: Iterable[str]) -> None:
        self._at = frozenset(folded)
        self._around = frozenset(parent for one in self._at for parent in folders_around(one))

    def any_of(self, folded: Iterable[str]) -> bool:
        """Whether one of these folders does."""
        return any(
            one in self._at or one in self._around or not self._at.isdisjoint(folders_around(one))
            for one in folded
        )


@dataclass(frozen=True, slots=True)
class TableFolders:
    """All that decides by folders: bases to judge, and what in them is not ours."""

    bases: Sequence[BaseFolder]  # those of live contents, and the places that are collected
    live: LiveFiles
    dropped: LiveFiles  # of tables whose files stay
    others: Sequence[OtherContent]
    given_up: Sequence[str]  # locations that contents given up could own
    places: Sequence[Place] = ()
    old_until: datetime | None = None  # what is later in a place stays

    @property
    def roots(self) -> list[Location]:
        """The folders to list: what is judged lies below them, and none lies in another."""
        return outermost(base.location for base in self.bases)

    def unknown_tables(self, tables_seen: Iterable[FoundTable]) -> list[FoundTable]:
        """Of the table folders that were seen: those of other formats, and Iceberg ones that no live content knows, or of
        which it knows no more than a view."""
        # In a folder that writers are sent to, a table's metadata may be anybody's.
        written = {place.folder for place in self.places if place.is_written}
        bases = [base for base in self.bases if base not in written]
        known = {fold(uri) for base in bases for uri in (base.spelled, base.location.uri)}
        known |= folded_places({*self.live.folders, *self.live.earlier})
        of_views = self._folders_of_views()
        return sorted(
            t
            for t in tables_seen
            # A name that may mean another place: no file below it is ever judged.
            if _is_place(t.folder)
            and not (t.kind == ICEBERG and fold(t.folder) in known)
            and not (t.kind == MANIFESTS and fold(t.folder) not in of_views)
        )

    def _folders_of_views(self) -> set[str]:
        """Folders, by their folded names, that views have and no table. Another catalog may have a table there."""
        return folded_places(self.live.view_folders) - folded_places(self.live.table_folders)

    def protection(
        self,
        tables_seen: Iterable[FoundTable] = (),
        others_now: Iterable[OtherContent] = (),
        live_now: LiveFiles | None = None,
    ) -> FolderIndex:
        """The index by which files are judged; `tables_seen` are folders that look like a table's.

        `others_now` and `live_now` are of contents that became live since the mark.
        """
        of_views = {f"{folder}/metadata" for folder in self._folders_of_views()}
        bases = [uri for base in self.bases for uri in (base.spelled, base.location.uri)]
        unknown = self.unknown_tables(tables_seen)
        folded_bases = {fold(uri) for uri in bases}
        tables = {*self.dropped.bases, *self.dropped.folders}
        dropped = [uri for uri in real_places(tables) if fold(uri) not in folded_bases]
        given_up = list(real_places(self.given_up))
        new = Overlaps(self._new_folders(live_now) if live_now is not None and self.places else ())
        return FolderIndex.of(
            [
                # Not what lies in the folder of another table that is known, but for places where tables keep files.
                *((uri, GIVEN_UP) for uri in given_up),
                *((uri, DROPPED_TABLE) for uri in dropped),
                *((t.folder, UNKNOWN_TABLE) for t in unknown if t.kind in (ICEBERG, MANIFESTS)),
                *(
                    (uri, DROPPED_TABLE if new.any_of(place.folded) else OLD_ONLY)
                    for place in self.places
                    for uri in place.uris
                ),
                *((uri, VIEW_ONLY if fold(uri) in of_views else "") for uri in bases),
            ],
            overruling=[
                *(
                    (f"{uri}/{inner}", GIVEN_UP)
                    for uri in given_up
                    for inner in ("data", "metadata")
                ),
                *(
                    (uri, OTHER_KIND)
                    for uri in real_places(other_folders([*self.others, *others_now]))
                ),
                *((f"{t.folder}/metadata", UNKNOWN_TABLE) for t in unknown if t.kind == MANIFESTS),
                # Their logs may name any file below their folder, also one below an Iceberg table's.
                *(
                    (t.folder, f"of a {t.kind} table")
                    for t in unknown
                    if t.kind not in (ICEBERG, MANIFESTS)
                ),
            ],
            elsewhere=OUTSIDE,
            old_until=self.old_until,
        )

    def _new_folders(self, live_now: LiveFiles) -> set[str]:
        """Folders, by their folded names, of tables that the mark did not know there."""
        elsewhere = {*live_now.earlier, *live_now.write_paths} - self.live.earlier.keys()
        new = folded_places({*live_now.bases, *live_now.folders})
        new -= folded_places(self.live.bases)
        return new | folded_places(elsewhere - self.live.write_paths.keys())

    def base_locations(self) -> Iterator[tuple[str, str]]:
        """Pairs of a content's id and a base location that is listed."""
        yield from self.live.base_locations()
        for place in self.places:
            yield from ((owner, place.folder.spelled) for owner in sorted(place.owners))

    def overlaps_a_base(self) -> Callable[[str], bool]:
        """Tells of a folder whether it lies in a base location, is one, or holds one."""
        bases = Overlaps(fold(base.location.uri) for base in self.bases)
        return lambda folder: bases.any_of(folded_places([folder]))


def other_folders(others: Iterable[OtherContent]) -> Iterator[str]:
    """Folders that belong to contents of other kinds: a Delta table's root, a folder with its own `metadata/`, and
    whatever else they name, which may be a folder or a file."""
    for location in (location for other in others for location in other.locations):
        root, delta_log, _ = location.partition("/_delta_log")
        folder = location.rstrip("/").rpartition("/")[0]
        if delta_log:
            yield root
        elif folder.endswith("/metadata"):
            yield folder.removesuffix("/metadata")
        else:
            yield location.rstrip("/")


def named_files(label: str, others: Iterable[OtherContent]) -> NamedFiles | None:
    """The files that contents of other kinds name, as live references; None where they name none."""
    named: set[str] = set()
    for uri in (location for other in others for location in other.locations):
        try:
            fold(uri)
        except FormatError:
            continue  # no place that a listing could show
        named.add(uri)
    return NamedFiles(label, tuple(sorted(named)), LIVE) if named else None


def _is_place(uri: str) -> bool:
    try:
        fold(uri)
    except FormatError:
        return False
    return True


def folded_places(uris: Iterable[str]) -> set[str]:
    """The folded names of all places that these URIs mean."""
    return {fold(uri) for uri in real_places(uris)}


def real_places(uris: Iterable[str]) -> Iterator[str]:
    """Each URI that names a place, and where it really lies, if that is elsewhere."""
    for uri in uris:
        try:
            fold(uri)
            yield uri
            yield without_links(location_of(uri)).uri
        except (ConfigError, FormatError):
            continue  # A scheme that can't be listed, so no file of it is ever judged.
