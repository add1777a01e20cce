"""Judge files below base locations by all that the catalog holds, wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pyarrow as pa

from lakesweep.collector.judge.account import doubt
from lakesweep.collector.judge.candidates import CandidatePart
from lakesweep.collector.judge.columns import Judge
from lakesweep.collector.judge.meeting import (
    Canaries,
    CandidateSide,
    Judged,
    ReferenceSide,
    judge_all,
)
from lakesweep.collector.judge.references import CANARY, PROTECTING
from lakesweep.collector.nessie.manifest_hashes import PackIndex, load_index, save_index
from lakesweep.collector.nessie.places import Unreadable
from lakesweep.collector.nessie.protection import FolderIndex
from lakesweep.collector.nessie.references import (
    ManifestItem,
    NamedFiles,
    ReferenceItem,
    read_references,
)
from lakesweep.collector.nessie.rows import FileRows, read_candidates
from lakesweep.collector.nessie.table_reader import TableReader
from lakesweep.collector.target import Target
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.file_hashes import hash_files

# Opening a manifest takes as long as reading so many entries; one whose length nobody tells has about so many.
_COST_OF_A_FILE = 200
_ENTRIES_OF_A_MANIFEST = 1_000
_SECONDS_PER_MANIFEST = 3e-4
_SECONDS_PER_CANDIDATE = 1e-5  # from its place in a listing to its verdict
# Rows tell times in whole microseconds.
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class FilesJudged(Judged):
    """The verdicts on files, and what the manifests told besides."""

    @property
    def bad_manifests(self) -> dict[str, Unreadable]:
        """Manifests that could not be read (path → why). Where one must be readable, no verdict here may be used."""
        return {
            _path(row): Unreadable(row["problem"], bool(row["is_missing"]))
            for row in self.reference_counts
            # A dropped table's own missing manifests were collected or purged: what is left of it is known by name.
            if row["problem"] and not (row["is_missing"] and row["kind"] == PROTECTING)
        }

    @property
    def fuller_manifests(self) -> set[str]:
        """Manifests that hold more entries than their lists promise."""
        return {_path(row) for row in self.reference_counts if row["is_fuller"]}


def _path(row: dict[str, Any]) -> str:
    """The path of a manifest out of its name among the counts."""
    return str(row["item"]).split(":", 2)[2]


def file_judge(own_folder: Target, folder: str, newest: datetime) -> Judge:
    """The judge of files: what was modified at the time `newest`, or before it, may go."""
    return Judge(FileRows(), own_folder, folder, newest + _TICK, dates_are_final=True)


def judge_files(
    table_reader: TableReader,
    references: Sequence[ReferenceItem],
    parts: Sequence[CandidatePart],
    protection: FolderIndex,
    judge: Judge,
    kept_in: str,
    canaries: Sequence[str] = (),
) -> FilesJudged:
    """Run the anti-join over the whole catalog at once.

    Hashes of manifests that an earlier run kept in the folder `kept_in` are taken from there, and others are kept there.
    `canaries` are files that must come out as live.
    """
    target = judge.target
    references = with_packs(references, load_index(target.open(), kept_in))
    if canaries:
        references.append(NamedFiles("canaries", tuple(canaries), CANARY))
    left = ReferenceSide(
        references,
        lambda n: partial(read_references, table_reader.stores, target, n, kept_in),
        table_reader.most_tasks,
        [_entries(item) for item in references],
        [item.pack if isinstance(item, ManifestItem) else "" for item in references],
        _COST_OF_A_FILE,
        per_task=8,
        seconds_per_file=_SECONDS_PER_MANIFEST,
    )
    rows = sum(part.rows or 0 for part in parts)
    right = CandidateSide(
        parts,
        lambda n: partial(read_candidates, target, protection, n),
        rows,
        table_reader.most_tasks,
        seconds=rows * _SECONDS_PER_CANDIDATE,
    )
    judged = judge_all(
        table_reader.engine,
        left,
        right,
        judge,
        Canaries(canaries, _dead, lambda uris: hash_files(pa.array(uris, pa.string()))),
    )
    save_index(target.open(), kept_in, _new_packs(references, judged.reference_counts))
    return FilesJudged(**{name: getattr(judged, name) for name in Judged.__slots__})


def _dead(uri: str) -> UnsafeToSweepError:
    return doubt(f"{uri}, a metadata file of the live set, counts as garbage")


def with_packs(references: Sequence[ReferenceItem], packs: PackIndex) -> list[ReferenceItem]:
    """References of which the manifests are told where their hashes are kept."""
    return [
        replace(item, pack=packs.get((item.path, item.promised.length), ""))
        if isinstance(item, ManifestItem) and item.promised.length is not None
        else item
        for item in references
    ]


def _new_packs(references: Sequence[ReferenceItem], counts: Sequence[dict[str, Any]]) -> PackIndex:
    """Which pack holds each manifest whose hashes this meeting has read and kept."""
    packs = {row["item"]: row["pack"] for row in counts if row["pack"]}
    return {
        (item.path, item.promised.length): packs[item.name]
        for item in references
        if isinstance(item, ManifestItem)
        and item.promised.length is not None
        and packs.get(item.name, item.pack) != item.pack
    }


def _entries(item: ReferenceItem) -> int:
    match item:
        case ManifestItem():
            return item.promised.entries or _ENTRIES_OF_A_MANIFEST
        case NamedFiles():
            return len(item.uris)
    return _ENTRIES_OF_A_MANIFEST
