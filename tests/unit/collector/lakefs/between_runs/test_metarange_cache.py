"""Remembered metaranges: what is not as we wrote it, or contradicts what was read, is never believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.catalogs.lakefs.metarange_table import MetarangeTable
from lakesweep.catalogs.lakefs.ranges import committed_key
from lakesweep.collector.lakefs import range_counts
from lakesweep.collector.lakefs.between_runs import metarange_cache
from lakesweep.collector.lakefs.between_runs.metarange_cache import (
    load_metaranges,
    read_table,
    write_table,
)
from lakesweep.collector.lakefs.paths import METARANGE_CACHE
from lakesweep.collector.lakefs.range_counts import count_ranges
from lakesweep.collector.phases import Phases
from lakesweep.collector.resources import Resources, utc_now
from lakesweep.collector.target import Target
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.domain.location import Location
from lakesweep.errors import ObjectNotFoundError, UnsafeToSweepError
from lakesweep.formats.commit_columns import texts
from lakesweep.formats.metaranges import RangeCounts, RangeInfo, write_metarange
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

NAMESPACE = Location.parse("s3://bucket/ns")
TABLE = MetarangeTable.of_metaranges(
    ["a" * 64, "b" * 64],
    [
        RangeCounts(np.array([b"1" * 64, b"2" * 64]), np.array([10, 20])),
        RangeCounts(np.array([b"2" * 64, b"3" * 64]), np.array([20, 30])),
    ],
)


def range_id(number: int) -> RangeId:
    return RangeId(f"{number:064x}")


def counts(*numbers: int) -> dict[RangeId, int]:
    """Ranges by number: range n has n + 1 entries."""
    return {range_id(number): number + 1 for number in numbers}


class Lake:
    """A store with metaranges, and counts of their ranges."""

    def __init__(self, folder: Path) -> None:
        target = Target(Location.parse(f"file://{folder}"), StorageOptions())
        self.resources = Resources(target, InProcessEngine(), Phases("repo"), utc_now)
        self.store = self.resources.store

    def put(self, *numbers: int) -> MetaRangeId:
        """A metarange of ranges by number."""
        metarange, data = write_metarange(
            RangeInfo(range_id(n), b"%04d" % n, b"%04d" % n, n + 1, 100) for n in numbers
        )
        self.store.write(committed_key(metarange), data)
        return metarange

    def lose(self, *metaranges: MetaRangeId) -> None:
        """From now on whoever reads them fails."""
        self.store.delete_many([committed_key(metarange) for metarange in metaranges])

    def count(self, *groups: list[MetaRangeId]) -> list[dict[RangeId, int]]:
        return count_ranges(self.resources, *map(texts, groups), is_remembered=True)

    @property
    def files(self) -> list[str]:
        return list(self.store.keys(METARANGE_CACHE))

    def leave(self, held: dict[MetaRangeId, dict[RangeId, int]]) -> str:
        """A file as an earlier run would have left it, of metaranges that hold this."""
        parts = [
            RangeCounts(texts(ranges), np.array(list(ranges.values()), np.int64))
            for ranges in held.values()
        ]
        key = f"{METARANGE_CACHE}known-{len(self.files)}.arrow"
        table = MetarangeTable.of_metaranges(list(held), parts)
        self.store.write(key, write_table(table, self.store.root))
        return key


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
def test_a_metarange_is_read_once(lake: Lake, monkeypatch, most_on_driver: int) -> None:
    """By the driver or by tasks; a later count reads only what is new, and each group has its own ranges."""
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", most_on_driver)
    monkeypatch.setattr(range_counts, "METARANGES_PER_TASK", 2)
    metaranges = [lake.put(n, n + 1, n + 2) for n in range(9)]
    first = lake.count([MetaRangeId(""), *metaranges[:6]], metaranges[6:])
    assert first == [counts(*range(8)), counts(*range(6, 11))]
    lake.lose(*metaranges)
    assert lake.count([MetaRangeId(""), *metaranges[:6]], metaranges[6:]) == first
    assert len(lake.files) == 1
    new = lake.put(2, 77)
    found = lake.count([metaranges[8], new], metaranges[:1])
    assert found == [counts(8, 9, 10, 2, 77), counts(0, 1, 2)]
    assert len(lake.files) == 2
    lake.lose(new)
    assert lake.count([new, metaranges[3]]) == [counts(2, 77, 3, 4, 5)]


def test_nothing_is_kept_unless_asked_for(lake: Lake) -> None:
    """Later rounds of a sweep leave nothing."""
    assert count_ranges(lake.resources, texts([lake.put(1)])) == [counts(1)]
    assert not lake.files


def test_a_metarange_without_ranges_is_remembered_too(lake: Lake) -> None:
    """A commit that deletes everything has one."""
    empty, other = lake.put(), lake.put(1)
    lake.count([empty, other])
    lake.lose(empty, other)
    assert lake.count([empty], [other]) == [{}, counts(1)]


def test_an_unknown_metarange_that_is_missing_is_refused(lake: Lake) -> None:
    """However many others are known."""
    known = [lake.put(n) for n in range(5)]
    lake.count(known)
    with pytest.raises(UnsafeToSweepError, match="missing"):
        lake.count([*known, MetaRangeId("0" * 64)])


@given(st.data())
def test_a_damaged_file_gives_the_true_table_or_none(data: st.DataObject) -> None:
    """Any flipped byte or cut: no metarange can lose a range."""
    file = bytearray(write_table(TABLE, NAMESPACE))
    at = data.draw(st.integers(0, len(file) - 1))
    if data.draw(st.booleans()):
        file[at] ^= data.draw(st.integers(1, 255))
    else:
        del file[at:]
    assert read_table(bytes(file), NAMESPACE) is None


def test_a_file_gives_back_its_table() -> None:
    """In the same order."""
    found = read_table(write_table(TABLE, NAMESPACE), NAMESPACE)
    assert found is not None
    assert found.as_row() == TABLE.as_row()


def test_a_file_of_another_namespace_is_passed_over() -> None:
    """It was copied here with other files."""
    assert read_table(write_table(TABLE, NAMESPACE), Location.parse("s3://bucket/other")) is None


def test_a_file_of_another_version_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns may mean something else."""
    file = write_table(TABLE, NAMESPACE)
    monkeypatch.setattr(metarange_cache, "CACHE_VERSION", "lakesweep.metaranges/2")
    assert read_table(file, NAMESPACE) is None


