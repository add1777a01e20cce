"""Where entries of given sizes lie in ranges, and what it costs to look them up."""

from __future__ import annotations

import sys
from itertools import count

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.judge.references import LIVE
from lakesweep.collector.judge.suspects import Sizes
from lakesweep.collector.lakefs.between_runs.range_cache import sizes_beside
from lakesweep.collector.lakefs.checks import reupload_lookups
from lakesweep.collector.lakefs.checks.content_sums import Contents
from lakesweep.collector.lakefs.checks.reupload_answers import text_before
from lakesweep.collector.lakefs.checks.reupload_lookups import (
    FAR,
    NEAR,
    RangeToSearch,
    SizeCosts,
    count_requests,
    find_spans,
    with_sizes,
)
from lakesweep.collector.lakefs.paths import RANGE_CACHE
from lakesweep.collector.lakefs.references import RangeReference, read_references
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.values import join_value
from lakesweep.storage import StorageOptions

_NUMBERS = count()
_LOOKED_FOR = Contents(Sizes(np.array([0, 7])))


def _range(*entries: tuple[bytes, int], address: str = "data/a/b") -> tuple[Target, RangeId]:
    """A namespace with one range of these (path, size)."""
    target = Target(Location.parse(f"mem://reuploads-work/{next(_NUMBERS)}"), StorageOptions())
    return target, _add_range(target, *entries, address=address)


def _add_range(
    target: Target, *entries: tuple[bytes, int], address: str = "data/a/b", e_tag: str = "e"
) -> RangeId:
    kind = AddressType.FULL if "://" in address else AddressType.RELATIVE
    [written] = write_ranges(
        (
            path,
            join_value(b"i" * 32, Entry(address, None, size, e_tag, address_type=kind).encode()),
        )
        for path, size in entries
    )
    target.open().write(f"_lakefs/{written.id}", written.data)
    return written.id


def _read_by_a_mark(target: Target, **counts: int) -> str:
    """The pack that a mark makes when it reads these ranges."""
    items = [RangeReference(RangeId(range_id), n, LIVE) for range_id, n in counts.items()]
    for _ in read_references(target, 1, iter(items), keep_sizes=True):
        pass
    [pack] = target.open().keys(f"{RANGE_CACHE}pack-")
    return pack


def _searched(target: Target, *ranges: RangeToSearch) -> set[RangeId]:
    return set(with_sizes(target.open(), target.namespace, _LOOKED_FOR, ranges))


def test_path_that_is_no_text_gives_up_only_the_sizes_around_it() -> None:
    """No request can carry such a path; other stretches of the range are looked up all the same."""
    others = [(b"m%03d" % number, 5) for number in range(NEAR)]
    target, range_id = _range((b"a", 0), (b"b", 5), (b"c", 0), *others, (b"z\xff", 7))
    [batch] = find_spans(target, _LOOKED_FOR, NEAR, 1, iter([RangeToSearch(range_id, 53)]))
    named, unaskable = batch.to_pylist()
    assert (named["first"], named["last"], named["entries"]) == ("a", "c", 3)
    assert np.frombuffer(named["sizes"], np.int64).tolist() == [0]
    assert unaskable["first"] is None
    assert np.frombuffer(unaskable["sizes"], np.int64).tolist() == [7]


def test_an_entry_whose_client_told_no_size_stands_for_every_size() -> None:
    """A linked object has the size that its client told: -1 where it did not know."""
    target, range_id = _range((b"a", 5), (b"b", -1), (b"c", 5))
    [batch] = find_spans(target, _LOOKED_FOR, NEAR, 1, iter([RangeToSearch(range_id, 3)]))
    [row] = batch.to_pylist()
    assert (row["first"], row["last"], row["entries"]) == ("b", "b", 1)
    assert np.frombuffer(row["sizes"], np.int64).tolist() == [0, 7]
    pack = _read_by_a_mark(target, **{range_id: 3})
    assert _searched(target, RangeToSearch(range_id, 3, pack)) == {range_id}


@pytest.mark.parametrize("most", [0, reupload_lookups.MOST_REQUESTS])
def test_untrue_sums_are_told_before_too_many_requests(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """What was ruled out by sums that are not true may be meant: that is said, whether or not the rest is too much."""
    monkeypatch.setattr(reupload_lookups, "MOST_REQUESTS", most)
    target = Target(Location.parse(f"mem://reuploads-work/{next(_NUMBERS)}"), StorageOptions())
    range_id = _add_range(target, (b"a", 0), (b"b", 7), e_tag="0" * 32)
    target.open().write("data/a/b", b"other bytes")
    summed = Contents(Sizes(np.array([0, 7])), Sizes(np.array([7])))
    batches = find_spans(target, summed, NEAR, 1, iter([RangeToSearch(range_id, 2)]))
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["has_untrue_sums"] for row in rows if not row["are_too_many"]][-1]
    assert not any(row["are_too_many"] for row in rows)


