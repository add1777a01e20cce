"""Files that were encoded before are not encoded again.

A schedule costs a millisecond, and most of it went into writing range and Parquet files that other schedules had written
byte by byte the same. These encoders are functions of their rows alone, so their results are remembered; what the
lake does with them, and in which order, is untouched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakesweep.collector.ledger import deleting
from lakesweep.domain.commits import MetaRangeId
from lakesweep.formats.metaranges import RangeInfo, read_metarange, write_metarange
from lakesweep.formats.range_writer import RangeWriter, WrittenRange
from lakesweep.formats.ranges import open_range
from lakesweep.formats.sstable import Records
from lakesweep.formats.tables import read_mark
from lakesweep.lake.collection import staged_scan, uncommitted_list
from lakesweep.lake.collection.staged_scan import scan_staged_values
from lakesweep.lake.collection.uncommitted_file import UncommittedFile
from lakesweep.lake.commits import commit_records, committed, metarange_writer
from lakesweep.lake.hard_delete import references
from lakesweep.lake.kv.interface import Row

_MOST = 20_000
# One row on each page: a collection or a review that passes a staging area can be overtaken between any two entries.
_PAGE_ROWS = 1


@contextmanager
def remembered_files() -> Iterator[None]:
    """Within, range and Parquet files are encoded and decoded once; lists of staged entries have pages of one row."""
    with ExitStack() as stack:
        for module, name, quick in (
            (metarange_writer, "Records", _Rows),
            (metarange_writer, "RangeWriter", _Range),
            (metarange_writer, "write_metarange", _write_metarange),
            (committed, "read_metarange", lru_cache(_MOST)(read_metarange)),
            (committed, "open_range", lru_cache(_MOST)(open_range)),
            (commit_records, "_decode", lru_cache(_MOST)(commit_records._decode)),
            (deleting, "read_mark", lru_cache(_MOST)(read_mark)),
            (uncommitted_list, "UncommittedFile", _File),
            (uncommitted_list, "scan_staged_values", _scan_staged_values),
            (uncommitted_list, "_SCAN_ROWS", _PAGE_ROWS),
            (staged_scan, "scan_staged_values", _scan_staged_values),
            (staged_scan, "common_addresses", _common_addresses),
            (staged_scan, "_SCAN_ROWS", _PAGE_ROWS),
            (references, "common_addresses", _common_addresses),
        ):
            stack.enter_context(patch.object(module, name, quick))
        yield


class _Rows(list[Row]):
    @classmethod
    def from_pairs(cls, pairs: Iterable[Row]) -> _Rows:
        return cls(pairs)


class _Range:
    """A range whose rows are encoded when it is finished, if nobody has done so."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add_records(self, rows: _Rows, first: int) -> int:
        self._rows += rows[first:]
        return len(rows)

    def should_break(self) -> bool:
        return False

    def finish(self) -> WrittenRange:
        return _write_range(tuple(self._rows))


@lru_cache(_MOST)
def _write_range(rows: tuple[Row, ...]) -> WrittenRange:
    writer = RangeWriter()
    writer.add_records(Records.from_pairs(rows))
    return writer.finish()


def _write_metarange(ranges: Sequence[RangeInfo]) -> tuple[MetaRangeId, bytes]:
    return _write_ranges(tuple(ranges))


@lru_cache(_MOST)
def _write_ranges(ranges: tuple[RangeInfo, ...]) -> tuple[MetaRangeId, bytes]:
    return write_metarange(ranges)


class _Scanned:
    """What was read of some staged values, as plain values."""

    def __init__(self, values: tuple[bytes, ...]) -> None:
        scanned = scan_staged_values(values)
        self.addresses = scanned.addresses.to_pylist()
        self.seconds = scanned.seconds.tolist()
        self.other_positions = scanned.other_positions


@lru_cache(_MOST)
def _scan_once(values: tuple[bytes, ...]) -> _Scanned:
    return _Scanned(values)


def _scan_staged_values(values: Sequence[bytes]) -> _Scanned:
    return _scan_once(tuple(values))


def _common_addresses(addresses: list[str] | pa.StringArray, wanted: Collection[str]) -> list[str]:
    plain = addresses if isinstance(addresses, list) else addresses.to_pylist()
    return [address for address in plain if address in wanted]


class _File(UncommittedFile):
    """A list whose rows are encoded when it is finished, if nobody has done so."""

    def add_columns(self, addresses: pa.StringArray, seconds: npt.NDArray[np.int64]) -> None:
        self.rows += len(addresses)
        self._addresses += addresses
        self._seconds += seconds

    def finish(self) -> bytes:
        return _encode_file(tuple(self._addresses), tuple(self._seconds))


@lru_cache(_MOST)
def _encode_file(addresses: tuple[str, ...], seconds: tuple[int, ...]) -> bytes:
    file = UncommittedFile(1)
    file._addresses, file._seconds = list(addresses), list(seconds)
    return file.finish()
