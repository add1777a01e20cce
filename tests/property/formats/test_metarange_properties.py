"""The quick reader of a metarange says what the plain one says, whatever the file holds."""

from __future__ import annotations

import hashlib
import random

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.commits import RangeId
from lakesweep.errors import FormatError
from lakesweep.formats.metaranges import RangeInfo, read_metarange, read_range_counts
from lakesweep.formats.proto import int_field, text_field
from lakesweep.formats.range_writer import finish_table
from lakesweep.formats.sstable import Records, TableWriter
from lakesweep.formats.values import join_value

KEYS = st.lists(st.binary(max_size=6), unique=True, max_size=12).map(sorted)
ODD_FIELDS = st.sampled_from(
    [b"", int_field(7, 3), text_field(1, b"a"), int_field(4, 2), int_field(2, 1), b"\x80"]
)


def metarange_of(records: list[tuple[bytes, bytes]]) -> bytes:
    table = TableWriter()
    table.add_records(Records.from_pairs(records))
    _, data, _ = finish_table(table, hashlib.sha256(), {"type": "metaranges"})
    return data


def plain(data: bytes) -> list[tuple[str, int]] | str:
    try:
        return [(info.id, info.count) for info in read_metarange(data)]
    except FormatError as error:
        return error.message


def quick(data: bytes) -> list[tuple[str, int]] | str:
    try:
        found = read_range_counts(data)
    except FormatError as error:
        return error.message
    return list(zip(found.ids.astype(str).tolist(), found.counts.tolist(), strict=True))


def line(key: bytes, info: RangeInfo, odd: bytes = b"", tail: bytes = b"") -> tuple[bytes, bytes]:
    data = (
        text_field(1, info.min_key)
        + text_field(2, info.max_key)
        + int_field(3, info.estimated_size)
        + int_field(4, info.count)
    )
    return key, join_value(info.id.encode(), data + odd) + tail


@given(KEYS, st.integers(0, 2**32), ODD_FIELDS, st.sampled_from([b"", b"\0", b"more"]))
def test_both_readers_agree(keys: list[bytes], seed: int, odd: bytes, tail: bytes) -> None:
    """Ranges that touch, overlap or end before they begin, counts of nothing, fields nobody knows, bytes left over."""
    draw = random.Random(seed)
    records = []
    before = b""
    for key in keys:
        is_odd = draw.random() < 0.1
        least = draw.choice([key, key[:-1], before, before + b"\0", b""])
        most = key if draw.random() < 0.95 else key + b"x"
        identity = draw.choice(["0123456789abcdef" * 4] * 9 + ["A" * 64])
        info = RangeInfo(RangeId(identity), least, most, draw.choice([1, 3, 1 << 40, 0]), 9)
        records.append(line(key, info, odd if is_odd else b"", tail if is_odd else b""))
        before = key
    data = metarange_of(records)
    assert quick(data) == plain(data)


@given(st.integers(0, 2**32))
def test_both_readers_agree_about_spoiled_values(seed: int) -> None:
    """Bytes of a sound metarange, changed at random."""
    draw = random.Random(seed)
    info = RangeInfo(RangeId("0123456789abcdef" * 4), b"key-1", b"key-9", 300, 5_000)
    key, value = line(b"key-9", info)
    spoiled = bytearray(value)
    for _ in range(draw.randrange(1, 3)):
        spoiled[draw.randrange(len(spoiled))] = draw.choice([0, 1, 8, 0x7F, 0x80, 0xFF])
    data = metarange_of([(key, bytes(spoiled))])
    assert quick(data) == plain(data)


def test_a_sound_metarange_takes_the_quick_way(monkeypatch) -> None:
    """What lakeFS writes needs no second reading."""
    infos = [
        RangeInfo(RangeId(f"{n:064x}"), b"%04d" % n, b"%04d-" % n, n + 1, 7) for n in range(500)
    ]
    data = metarange_of([line(info.max_key, info) for info in infos])
    expected = plain(data)
    monkeypatch.setattr("lakesweep.formats.metaranges.read_metarange", None)
    assert quick(data) == expected
