"""Which folders a run may look into, and what is said of files because of the folder they lie in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from lakesweep.domain.file_names import fold, is_below
from lakesweep.domain.live_sets import OtherContent
from lakesweep.domain.location import Location
from lakesweep.errors import ConfigError, FormatError
from lakesweep.runs.nessie.live_files import LiveFiles
from lakesweep.runs.nessie.work.listing import ICEBERG, FoundTable
from lakesweep.runs.nessie.work.places import location_of, table_folder, without_links
from lakesweep.runs.nessie.work.problems import Problem
from lakesweep.runs.nessie.work.protection import FolderIndex
from lakesweep.runs.nessie.work.references import LIVE, NamedFiles
from lakesweep.runs.nessie.work.verdicts import DROPPED_TABLE

OUTSIDE = "outside base locations"
UNKNOWN_TABLE = "of a table that no live content knows: dropped, or another catalog's"
OTHER_KIND = "of a content of another kind"
GIVEN_UP = "below a location of a content given up"


@dataclass(frozen=True, slots=True)
class BaseFolder:
    """A base location: as its table spells it, and where it really lies."""

    spelled: str
    location: Location


def find_base_folders(live: LiveFiles) -> tuple[list[BaseFolder], list[Problem]]:
    """Every base location, and those that can't be looked into."""
    found: list[BaseFolder] = []
    problems: list[Problem] = []
    for spelled, sources in sorted(live.bases.items()):
        owners = live.owners_of(sources)
        try:
            location = without_links(location_of(spelled))
            if not location.key:
                why = "a table there would take whatever else lies in this whole store for garbage"
                problems.append(Problem(spelled, "base location", why, owners))
                continue
            fold(spelled)
        except (ConfigError, FormatError) as error:
            problems.append(Problem(spelled, "base location", error.message, owners))
            continue
        found.append(BaseFolder(spelled, location))
    return found, problems


def outermost(folders: Iterable[Location]) -> list[Location]:
    """Those that lie in no other, so that each file is listed once."""
    kept: list[Location] = []
    for folder in sorted(set(folders), key=lambda f: (f.uri.count("/"), f.uri)):
        if not any(other.contains(folder) for other in kept):
            kept.append(folder)
    return kept


@dataclass(frozen=True, slots=True)
class Grounds:
    """All that decides by folders: bases to judge, and what in them is not ours."""

    bases: Sequence[BaseFolder]
    live: LiveFiles
    dropped: LiveFiles
    others: Sequence[OtherContent]
    given_up: Sequence[str]  # locations that contents given up could own

    def unknown_tables(self, tables_seen: Iterable[FoundTable]) -> list[FoundTable]:
        """Those of other formats, and Iceberg tables and views that no live content knows."""
        known = {fold(uri) for base in self.bases for uri in (base.spelled, base.location.uri)}
        known |= {fold(uri) for uri in _real(self._known_tables())}
        return sorted(t for t in tables_seen if t.kind != ICEBERG or fold(t.folder) not in known)

    def protection(
        self, tables_seen: Iterable[FoundTable] = (), others_now: Iterable[OtherContent] = ()
    ) -> FolderIndex:
        """The index by which files are judged; `tables_seen` are folders that look like a table's."""
        bases = [uri for base in self.bases for uri in (base.spelled, base.location.uri)]
        unknown = self.unknown_tables(tables_seen)
        folded_bases = {fold(uri) for uri in bases}
        dropped = [uri for uri in _real(self._dropped_tables()) if fold(uri) not in folded_bases]
        given_up = list(_real(self.given_up))
        return FolderIndex.of(
            [
                # Not what lies in the folder of another table that is known, but for places where tables keep files.
                *((uri, GIVEN_UP) for uri in given_up),
                *((uri, DROPPED_TABLE) for uri in dropped),
                *((t.folder, UNKNOWN_TABLE) for t in unknown if t.kind == ICEBERG),
                *((uri, "") for uri in bases),
            ],
            overruling=[
                *(
                    (f"{uri}/{inner}", GIVEN_UP)
                    for uri in given_up
                    for inner in ("data", "metadata")
                ),
                *((uri, OTHER_KIND) for uri in _real(other_folders([*self.others, *others_now]))),
                # Their logs may name any file below their folder, also one below an Iceberg table's.
                *((t.folder, f"of a {t.kind} table") for t in unknown if t.kind != ICEBERG),
            ],
            elsewhere=OUTSIDE,
        )

    def overlaps_a_base(self, base: str) -> bool:
        """Whether a folder lies in a base location, is one, or holds one."""
        try:
            folded = [fold(uri) for uri in _real([base])]
        except FormatError:
            return False
        return any(
            is_below(mine, own) or is_below(own, mine)
            for mine in folded
            for own in (fold(b.location.uri) for b in self.bases)
        )

    def _known_tables(self) -> Iterator[str]:
        yield from (table_folder(source) for source in self.live.owners)
        yield from self.live.earlier

    def _dropped_tables(self) -> Iterator[str]:
        yield from self.dropped.bases
        yield from (table_folder(source) for source in self.dropped.owners)


def other_folders(others: Iterable[OtherContent]) -> Iterator[str]:
    """Folders that belong to contents of other kinds: a Delta table's root, a folder with its own `metadata/`."""
    for location in (location for other in others for location in other.locations):
        root, delta_log, _ = location.partition("/_delta_log")
        folder = location.rstrip("/").rpartition("/")[0]
        if delta_log:
            yield root
        elif folder.endswith("/metadata"):
            yield folder.removesuffix("/metadata")
        elif "." not in location.rstrip("/").rpartition("/")[2]:
            yield location.rstrip("/")


def named_files(label: str, others: Iterable[OtherContent]) -> NamedFiles | None:
    """What contents of other kinds name, as live files."""
    named: set[str] = set()
    for uri in (location for other in others for location in other.locations):
        try:
            fold(uri)
        except FormatError:
            continue  # no place that a listing could show
        named.add(uri)
    return NamedFiles(label, tuple(sorted(named)), LIVE) if named else None


def _real(uris: Iterable[str]) -> Iterator[str]:
    """Each URI that names a place, and where it really lies, if that is elsewhere."""
    for uri in uris:
        try:
            fold(uri)
            yield uri
            yield without_links(location_of(uri)).uri
        except (ConfigError, FormatError):
            continue  # A scheme that can't be listed, so no file of it is ever judged.
