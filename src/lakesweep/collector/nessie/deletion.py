"""Delete files of tables, wherever they lie, after a last look at the folder that protects each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from lakesweep.collector.ledger import deleting
from lakesweep.collector.ledger.deadline import Deadline
from lakesweep.collector.ledger.deleting import Outcome
from lakesweep.collector.nessie.collected import CollectedNames
from lakesweep.collector.nessie.listing import FILE_SCHEMA
from lakesweep.collector.nessie.places import TableStores, location_of, split_file
from lakesweep.collector.nessie.protection import OLD_ONLY, VIEW_ONLY, FolderIndex
from lakesweep.collector.parts import read_part
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.storage import (
    UNKNOWN_SIZE,
    DeleteOutcomes,
    DeleteStatus,
    ObjectInfo,
    ObjectStore,
)
from lakesweep.storage.parallel import ordered_parallel

# A busy disk makes each delete wait for its journal; those of other folders go on meanwhile.
_FOLDERS_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """Deletes files below base locations, and keeps the names of deleted metadata on record."""

    name_column: ClassVar[str] = "uri"
    # With its look at the file and its place in the ledger.
    seconds_per_row: ClassVar[float | None] = 1e-4

    stores: TableStores
    protection: FolderIndex
    collected: Target  # where the record of deleted metadata lies

    def why_not(self, name: str) -> str:
        """Only what lies in a base location, and in no folder of somebody else's, may go."""
        label = self.protection.label_of(name)
        return "" if label in (OLD_ONLY, VIEW_ONLY) else label

    def read(self, data: bytes, key: str) -> pa.Table:
        """The rows of a part of listed files."""
        return pa.Table.from_batches(read_part(data, FILE_SCHEMA, key), schema=FILE_SCHEMA)

    def delete(
        self, store: ObjectStore, rows: pa.Table, chunk: str, deadline: Deadline
    ) -> list[Outcome]:
        """Delete files that are what they were when listed. Names are on record before the first of them goes."""
        uris = rows.column("uri").to_pylist()
        collected = CollectedNames(self.collected.open(), chunk)
        collected.write(uris)
        outcomes = self._outcomes(rows, deadline)
        done = zip(uris, outcomes, strict=True)
        collected.write(uri for uri, (outcome, _) in done if outcome in deleting.DONE)
        return outcomes

    def _outcomes(self, rows: pa.Table, deadline: Deadline) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        by_folder: dict[Location, dict[int, ObjectInfo]] = {}
        uris, sizes, times, etags = (column.to_pylist() for column in rows.columns)
        # The last look at each file: whatever the plan says, nothing outside the base locations is deleted.
        names, modified = (rows.column(name).combine_chunks() for name in ("uri", "last_modified"))
        labels = self.protection.labels_of(names, modified).to_pylist()
        for number, (uri, label) in enumerate(zip(uris, labels, strict=True)):
            if label:
                outcomes[number] = (deleting.PROTECTED, label)
                continue
            folder, key = split_file(location_of(uri))
            size = UNKNOWN_SIZE if sizes[number] is None else sizes[number]
            listed = ObjectInfo(key, size, times[number], etags[number])
            by_folder.setdefault(folder, {})[number] = listed

        def delete_in(folder: Location) -> DeleteOutcomes:
            return self._delete_in(folder, list(by_folder[folder].values()), deadline)

        for folder, done in ordered_parallel(delete_in, by_folder, _FOLDERS_AT_ONCE):
            for number, outcome in zip(by_folder[folder], done, strict=True):
                outcomes[number] = (deleting.OUTCOME_OF[outcome.status], outcome.detail)
        return [outcomes[number] for number in range(len(uris))]

    def _delete_in(
        self, folder: Location, wanted: Sequence[ObjectInfo], deadline: Deadline
    ) -> DeleteOutcomes:
        store = self.stores.open_for_deletes(folder)
        done = store.delete_many(
            [listed.key for listed in wanted],
            seconds_left=deadline.seconds_left,
            # A file that was written anew under its name since is another file, and may be live.
            expected={listed.key: listed for listed in wanted},
        )
        if folder.kind == "local":
            _delete_checksums(store, [o.key for o in done if o.status is DeleteStatus.GONE])
        return done


def _delete_checksums(store: ObjectStore, keys: Sequence[str]) -> None:
    """The hidden `.name.crc` that Hadoop's local file system wrote beside a file goes with it, as Hadoop does it."""
    # One that is not there, or that stays, harms nobody: a listing never shows it.
    store.delete_many(
        [f"{folder}{slash}.{name}.crc" for folder, slash, name in (k.rpartition("/") for k in keys)]
    )
