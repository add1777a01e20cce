"""Metaranges in columns, held against plain dicts."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.catalogs.lakefs.metarange_table import MetarangeTable, counts_agree, merge_counts
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.commit_columns import texts
from lakesweep.formats.metaranges import RangeCounts

Held = dict[str, list[str]]  # a metarange's ranges; the count of a range is told by its name

_IDS = st.integers(0, 20).map(lambda number: hashlib.sha256(b"%d" % number).hexdigest())


def held() -> st.SearchStrategy[Held]:
    """Metaranges that share some of their ranges."""
    return st.dictionaries(_IDS, st.lists(_IDS, unique=True), max_size=10)


def range_counts(ranges: list[str]) -> RangeCounts:
    return RangeCounts(texts(ranges), np.array([int(r[:4], 16) + 1 for r in ranges], np.int64))


def table_of(metaranges: Held) -> MetarangeTable:
    return MetarangeTable.of_metaranges(
        list(metaranges), [range_counts(ranges) for ranges in metaranges.values()]
    )


def as_dict(table: MetarangeTable) -> Held:
    """What the table says, row by row."""
    ends = np.cumsum(table.sizes)
    return {
        metarange.decode(): [
            table.ranges.ids[place].decode() for place in table.places[end - size : end]
        ]
        for metarange, size, end in zip(table.metaranges, table.sizes, ends, strict=True)
    }


def is_sound(ranges: RangeCounts) -> bool:
    """Each range once, and with its own count."""
    names = [name.decode() for name in ranges.ids]
    return len(set(names)) == len(names) and (
        ranges.counts.tolist() == range_counts(names).counts.tolist()
    )


@given(st.lists(held(), max_size=4))
def test_joined_tables_hold_what_each_held(parts: list[Held]) -> None:
    """Places move with their ranges; a row written and read again is the same."""
    seen: set[str] = set()
    for part in parts:
        for name in set(part) & seen:
            del part[name]
        seen |= set(part)
    table = MetarangeTable.joined([table_of(part) for part in parts])
    assert as_dict(table) == {name: ranges for part in parts for name, ranges in part.items()}
    assert as_dict(MetarangeTable.of_row(table.as_row())) == as_dict(table)
    assert is_sound(table.ranges)


@given(held(), st.data())
def test_taken_metaranges_hold_what_they_held(metaranges: Held, data: st.DataObject) -> None:
    """And `ranges` has what they hold, no more and no less."""
    taken = data.draw(st.lists(_IDS, unique=True))
    table = table_of(metaranges)
    rows = table.rows_of(texts([*taken, "0" * 63]))
    assert rows[-1] == -1
    found = table.take(rows[rows >= 0])
    expected = {name: ranges for name, ranges in metaranges.items() if name in taken}
    assert as_dict(found) == expected
    assert {r.decode() for r in found.ranges.ids} == {r for rs in expected.values() for r in rs}
    assert is_sound(found.ranges)


@given(held(), st.integers(0, 60))
def test_a_table_that_is_cut_off_has_all_ranges(metaranges: Held, most: int) -> None:
    """Only which metarange holds them is forgotten."""
    whole = table_of(metaranges)
    table = whole.cut_off(most)
    assert len(table.places) <= most
    assert table.ranges is whole.ranges
    assert as_dict(table).items() <= metaranges.items()
    rest = [ranges for name, ranges in metaranges.items() if name not in as_dict(table)]
    assert not most or not rest or len(table.places) + len(rest[0]) > most


@given(held(), held())
def test_merged_counts_are_in_order(one: Held, two: Held) -> None:
    """Each range comes once."""
    merged = merge_counts([table_of(one).ranges, table_of(two).ranges])
    names = [name.decode() for name in merged.ids]
    assert names == sorted({r for held in (one, two) for rs in held.values() for r in rs})
    assert is_sound(merged)


def test_counts_that_differ() -> None:
    """One range has one count; ranges that only one of two has are no contradiction."""
    one = range_counts(["a" * 64, "b" * 64])
    other = range_counts(["b" * 64, "c" * 64])
    assert counts_agree(one, other)
    wrong = RangeCounts(other.ids, other.counts + np.array([1, 0]))
    assert not counts_agree(one, wrong)
    assert not counts_agree(wrong, one)
    with pytest.raises(UnsafeToSweepError, match="another says"):
        merge_counts([one, wrong])
