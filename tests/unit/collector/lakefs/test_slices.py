"""Which folders below data/ are slices, which are looked into, and which need never be listed again."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

from lakesweep.collector.lakefs.slices import Slices, find_slices, last_read_slice
from lakesweep.domain.location import Location
from lakesweep.formats.xid import new_descending_xid
from lakesweep.storage import open_store

NOW = datetime(2026, 1, 10, tzinfo=UTC)
SECOND, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)


def a_slice(age: timedelta) -> str:
    return f"data/{new_descending_xid(NOW - age)}/"


def test_slice_is_read_for_the_last_time_when_nothing_in_it_can_be_linked_any_more() -> None:
    """Its last address was issued when it ended, and may be linked for the margin after that."""
    open_still, settled, older = (a_slice(DAY + HOUR + more) for more in (0 * SECOND, SECOND, DAY))
    names = [place.split("/")[1] for place in (open_still, settled, older)]
    assert last_read_slice([older, open_still, settled], NOW, HOUR, DAY) == names[1]
    assert last_read_slice([open_still], NOW, HOUR, DAY) == ""
    assert last_read_slice([], NOW, HOUR, DAY) == ""


def test_slices_that_were_read_for_the_last_time_are_not_listed() -> None:
    """Newer ones are, and whatever else stands there."""
    newer, settled, older = (a_slice(age) for age in (HOUR, 2 * DAY, 3 * DAY))
    slices = Slices((newer, settled, older), ("data/other/",))
    said = [piece.folder for piece in slices.prefixes(since=settled.split("/")[1])]
    assert said == [newer, "data/other/", "data/", ""]
    assert [piece.folder for piece in slices.prefixes()][:3] == [newer, settled, older]


def test_every_folder_below_data_is_a_slice_or_is_looked_into() -> None:
    """Below shards, too, and below folders that are deeper than any shard of lakeFS."""
    store = open_store(Location.parse(f"mem://slices-{uuid.uuid4().hex[:8]}/ns"))
    one, two = a_slice(HOUR), a_slice(DAY).replace("data/", "data/!ab/c/")
    deep = "data/!a/b/c/d/e/f/"
    for folder in (one, two, f"{deep}g/", "data/other/"):
        store.write(f"{folder}object", b"x")
    found = find_slices(store)
    assert found.slices == (one, two)
    assert set(found.others) == {"data/other/", deep}
