"""Delete a chunk of authorised files, wherever they lie: intent first, then one outcome for each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from lakesweep.domain.location import Location
from lakesweep.runs.nessie.work.listing import FILE_SCHEMA
from lakesweep.runs.nessie.work.places import Lake, location_of, split_file
from lakesweep.runs.nessie.work.protection import FolderIndex
from lakesweep.runs.work import deleting
from lakesweep.runs.work.deleting import Chunk, LedgerFolders
from lakesweep.runs.work.parts import read_part
from lakesweep.runs.work.target import Target, own_name
from lakesweep.storage import ObjectStore

# A listing tells milliseconds, a look-up whole seconds.
_SAME_TIME = timedelta(seconds=1)

Outcome = tuple[str, str]


@dataclass(frozen=True, slots=True)
class FileDeletion:
    """What a delete needs to know besides the chunk."""

    lake: Lake
    work: Target
    folders: LedgerFolders
    protection: FolderIndex
    must_be_unchanged: bool = (
        False  # for lists made long ago: a file written anew since is another file
    )

    def __call__(self, chunks: Iterator[Chunk]) -> Iterator[pa.RecordBatch]:
        """Work function: deletes, writes the ledger, returns counts by outcome."""
        for chunk in chunks:
            yield self._delete_chunk(chunk)

    def _delete_chunk(self, chunk: Chunk) -> pa.RecordBatch:
        if _now() >= chunk.not_after:
            return deleting.outcome_counts(chunk, {deleting.NOT_TRIED: (chunk.rows, 0, "")})
        store = self.work.open()
        part = pa.Table.from_batches(
            read_part(store.read(chunk.part), FILE_SCHEMA, chunk.part), schema=FILE_SCHEMA
        )
        rows = part.slice(chunk.start, chunk.rows)
        intent = {"part": chunk.part, "start": chunk.start, "rows": rows.num_rows}
        store.write(
            own_name(self.folders.ledger, chunk.name, ".intent.json"), json.dumps(intent).encode()
        )
        uris = rows.column("uri").to_pylist()
        sizes = [size or 0 for size in rows.column("size_bytes").to_pylist()]
        outcomes = self._outcomes(uris, rows.column("last_modified").to_pylist(), chunk.not_after)
        deleting.write_outcomes(store, self.folders, chunk, uris, sizes, outcomes)
        return deleting.outcome_counts(chunk, deleting.add_up(uris, sizes, outcomes))

    def _outcomes(
        self, uris: Sequence[str], modified: Sequence[datetime | None], not_after: datetime
    ) -> list[Outcome]:
        outcomes: dict[int, Outcome] = {}
        by_folder: dict[Location, list[tuple[int, str]]] = {}
        # The last look at each file: whatever the plan says, nothing outside the base locations is deleted.
        words = self.protection.words_for(pa.array(uris, pa.string())).to_pylist()
        for number, (uri, word) in enumerate(zip(uris, words, strict=True)):
            if word:
                outcomes[number] = (deleting.PROTECTED, word)
                continue
            folder, key = split_file(location_of(uri))
            by_folder.setdefault(folder, []).append((number, key))
        for folder, wanted in by_folder.items():
            if _now() >= not_after:
                outcomes |= {n: (deleting.NOT_TRIED, "authorisation ran out") for n, _ in wanted}
                continue
            store = self.lake.open(folder)
            if self.must_be_unchanged:
                wanted = _unchanged(store, wanted, modified, outcomes)
            for (number, _), done in zip(
                wanted, store.delete_many([key for _, key in wanted]), strict=True
            ):
                outcomes[number] = (deleting.OUTCOME_OF[done.status], done.detail or "")
            if folder.kind == "local":
                _delete_checksums(
                    store, [key for n, key in wanted if outcomes[n][0] == deleting.DELETED]
                )
        return [outcomes[number] for number in range(len(uris))]


def _unchanged(
    store: ObjectStore,
    wanted: Sequence[tuple[int, str]],
    modified: Sequence[datetime | None],
    outcomes: dict[int, Outcome],
) -> list[tuple[int, str]]:
    """Those that are the files they were when they were listed; the others get their outcome."""
    left = []
    for (number, key), (_, info) in zip(
        wanted, store.stat_many([key for _, key in wanted]), strict=True
    ):
        listed_at = modified[number]
        if info is None:
            outcomes[number] = (deleting.ALREADY_GONE, "")
        elif (
            listed_at is None
            or info.last_modified is None
            or info.last_modified > listed_at + _SAME_TIME
        ):
            outcomes[number] = (deleting.PROTECTED, "written again since it was recorded")
        else:
            left.append((number, key))
    return left


def _delete_checksums(store: ObjectStore, keys: Sequence[str]) -> None:
    """The hidden `.name.crc` that Hadoop's local file system wrote beside a file goes with it, as Hadoop does it."""
    beside = [
        f"{folder}{slash}.{name}.crc" for folder, slash, name in (k.rpartition("/") for k in keys)
    ]
    there = [key for key, info in store.stat_many(beside) if info is not None]
    if there:
        store.delete_many(there)  # one that stays harms nobody: a listing never shows it


def _now() -> datetime:
    return datetime.now(UTC)
