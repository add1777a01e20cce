"""Reading what was committed: metaranges and ranges are named by their content, so each is fetched once and kept."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.formats.metaranges import RangeInfo, read_metarange
from lakesweep.formats.ranges import open_range
from lakesweep.formats.sstable import Table
from lakesweep.lake.commits import Commits
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.values import Repository

T = TypeVar("T")

_FOLDER = "_lakefs"
_RANGE_CACHE_BYTES = 256 * 1024 * 1024
_METARANGE_CACHE_BYTES = 32 * 1024 * 1024


class Committed:
    """Entries of commits, by path."""

    def __init__(self, context: LakeContext, commits: Commits) -> None:
        self._context = context
        self._commits = commits
        self._metaranges: _Cache[Sequence[RangeInfo]] = _Cache(_METARANGE_CACHE_BYTES)
        self._tables: _Cache[Table] = _Cache(_RANGE_CACHE_BYTES)

    def metarange_of(self, repository: Repository, commit_id: CommitId) -> MetaRangeId:
        """The metarange of a commit; empty for a repository's first."""
        return self._commits.get(repository, commit_id).meta_range_id

    def ranges(self, repository: Repository, metarange_id: MetaRangeId) -> Sequence[RangeInfo]:
        """The ranges of a metarange in key order; none for the empty id."""
        if not metarange_id:
            return ()

        def read() -> tuple[Sequence[RangeInfo], int]:
            data = self._context.store(repository).read(metadata_key(metarange_id))
            return read_metarange(data), len(data)

        return self._metaranges.get((partition_of(repository), metarange_id), read)

    def table(self, repository: Repository, info: RangeInfo) -> Table:
        """The records of a range."""

        def read() -> tuple[Table, int]:
            data = self._context.store(repository).read(metadata_key(info.id))
            return open_range(data, expected_count=info.count), len(data)

        return self._tables.get((partition_of(repository), info.id), read)

    def find(self, repository: Repository, metarange_id: MetaRangeId, key: bytes) -> bytes | None:
        """The record at a path, or None."""
        ranges = self.ranges(repository, metarange_id)
        position = first_range_reaching(ranges, key)
        if position == len(ranges) or ranges[position].min_key > key:
            return None
        return self.table(repository, ranges[position]).get(key)

    def iterate(
        self, repository: Repository, metarange_id: MetaRangeId, start: bytes = b""
    ) -> Iterator[Row]:
        """Records from a path on (inclusive), in path order."""
        ranges = self.ranges(repository, metarange_id)
        for info in ranges[first_range_reaching(ranges, start) :]:
            yield from self.table(repository, info).iterate(start)


class _Cache(Generic[T]):
    """Values up to a total size, the least recently used leaving first. Readers of a missing value may both fetch it."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._values: OrderedDict[tuple[str, str], tuple[T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str], read: Callable[[], tuple[T, int]]) -> T:
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key][0]
        value, size = read()
        with self._lock:
            if key not in self._values:
                self._values[key] = (value, size)
                self._bytes += size
            while self._bytes > self._most_bytes and len(self._values) > 1:
                _, (_, dropped) = self._values.popitem(last=False)
                self._bytes -= dropped
        return value


def metadata_key(object_id: str) -> str:
    """Where a range or metarange lies in the namespace."""
    return f"{_FOLDER}/{object_id}"


def first_range_reaching(ranges: Sequence[RangeInfo], key: bytes) -> int:
    """The place of the first range that does not end before `key`."""
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        if ranges[middle].max_key < key:
            low = middle + 1
        else:
            high = middle
    return low
