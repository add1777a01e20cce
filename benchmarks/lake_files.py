"""The files of the scenario's history: ranges and metaranges as lakeFS writes them, one after the other on disk."""

from __future__ import annotations

import mmap
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import BinaryIO

import numpy as np

from lake_history import History
from lake_objects import ENTRIES_PER_RANGE, Bytes, Indexes, LakeObjects
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId, Tag, TagId
from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import commit_id
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.formats.range_writer import RangeWriter, WrittenRange
from lakesweep.formats.refs_dump import RefsDump
from lakesweep.formats.sstable import BreakRule, Records
from lakesweep.formats.values import join_value

_NEVER_BREAK = BreakRule(max_range_size_bytes=1 << 40, range_raggedness_entries=1 << 40)
_SLOT_DIGITS = 6


def branch_name(number: int) -> str:
    """`main`, and numbered ones."""
    return f"branch-{number:05d}" if number else "main"


def path_of(slot: int, row: int) -> str:
    """The path of one entry; paths sort as their numbers do."""
    return f"lake/part-{slot:06d}/{row:06d}.parquet"


class HistoryFiles:
    """Files by their keys relative to the namespace, mapped from one file on disk: those of two states share most."""

    def __init__(self, objects: LakeObjects) -> None:
        self._objects = objects
        self._writer = _RangeFiles(objects)
        self._disk: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this
        self._infos: dict[int, RangeInfo] = {}
        self._metaranges: list[MetaRangeId] = []
        self._commits: list[Commit] = []
        self.places: dict[str, tuple[int, int]] = {}

    def __enter__(self) -> HistoryFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._disk.close()

    def add(self, history: History) -> RefsDump:
        """Write what a history has more than those before it, and give its refs."""
        for version in range(len(self._infos), len(history.slots)):
            ranks = history.ranks(version, self._objects.head_slots)
            written = self._writer.write(history.slots[version], ranks)
            self._keep(f"_lakefs/{written.id}", written.data)
            self._infos[version] = RangeInfo.of(written)
        for number in range(len(self._commits), len(history.commits)):
            self._add_commit(history, number)
        branches = [
            BranchHead(BranchId(branch_name(branch)), self._commits[commit].id)
            for branch, commit in history.heads.items()
        ]
        tags = [Tag(TagId(tag), self._commits[c].id) for tag, c in history.tags.items()]
        commits = self._commits[: len(history.commits)]
        return RefsDump(commits, sorted(branches, key=lambda b: b.id), tags)

    def commits(self, numbers: Iterable[int]) -> list[Commit]:
        """Commits by their numbers in the history."""
        return [self._commits[number] for number in numbers]

    def mapped(self) -> dict[str, memoryview]:
        """All files. They stay valid when more are added."""
        self._disk.flush()
        whole = memoryview(mmap.mmap(self._disk.fileno(), 0, access=mmap.ACCESS_READ))
        return {key: whole[start:end] for key, (start, end) in self.places.items()}

    def _keep(self, key: str, data: bytes) -> None:
        if key not in self.places:
            start = self._disk.tell()
            self._disk.write(data)
            self.places[key] = (start, start + len(data))

    def _add_commit(self, history: History, number: int) -> None:
        plan = history.commits[number]
        metarange, data = write_metarange(self._infos[v] for v in plan.state.tolist())
        self._keep(f"_lakefs/{metarange}", data)
        parents = tuple(self._commits[c].id for c in (plan.parent, plan.other) if c >= 0)
        message = f"commit {number} on {branch_name(plan.branch)}"
        identity = commit_id(
            committer="bench",
            message=message,
            meta_range_id=metarange,
            creation_date=plan.at,
            metadata={},
            parents=parents,
        )
        generation = 1 + max(
            (self._commits[c].generation for c in (plan.parent, plan.other) if c >= 0), default=0
        )
        self._commits.append(
            Commit(
                id=CommitId(identity),
                committer="bench",
                message=message,
                creation_date=plan.at,
                meta_range_id=metarange,
                parents=parents,
                generation=generation,
            )
        )


class _RangeFiles:
    """Writes ranges from a template: every path and every value has one length, so rows are filled in by column."""

    def __init__(self, objects: LakeObjects) -> None:
        self._objects = objects
        address, etag = objects.address(0), "0" * 32
        written = datetime(2024, 1, 1, tzinfo=UTC)
        entry = Entry(address, written, (1 << 29) - 1, etag, content_type="binary")
        value = join_value(bytes(32), entry.encode())
        self._values = _columns([value] * ENTRIES_PER_RANGE)
        self._at_address = value.index(address.encode())
        self._at_size = value.index(b"\x18\xff\xff\xff\xff", self._at_address) + 1
        self._at_etag = value.index(etag.encode(), self._at_size)
        self._names = _columns([path_of(0, row).encode() for row in range(ENTRIES_PER_RANGE)])
        self._at_slot = path_of(0, 0).index("0" * _SLOT_DIGITS)

    def write(self, slot: int, ranks: Indexes) -> WrittenRange:
        objects, values, names = self._objects, self._values.copy(), self._names.copy()
        self._put(values, 1, _digests(ranks))
        self._put(values, self._at_address, objects.addresses(ranks))
        self._put(values, self._at_etag, self._checksums(ranks))
        sizes = objects.sizes(ranks)
        for place in range(5):
            # Small sizes are written as long as others, which protobuf allows.
            more = 0x80 if place < 4 else 0
            values[:, self._at_size + place] = (sizes >> (7 * place)) & 0x7F | more
        digits = np.frombuffer(f"{slot:0{_SLOT_DIGITS}d}".encode(), np.uint8)
        names[:, self._at_slot : self._at_slot + _SLOT_DIGITS] = digits
        records = Records(_offsets(names), names.reshape(-1), _offsets(values), values.reshape(-1))
        writer = RangeWriter(_NEVER_BREAK)
        if writer.add_records(records) != len(ranks):
            raise RuntimeError("a range was cut before its end")
        return writer.finish()

    def _checksums(self, ranks: Indexes) -> Bytes:
        shifts = np.arange(124, -4, -4).clip(max=60)
        nibbles = (ranks[:, None] >> shifts) & 15
        rows = np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]
        is_small = self._objects.is_small(ranks)
        if is_small.any():
            texts = self._objects.small_checksums(ranks[is_small])
            rows[is_small] = _columns([text.encode() for text in texts])
        return rows

    @staticmethod
    def _put(values: Bytes, at: int, column: Bytes) -> None:
        values[:, at : at + column.shape[1]] = column


def _columns(texts: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)


def _offsets(rows: Bytes) -> Indexes:
    return np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]


def _digests(ranks: Indexes) -> Bytes:
    """Identities that look like digests: nothing in them repeats."""
    words = ranks.astype(np.uint64)[:, None] + np.arange(1, 5, dtype=np.uint64) * np.uint64(1 << 40)
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(29)
    words *= np.uint64(0x94D049BB133111EB)
    return words.view(np.uint8).reshape(len(ranks), 32)
