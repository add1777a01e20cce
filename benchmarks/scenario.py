"""A lake by arithmetic: objects in slices, a history of commits with real range files, a staged list, known garbage.

With N objects: 69 % are read by the head of `main`, 1 % only by older commits that the rule retains, 25 % are staged,
2 % are held by an expired commit alone, 3 % by nothing. The history holds N / 1,000 ranges of 3,000 entries: those of
the head, and older versions of them that share most entries, as ranges of a real table do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from computed_keys import ComputedKeys
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, MetaRangeId
from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import commit_id
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.formats.range_writer import RangeWriter, WrittenRange
from lakesweep.formats.sstable import BreakRule, Records
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted
from lakesweep.formats.values import join_value

Indexes = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]

BUCKET = "lake"
ROOT = "bench/"
REPOSITORY = "bench"
NAMESPACE = f"s3://{BUCKET}/bench"
RETENTION_DAYS = 30
OBJECTS_PER_SLICE = 5_000
ENTRIES_PER_RANGE = 3_000
_COMMITS = 60
_STAGED_ROWS_PER_FILE = 100_000
# Odd and not a multiple of 5, so that multiplying by it is a permutation of any round number of objects.
_SPREAD = 611_953
_NEVER_BREAK = BreakRule(max_range_size_bytes=1 << 40, range_raggedness_entries=1 << 40)
_SMALLEST, _SIZES = 300_000_000, 600_000_000  # nine digits, and always five bytes as a varint


def size_of(indexes: Indexes) -> Indexes:
    """Sizes of objects, spread as those of real files are: few are equal."""
    mixed = indexes.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return _SMALLEST + ((mixed >> np.uint64(20)) % np.uint64(_SIZES)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class SizedKeys(ComputedKeys):
    """Computed keys whose objects have sizes of their own."""

    size_bytes: int = _SMALLEST

    def page_rows(self, indexes: Indexes) -> bytes:
        """The `<Contents>` of up to a thousand keys."""
        plain = super(SizedKeys, self).page_rows(indexes)
        if not len(indexes):
            return plain
        rows = np.frombuffer(plain, np.uint8).reshape(len(indexes), -1).copy()
        at = plain.index(b"<Size>") + len(b"<Size>")
        sizes = size_of(indexes)
        for place in range(9):
            rows[:, at + place] = ord("0") + (sizes // 10 ** (8 - place)) % 10
        return rows.tobytes()


@dataclass(frozen=True)
class Scenario:
    """What exists, and who holds it."""

    objects: int = 1_000_000
    now: datetime = field(default_factory=lambda: datetime.now(UTC).replace(microsecond=0))

    def __post_init__(self) -> None:
        if self.objects % 100_000:
            raise ValueError(f"a multiple of 100,000 objects, not {self.objects}")

    @cached_property
    def keys(self) -> SizedKeys:
        """The objects as the store lists them."""
        return SizedKeys(f"{ROOT}data/", self.objects // OBJECTS_PER_SLICE, OBJECTS_PER_SLICE)

    @cached_property
    def _spread(self) -> Indexes:
        """All objects in an order that mixes the slices; roles are handed out along it."""
        return np.arange(self.objects, dtype=np.int64) * _SPREAD % self.objects

    def _role(self, start: float, end: float) -> Indexes:
        return self._spread[round(start * self.objects) : round(end * self.objects)]

    @property
    def head(self) -> Indexes:
        """Objects that the head of main reads, in path order."""
        return self._role(0, 0.69)

    @property
    def superseded(self) -> Indexes:
        """Objects of retained commits that the head does not read any more."""
        return self._role(0.69, 0.70)

    @property
    def staged(self) -> Indexes:
        """Uncommitted objects."""
        return self._role(0.70, 0.95)

    @property
    def expired(self) -> Indexes:
        """Objects that only an expired commit holds."""
        return self._role(0.95, 0.97)

    @property
    def unreferenced(self) -> Indexes:
        """Objects that nothing holds."""
        return self._role(0.97, 1)

    @property
    def garbage(self) -> Indexes:
        """What a collection must find: no more, no less."""
        return self._role(0.95, 1)

    def address(self, index: int) -> str:
        """An object's address relative to the namespace."""
        return self.keys.key(int(index)).removeprefix(ROOT)

    def addresses(self, indexes: Indexes) -> Bytes:
        """Addresses of many objects, a row of bytes for each."""
        pages = [
            self.keys.page_rows(some) for some in np.array_split(indexes, len(indexes) // 1000 + 1)
        ]
        rows = np.frombuffer(b"".join(pages), np.uint8).reshape(len(indexes), -1)
        start = len("<Contents><Key>") + len(ROOT)
        return rows[:, start : start + len(self.address(0))]

    # -- the history

    @property
    def head_ranges(self) -> int:
        """How many ranges the head of main has."""
        return len(self.head) // ENTRIES_PER_RANGE

    @property
    def ranges(self) -> int:
        """How many ranges there are in all."""
        return self.objects // 1000

    @property
    def _expired_ranges(self) -> int:
        return len(self.expired) // 1000

    def entry(self, position: int, row: int) -> tuple[str, int]:
        """(path, object) of one entry at the head of main."""
        return path_of(position, row), int(self.head[position * ENTRIES_PER_RANGE + row])

    def versions(self) -> Iterator[tuple[int, Indexes]]:
        """(position in the key order, objects) of every range: the head's, then older ones, the expired last."""
        head = self.head.reshape(self.head_ranges, ENTRIES_PER_RANGE)
        yield from enumerate(head)
        retained = self.ranges - self.head_ranges - self._expired_ranges
        replaced = [
            *np.array_split(self.superseded, retained),
            *np.array_split(self.expired, self._expired_ranges),
        ]
        for number, old in enumerate(replaced):
            position = number % self.head_ranges
            version = head[position].copy()
            # Evenly through the range, so that no block is spared.
            version[np.linspace(0, ENTRIES_PER_RANGE - 1, len(old)).astype(np.int64)] = old
            yield position, version

    def build(self) -> Built:
        """Write the history: some 130 bytes an entry, in memory."""
        writer = _RangeFiles(self)
        files: dict[str, bytes] = {}
        versions: list[tuple[int, RangeInfo]] = []
        for position, objects in self.versions():
            written = writer.write(position, objects)
            files[f"_lakefs/{written.id}"] = written.data
            versions.append((position, RangeInfo.of(written)))
        commits = self._commits(versions, files)
        return Built(files, commits, [BranchHead(BranchId("main"), commits[0].id)])

    def _commits(
        self, versions: list[tuple[int, RangeInfo]], files: dict[str, bytes]
    ) -> list[Commit]:
        """Newest first. Each older commit has older versions of some ranges; the last one is expired."""
        current = [info for _, info in versions[: self.head_ranges]]
        older = versions[self.head_ranges :]
        retained = older[: len(older) - self._expired_ranges]
        steps = np.array_split(np.arange(len(retained)), _COMMITS)
        changes = [[], *([retained[i] for i in step] for step in steps), older[len(retained) :]]
        metaranges = []
        for change in changes:
            for position, info in change:
                current[position] = info
            metarange, data = write_metarange(current)
            files[f"_lakefs/{metarange}"] = data
            metaranges.append(metarange)
        commits: list[Commit] = []
        for age, metarange in reversed(list(enumerate(metaranges))):
            commits.append(self._commit(age, metarange, commits[-1] if commits else None))
        return commits[::-1]

    def _commit(self, age: int, metarange: MetaRangeId, parent: Commit | None) -> Commit:
        # All but the last two are younger than the rule; the last but one was the head when the rule's time began.
        days = age * (RETENTION_DAYS - 1) / _COMMITS + 2 * (age >= _COMMITS) + 20 * (age > _COMMITS)
        at = self.now - timedelta(days=days)
        parents = (parent.id,) if parent is not None else ()
        message = f"version {_COMMITS - age}"
        return Commit(
            id=CommitId(
                commit_id(
                    committer="bench",
                    message=message,
                    meta_range_id=metarange,
                    creation_date=at,
                    metadata={},
                    parents=parents,
                )
            ),
            committer="bench",
            message=message,
            creation_date=at,
            meta_range_id=metarange,
            parents=parents,
            generation=parent.generation + 1 if parent is not None else 1,
        )

    def staged_files(self) -> list[bytes]:
        """The server's list of uncommitted objects, in files of its size."""
        files = []
        for first in range(0, len(self.staged), _STAGED_ROWS_PER_FILE):
            some = self.staged[first : first + _STAGED_ROWS_PER_FILE]
            rows = self.addresses(some)
            addresses = pa.array(_texts(rows))
            dates = pa.array(np.full(len(some), 1_704_067_200, np.int64))
            files.append(write_uncommitted(pa.table([addresses, dates], UNCOMMITTED_SCHEMA)))
        return files


@dataclass(frozen=True, slots=True)
class Built:
    """Files of the history relative to the namespace, and what the refs say. Commits are newest first."""

    files: dict[str, bytes]
    commits: list[Commit]
    branches: list[BranchHead]

    def retained_csv(self) -> bytes:
        """The server's list of retained commits: all but the oldest."""
        rows = [f"{c.id},false,{c.meta_range_id}\n" for c in self.commits[:-1]]
        return "".join(["commit_id,expired,metarange_id\n", *rows]).encode()


def path_of(position: int, row: int) -> str:
    """The path of one entry; paths sort as their numbers do."""
    return f"tables/events/part-{position:05d}/{row:06d}.parquet"


def checksum_of(index: int) -> str:
    """An etag, equal for no two objects."""
    return f"{index:032x}"


class _RangeFiles:
    """Writes ranges from a template: every path and every value has one length, so rows are filled in by column."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        address, etag = scenario.address(0), checksum_of(0)
        written = datetime(2024, 1, 1, tzinfo=UTC)
        entry = Entry(address, written, int(size_of(np.array([0]))[0]), etag, content_type="binary")
        value = join_value(bytes(32), entry.encode())
        self._values = _columns([value] * ENTRIES_PER_RANGE)
        self._at_address = value.index(address.encode())
        self._at_size = value.index(b"\x18", self._at_address + len(address) + 6) + 1
        self._at_etag = value.index(etag.encode(), self._at_size)

    def write(self, position: int, objects: Indexes) -> WrittenRange:
        values = self._values.copy()
        self._put(values, 1, _digests(objects))
        self._put(values, self._at_address, self._scenario.addresses(objects))
        self._put(values, self._at_etag, _checksums(objects))
        sizes = size_of(objects)
        for place in range(5):
            more = 0x80 if place < 4 else 0
            values[:, self._at_size + place] = (sizes >> (7 * place)) & 0x7F | more
        names = _columns([path_of(position, row).encode() for row in range(len(objects))])
        records = Records(_offsets(names), names.reshape(-1), _offsets(values), values.reshape(-1))
        writer = RangeWriter(_NEVER_BREAK)
        if writer.add_records(records) != len(objects):
            raise RuntimeError("a range was cut before its end")
        return writer.finish()

    @staticmethod
    def _put(values: Bytes, at: int, column: Bytes) -> None:
        values[:, at : at + column.shape[1]] = column


def _texts(rows: Bytes) -> list[str]:
    return [bytes(row).decode() for row in np.ascontiguousarray(rows)]


def _columns(texts: list[bytes]) -> Bytes:
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)


def _offsets(rows: Bytes) -> Indexes:
    return np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]


def _checksums(objects: Indexes) -> Bytes:
    shifts = np.arange(124, -4, -4).clip(max=60)
    nibbles = (objects[:, None] >> shifts) & 15
    return np.frombuffer(b"0123456789abcdef", np.uint8)[nibbles]


def _digests(objects: Indexes) -> Bytes:
    """Identities that look like digests: nothing in them repeats."""
    words = objects.astype(np.uint64)[:, None] + np.arange(1, 5, dtype=np.uint64) * np.uint64(
        1 << 40
    )
    words = words * np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(29)
    words *= np.uint64(0x94D049BB133111EB)
    return words.view(np.uint8).reshape(len(objects), 32)
