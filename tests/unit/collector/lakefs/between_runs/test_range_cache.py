"""The range cache: an entry that does not agree is thrown away, never believed."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.lakefs.between_runs.range_cache import (
    HashedRange,
    read_pack,
    read_sizes,
    size_bits,
    write_pack,
    write_sizes,
)
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location

NAMESPACE = Location.parse("s3://bucket/ns")
RANGE = RangeId("a" * 64)
_NOTHING = np.empty(0, np.uint64), np.empty(0, np.uint8)


def _pack(hashes: list[int], count: int | None = None) -> bytes:
    array = np.array(hashes, dtype=np.uint64)
    magnitudes = np.arange(len(hashes), dtype=np.uint8)
    entry = HashedRange(RANGE, len(hashes) if count is None else count, array, magnitudes, 2, 7)
    return write_pack([entry], NAMESPACE)


def test_pack_gives_back_its_ranges() -> None:
    """What was hashed once need not be read again."""
    found = read_pack(_pack([1, 2, 3]), NAMESPACE, {RANGE: 3})
    assert found[RANGE].hashes.tolist() == [1, 2, 3]
    assert found[RANGE].magnitudes.tolist() == [0, 1, 2]
    assert (found[RANGE].root_names, found[RANGE].outside) == (2, 7)
    assert read_pack(_pack([1, 2, 3]), NAMESPACE, {}) == {}


def test_entry_with_another_count_than_the_metarange_promises_is_passed_over() -> None:
    """The metarange is the authority; a cache that disagrees is no cache."""
    assert read_pack(_pack([1, 2, 3]), NAMESPACE, {RANGE: 4}) == {}


def test_pack_of_another_namespace_is_passed_over() -> None:
    """Addresses resolved against another namespace mean other objects."""
    assert read_pack(_pack([1]), Location.parse("s3://bucket/other"), {RANGE: 1}) == {}


@given(st.data())
def test_damaged_pack_never_gives_other_hashes(data: st.DataObject) -> None:
    """Any flipped byte or cut leaves either the true hashes or none."""
    pack = bytearray(_pack([11, 22, 33]))
    at = data.draw(st.integers(0, len(pack) - 1))
    if data.draw(st.booleans()):
        pack[at] ^= data.draw(st.integers(1, 255))
    else:
        del pack[at:]
    found = read_pack(bytes(pack), NAMESPACE, {RANGE: 3})
    assert not found or found[RANGE].hashes.tolist() == [11, 22, 33]


def _sizes(*sizes: int) -> bytes:
    known = HashedRange(RANGE, 0, *_NOTHING, sizes=size_bits(np.array(sizes, np.int64)))
    unknown = HashedRange(RangeId("b" * 64), 0, *_NOTHING)
    return write_sizes([unknown, known, known], NAMESPACE)


def test_sizes_are_given_back() -> None:
    """Of each range whose sizes are known, all of them, and where they end."""
    ids, ends, sizes = read_sizes(_sizes(7, 5 << 30), NAMESPACE)
    assert (ids, ends) == ([RANGE, RANGE], [2, 4])
    assert sizes.tolist() == [7, 1 << 30, 7, 1 << 30]
    assert read_sizes(_sizes(7), Location.parse("s3://bucket/other"))[0] == []


@given(st.data())
def test_damaged_sizes_are_never_others(data: st.DataObject) -> None:
    """Any flipped byte or cut leaves either the true sizes or none."""
    file = bytearray(_sizes(11, 22))
    at = data.draw(st.integers(0, len(file) - 1))
    if data.draw(st.booleans()):
        file[at] ^= data.draw(st.integers(1, 255))
    else:
        del file[at:]
    ids, _, sizes = read_sizes(bytes(file), NAMESPACE)
    assert not ids or sizes.tolist() == [11, 22, 11, 22]
