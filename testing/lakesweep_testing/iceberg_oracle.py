"""What a sweep should delete: files by pyiceberg's own reading of metadata and manifests, set algebra, nothing of ours."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import ManifestFile
from pyiceberg.serializers import FromInputFile
from pyiceberg.table import StaticTable
from pyiceberg.table.snapshots import Snapshot

from lakesweep_testing.nessie_walk import LiveStates, State
from lakesweep_testing.table_places import Times, plain

__all__ = ["IcebergOracle"]

_METADATA_FILE = re.compile(r"(.*)/metadata/[^/]*\.metadata\.json(?:\.gz)?")


class IcebergOracle:
    """Reads each metadata file and each manifest once. `files` lists what lies below a folder.

    `gone` are plain names that earlier sweeps deleted: what those files named nobody can tell any more.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        files: Callable[[str], Times],
        gone: Collection[str] = (),
    ) -> None:
        self._properties = dict(properties)
        self._files = files
        self._gone = gone
        self._ios: dict[str, FileIO] = {}
        self._tables: dict[str, StaticTable] = {}
        self._entries: dict[str, set[str]] = {}

    def garbage(
        self, live: LiveStates, *, not_after: datetime | None = None, all_snapshots: bool = False
    ) -> set[str]:
        """Files below a live base location that no live state needs, written up to a time; dropped tables keep theirs."""
        needed = self.needed(live.states, all_snapshots=all_snapshots)
        return self.garbage_but_for(live, needed, not_after=not_after)

    def garbage_but_for(
        self, live: LiveStates, needed: set[str], *, not_after: datetime | None = None
    ) -> set[str]:
        """Files below a live base location that are not among those `needed`, which somebody else has worked out."""
        of_dropped = self.needed(live.dropped.values(), all_snapshots=True)
        listed = self.listed(live)
        is_swept = self._claims(live, listed)
        return {
            name
            for name, modified_at in listed.items()
            if name not in needed
            and name not in of_dropped
            and (not_after is None or modified_at <= not_after)
            and is_swept[_innermost(name, is_swept)]
        }

    def garbage_at_most(self, live: LiveStates, *, not_after: datetime | None = None) -> set[str]:
        """What a sweep that collects dropped tables may delete: the same without their protection, wherever they lie."""
        needed = self.needed(live.states)
        listed, claims = self.listed(live), self._claims(live, self.listed(live))
        for state in live.dropped.values():
            folder = _table_folder(state.metadata_location)
            listed |= self._files(folder)
            claims[folder] = True
        return {
            name
            for name, modified_at in listed.items()
            if name not in needed
            and (not_after is None or modified_at <= not_after)
            and claims[_innermost(name, claims)]
        }

    def needed(self, states: Iterable[State], *, all_snapshots: bool = False) -> set[str]:
        """The files that readers of these states open, and statistics."""
        return {plain(path) for state in states for path in self._files_of(state, all_snapshots)}

    def listed(self, live: LiveStates) -> Times:
        """All that lies below the base locations of live tables and views."""
        found: Times = {}
        for base in {self.location(state) for state in self._readable(live.states)}:
            found |= self._files(base)
        return found

    def location(self, state: State) -> str:
        """A table's or view's base location; a view has nothing but metadata."""
        if state.kind == "ICEBERG_VIEW":
            return plain(f"{self._json(state.metadata_location)['location']}/metadata")
        return plain(self.table(state).location())

    def table(self, state: State) -> StaticTable:
        """The table, for pyiceberg to read."""
        at = state.metadata_location
        if at not in self._tables:
            # As StaticTable.from_metadata does it, but with one connection for all of them.
            io = self._io(at)
            metadata = FromInputFile.table_metadata(io.new_input(at))
            self._tables[at] = StaticTable(("static", at), metadata, at, io, NoopCatalog("static"))
        return self._tables[at]

    def _claims(self, live: LiveStates, listed: Iterable[str]) -> dict[str, bool]:
        """Folders that belong to somebody, and whether what they hold may be swept: only live tables' own."""
        bases = {self.location(state) for state in self._readable(live.states)}
        dropped = {_table_folder(state.metadata_location) for state in live.dropped.values()}
        dropped |= {self.location(state) for state in self._readable(live.dropped.values())}
        # Where a table keeps or kept its metadata is known, and no claim by itself.
        known = {_table_folder(state.metadata_location) for state in live.states}
        for state in self._readable(live.states):
            if state.kind == "ICEBERG_TABLE":
                log = self.table(state).metadata.metadata_log
                known |= {_table_folder(earlier.metadata_file) for earlier in log}
        found = {match[1] for match in map(_METADATA_FILE.fullmatch, listed) if match}
        claims = dict.fromkeys(found - known, False) | dict.fromkeys(dropped, False)
        return claims | dict.fromkeys(bases, True)

    def _files_of(self, state: State, all_snapshots: bool) -> Iterator[str]:
        yield state.metadata_location
        if state.kind == "ICEBERG_VIEW" or self._is_gone(state.metadata_location):
            return
        table = self.table(state)
        for snapshot in self._snapshots(table, state.snapshot_id, all_snapshots):
            yield snapshot.manifest_list
            if self._is_gone(snapshot.manifest_list):
                continue
            for manifest in snapshot.manifests(table.io):
                yield manifest.manifest_path
                if not self._is_gone(manifest.manifest_path):
                    yield from self._live_entries(manifest, table.io)
        for found in (*table.metadata.statistics, *table.metadata.partition_statistics):
            yield found.statistics_path

    def _is_gone(self, path: str) -> bool:
        return plain(path) in self._gone

    def _readable(self, states: Iterable[State]) -> list[State]:
        return [state for state in states if not self._is_gone(state.metadata_location)]

    @staticmethod
    def _snapshots(table: StaticTable, snapshot_id: int, all_snapshots: bool) -> list[Snapshot]:
        current = table.metadata.current_snapshot_id
        wanted = {current if snapshot_id < 0 else snapshot_id, current} - {None}
        listed = table.metadata.snapshots
        named = [one for one in listed if one.snapshot_id in wanted]
        by_name = {ref.snapshot_id for ref in table.metadata.refs.values()}
        if all_snapshots or not named:
            return list(listed)
        return [one for one in listed if one.snapshot_id in wanted | by_name]

    def _live_entries(self, manifest: ManifestFile, io: FileIO) -> set[str]:
        path = manifest.manifest_path
        if path not in self._entries:
            entries = manifest.fetch_manifest_entry(io, discard_deleted=True)
            self._entries[path] = {entry.data_file.file_path for entry in entries}
        return self._entries[path]

    def _io(self, path: str) -> FileIO:
        scheme = path.partition(":")[0]
        if scheme not in self._ios:
            self._ios[scheme] = load_file_io(self._properties, path)
        return self._ios[scheme]

    def _json(self, path: str) -> dict[str, Any]:
        with self._io(path).new_input(path).open() as file:
            data = file.read()
        found: dict[str, Any] = json.loads(
            gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        )
        return found


def _table_folder(metadata_location: str) -> str:
    return plain(metadata_location).rpartition("/")[0].removesuffix("/metadata")


def _innermost(name: str, folders: Mapping[str, object]) -> str:
    """The innermost of these folders that a file lies in; it lies in one, since a base was listed to find it."""
    while name not in folders:
        name = name.rpartition("/")[0]
    return name
