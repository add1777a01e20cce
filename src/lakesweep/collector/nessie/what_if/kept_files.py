"""Files by the cut-offs that keep them: from contents to metadata, manifest lists and manifests, each read once.

Every file has bits, one for each cut-off that is asked for. A file that several contents need has the bits of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from lakesweep.catalogs.nessie.live_sets.store import DistinctContent
from lakesweep.collector.nessie import metadata as named
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.metadata import (
    NAMED_SCHEMA,
    MetadataItem,
    Named,
    in_batches,
    read_metadata,
    read_whole_lists,
)
from lakesweep.collector.nessie.places import TableStores, Unreadable
from lakesweep.collector.nessie.references import names_of_no_place
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.domain.live_sets import ContentKind
from lakesweep.formats.iceberg.manifests import Promised

__all__ = ["AT_HEAD", "KeptFiles", "UnreadableFile", "read_kept_files"]

# The bit of what a reference has at its head.
AT_HEAD = 1 << 62


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that can't be read, and the cut-offs that need it."""

    uri: str
    what: str
    why: str
    bits: int
    is_missing: bool


@dataclass(slots=True)
class KeptFiles:
    """What contents need, by bits."""

    sources: dict[str, int] = field(default_factory=dict)  # metadata files
    owners: dict[str, set[str]] = field(default_factory=dict)  # metadata file → content ids
    views: set[str] = field(default_factory=set)  # metadata files of views
    bases: dict[str, set[str]] = field(default_factory=dict)  # base location → metadata files
    earlier: dict[str, set[str]] = field(default_factory=dict)  # folder → metadata files
    lists: dict[str, int] = field(default_factory=dict)
    totals: dict[str, int] = field(default_factory=dict)  # manifest list → files promised
    manifests: dict[str, int] = field(default_factory=dict)
    promised: dict[str, Promised] = field(default_factory=dict)  # of manifests
    others: dict[str, int] = field(default_factory=dict)  # statistics files
    unreadable: list[UnreadableFile] = field(default_factory=list)

    def names(self) -> dict[int, list[str]]:
        """Files that are known by name, by their bits."""
        found: dict[str, int] = {}
        for files in (self.sources, self.lists, self.manifests, self.others):
            for uri, bits in files.items():
                found[uri] = found.get(uri, 0) | bits
        for uri in names_of_no_place(found):
            del found[uri]
        by_bits: dict[int, list[str]] = {}
        for uri, bits in sorted(found.items()):
            by_bits.setdefault(bits, []).append(uri)
        return by_bits

    def with_bit(self, bit: int) -> LiveFiles:
        """What decides by folders, of the contents that one cut-off keeps."""
        own = {source for source, bits in self.sources.items() if bits & bit}

        def of_own(folders: Mapping[str, set[str]]) -> dict[str, set[str]]:
            return {folder: s & own for folder, s in folders.items() if s & own}

        owners = {source: self.owners[source] for source in sorted(own)}
        return LiveFiles(
            owners=owners,
            views=self.views & own,
            bases=of_own(self.bases),
            earlier=of_own(self.earlier),
        )


