"""From contents to the files they need: metadata, then manifest lists, each file read once however often it is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.nessie import metadata as named
from lakesweep.collector.nessie.metadata import (
    NAMED_SCHEMA,
    MetadataItem,
    find_lists_naming,
    read_manifest_lists,
    read_metadata,
)
from lakesweep.collector.nessie.places import Unreadable, table_folder
from lakesweep.collector.nessie.problems import Problem
from lakesweep.collector.nessie.references import (
    ManifestItem,
    NamedFiles,
    names_of_no_place,
)
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.domain.live_sets import ContentKind, DroppedTable
from lakesweep.engine.tasks import chunked
from lakesweep.formats.iceberg.manifests import Promised

_FILES_PER_ITEM = 5_000

FULLER = "manifests have more entries than their manifest lists say, and all of them count"


@dataclass(slots=True)
class LiveFiles:
    """All files that some contents need, but for data files: executors read those out of the manifests."""

    owners: dict[str, set[str]] = field(default_factory=dict)  # metadata file → content ids
    views: set[str] = field(default_factory=set)  # metadata files of views
    bases: dict[str, set[str]] = field(default_factory=dict)  # base location → metadata files
    # Folders in which these tables kept metadata before, or that their properties send writers to → metadata files.
    earlier: dict[str, set[str]] = field(default_factory=dict)
    write_paths: dict[str, set[str]] = field(default_factory=dict)
    # When the newest metadata file in such an earlier folder was written, in ms.
    earlier_until: dict[str, int] = field(default_factory=dict)
    logged: set[str] = field(default_factory=set)  # earlier metadata files in other folders, or all
    lists: dict[str, set[str]] = field(default_factory=dict)  # manifest list → metadata files
    embedded: dict[str, set[str]] = field(default_factory=dict)  # manifest → metadata files
    totals: dict[str, int] = field(default_factory=dict)  # manifest list → files promised
    manifests: dict[str, Promised] = field(default_factory=dict)
    others: dict[str, set[str]] = field(default_factory=dict)  # statistics file → metadata files
    of_no_place: set[str] = field(default_factory=set)  # names among these that no listing can show
    problems: list[Problem] = field(default_factory=list)
    # Metadata files of old states that can't be read whole any more, as our sweeps collected files of theirs.
    collected: set[str] = field(default_factory=set)
    notices: dict[str, set[str]] = field(default_factory=dict)  # what is odd → files

    @property
    def folders(self) -> set[str]:
        """Where tables with these metadata files could keep their files."""
        return {table_folder(source) for source in self.owners}

    @property
    def view_folders(self) -> set[str]:
        """Locations of views, and where their metadata lies."""
        bases = (base for base, sources in self.bases.items() if not sources.isdisjoint(self.views))
        return {table_folder(f"{base}/") for base in bases} | set(map(table_folder, self.views))

    @property
    def table_folders(self) -> set[str]:
        """Where tables keep their metadata or kept it, and their locations."""
        tables = self.owners.keys() - self.views
        bases = {base for base, sources in self.bases.items() if not sources <= self.views}
        return {*map(table_folder, tables), *self.earlier, *bases}

    @property
    def names(self) -> set[str]:
        """All files that are known by name."""
        return {*self.owners, *self.lists, *self.manifests, *self.others}

    def base_locations(self) -> Iterator[tuple[str, str]]:
        """Pairs of a content's id and a base location that its metadata name."""
        for base, sources in self.bases.items():
            yield from ((content_id, base) for content_id in self.owners_of(sources))

    def items(self, kind: int) -> list[ManifestItem | NamedFiles]:
        """All files as references of this kind for the judge to read, each file once."""
        names = sorted(self.names - self.of_no_place)
        items: list[ManifestItem | NamedFiles] = [
            NamedFiles(f"{kind}-{number}", tuple(chunk), kind)
            for number, chunk in enumerate(chunked(names, _FILES_PER_ITEM))
        ]
        return items + self.manifest_items(kind)

    def manifest_items(self, kind: int) -> list[ManifestItem]:
        """All manifests as references of this kind, whose files executors read."""
        return [ManifestItem(path, promised, kind) for path, promised in self.manifests.items()]

    def owners_of(self, sources: Iterable[str]) -> tuple[str, ...]:
        """The contents that these metadata files belong to."""
        return tuple(sorted({owner for source in sources for owner in self.owners[source]}))

    def problem(self, file: str, what: str, why: Unreadable, sources: Iterable[str]) -> Problem:
        """A file that can't be read, and all that need it: `sources` are the metadata files that lead to it."""
        named_by = tuple(sorted(sources))
        return Problem(file, what, why.why, self.owners_of(named_by), named_by, why.is_missing)

    def notes(self) -> list[str]:
        """What a run's record says about odd files, each kind once with an example."""
        return [
            f"{len(files)} {what} (for example {min(files)})"
            for what, files in sorted(self.notices.items())
        ]

    def forget_uninteresting(self, is_of_interest: Callable[[str], bool]) -> None:
        """Drop the manifest lists and manifests of tables that have, or had, no files in a folder of interest."""
        of_tables = (self.bases, self.earlier, self.write_paths)
        kept = {
            s for f in of_tables for folder, own in f.items() if is_of_interest(folder) for s in own
        }
        out = self.owners.keys() - kept
        self.lists = {path: own - out for path, own in self.lists.items() if own - out}
        self.embedded = {path: own - out for path, own in self.embedded.items() if own - out}
        self.manifests = dict.fromkeys(self.embedded, Promised())


