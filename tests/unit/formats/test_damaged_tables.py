"""Wrong bytes give FormatError: never a crash, never a short read, never a large allocation."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from lakesweep.errors import FormatError
from lakesweep.formats.entries import Entry
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.proto import encode_varint, int_field, text_field
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import (
    open_range,
    read_range_addresses,
    read_range_hashes,
    read_range_records,
)
from lakesweep.formats.sstable.footer import Footer, Handle
from lakesweep.formats.values import join_value
from lakesweep_testing.forged_tables import (
    SET_TRAILER,
    ForgedTable,
    block_of,
    entry_of,
    snappy_literal,
)

READERS: list[Callable[[bytes], object]] = [
    lambda data: read_range_hashes(data, expected_count=None),
    lambda data: read_range_addresses(data, expected_count=None),
    lambda data: list(read_range_records(data)),
    lambda data: list(open_range(data).iterate()),
]
SCANNERS = READERS[:2]


def entry(number: int) -> Entry:
    return Entry(f"data/slice/object{number:06}", datetime(2024, 1, 1, tzinfo=UTC), number, "etag")


def value(number: int = 1) -> bytes:
    return join_value(entry_identity(number, "etag"), entry(number).encode())


def range_file(count: int) -> bytes:
    [written] = write_ranges((b"path/%06d" % number, value(number)) for number in range(count))
    return written.data


def assert_refused(data: bytes, readers: list[Callable[[bytes], object]] = READERS) -> None:
    for reader in readers:
        with pytest.raises(FormatError):
            reader(data)


def key(name: bytes) -> bytes:
    return name + SET_TRAILER


def table_of(block: bytes, num_entries: int = 1) -> bytes:
    return ForgedTable([block], num_entries).build()


def test_a_forged_table_that_tells_the_truth_is_read() -> None:
    """The forge itself makes sound files, so what it spoils is what is refused."""
    data = table_of(block_of([entry_of(key(b"a"), value())]))
    assert list(read_range_records(data)) == [(b"a", value())]
    assert read_range_hashes(data, expected_count=1).count == 1


def test_truncation_at_every_offset_is_refused() -> None:
    """No prefix of a file passes for the file."""
    data = range_file(3)
    for size in range(len(data)):
        assert_refused(data[:size], READERS[:1])


def test_every_flipped_bit_is_noticed() -> None:
    """Each byte is vouched for by a checksum or by the footer's one way to be written; there is no padding."""
    data = range_file(3)
    for position in range(len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            assert_refused(bytes(damaged), READERS[:1])


def test_flips_in_a_two_level_table_are_noticed() -> None:
    """Index partitions and the index of them are checked like data blocks."""
    data = range_file(9000)
    table = open_range(data)
    assert table.properties.is_two_level
    assert_refused(data[:-1])
    for position in [*range(0, len(data), 997), *range(table.properties.data_size, len(data), 53)]:
        damaged = bytearray(data)
        damaged[position] ^= 0x40
        assert_refused(bytes(damaged), READERS[2:3])


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 53, bytes(100), b"PAR1" * 20])
def test_what_is_no_table_is_refused(data: bytes) -> None:
    """Empty files and files of other kinds."""
    assert_refused(data)


def test_appended_bytes_are_noticed() -> None:
    """The blocks must tile the file to its end."""
    data = range_file(3)
    assert_refused(data + b"\0")
    assert_refused(b"\0" + data)


@pytest.mark.parametrize("promised", [0, 2, 4, 10**6, 2**40, 2**63 - 1])
def test_lying_counts_are_refused(promised: int) -> None:
    """The number of records read must be the number promised, and a huge promise allocates nothing."""
    entries = [entry_of(key(name), value()) for name in (b"a", b"b", b"c")]
    starts = [0, len(entries[0]), len(entries[0]) * 2]
    assert_refused(table_of(block_of(entries, starts), promised), READERS[:3])


