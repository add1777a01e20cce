"""An inventory in the place of a listing: the same garbage, and nothing that has changed since it was taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.record import RunRecord
from lakesweep.report.text import run_text
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.inventories import FORMATS, Row, by, rows_of, taken
from lakesweep_testing.scene import Scene

MakeScene = Callable[..., Scene]
COUNTS = ("listed", "live", "young", "protected", "garbage", "expired", "unreferenced")


def account(record: RunRecord) -> dict[str, tuple[int, int]]:
    return {name: (record.objects[name], record.bytes[name]) for name in COUNTS}


@pytest.mark.parametrize("kind", few_of(FORMATS, 3))
def test_an_inventory_finds_what_a_listing_finds(scene: Scene, kind: str) -> None:
    """The same garbage, and the same number of everything else."""
    inventory = taken(scene, kind)
    listed, found = scene.mark(), scene.mark(by(inventory))
    assert (
        scene.marked(found.mark_id) == scene.marked(listed.mark_id) == set(scene.garbage.values())
    )
    assert account(found) == account(listed)
    named = [{why: set(names) for why, names in r.protected.items()} for r in (found, listed)]
    assert named[0] == named[1]
    assert found.oldest_garbage is not None


def test_uncommitted_data_alone_is_found_as_by_a_listing(scene: Scene) -> None:
    """What has expired is left alone."""
    uncommitted = by(None, what=What.UNCOMMITTED, flow=Flow.CLEAN)
    listed = scene.mark(uncommitted)
    found = scene.mark(replace(uncommitted, inventory=taken(scene).uri))
    assert scene.marked(found.mark_id) == scene.marked(listed.mark_id) != set()
    assert account(found) == account(listed)
    assert found.objects["expired"] == 0


@pytest.mark.parametrize("kind", few_of(FORMATS, 3))
def test_a_collection_by_an_inventory_deletes_the_garbage_and_says_what_it_read(
    scene: Scene, kind: str
) -> None:
    """Its record tells which inventory it was, and that its rows are all accounted for."""
    rows = rows_of(scene.name)
    elsewhere = Row("another/repository/data/x", 3, rows[0].at, scene.name)
    inventory = taken(scene, kind, [*rows, elsewhere])
    record = scene.gc(by(inventory))
    assert scene.left() == set()
    scene.assert_nothing_else_gone()
    scene.assert_everything_reads()
    told = record.inventory
    assert told["uri"] == inventory.uri
    assert told["rows"] == len(rows) + 1
    assert told["rows_outside"] == 1
    assert (
        told["rows"] == told["rows_listed"] + told["rows_outside"] + told["rows_in_other_folders"]
    )
    assert told["looked_up"] == told["as_listed"] == record.objects["garbage"]
    assert inventory.uri in run_text(record)
    assert "an inventory took the place of a listing" in run_text(record)


@pytest.mark.parametrize("kind", ["s3-parquet", "plain"])
def test_what_came_after_an_inventory_of_last_week_is_kept(
    make_scene: MakeScene, kind: str
) -> None:
    """It is garbage today, old enough even, but the inventory is too old to know it."""
    scene = make_scene()
    inventory = taken(scene, kind)
    later = scene.upload("main", "later")
    scene.user.reset("main")
    scene.lake.clock.advance(timedelta(days=7))
    record = scene.mark(by(inventory))
    assert later in scene.marked(scene.mark().mark_id)
    assert later not in scene.marked(record.mark_id)
    assert set(scene.garbage.values()) <= scene.marked(record.mark_id)


def test_what_the_inventory_calls_young_is_judged_by_its_time(make_scene: MakeScene) -> None:
    """An inventory of today lists what was written a minute ago, and it is young as in a listing."""
    scene = make_scene()
    young = scene.upload("main", "a-minute-ago")
    scene.user.reset("main")
    record = scene.mark(by(taken(scene)))
    assert record.objects["young"] >= 1
    assert young not in scene.marked(record.mark_id)


@pytest.mark.parametrize("kind", few_of(FORMATS, 3))
def test_an_object_that_was_overwritten_since_is_kept(scene: Scene, kind: str) -> None:
    """Another size, or the same size at another time: it is not the object that the inventory names."""
    inventory = taken(scene, kind)
    longer, newer = scene.garbage["orphan-0"], scene.garbage["expired-0"]
    before = scene.container.objects[f"ns/{newer}"]
    scene.put(longer, b"somebody else's, and longer", days_ago=30)
    scene.put(newer, before.data, days_ago=3)
    record = scene.gc(by(inventory))
    assert {longer, newer} <= scene.present_keys()
    assert scene.left() == {"orphan-0", "expired-0"}
    assert record.objects["rewritten"] == record.inventory["rewritten"] == 2
    assert record.objects["garbage"] == record.objects["deleted"] == len(scene.garbage) - 2
    assert "rewritten" in run_text(record)


@pytest.mark.parametrize("kind", ["s3-csv", "plain"])
def test_an_object_that_is_gone_since_is_counted_as_vanished(scene: Scene, kind: str) -> None:
    """It is not planned, and the numbers add up without it."""
    inventory = taken(scene, kind)
    gone = scene.garbage["orphan-1"]
    del scene.container.objects[f"ns/{gone}"]
    record = scene.gc(by(inventory))
    assert record.objects["vanished"] == record.inventory["vanished"] == 1
    assert record.objects["garbage"] == record.objects["deleted"] == len(scene.garbage) - 1
    verdicts = ("live", "young", "protected", "undecided", "rewritten", "vanished", "garbage")
    for counted in (record.objects, record.bytes):
        assert counted["listed"] == sum(counted[name] for name in verdicts)


def test_other_containers_of_an_azure_account_are_passed_over(scene: Scene) -> None:
    """A rule lists many containers; keys that look alike in another one are none of the repository's."""
    rows = rows_of(scene.name)
    others = [replace(row, bucket="another") for row in rows]
    record = scene.mark(by(taken(scene, "azure-csv", [*others, *rows])))
    assert record.inventory["rows_outside"] == len(others)
    assert scene.marked(record.mark_id) == set(scene.garbage.values())


