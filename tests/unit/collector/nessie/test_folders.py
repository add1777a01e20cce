"""Which folders a run looks into, and which belong to contents that are neither tables nor views."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from types import FrameType

import pytest

from lakesweep.collector.nessie.folders import (
    OTHER_KIND,
    BaseFolder,
    Place,
    TableFolders,
    outermost,
)
from lakesweep.collector.nessie.live_files import LiveFiles
from lakesweep.collector.nessie.protection import DROPPED_TABLE, OLD_ONLY
from lakesweep.domain.live_sets import OtherContent
from lakesweep.domain.location import Location

TABLE = "s3://lake/t"


def test_a_folder_of_another_kind_may_have_a_dot_in_its_name() -> None:
    """Nobody knows whether what an unknown kind names is a file or a folder, so it is both."""
    places = (f"{TABLE}/vectors.lance", f"{TABLE}/model/v1.2/")
    bases = [BaseFolder(TABLE, Location.parse(TABLE))]
    others = [OtherContent("id", ("v",), "LANCE_TABLE", places)]
    folders = TableFolders(bases, LiveFiles(), LiveFiles(), others, ())
    of_others = [f"{TABLE}/vectors.lance/data/1.lance", f"{TABLE}/model/v1.2/weights.bin"]
    said = folders.protection().label_of
    assert [said(file) for file in of_others] == [OTHER_KIND] * 2
    assert said(f"{TABLE}/data/1.parquet") == ""


def test_a_folder_inside_another_is_no_root() -> None:
    names = ("s3://lake/t", "s3a://lake/t/", "s3://lake/t/deep/u", "s3://lake/t2", "gs://lake/t/u")
    found = outermost(map(Location.parse, names))
    assert [root.uri for root in found] == ["gs://lake/t/u", "s3://lake/t", "s3://lake/t2"]
    assert outermost([Location.parse("s3://lake"), *found]) == [
        found[0],
        Location.parse("s3://lake"),
    ]


@pytest.mark.parametrize(
    ("folder", "is_overlapping"),
    [
        (TABLE, True),
        ("s3a://lake/t/", True),
        (f"{TABLE}/data/deep", True),
        ("s3://lake", True),
        ("s3://lake/t2", False),
        ("s3://lake/other/t", False),
        ("s3://lake/../t", False),
    ],
)
def test_a_folder_overlaps_a_base_in_it_around_it_and_at_it(
    folder: str, is_overlapping: bool
) -> None:
    assert _folders([TABLE, "s3://lake/u"]).overlaps_a_base()(folder) == is_overlapping


def test_a_place_in_or_around_which_a_table_is_new_stays() -> None:
    """One that became live since the mark may need any file there."""
    places = ("in/it", "around", "apart")
    folders = _folders([TABLE], [f"s3://lake/{place}" for place in places])
    now = LiveFiles(bases={"s3://lake/in": set(), "s3a://lake/around/it": set()})
    said = folders.protection(live_now=now).label_of
    assert [said(f"s3://lake/{place}/f") for place in places] == [
        *(DROPPED_TABLE, DROPPED_TABLE),
        OLD_ONLY,
    ]


def test_ten_times_the_tables_are_about_ten_times_the_work() -> None:
    """Comparing each location with each other took minutes where a catalog has ten thousand tables."""
    assert _calls(300) < 15 * _calls(30)


def _calls(tables: int) -> int:
    """How many functions are called to compare folders, of so many live tables and as many dropped ones."""
    live = [f"s3://lake/live/{number}" for number in range(tables)]
    dropped = [f"s3://lake/dropped/{number}" for number in range(tables)]
    folders = _folders(live, dropped)
    now = LiveFiles(bases={base: set() for base in live})
    count = 0

    def counted(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        assert len(folders.roots) == tables
        assert not any(map(folders.overlaps_a_base(), dropped))
        folders.protection(live_now=now)
    finally:
        sys.setprofile(None)
    return count


def _folders(bases: list[str], places: Sequence[str] = ()) -> TableFolders:
    found = [BaseFolder(base, Location.parse(base)) for base in bases]
    collected = [Place(BaseFolder(p, Location.parse(p)), "", frozenset()) for p in places]
    return TableFolders(
        found,
        LiveFiles(),
        LiveFiles(),
        (),
        (),
        places=collected,
        old_until=datetime(2026, 1, 1, tzinfo=UTC),
    )
