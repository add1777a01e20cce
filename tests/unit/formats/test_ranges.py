"""Ranges and metaranges, written and read back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.hashing import hash_address
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.metaranges import RangeInfo, read_metarange, write_metarange
from lakesweep.formats.proto import bytes_field, int_field, text_field
from lakesweep.formats.range_writer import RangeWriter, write_range_batches, write_ranges
from lakesweep.formats.ranges import (
    ADDRESSES_SCHEMA,
    open_range,
    read_range_addresses,
    read_range_hashes,
    read_range_records,
)
from lakesweep.formats.sstable import BreakRule, Records
from lakesweep.formats.values import join_value
from lakesweep_testing.one_by_one import read_range_entries

AT = datetime(2026, 7, 1, 12, 0, 0, 123456, UTC)


def record(path: str, entry: Entry) -> tuple[bytes, bytes]:
    identity = entry_identity(entry.size, entry.e_tag, entry.metadata, entry.content_type)
    return path.encode(), join_value(identity, entry.encode())


def numbered(count: int) -> list[tuple[bytes, bytes]]:
    return [
        record(f"a/{i:07}", Entry(f"data/s/{i:020}", AT + timedelta(seconds=i), i, f"etag{i}"))
        for i in range(count)
    ]


def test_entries_come_back_as_they_were_written() -> None:
    """All fields, in path order."""
    entries = {
        "a": Entry("data/s/x", AT, 5, "tag"),
        "a/b": Entry(
            "s3://other/k", AT, 2**40, "t-2", {"k": "v", "": ""}, AddressType.FULL, "text/csv"
        ),
        "z": Entry("data/s/y", AT, 1, "t", nanosecond=123456789),
        "ä/ö": Entry("ffff", None, 0, "", {}, AddressType.BY_PREFIX_DEPRECATED),
    }
    [written] = write_ranges(record(path, entry) for path, entry in entries.items())
    assert {key.decode(): entry for key, _, entry in read_range_entries(written.data)} == entries
    identities = [identity for _, identity, _ in read_range_entries(written.data)]
    assert identities[0] == entry_identity(5, "tag")


@pytest.mark.parametrize("count", [1, 2, 16, 17, 45, 46, 1000, 9000])
def test_records_survive_whatever_their_number(count: int) -> None:
    """One block, restart points, many blocks, a two-level index."""
    records = numbered(count)
    [written] = write_ranges(records)
    assert list(read_range_records(written.data)) == records
    assert open_range(written.data).properties.is_two_level == (count == 9000)


def test_large_values_get_blocks_of_their_own() -> None:
    """A record beyond the block size, and one beyond the writer's first buffers."""
    sizes = [10, 5000, 70_000, 3, 300_000, 1]
    records = [(b"k%d" % i, bytes([i]) * size) for i, size in enumerate(sizes)]
    records.append((b"l" * 200_000, b"x"))
    [written] = write_ranges(records)
    assert list(read_range_records(written.data)) == records