def test_requests_are_counted_for_every_branch_that_reads_a_range() -> None:
    """A range that three branches share is asked for three times."""
    target, range_id = _range((b"a", 0), (b"b", 5), (b"c", 0), (b"d", 7))
    [batch] = count_requests(target, _LOOKED_FOR, FAR, iter([(range_id, 3)]))
    [row] = batch.to_pylist()
    sizes, requests = (np.frombuffer(row[name], np.int64) for name in ("sizes", "requests"))
    assert sizes.tolist() == [0, 7]
    assert requests.tolist() == [1 * 3, 1 * 3]
    assert SizeCosts.sum([(sizes, requests)]).beyond(3).values.tolist() == [7]


def test_only_ranges_with_a_size_in_question_are_read_again() -> None:
    """A mark has kept the sizes of what it read: they tell which ranges can hold what is looked for."""
    target, with_seven = _range((b"a", 5), (b"b", 7))
    others = _add_range(target, (b"c", 5), (b"d", 6))
    beyond = _add_range(target, (b"e", 7 + (1 << 32)))
    pack = _read_by_a_mark(target, **{with_seven: 2, others: 2, beyond: 1})
    ranges = [RangeToSearch(with_seven, 2, pack), RangeToSearch(others, 2, pack)]
    # Only the lower 32 bits of a size are kept, so one that has them in common is looked at.
    assert _searched(target, *ranges, RangeToSearch(beyond, 1, pack)) == {with_seven, beyond}


def test_ranges_whose_sizes_are_not_known_are_read() -> None:
    """Nothing is left out by sizes that are not there, or not all there."""
    target, range_id = _range((b"a", 5), (b"b", 6))
    pack = _read_by_a_mark(target, **{range_id: 2})
    assert _searched(target, RangeToSearch(range_id, 2, pack)) == set()
    assert _searched(target, RangeToSearch(range_id, 2)) == {range_id}
    assert _searched(target, RangeToSearch(range_id, 3, pack)) == {range_id}
    elsewhere = RangeId("b" * 64)
    assert _searched(target, RangeToSearch(elsewhere, 2, pack)) == {elsewhere}
    data = target.open().read(sizes_beside(pack))
    target.open().write(sizes_beside(pack), data[:-1] + bytes([data[-1] ^ 1]))
    assert _searched(target, RangeToSearch(range_id, 2, pack)) == {range_id}
    target.open().delete_many([sizes_beside(pack)])
    assert _searched(target, RangeToSearch(range_id, 2, pack)) == {range_id}


def test_every_range_is_read_where_not_all_sizes_in_question_are_known() -> None:
    """An incomplete set of sizes names none, which must not look as if none were in question."""
    target, range_id = _range((b"a", 5))
    pack = _read_by_a_mark(target, **{range_id: 1})
    unknown = Contents(Sizes(is_complete=False))
    ranges = [RangeToSearch(range_id, 1, pack)]
    assert list(with_sizes(target.open(), target.namespace, unknown, ranges)) == [range_id]


def test_sizes_of_linked_objects_are_not_known() -> None:
    """A range with full addresses is read: sizes are taken along with relative ones only."""
    target, range_id = _range((b"a", 5), address="s3://elsewhere/object")
    pack = _read_by_a_mark(target, **{range_id: 1})
    assert _searched(target, RangeToSearch(range_id, 1, pack)) == {range_id}


@given(st.text(min_size=1), st.text(st.characters(codec="utf-8", max_codepoint=sys.maxunicode - 1)))
def test_a_listing_after_the_text_before_a_path_has_the_path(path: str, other: str) -> None:
    """Servers sort by bytes; of paths that begin as this one does, hardly any comes between."""
    before = text_before(path)
    if before is not None:
        assert before.encode() < path.encode()
        assert not before.encode() < (path[:-1] + other).encode() < path.encode()


@pytest.mark.parametrize("path", ["", "a ", "a\x00", "a\ue000"])
def test_where_no_text_stands_before_a_path_it_is_looked_up(path: str) -> None:
    """Control characters and halves of surrogates are sent to no server."""
    assert text_before(path) is None
