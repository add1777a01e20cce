"""Reading what was committed: metaranges and ranges are named by their content, so each is fetched once and kept."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from lakesweep.domain.commits import CommitId, MetaRangeId
from lakesweep.formats.entries import AddressType
from lakesweep.formats.metaranges import RangeInfo, read_metarange
from lakesweep.formats.ranges import open_range, read_range_addresses
from lakesweep.formats.sstable import Table
from lakesweep.lake.addresses.inside import inside
from lakesweep.lake.caches import SizedCache
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.context import LakeContext, partition_of
from lakesweep.lake.kv.interface import Row
from lakesweep.lake.values import Repository

_FOLDER = "_lakefs"
_RANGE_CACHE_BYTES = 256 * 1024 * 1024
_METARANGE_CACHE_BYTES = 32 * 1024 * 1024


class Committed:
    """Entries of commits, by path."""

    def __init__(self, context: LakeContext, commits: Commits) -> None:
        self._context = context
        self._commits = commits
        self._metaranges: SizedCache[Sequence[RangeInfo]] = SizedCache(_METARANGE_CACHE_BYTES)
        self._tables: SizedCache[Table] = SizedCache(_RANGE_CACHE_BYTES)

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

    def addresses(self, repository: Repository, info: RangeInfo) -> pa.StringArray:
        """The addresses in a range that lie in the repository's namespace, relative to it."""
        data = self._context.store(repository).read(metadata_key(info.id))
        read = read_range_addresses(data, expected_count=info.count)
        types = read.column("address_type").to_numpy(zero_copy_only=False)
        column = read.column("address")
        if (types == AddressType.RELATIVE).all():
            return column
        found = (
            inside(self._context, repository, address) if "://" in address else address
            for address in column.to_pylist()
        )
        return pa.array([address for address in found if address], pa.string())

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