def test_hashes_are_those_of_relative_addresses() -> None:
    """Relative and old addresses without a scheme are hashed; full ones come as text, in path order."""
    kinds = [
        Entry("data/s/one", AT, 1, "e"),
        Entry("0123456789abcdef0123456789abcdef", AT, 1, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
        Entry("s3://bucket/ns/data/x", AT, 1, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
        Entry("gs://b/ü", AT, 1, "e", {}, AddressType.FULL),
        Entry("s3:not/a/uri", AT, 1, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
        Entry("1s://digit/first", AT, 1, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
        Entry("://", AT, 1, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
    ]
    [written] = write_ranges(record(str(i), entry) for i, entry in enumerate(kinds))
    found = read_range_hashes(written.data, expected_count=len(kinds))
    relative = [0, 1, 4, 5, 6]
    assert found.hashes.tolist() == [hash_address(kinds[i].address) for i in relative]
    assert found.full_addresses == ["s3://bucket/ns/data/x", "gs://b/ü"]
    assert found.count == len(kinds)


def test_addresses_come_as_arrow() -> None:
    """Address, type, size and time; a missing time is null."""
    entries = [
        Entry("data/s/one", AT, 1, "e"),
        Entry("s3://b/k", None, 2**50, "e", {}, AddressType.FULL),
        Entry("x", datetime(1, 1, 1, tzinfo=UTC), 0, "e", {}, AddressType.BY_PREFIX_DEPRECATED),
    ]
    [written] = write_ranges(record(str(i), entry) for i, entry in enumerate(entries))
    batch = read_range_addresses(written.data, expected_count=3)
    assert batch.schema == ADDRESSES_SCHEMA
    assert batch.to_pylist() == [
        {
            "address": entry.address,
            "address_type": entry.address_type,
            "size": entry.size,
            "last_modified": entry.last_modified,
        }
        for entry in entries
    ]


def test_times_that_no_calendar_has_stop_nobody() -> None:
    """A client may have told milliseconds where the server asks for seconds: the time of an entry decides nothing."""
    rows = [
        text_field(1, f"data/s/{seconds}") + bytes_field(2, int_field(1, seconds)) + int_field(6, 1)
        for seconds in (1_700_000_000_000, -(2**63), 2**63 - 1)
    ]
    [written] = write_ranges((bytes([n]), join_value(b"i" * 32, row)) for n, row in enumerate(rows))
    assert read_range_hashes(written.data, expected_count=3).count == 3
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    times = [last, datetime(1, 1, 1, tzinfo=UTC), last]
    batch = read_range_addresses(written.data, expected_count=3)
    assert batch.column("last_modified").to_pylist() == times
    assert [entry.last_modified for _, _, entry in read_range_entries(written.data)] == times


def test_lookup_finds_what_is_there_and_nothing_else() -> None:
    """By key, through both kinds of index."""
    for count in (10, 9000):
        records = numbered(count)
        [written] = write_ranges(records)
        table = open_range(written.data)
        for key, value in records[:: max(1, count // 50)]:
            assert table.get(key) == value
            assert table.get(key + b"\0") is None
        assert table.get(b"") is None
        assert table.get(b"zzz") is None


def test_iteration_starts_where_it_is_asked() -> None:
    """At the key, or at the next one after it."""
    records = numbered(500)
    [written] = write_ranges(records)
    table = open_range(written.data)
    assert list(table.iterate()) == records
    assert list(table.iterate(records[321][0])) == records[321:]
    assert list(table.iterate(records[321][0] + b"\0")) == records[322:]
    assert list(table.iterate(b"zzz")) == []


def test_ranges_end_where_keys_say_and_at_the_largest_size() -> None:
    """The same keys give the same ends whatever stands before them, so commits share ranges."""
    records = numbered(3000)
    rule = BreakRule(range_raggedness_entries=100)
    ranges = list(write_ranges(records, rule=rule))
    assert 10 < len(ranges) < 80
    assert [r for w in ranges for r in read_range_records(w.data)] == records
    later = list(write_ranges(records[ranges[0].count + 1 :], rule=rule))
    assert [w.id for w in later[1:]] == [w.id for w in ranges[2:]]

    small = BreakRule(max_range_size_bytes=10_000, range_raggedness_entries=10**9)
    capped = list(write_ranges(records, rule=small))
    assert len(capped) > 3
    assert all(10_000 <= w.estimated_size < 15_000 for w in capped[:-1])


def test_single_records_and_batches_give_the_same_files() -> None:
    """There is one road underneath."""
    records = numbered(700)
    rule = BreakRule(range_raggedness_entries=200)
    whole = [w.id for w in write_ranges(records, rule=rule)]
    batches = [Records.from_pairs(records[i : i + 33]) for i in range(0, 700, 33)]
    assert [w.data for w in write_range_batches(batches, rule=rule)] == [
        w.data for w in write_ranges(records, rule=rule)
    ]
    ids = []
    writer = RangeWriter(rule)
    for key, value in records:
        writer.add(key, value)
        if writer.should_break():
            ids.append(writer.finish().id)
            writer = RangeWriter(rule)
    ids.append(writer.finish().id)
    assert ids == whole


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"], [b"ab", b"a"]])
def test_keys_out_of_order_are_refused(keys: list[bytes]) -> None:
    """A writer never makes a file that a reader would refuse."""
    with pytest.raises(ValueError, match="does not come after"):
        list(write_ranges((key, b"v") for key in keys))


def test_nothing_to_write_makes_no_range() -> None:
    """An empty commit has an empty metarange and no ranges."""
    assert list(write_ranges([])) == []
    _, data = write_metarange([])
    assert read_metarange(data) == []


def test_metarange_lists_its_ranges() -> None:
    """Ids, keys, counts and sizes, in key order; its own id depends on them."""
    ranges = list(write_ranges(numbered(3000), rule=BreakRule(range_raggedness_entries=100)))
    metarange_id, data = write_metarange(ranges)
    infos = read_metarange(data)
    assert infos == [RangeInfo.of(written) for written in ranges]
    assert write_metarange(infos)[0] == metarange_id
    assert write_metarange(infos[1:])[0] != metarange_id
    assert all(a.max_key < b.min_key for a, b in pairwise(infos))


def test_a_range_is_no_metarange() -> None:
    """They lie in one folder; the type property tells them apart."""
    [written] = write_ranges(numbered(3))
    _, metarange = write_metarange([written])
    with pytest.raises(FormatError, match="expected a file of type"):
        read_metarange(written.data)
    with pytest.raises(FormatError, match="expected a file of type"):
        read_range_hashes(metarange, expected_count=1)


@pytest.mark.parametrize(
    "info",
    [
        RangeInfo("not-hex", b"a", b"b", 1, 1),
        RangeInfo("A" * 64, b"a", b"b", 1, 1),
        RangeInfo("0" * 64, b"c", b"b", 1, 1),
        RangeInfo("0" * 64, b"a", b"b", 0, 1),
        RangeInfo("0" * 64, b"a", b"b", -5, 1),
    ],
)
def test_metaranges_that_contradict_themselves_are_refused(info: RangeInfo) -> None:
    """Ids that are no ids, ends in the wrong order, ranges without records."""
    _, data = write_metarange([info])
    with pytest.raises(FormatError):
        read_metarange(data)


def test_overlapping_ranges_are_refused() -> None:
    """Ranges of a metarange are disjoint; else a lookup could miss."""
    infos = [RangeInfo("0" * 64, b"a", b"m", 9, 1), RangeInfo("1" * 64, b"m", b"z", 9, 1)]
    _, data = write_metarange(infos)
    with pytest.raises(FormatError, match="overlap"):
        read_metarange(data)