def test_count_property_must_agree() -> None:
    """lakeFS's own count and the table's are two promises; both are held."""
    block = block_of([entry_of(key(b"a"), value())])
    assert_refused(ForgedTable([block], 1, count=2).build())


def test_count_of_the_metarange_must_agree() -> None:
    """A range that was swapped for a shorter one is not silently read."""
    with pytest.raises(FormatError, match="should have 4"):
        read_range_hashes(range_file(3), expected_count=4)


@pytest.mark.parametrize(
    "entry_bytes",
    [
        entry_of(key(b"a"), value(), shared=1),
        entry_of(key(b"a"), value(), unshared=2**35),
        entry_of(key(b"a"), value(), unshared=2**64 - 1),
        entry_of(key(b"a"), value(), unshared=3),
        entry_of(key(b"a"), value(), value_size=2**35),
        entry_of(key(b"a"), value(), value_size=2**64 - 1),
        entry_of(key(b"a"), value(), value_size=len(value()) + 1),
        entry_of(key(b"a"), value(), value_size=len(value()) - 1),
        b"\xff" * 11,
        b"\x80",
    ],
)
def test_lying_lengths_are_refused(entry_bytes: bytes) -> None:
    """An entry that reaches beyond its block, or leaves a rest."""
    assert_refused(table_of(block_of([entry_bytes])))


@pytest.mark.parametrize(
    ("restarts", "count"),
    [
        ([0], 0),
        ([0], 2),
        ([0], 2**32 - 1),
        ([1], 1),
        ([0, 0], 2),
        ([0, 5], 2),
        ([], 0),
        ([7, 0], 2),
    ],
)
def test_lying_restart_points_are_refused(restarts: list[int], count: int) -> None:
    """Restart points are the starts of entries, in order."""
    block = block_of([entry_of(key(b"a"), value())], restarts, count)
    assert_refused(table_of(block))


@pytest.mark.parametrize("names", [(b"b", b"a"), (b"a", b"a"), (b"ab", b"a"), (b"b", b"")])
def test_keys_must_rise(names: tuple[bytes, bytes]) -> None:
    """Within a block."""
    entries = [entry_of(key(name), value()) for name in names]
    assert_refused(table_of(block_of(entries, [0, len(entries[0])]), 2))


def test_keys_must_rise_across_blocks() -> None:
    """Two sound blocks in the wrong order, or the same block twice, are noticed."""
    first, second = (block_of([entry_of(key(name), value())]) for name in (b"a", b"b"))
    assert_refused(ForgedTable([second, first], 2).build())
    assert_refused(ForgedTable([first, first], 2).build())


@pytest.mark.parametrize("trailer", [bytes(8), b"\x01" + b"\xff" * 7, b"\x0f" + bytes(7)])
def test_records_that_are_no_plain_set_are_refused(trailer: bytes) -> None:
    """Deletions, merges and sequence numbers mean something that lakeFS never writes."""
    assert_refused(table_of(block_of([entry_of(b"a" + trailer, value())])))


@pytest.mark.parametrize("kind", [2, 4, 7, 255])
def test_unknown_compression_is_refused(kind: int) -> None:
    """zlib, lz4, zstd and whatever comes."""
    assert_refused(ForgedTable([block_of([entry_of(key(b"a"), value())])], 1, kind=kind).build())


@pytest.mark.parametrize("claimed", [0, 1, 2**32 - 1, 2**32, 2**40, 2**63 - 1, 2**64 - 1])
def test_block_bombs_are_refused_before_memory_is_taken(claimed: int) -> None:
    """A block that says it unpacks to 4 GB is an error by arithmetic: so many bytes can't come from so few."""
    stream = snappy_literal(block_of([entry_of(key(b"a"), value())]), claimed)
    assert_refused(ForgedTable([stream], 1, kind=1).build())