def test_a_damaged_file_is_replaced(lake: Lake) -> None:
    """Its metaranges are read; what other files hold is kept."""
    metaranges = [lake.put(n, n + 1) for n in range(4)]
    lake.count(metaranges[:2])
    (damaged,) = lake.files
    lake.count(metaranges[2:])
    lake.store.write(damaged, lake.store.read(damaged)[:-1])
    lake.lose(*metaranges[2:])
    assert lake.count(metaranges) == [counts(*range(5))]
    assert len(lake.files) == 1
    lake.lose(*metaranges[:2])
    assert lake.count(metaranges) == [counts(*range(5))]


def test_a_file_that_is_lost_only_costs_reading(lake: Lake, monkeypatch) -> None:
    """It is listed, and gone when it is read."""
    metaranges = [lake.put(n) for n in range(4)]
    for metarange in metaranges:
        lake.count([metarange])
    lost, plain = sorted(lake.files)[2], ObjectStore.read

    def read(store: ObjectStore, key: str) -> bytes:
        if key == lost:
            raise ObjectNotFoundError(f"{key} is gone")
        return plain(store, key)

    monkeypatch.setattr(ObjectStore, "read", read)
    assert lake.count(metaranges) == [counts(*range(4))]


def test_what_contradicts_a_metarange_is_not_believed(lake: Lake) -> None:
    """Where one count is wrong, nothing of what was remembered counts, in either group."""
    live, expired, new = lake.put(1, 2), lake.put(3), lake.put(3, 4)
    # Without range 2, and with a range 3 that `new` contradicts.
    file = lake.leave({live: counts(1), expired: {range_id(3): 99}})
    assert lake.count([live], [expired, new]) == [counts(1, 2), counts(3, 4)]
    assert file not in lake.files
    lake.lose(live, expired, new)
    assert lake.count([live], [expired, new]) == [counts(1, 2), counts(3, 4)]


@pytest.mark.parametrize("order", [1, -1])
def test_files_that_contradict_each_other_are_not_believed(lake: Lake, order: int) -> None:
    """Nobody knows which of them is right, and in what else one is wrong."""
    one, two, three, new = lake.put(1, 2), lake.put(3), lake.put(3, 4), lake.put(5)
    # The second is right about range 3, and lacks range 2.
    held = [{two: {range_id(3): 99}}, {one: counts(1), three: counts(3, 4)}]
    files = {lake.leave(metaranges) for metaranges in held[::order]}
    assert lake.count([one, two, three, new]) == [counts(1, 2, 3, 4, 5)]
    assert not files & set(lake.files)