def read_live_files(
    table_reader: TableReader,
    states: Iterable[DistinctContent],
    *,
    all_snapshots: bool,
    is_of_interest: Callable[[str], bool] | None = None,
    name_logs: bool = False,
) -> LiveFiles:
    """Read metadata files and manifest lists. What can't be read is a problem of the result, not an error yet.

    `is_of_interest` is asked of every base location, earlier folder and write path before the manifest lists are read. `name_logs` finds all
    earlier metadata files that each metadata file lists.
    """
    live = LiveFiles()
    items = _items(states, live, all_snapshots, name_logs)
    with table_reader.phases.phase("metadata") as step:
        _take_metadata(live, table_reader.read(items, read_metadata, NAMED_SCHEMA))
        step.items = len(items)
        step.said = f"{len(items)} metadata files, {len(live.bases)} base locations"
    if is_of_interest is not None:
        live.forget_uninteresting(is_of_interest)
    with table_reader.phases.phase("manifest lists") as step:
        lists = [(path, live.totals.get(path)) for path in sorted(live.lists)]
        for row in table_reader.read(lists, read_manifest_lists, NAMED_SCHEMA):
            path, value = row["source"], row["value"]
            if row["kind"] in (named.PROBLEM, named.MISSING):
                why = Unreadable(value, row["kind"] == named.MISSING)
                live.problems.append(live.problem(path, named.MANIFEST_LIST, why, live.lists[path]))
            else:
                promised = Promised(row["count"], row["length"])
                live.manifests[value] = promised.at_least(live.manifests.get(value, Promised()))
        step.items = len(live.lists)
        step.said = f"{len(live.lists)} manifest lists, {len(live.manifests)} manifests"
    _note_names_of_no_place(live)
    return live


def _note_names_of_no_place(live: LiveFiles) -> None:
    """Such a name protects no file. Of a file that is read, it is known whether it is there; statistics files are not read."""
    found = names_of_no_place(live.names)
    live.of_no_place = set(found)
    for name in sorted(live.others.keys() & found):
        why = Unreadable(found[name])
        live.problems.append(live.problem(name, "statistics file", why, live.others[name]))


def states_of(tables: Iterable[DroppedTable]) -> list[DistinctContent]:
    """Dropped tables as they were put last."""
    return [
        DistinctContent(t.content_id, t.content_type, t.metadata_location, t.snapshot_id)
        for t in tables
    ]


def name_owners(
    table_reader: TableReader, live: LiveFiles, bad: Mapping[str, Unreadable]
) -> list[Problem]:
    """Problems of manifests (path → why), with the contents that need them."""
    if not bad:
        return []
    sources: dict[str, set[str]] = {path: set(live.embedded.get(path, ())) for path in bad}
    work = partial(find_lists_naming, frozenset(bad))
    for row in table_reader.read(sorted(live.lists), work, NAMED_SCHEMA):
        sources[row["value"]] |= live.lists[row["source"]]
    return [live.problem(path, named.MANIFEST, why, sources[path]) for path, why in bad.items()]


def _items(
    states: Iterable[DistinctContent], live: LiveFiles, all_snapshots: bool, name_logs: bool
) -> list[MetadataItem]:
    kinds: dict[str, ContentKind] = {}
    snapshots: dict[str, set[int]] = {}
    for content_id, kind, location, snapshot_id in states:
        live.owners.setdefault(location, set()).add(content_id)
        kinds[location] = kind
        snapshots.setdefault(location, set()).add(snapshot_id)
        if kind is ContentKind.ICEBERG_VIEW:
            live.views.add(location)
    return [
        MetadataItem(
            *(location, kinds[location], tuple(sorted(snapshots[location]))),
            all_snapshots=all_snapshots,
            name_log=name_logs,
        )
        for location in sorted(kinds)
    ]


def _take_metadata(live: LiveFiles, rows: Iterable[dict[str, Any]]) -> None:
    named_by = {
        named.BASE: live.bases,
        named.EARLIER: live.earlier,
        named.WRITE_PATH: live.write_paths,
        named.MANIFEST_LIST: live.lists,
        named.MANIFEST: live.embedded,
        named.FILE: live.others,
        named.NOTICE: live.notices,
    }
    for row in rows:
        source, kind, value = row["source"], row["kind"], row["value"]
        if kind in named_by:
            named_by[kind].setdefault(value, set()).add(source)
        match kind:
            case named.MANIFEST_LIST if row["count"] is not None:
                live.totals[value] = max(row["count"], live.totals.get(value, 0))
            case named.MANIFEST:
                live.manifests.setdefault(value, Promised())
            case named.EARLIER if row["count"] is not None:
                live.earlier_until[value] = max(row["count"], live.earlier_until.get(value, 0))
            case named.LOGGED:
                live.logged.add(value)
            case named.PROBLEM | named.MISSING:
                why = Unreadable(value, kind == named.MISSING)
                live.problems.append(live.problem(source, "metadata file", why, [source]))