@pytest.mark.parametrize(
    "stream",
    [
        b"\x14" + bytes([59 << 2]) + b"short",  # literal longer than the stream
        b"\x14" + bytes([63 << 2]) + b"\xff\xff\xff\xff",  # literal of 4 GB
        b"\x14" + bytes([63 << 2]) + b"\xff",  # its length cut short
        b"\x14" + b"\x00a" + b"\x01\x00",  # copy from 0 bytes back
        b"\x14" + b"\x00a" + b"\x01\x05",  # copy from before the start
        b"\x14" + b"\x00a" + b"\x02\x01",  # copy cut short
        b"\x14" + b"\x00a" + b"\xff\x01\x00\x00",  # four-byte copy cut short
        b"\x05" + b"\x00a" + b"\xfe\x01\x00",  # copy beyond the promised size
        b"\x14" + b"\x00a",  # less than promised
        b"",
        b"\x80",
    ],
)
def test_damaged_snappy_streams_are_refused(stream: bytes) -> None:
    """Each bound of the unpacker."""
    assert_refused(ForgedTable([stream], 1, kind=1).build())


def test_keys_that_grow_beyond_the_file_are_refused() -> None:
    """Shared prefixes can make keys of gigabytes out of kilobytes; the promised size of all keys is the limit."""
    long_key = b"k" * 50_000
    entries = [entry_of(key(long_key + b"%05d" % 0), b"")]
    for number in range(1, 2000):
        entries.append(entry_of(key(b"%05d" % number), b"", shared=50_000))
    data = ForgedTable([block_of(entries)], 2000, raw_key_size=2**40).build()
    assert_refused(data, READERS[2:])