def test_metaranges_that_contradict_each_other_are_refused(lake: Lake) -> None:
    """Also where one of them was remembered: all are read, and one of the files is damaged."""
    one = lake.put(1, 2)
    lake.count([one])
    metarange, data = write_metarange([RangeInfo(range_id(2), b"2", b"2", 99, 100)])
    lake.store.write(committed_key(metarange), data)
    with pytest.raises(UnsafeToSweepError, match="another says") as caught:
        lake.count([one, metarange])
    assert caught.value.kind == "range-counts-differ"


@pytest.mark.parametrize("most_on_driver", [0, 1_000])
@pytest.mark.parametrize("most_pairs", [0, 5, 13])
def test_what_exceeds_the_limit_is_read_each_time(
    lake: Lake, monkeypatch, most_on_driver: int, most_pairs: int
) -> None:
    """As many are remembered as fit into the driver's memory; ranges of the others are not missed."""
    monkeypatch.setattr(metarange_cache, "MOST_PAIRS", most_pairs)
    monkeypatch.setattr(range_counts, "MOST_ON_DRIVER", most_on_driver)
    monkeypatch.setattr(range_counts, "METARANGES_PER_TASK", 3)
    metaranges = [lake.put(n, n + 1) for n in range(12)]
    for _ in range(3):
        assert lake.count(metaranges[:9], metaranges[9:]) == [
            counts(*range(10)),
            counts(*range(9, 13)),
        ]
    tables = [read_table(lake.store.read(key), lake.store.root) for key in lake.files]
    pairs = sum(len(table.places) for table in tables if table is not None)
    assert pairs <= most_pairs
    assert bool(pairs) == bool(most_pairs)


def test_no_more_than_the_limit_is_loaded(lake: Lake, monkeypatch) -> None:
    """Files of runs that asked for other metaranges may have more together."""
    metaranges = [lake.put(n, n + 1) for n in range(4)]
    for metarange in metaranges:
        lake.count([metarange])
    monkeypatch.setattr(metarange_cache, "MOST_PAIRS", 5)
    known = load_metaranges(lake.store, texts(metaranges))
    assert len(known.table.metaranges) == 2
    assert lake.count(metaranges) == [counts(*range(5))]


def test_many_files_become_one_without_what_nobody_asks_for(lake: Lake, monkeypatch) -> None:
    """Metaranges of commits that are gone would be carried along for ever."""
    monkeypatch.setattr(metarange_cache, "_MOST_FILES", 3)
    metaranges = [lake.put(n) for n in range(5)]
    for metarange in metaranges[:4]:
        lake.count([metarange])
    assert len(lake.files) == 4
    lake.lose(*metaranges[:4])
    assert lake.count(metaranges[1:]) == [counts(1, 2, 3, 4)]
    (file,) = lake.files
    table = read_table(lake.store.read(file), lake.store.root)
    assert table is not None
    assert sorted(table.metaranges) == sorted(texts(metaranges[1:]))


def test_a_metarange_in_two_files_is_told_once(lake: Lake) -> None:
    """A run was killed after it had written the file that replaces others."""
    one, two = lake.put(1, 2), lake.put(2, 3)
    lake.leave({one: counts(1, 2)})
    lake.leave({one: counts(1, 2), two: counts(2, 3)})
    lake.lose(one, two)
    known = load_metaranges(lake.store, texts([one, two]))
    assert len(known.table.metaranges) == 2
    assert lake.count([one], [two]) == [counts(1, 2), counts(2, 3)]


def test_ids_that_are_longer_than_those_of_lakefs_are_read_each_time(lake: Lake) -> None:
    """Cut to the length of others, two of them could be one."""
    long = [MetaRangeId("e" * 64 + end) for end in "12"]
    for number, name in enumerate(long):
        made = lake.put(number)
        lake.store.write(committed_key(name), lake.store.read(committed_key(made)))
    lake.leave({MetaRangeId("e" * 64): counts(7)})
    before = lake.files
    for _ in range(2):
        assert lake.count(long) == [counts(0, 1)]
    assert lake.files == before
