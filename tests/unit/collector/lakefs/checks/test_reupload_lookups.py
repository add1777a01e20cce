"""Where entries of given sizes lie in ranges, and what it costs to look them up."""

from __future__ import annotations

from itertools import count

import numpy as np

from lakesweep.collector.judge.suspects import Sizes
from lakesweep.collector.lakefs.checks.content_sums import Contents
from lakesweep.collector.lakefs.checks.reupload_lookups import (
    FAR,
    NEAR,
    SizeCosts,
    count_requests,
    find_spans,
)
from lakesweep.collector.target import Target
from lakesweep.domain.commits import RangeId
from lakesweep.domain.location import Location
from lakesweep.formats.entries import Entry
from lakesweep.formats.range_writer import write_ranges
from lakesweep.formats.values import join_value
from lakesweep.storage import StorageOptions

_NUMBERS = count()
_LOOKED_FOR = Contents(Sizes(np.array([0, 7])))


def _range(*entries: tuple[bytes, int]) -> tuple[Target, RangeId]:
    """A namespace with one range of these (path, size)."""
    target = Target(Location.parse(f"mem://reuploads-work/{next(_NUMBERS)}"), StorageOptions())
    [written] = write_ranges(
        (path, join_value(b"i" * 32, Entry("data/a/b", None, size, "e").encode()))
        for path, size in entries
    )
    target.open().write(f"_lakefs/{written.id}", written.data)
    return target, written.id


def test_path_that_is_no_text_gives_up_only_the_sizes_around_it() -> None:
    """No request can carry such a path; other stretches of the range are looked up all the same."""
    others = [(b"m%03d" % number, 5) for number in range(NEAR)]
    target, range_id = _range((b"a", 0), (b"b", 5), (b"c", 0), *others, (b"z\xff", 7))
    [batch] = find_spans(target, _LOOKED_FOR, NEAR, 1, iter([range_id]))
    named, unaskable = batch.to_pylist()
    assert (named["first"], named["last"], named["entries"]) == ("a", "c", 3)
    assert np.frombuffer(named["sizes"], np.int64).tolist() == [0]
    assert unaskable["first"] is None
    assert np.frombuffer(unaskable["sizes"], np.int64).tolist() == [7]


def test_requests_are_counted_for_every_branch_that_reads_a_range() -> None:
    """A range that three branches share is asked for three times."""
    target, range_id = _range((b"a", 0), (b"b", 5), (b"c", 0), (b"d", 7))
    [batch] = count_requests(target, _LOOKED_FOR, FAR, iter([(range_id, 3)]))
    [row] = batch.to_pylist()
    sizes, requests = (np.frombuffer(row[name], np.int64) for name in ("sizes", "requests"))
    assert sizes.tolist() == [0, 7]
    assert requests.tolist() == [2 * 3, 1 * 3]
    assert SizeCosts.sum([(sizes, requests)]).beyond(3).values.tolist() == [0]