def read_kept_files(
    table_reader: TableReader,
    states: Mapping[DistinctContent, int],
    *,
    all_snapshots: bool = False,
    interest: Callable[[str], int] = lambda base: -1,
) -> KeptFiles:
    """Read the metadata and the manifest lists of these contents.

    `interest` tells of a base location, an earlier folder or a write path which cut-offs ask for the files of its snapshots.
    """
    found = KeptFiles()
    wanted: dict[str, dict[int, int]] = {}
    kinds: dict[str, ContentKind] = {}
    for state, bits in states.items():
        location = state.metadata_location
        kinds[location] = state.content_type
        if state.content_type is ContentKind.ICEBERG_VIEW:
            found.views.add(location)
        found.owners.setdefault(location, set()).add(state.content_id)
        _add(found.sources, location, bits)
        _add(wanted.setdefault(location, {}), state.snapshot_id, bits)
    with table_reader.phases.phase("metadata") as step:
        # A row tells its metadata file and not the snapshot, so each reading asks for one snapshot of a file.
        for number in range(max(map(len, wanted.values()), default=0)):
            bits_of = {at: list(s.items())[number] for at, s in wanted.items() if len(s) > number}
            items = [
                MetadataItem(location, kinds[location], (snapshot,), all_snapshots=all_snapshots)
                for location, (snapshot, _) in sorted(bits_of.items())
            ]
            rows = table_reader.read(items, read_metadata, NAMED_SCHEMA)
            _take_metadata(found, rows, {at: bits for at, (_, bits) in bits_of.items()}, interest)
        step.items = len(wanted)
        step.said = f"{len(wanted)} metadata files, {len(found.bases)} base locations"
    with table_reader.phases.phase("manifest lists") as step:
        lists = [(path, bits, found.totals.get(path)) for path, bits in sorted(found.lists.items())]
        for row in table_reader.read(lists, name_manifests, NAMED_SCHEMA):
            bits = found.lists[row["source"]]
            if row["kind"] == named.MANIFEST:
                _add(found.manifests, row["value"], bits)
                promised = Promised(row["count"], row["length"])
                known = found.promised.get(row["value"], Promised())
                found.promised[row["value"]] = promised.at_least(known)
            else:
                found.unreadable.append(_unreadable(row, named.MANIFEST_LIST, bits))
        found.unreadable += [
            UnreadableFile(uri, "statistics file", why, found.others[uri], is_missing=False)
            for uri, why in names_of_no_place(found.others).items()
        ]
        step.items = len(found.lists)
        step.said = f"{len(found.lists)} manifest lists, {len(found.manifests)} manifests"
    return found


def _take_metadata(
    found: KeptFiles,
    rows: Iterable[dict[str, Any]],
    bits_of: Mapping[str, int],
    interest: Callable[[str], int],
) -> None:
    rows = list(rows)
    interesting: dict[str, int] = {}
    for row in rows:
        if row["kind"] == named.BASE:
            found.bases.setdefault(row["value"], set()).add(row["source"])
        if row["kind"] in (named.BASE, named.EARLIER, named.WRITE_PATH):
            _add(interesting, row["source"], interest(row["value"]))
    for row in rows:
        source, kind, value = row["source"], row["kind"], row["value"]
        bits = bits_of[source]
        asked = bits & interesting.get(source, 0)
        match kind:
            case named.EARLIER:
                found.earlier.setdefault(value, set()).add(source)
            case named.MANIFEST_LIST if asked:
                _add(found.lists, value, asked)
                if row["count"] is not None:
                    found.totals[value] = max(row["count"], found.totals.get(value, 0))
            case named.MANIFEST if asked:
                _add(found.manifests, value, asked)
                found.promised.setdefault(value, Promised())
            case named.FILE:
                _add(found.others, value, bits)
            case named.PROBLEM | named.MISSING:
                found.unreadable.append(_unreadable(row, "metadata file", bits))


def name_manifests(
    stores: TableStores, items: Iterator[tuple[str, int, int | None]]
) -> Iterator[pa.RecordBatch]:
    """Work function: the manifests that lists name. One that an earlier list named for the same cut-offs is left out.

    An item is a list's path, its bits, and the files that its snapshot's summary promises.
    """
    bits_of: dict[str, int] = {}
    totals: dict[str, int | None] = {}
    for path, bits, total in items:
        bits_of[path], totals[path] = bits, total

    def rows() -> Iterator[Named]:
        seen: dict[str, int] = {}
        promises: dict[str, Promised] = {}
        for path, listed in read_whole_lists(stores, totals):
            if isinstance(listed, Unreadable):
                yield Named.unreadable(path, listed)
                continue
            for manifest, promised in zip(listed.paths, listed.promised, strict=True):
                new = bits_of[path] & ~seen.get(manifest, 0)
                if new or promises.get(manifest) != promised:
                    _add(seen, manifest, new)
                    promises[manifest] = promised
                    yield Named(path, named.MANIFEST, manifest, *promised)

    return in_batches(rows())


def _unreadable(row: Mapping[str, Any], what: str, bits: int) -> UnreadableFile:
    is_missing = row["kind"] == named.MISSING
    return UnreadableFile(row["source"], what, row["value"], bits, is_missing)


def _add(bits_of: dict[Any, int], key: object, bits: int) -> None:
    bits_of[key] = bits_of.get(key, 0) | bits
