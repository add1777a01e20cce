"""Small tables are opened in one compiled call, which may pass nothing that the plain reader refuses."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pytest

from lakesweep.domain.commits import RangeId
from lakesweep.errors import FormatError
from lakesweep.formats.metaranges import RangeInfo, write_metarange
from lakesweep.formats.proto import encode_varint
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.sstable import Table, reader
from lakesweep.formats.sstable.footer import FOOTER_SIZE, Footer, Handle
from lakesweep_testing.forged_tables import (
    SET_TRAILER,
    ForgedTable,
    block_of,
    entry_of,
    snappy_literal,
)

BLOCKS = [block_of([entry_of(name + SET_TRAILER, b"value")]) for name in (b"a", b"b", b"c")]
USER = {"type": b"ranges", "typed": b"x", "é": b"", "": b"no name", "max_key": b"k" * 40}


def told(table: Table | None) -> object:
    """Everything that is known of an open table."""
    if table is None:
        return None
    scratch = table.scratch()
    return (
        table.properties,
        list(table.properties.user.items()),
        table.block_offsets.tolist(),
        table.block_lengths.tolist(),
        scratch.total_size,
        [array.shape for array in (scratch.block, scratch.last_key, scratch.walk)],
        table._index_blocks,
    )


def opens_in_one_call(data: bytes) -> bool:
    """Whether the compiled call takes a file; if so, it must say what the plain reader says."""
    raw = np.frombuffer(data, np.uint8)
    small = told(reader._open_small_table(raw))
    if small is not None:
        assert small == told(reader._open_any_table(data, raw))  # a FormatError is a failure too
    return small is not None


def forged(change: Callable[[str, bytes], bytes]) -> bytes:
    return ForgedTable(BLOCKS, 3, user=USER, change_payload=change).build()


def test_what_lakefs_writes_is_opened_in_one_call() -> None:
    """Ranges and metaranges of one index block; larger tables are read all the same."""
    at = datetime(2024, 1, 1, tzinfo=UTC)
    for count, is_small in ((1, True), (400, True), (9000, False)):
        [written] = write_ranges((b"path/%06d" % i, b"%05d" % i * 20) for i in range(count))
        assert opens_in_one_call(written.data) == is_small
        assert reader.open_table(written.data).properties.num_entries == count
    infos = [RangeInfo(RangeId(f"{i:064}"), b"%03d" % i, b"%03d" % i, 1, at.year) for i in range(9)]
    assert opens_in_one_call(write_metarange(infos)[1])
    assert opens_in_one_call(forged(lambda _, payload: payload))


@pytest.mark.parametrize("name", ["index", "properties", "metaindex"])
def test_both_readers_agree_on_every_changed_byte(name: str) -> None:
    """Behind a right checksum: each byte of a block with its lowest or highest bit flipped."""
    size = 0

    def change(at: int, flipped: int) -> Callable[[str, bytes], bytes]:
        def changed(block: str, payload: bytes) -> bytes:
            nonlocal size
            if block != name:
                return payload
            size = len(payload)
            return payload[:at] + bytes([payload[at] ^ flipped]) + payload[at + 1 :]

        return changed

    forged(change(0, 0))
    for at in range(size):
        for flipped in (0x01, 0x80):
            opens_in_one_call(forged(change(at, flipped)))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        bytes(4),
        bytes(8),
        b"\xff" * 8,
        block_of([]),
        block_of([entry_of(b"rocksdb.propertied", bytes(2))]),
        block_of([entry_of(b"rocksdb.properties", bytes(3))]),
        block_of([entry_of(b"rocksdb.properties", b"\x80")]),
        block_of([entry_of(b"rocksdb.properties", bytes(2))] * 2),
        block_of([entry_of(b"rocksdb.properties", encode_varint(2**64 - 1) * 2)]),
        block_of([entry_of(b"rocksdb.properties", encode_varint(2**63 - 1) * 2)]),
        block_of([entry_of(b"k" * 9000, b"")]),
        block_of([entry_of(b"k" * 5000, b""), entry_of(b"z", b"", shared=5000)]),
        block_of([entry_of(b"k", b"v", shared=1)]),
        block_of([entry_of(b"k", b"v", unshared=2**63 - 1)]),
        block_of([entry_of(b"k", b"v", value_size=2**63 - 1)]),
        block_of([entry_of(b"k", b"v", shared=2**64 - 1)]),
        block_of([entry_of(b"%03d" % i, b"v") for i in range(100)]),
    ],
)
@pytest.mark.parametrize("name", ["index", "properties", "metaindex"])
def test_false_blocks_are_refused_by_both(name: str, payload: bytes) -> None:
    """Each bound of the compiled call."""
    data = forged(lambda block, sound: payload if block == name else sound)
    assert not opens_in_one_call(data)
    with pytest.raises(FormatError):
        reader.open_table(data)


def test_many_properties_are_read_by_the_plain_reader() -> None:
    """The compiled call has room for a few of them; none is lost."""
    user = {f"name{i:03}": b"v" * i for i in range(100)}
    data = ForgedTable(BLOCKS, 3, user=user).build()
    assert not opens_in_one_call(data)
    assert reader.open_table(data).properties.user == {**user, "count": b"3"}


def test_many_blocks_are_read_by_the_plain_reader() -> None:
    """The compiled call has room for some hundreds of handles."""
    for count in (255, 256, 257, 400):
        data = ForgedTable([block_of([])] * count, 0).build()
        reader.open_table(data)
        assert opens_in_one_call(data) == (count <= 256)


def test_a_gap_between_blocks_is_refused_by_both() -> None:
    """Bytes that no checksum vouches for, before the footer."""
    sound = forged(lambda _, payload: payload)
    data = sound[:-FOOTER_SIZE] + bytes(5) + sound[-FOOTER_SIZE:]
    assert not opens_in_one_call(data)
    with pytest.raises(FormatError):
        reader.open_table(data)


def test_a_block_that_lies_about_its_size_is_left_to_the_plain_reader() -> None:
    """It says which block that is, when the table is read."""
    data = ForgedTable([snappy_literal(BLOCKS[0], 2**40)], 1, kind=1).build()
    assert not opens_in_one_call(data)
    with pytest.raises(FormatError, match="at offset 0: it claims to unpack to more bytes"):
        reader.open_table(data).records()


def test_a_footer_has_one_way_to_be_written() -> None:
    """Numbers with zero bits added, stray bytes behind them, another version or checksum, a length that is negative."""
    sound = forged(lambda _, payload: payload)
    footer = Footer.of(sound)
    a, b, c, d = (
        encode_varint(number)
        for handle in (footer.metaindex, footer.index)
        for number in (handle.offset, handle.length)
    )

    def with_footer(handles: bytes, first: bytes = b"\1", last: bytes = sound[-12:]) -> bytes:
        return sound[:-FOOTER_SIZE] + first + handles.ljust(40, b"\0") + last

    assert opens_in_one_call(with_footer(a + b + c + d))
    huge = Handle(2**64 - 1, 2**64 - 1).encode()
    for data in (
        with_footer(a[:-1] + bytes([a[-1] | 0x80, 0]) + b + c + d),
        with_footer(a + b + c + d[:-1] + bytes([d[-1] | 0x80, 0])),
        with_footer((a + b + c + d).ljust(39, b"\0") + b"\1"),
        with_footer(a + b + c + d, first=b"\0"),
        with_footer(a + b + c + d, last=b"\3" + sound[-11:]),
        with_footer(a + b + c + d, last=b"\2\0\1" + sound[-9:]),
        with_footer(a + b + huge),
        with_footer(huge + c + d),
        with_footer(b"\xff" * 40),
        with_footer(b"\xff" * 9 + b"\1" + b + c + d),
    ):
        assert not opens_in_one_call(data)
        with pytest.raises(FormatError):
            reader.open_table(data)
