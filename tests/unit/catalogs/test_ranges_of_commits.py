"""From metaranges to ranges."""

from __future__ import annotations

import pytest

from lakesweep.catalogs.lakefs.ranges import (
    committed_key,
    ranges_of_commits,
    read_metarange_table,
)
from lakesweep.domain.commits import MetaRangeId, RangeId
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.metaranges import RangeInfo, write_metarange


def range_info(letter: str, count: int = 1) -> RangeInfo:
    key = letter.encode()
    return RangeInfo(RangeId(letter * 64), key, key, count, 100)


def put(store, *infos: RangeInfo) -> MetaRangeId:
    meta_range_id, data = write_metarange(infos)
    store.write(committed_key(meta_range_id), data)
    return meta_range_id


def test_ranges_shared_by_commits_come_once(store):
    """Ranges are named by their content; the first commit of a repository has no metarange."""
    one = put(store, range_info("a"), range_info("b"))
    two = put(store, range_info("b"), range_info("c"))
    ids = [MetaRangeId(""), one, two, one]
    assert {m: [i.id[0] for i in infos] for m, infos in ranges_of_commits(store, ids)} == {
        one: ["a", "b"],
        two: ["b", "c"],
    }
    found = read_metarange_table(store, ids).ranges.ids
    assert sorted(range_id[:1] for range_id in found) == [b"a", b"b", b"c"]


def test_a_missing_metarange_is_refused(store):
    """Its commit's objects are not known, so nothing may go."""
    missing = MetaRangeId("0" * 64)
    with pytest.raises(UnsafeToSweepError, match="metarange is missing") as caught:
        list(ranges_of_commits(store, [put(store, range_info("a")), missing]))
    assert caught.value.kind == "metarange-missing"


@pytest.mark.parametrize("read", [ranges_of_commits, read_metarange_table])
def test_a_metarange_that_did_not_come_is_refused(store, monkeypatch, read):
    """A reader that loses a file without a word would make its commits' objects garbage."""
    ids = [put(store, range_info("a")), put(store, range_info("b"))]
    read_many = store.read_many
    monkeypatch.setattr(store, "read_many", lambda keys: read_many(keys[:-1]))
    with pytest.raises(UnsafeToSweepError) as caught:
        list(read(store, ids))
    assert caught.value.kind == "metarange-missing"


def test_a_damaged_metarange_is_refused(store):
    """Bytes that are no metarange hold no ranges that we know of."""
    damaged = MetaRangeId("1" * 64)
    store.write(committed_key(damaged), b"nonsense")
    with pytest.raises(UnsafeToSweepError):
        list(ranges_of_commits(store, [damaged]))


def test_two_promises_for_one_range_are_refused(store):
    """A range has one content, so it has one count."""
    ids = [put(store, range_info("a", 1)), put(store, range_info("a", 2))]
    with pytest.raises(
        UnsafeToSweepError,
        match=r"says that range a+ has 1 entries, another says 2|has 2 entries, another says 1",
    ):
        read_metarange_table(store, ids)