HANDLES = {
    "points outside": lambda handles: [(k, Handle(2**40, h.length)) for k, h in handles],
    "points beyond 64 bits": lambda handles: [(k, Handle(2**64 - 1, h.length)) for k, h in handles],
    "is too long": lambda handles: [(k, Handle(h.offset, 2**40)) for k, h in handles],
    "overlaps": lambda handles: [(k, Handle(h.offset // 2, h.length)) for k, h in handles],
    "comes twice": lambda handles: [*handles, handles[-1]],
    "is missing": lambda handles: handles[:-1],
    "is the first again": lambda handles: [handles[0], handles[0]],
    "is out of order": lambda handles: handles[::-1],
    "points at the index": lambda handles: [*handles[:-1], (handles[-1][0], Handle(10**3, 50))],
}


@pytest.mark.parametrize("name", HANDLES)
def test_lying_index_handles_are_refused(name: str) -> None:
    """Every data block is reached exactly once, in order: no cycle, no overlap, no gap."""
    blocks = [block_of([entry_of(key(letter), value())]) for letter in (b"a", b"b", b"c")]
    assert_refused(ForgedTable(blocks, 3, change_index=HANDLES[name]).build())


@pytest.mark.parametrize(
    "change",
    [
        lambda footer: Footer(footer.index, footer.metaindex),
        lambda footer: Footer(footer.metaindex, footer.metaindex),
        lambda footer: Footer(footer.index, footer.index),
        lambda footer: Footer(Handle(2**64 - 1, 1), footer.index),
        lambda footer: Footer(footer.metaindex, Handle(2**63, 2**63 - 5)),
        lambda footer: Footer(Handle(0, 0), Handle(0, 0)),
    ],
)
def test_lying_footers_are_refused(change: Callable[[Footer], Footer]) -> None:
    """The footer's blocks must lie where the layout wants them."""
    block = block_of([entry_of(key(b"a"), value())])
    assert_refused(ForgedTable([block], 1, change_footer=change).build())


PROPERTIES: dict[str, tuple[str, bytes | None]] = {
    "another comparator": ("rocksdb.comparator", b"leveldb.Reverse"),
    "deletions": ("rocksdb.deleted.keys", b"\x01"),
    "range deletions": ("rocksdb.num.range-deletions", b"\x01"),
    "merges": ("rocksdb.merge.operands", b"\x01"),
    "a filter": ("rocksdb.filter.size", b"\x01"),
    "index partitions": ("rocksdb.index.partitions", b"\x01"),
    "a number beyond 63 bits": ("rocksdb.raw.value.size", encode_varint(2**63)),
    "a hash index": ("rocksdb.block.based.table.index.type", b"\x01\0\0\0"),
    "two levels that are not there": ("rocksdb.block.based.table.index.type", b"\x02\0\0\0"),
    "a number cut short": ("rocksdb.num.entries", b"\x80"),
    "a number with a rest": ("rocksdb.num.entries", b"\x01\x01"),
    "no number of entries": ("rocksdb.num.entries", None),
    "another number of blocks": ("rocksdb.num.data.blocks", b"\x02"),
    "a huge number of blocks": ("rocksdb.num.data.blocks", encode_varint(2**50)),
    "another type": ("type", b"metaranges"),
    "no type": ("type", None),
    "a dump's entity": ("entity", b"commit"),
    "no count": ("count", None),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_lying_properties_are_refused(name: str) -> None:
    """A table of another kind, or one that contradicts itself."""
    property_name, raw = PROPERTIES[name]

    def change(pairs: dict[str, bytes]) -> None:
        pairs.pop(property_name, None)
        if raw is not None:
            pairs[property_name] = raw

    block = block_of([entry_of(key(b"a"), value())])
    assert_refused(ForgedTable([block], 1, change_properties=change).build())


def wrapped(message: bytes) -> bytes:
    return join_value(b"i" * 32, message)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\x40" + b"i" * 31,
        b"\x01" + b"i" * 32,  # a length of -1
        b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + b"i" * 32,
        b"\x40" + b"i" * 32,  # no data
        b"\x40" + b"i" * 32 + b"\x0aabc",
        wrapped(b"\x0a\x05abc"),  # address longer than the message
        wrapped(b"\x0a\xff\xff\xff\xff\x0f"),
        wrapped(b"\x08\x05"),  # address as a number
        wrapped(b"\x1a\x01a"),  # size as text
        wrapped(b"\x32\x01a"),  # address type as text
        wrapped(int_field(6, 3)),  # an unknown address type
        wrapped(int_field(6, -1)),
        wrapped(b"\x0b"),  # a group
        wrapped(b"\x00\x00"),  # field 0
        wrapped(b"\x80"),
        wrapped(b"\x12\x02\x08\x80"),  # a time cut short
        wrapped(text_field(2, int_field(2, 10**9))),
        wrapped(text_field(2, int_field(2, -1))),
        wrapped(text_field(2, b"\x0a\x00")),  # seconds as text
        wrapped(b"\x41\x00\x00"),  # fixed64 cut short
    ],
)
def test_damaged_entries_are_refused(record: bytes) -> None:
    """What the hot road reads of a record is held to protobuf's rules, and so is the slow road."""
    data = table_of(block_of([entry_of(key(b"a"), record)]))
    assert_refused(data, SCANNERS)


def test_unknown_fields_are_passed_over() -> None:
    """A newer server may add fields; they must not stop a run."""
    message = entry(1).encode() + text_field(90, "new") + int_field(91, 7) + b"\xe1\x05" + bytes(8)
    data = table_of(block_of([entry_of(key(b"a"), wrapped(message))]))
    assert read_range_hashes(data, expected_count=1).hashes.size == 1
    assert read_range_addresses(data, expected_count=1)["address"].to_pylist() == [entry(1).address]


def test_addresses_that_are_not_utf8_are_refused() -> None:
    """Text that can't be text would be lost on the way."""
    for address_type in (1, 2):
        message = b"\x0a\x02\xff\xfe" + int_field(6, address_type)
        data = table_of(block_of([entry_of(key(b"a"), wrapped(message))]))
        with pytest.raises(FormatError, match="UTF-8"):
            read_range_addresses(data, expected_count=1)
