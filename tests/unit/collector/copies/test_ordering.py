"""The rows of a mark in the order of their addresses: all of them, once, and few requests to look them up."""

from __future__ import annotations

import random
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.collector.copies import order as ordering
from lakesweep.collector.copies.copier import COPIED, CopyRoad
from lakesweep.collector.copies.copy import copy_parts
from lakesweep.collector.copies.order import in_order
from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.parts import Part
from lakesweep.collector.target import Target
from lakesweep.domain.location import Location
from lakesweep.errors import FormatError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep.storage import ObjectStore, StorageOptions
from lakesweep_testing.inprocess import InProcessEngine

WHY_NOT = ObjectDeletion(root_names=True).why_not

SLICE = "data/gcoca17haabs73f2gtq0/"
FOLDER = "work/"


def container() -> Target:
    return Target(Location.parse(f"mem://{uuid.uuid4().hex}/lake"), StorageOptions())


def written(marks: Target, parts: list[list[str]]) -> list[Part]:
    """A mark of these addresses, each with a size of its own."""
    told = []
    for number, addresses in enumerate(parts):
        rows = [{"address": a, "size_bytes": len(a), "reason": "expired"} for a in addresses]
        key = f"part-{number}.parquet"
        marks.open().write(key, write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA)))
        told.append(Part(key, len(rows), sum(len(a) for a in addresses)))
    return told


@pytest.fixture
def few_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_FEWEST_ROWS", 1)


@given(
    parts=st.lists(st.lists(st.text(min_size=1, max_size=4), max_size=12), max_size=6),
    slots=st.integers(1, 5),
    at_once=st.sampled_from([1, 10, 1000]),
)
def test_every_row_comes_out_once_and_in_order(
    parts: list[list[str]], slots: int, at_once: int
) -> None:
    """Whatever the addresses are, how often they are there, in what order, and whether they need many partitions."""
    marks, work = container(), container()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ordering, "_FEWEST_ROWS", 1)
        patch.setattr(ordering, "_ROWS_PER_PARTITION", at_once)
        mark = written(marks, parts)
        where, ordered = in_order(InProcessEngine(slots), marks, work, FOLDER, mark)
    tables = [read_mark(where.open().read(part.key)) for part in ordered]
    rows = [row for table in tables for row in table.to_pylist()]
    addresses = [row["address"] for row in rows]
    assert sorted(addresses) == sorted(a for part in parts for a in part)
    assert [row["size_bytes"] for row in rows] == [len(a) for a in addresses]
    assert [part.rows for part in ordered] == [table.num_rows for table in tables]
    assert addresses == sorted(addresses)


def test_a_small_mark_stays_where_it_is() -> None:
    """Its look-ups one by one take no longer."""
    marks, work = container(), container()
    parts = written(marks, [["b"], ["a"]])
    assert in_order(InProcessEngine(), marks, work, FOLDER, parts) == (marks, parts)


@pytest.mark.usefixtures("few_matter")
@pytest.mark.parametrize("at_once", [1, 1000])
def test_a_row_that_gets_lost_on_the_way_is_noticed(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """The mark promises more rows than its file has."""
    monkeypatch.setattr(ordering, "_ROWS_PER_PARTITION", at_once)
    marks, work = container(), container()
    one, two = written(marks, [["a", "b"], ["c"]])
    with pytest.raises(UnsafeToSweepError, match="4 rows of the mark were put in order, 3 came"):
        in_order(InProcessEngine(), marks, work, FOLDER, [one, Part(two.key, 2, 2)])


@pytest.mark.usefixtures("few_matter")
@pytest.mark.parametrize("at_once", [1, 1000])
def test_a_mark_that_has_been_emptied_meanwhile_is_noticed(
    monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """No row is there to begin with; that is doubt, and no crash."""
    monkeypatch.setattr(ordering, "_ROWS_PER_PARTITION", at_once)
    marks, work = container(), container()
    (part,) = written(marks, [[]])
    with pytest.raises(UnsafeToSweepError, match="2 rows of the mark were put in order, 0 came"):
        in_order(InProcessEngine(), marks, work, FOLDER, [Part(part.key, 2, 2)])


@pytest.mark.usefixtures("few_matter")
def test_a_damaged_part_is_an_error() -> None:
    """Nothing is put in order without it."""
    marks, work = container(), container()
    parts = written(marks, [["a", "b"], ["c"]])
    marks.open().write(parts[1].key, b"PAR1 and nothing else")
    with pytest.raises(FormatError, match="mark"):
        in_order(InProcessEngine(), marks, work, FOLDER, parts)


def test_neighbours_in_different_parts_are_looked_up_by_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As they come, no page would show enough of what is wanted."""
    source, outside, marks = container(), container(), container()
    names = [f"{SLICE}c{number:018d}0" for number in range(5000)]
    for name in names:
        source.open().write(name, name.encode())
    random.Random(1).shuffle(names)
    parts = written(marks, [names[first::40] for first in range(40)])
    asked: list[str] = []
    find = ObjectStore.find

    def counted(self: ObjectStore, key: str) -> object:
        asked.append(key)
        return find(self, key)

    monkeypatch.setattr(ObjectStore, "find", counted)
    road = CopyRoad(marks, source, outside, source, FOLDER, WHY_NOT)
    copied = copy_parts(InProcessEngine(), road, parts)
    assert copied.tally(COPIED).objects == len(names)
    assert asked == []