def test_an_inventory_of_a_part_of_the_namespace_finds_less(scene: Scene) -> None:
    """What it leaves out is kept."""
    some = scene.garbage["orphan-0"]
    rows = [row for row in rows_of(scene.name) if row.key == f"ns/{some}"]
    record = scene.gc(by(taken(scene, rows=rows, files=1)))
    assert record.objects["listed"] == record.objects["deleted"] == 1
    assert "orphan-0" not in scene.left()
    assert len(scene.left()) == len(scene.garbage) - 1


HOSTILE = (
    "data/a b+c%20d,e.bin",
    "data/quotes\"'and\nlines",
    "data/ünïcödé/日本 語",
    "data/%2e%2e/%2F",
    "data/../up",
    "data//empty",
    "data/=cmd()",
)


@pytest.mark.parametrize("kind", few_of(FORMATS, 3))
def test_hostile_names_come_through_every_format(make_scene: MakeScene, kind: str) -> None:
    """They are listed, protected and named exactly as by a listing; a signed address with its comma may go."""
    scene = make_scene()
    slice_folder = scene.live["base"].rsplit("/", 1)[0]
    signed = scene.put(f"{slice_folder}/{'c' * 19}0,{'Ab-_' * 5}", b"1234", days_ago=30)
    for name in HOSTILE:
        scene.put(name, b"hostile", days_ago=30)
    listed, found = scene.mark(), scene.mark(by(taken(scene, kind)))
    assert signed in scene.marked(found.mark_id)
    assert scene.marked(found.mark_id) == scene.marked(listed.mark_id)
    assert {name for names in found.protected.values() for name in names} >= set(HOSTILE)
    assert account(found) == account(listed)


def test_a_run_by_an_inventory_leaves_nothing_to_an_optimized_one(make_scene: MakeScene) -> None:
    """Slices that an old inventory does not know would never be read again."""
    scene = make_scene()
    inventory = taken(scene)
    orphan = scene.upload("main", "later")
    scene.user.reset("main")
    scene.lake.clock.advance(timedelta(days=7))
    assert scene.gc(by(inventory)).flow == Flow.CLEAN
    after = scene.gc()
    assert after.flow == Flow.CLEAN
    assert orphan not in scene.present_keys()


def test_the_newest_inventory_of_a_configuration_is_taken(scene: Scene) -> None:
    """A scheduled run names the configuration's folder, and not a date."""
    inventory = taken(scene)
    folder = inventory.manifest.rsplit("/", 2)[0]
    old = f"{folder}/2001-01-01T00-00Z/manifest.json"
    inventory.write(old, b"not read")
    uri = f"mem://{inventory.container}/{folder}"
    record = scene.mark(by(uri))
    assert record.inventory["uri"] == inventory.uri
    assert record.objects["garbage"] == len(scene.garbage)
