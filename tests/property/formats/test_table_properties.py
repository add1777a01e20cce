"""What holds for every table file, whatever was written and however it was damaged."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import cramjam
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.hashing import hash_address, hash_addresses
from lakesweep.formats.identity import entry_identity
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.ranges import (
    open_range,
    read_range_addresses,
    read_range_hashes,
    read_range_records,
)
from lakesweep.formats.sstable import BreakRule, open_table
from lakesweep.formats.sstable.snappy import unpack_snappy
from lakesweep.formats.values import join_value, split_value
from lakesweep_testing.forged_tables import (
    SET_TRAILER,
    ForgedTable,
    block_of,
    entry_of,
)
from lakesweep_testing.one_by_one import read_range_entries

FUZZ_SECONDS = 2.0
KEYS = st.binary(max_size=40)
VALUES = st.binary(max_size=200)
RECORDS = st.dictionaries(KEYS, VALUES, min_size=1, max_size=60).map(lambda d: sorted(d.items()))
TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
TIMES = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001
ENTRIES = st.builds(
    Entry,
    address=TEXTS,
    last_modified=st.none() | TIMES,
    size=st.integers(-(2**63), 2**63 - 1),
    e_tag=TEXTS,
    metadata=st.dictionaries(TEXTS, TEXTS, max_size=3),
    address_type=st.sampled_from(AddressType),
    content_type=TEXTS,
)


def range_of(records: list[tuple[bytes, bytes]]) -> bytes:
    [written] = write_ranges(records, rule=BreakRule(range_raggedness_entries=10**15))
    return written.data


@given(RECORDS)
def test_records_come_back_as_they_went_in(records: list[tuple[bytes, bytes]]) -> None:
    """Any keys and values, empty ones too; and each is found by its key."""
    data = range_of(records)
    assert list(read_range_records(data)) == records
    table = open_range(data)
    assert list(table.iterate()) == records
    assert all(table.get(key) == value for key, value in records)


@given(RECORDS, KEYS)
def test_iteration_from_any_key_is_the_sorted_rest(
    records: list[tuple[bytes, bytes]], start: bytes
) -> None:
    """Through the index's shortened keys."""
    table = open_range(range_of(records))
    assert list(table.iterate(start)) == [record for record in records if record[0] >= start]


@given(st.lists(ENTRIES, min_size=1, max_size=20))
def test_the_fast_road_and_the_slow_road_agree(entries: list[Entry]) -> None:
    """Compiled columns, compiled hashes and plain decoding tell the same story."""
    records = [
        (b"%04d" % i, join_value(entry_identity(entry.size, entry.e_tag), entry.encode()))
        for i, entry in enumerate(entries)
    ]
    data = range_of(records)
    decoded = [entry for _, _, entry in read_range_entries(data)]
    assert decoded == entries
    batch = read_range_addresses(data, expected_count=len(entries))
    assert batch["address"].to_pylist() == [entry.address for entry in entries]
    assert batch["size"].to_pylist() == [entry.size for entry in entries]
    assert batch["last_modified"].to_pylist() == [entry.last_modified for entry in entries]
    hashes = read_range_hashes(data, expected_count=len(entries))
    relative = [e.address for e in entries if e.address_type == AddressType.RELATIVE]
    assert set(map(hash_address, relative)) <= set(hashes.hashes.tolist())
    full = [e.address for e in entries if e.address_type == AddressType.FULL]
    assert set(full) <= set(hashes.full_addresses)
    assert hashes.hashes.size + len(hashes.full_addresses) == len(entries)


@given(st.lists(TEXTS), st.integers(0, 5))
def test_columns_hash_like_single_addresses(texts: list[str], skipped: int) -> None:
    """In every layout of a column: small and large offsets, slices, chunks."""
    expected = [hash_address(text) for text in texts[skipped:]]
    for kind in (pa.string(), pa.large_string()):
        column = pa.array(texts, kind).slice(skipped)
        assert hash_addresses(column).tolist() == expected
        assert hash_addresses(pa.chunked_array([column, column])).tolist() == expected * 2


@given(st.binary(), st.binary())
def test_values_survive(identity: bytes, data: bytes) -> None:
    """And bytes behind them are passed over."""
    assert split_value(join_value(identity, data)) == (identity, data)
    assert split_value(join_value(identity, data) + b"rest") == (identity, data)


@given(
    st.binary(max_size=3000)
    | st.lists(st.sampled_from([b"ab", b"abcdefgh", b"\0" * 9])).map(b"".join)
)
def test_snappy_unpacks_what_another_packer_packed(raw: bytes) -> None:
    """Runs, repeats and noise."""
    packed = np.frombuffer(bytes(cramjam.snappy.compress_raw(raw)), np.uint8)
    out = np.empty(len(raw), np.uint8)
    assert unpack_snappy(packed, 0, packed.size, out) == len(raw)
    assert out.tobytes() == raw


@given(st.binary(max_size=300))
def test_noise_is_no_snappy_stream_nor_a_crash(noise: bytes) -> None:
    """Unpacking ends with bytes that the other implementation agrees with, or with an error."""
    out = np.empty(4096, np.uint8)
    size = unpack_snappy(np.frombuffer(noise, np.uint8), 0, len(noise), out)
    if size >= 0:
        assert bytes(cramjam.snappy.decompress_raw(noise)) == out[:size].tobytes()


@given(st.binary(max_size=300), st.integers(0, 3))
def test_noise_in_a_sound_block_is_refused_or_read(noise: bytes, count: int) -> None:
    """Behind a right checksum nothing protects but the bounds."""
    for kind in (0, 1):
        outcome_of(ForgedTable([noise], count, kind=kind).build())


@given(st.binary(max_size=300))
def test_noise_in_a_sound_record_is_refused_or_read(noise: bytes) -> None:
    """The Entry parser alone."""
    outcome_of(ForgedTable([block_of([entry_of(b"k" + SET_TRAILER, noise)])], 1).build())


@given(st.binary(max_size=300))
def test_noise_is_no_table(noise: bytes) -> None:
    """With the magic number at its end, too."""
    magic = bytes.fromhex("02000000f7cff485b741e288")
    for data in (noise, noise + magic, b"\x01" + noise.ljust(40, b"\0")[:40] + magic):
        try:
            open_table(data)
        except FormatError:
            continue
        raise AssertionError("noise was taken for a table")


@pytest.mark.slow
def test_fuzzed_files_are_refused_or_read_whole() -> None:
    """Seconds of random edits of real files: never a crash, never other contents than were written."""
    random.seed(20260723)
    at = datetime(2026, 1, 1, tzinfo=UTC)
    sound = [
        range_of(
            [
                (
                    b"k/%05d" % i,
                    join_value(
                        entry_identity(i, "e"),
                        Entry(f"data/s/{i}", at + timedelta(seconds=i), i, "e").encode(),
                    ),
                )
                for i in range(count)
            ]
        )
        for count in (1, 5, 100)
    ]
    contents = [outcome_of(data) for data in sound]
    ends_at = time.monotonic() + FUZZ_SECONDS
    while time.monotonic() < ends_at:
        for data, content in zip(sound, contents, strict=True):
            assert outcome_of(edited(data)) in (None, content)


def edited(data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(out)) if out else 0
        match random.randrange(4):
            case 0:
                out[at : at + 1] = random.randbytes(1)
            case 1:
                del out[at : at + random.randint(1, 20)]
            case 2:
                out[at:at] = random.randbytes(random.randint(1, 20))
            case _:
                source = random.randrange(len(out) + 1)
                out[at : at + 8] = out[source : source + 8]
    return bytes(out)


def outcome_of(data: bytes) -> list[object] | None:
    """What all readers say, which must agree on whether the file is sound; None when refused."""
    readers: list[Callable[[], object]] = [
        lambda: read_range_hashes(data, expected_count=None).hashes.tolist(),
        lambda: read_range_addresses(data, expected_count=None).to_pylist(),
        lambda: list(read_range_records(data)),
    ]
    outcomes: list[object] = []
    for reader in readers:
        try:
            outcomes.append(reader())
        except FormatError:
            outcomes.append(None)
    # The two that read entries refuse together; records alone may be read where entries can't.
    return None if None in outcomes else outcomes
