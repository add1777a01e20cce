"""Marks edited by hand: whatever they name, nothing goes that is not garbage, and no more than was measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.collector import guards as confirmation
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import What
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import MarkId
from lakesweep.errors import (
    UnsafeToSweepError,
)
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep_testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]


def edit_mark(scene: Scene, mark_id: str, *addresses: str, at: datetime | None = None) -> None:
    """Add rows to the first file of a mark, as somebody with a Parquet editor would."""
    key = f"{mark_folder(MarkId(mark_id))}part-00000.parquet"
    claimed = at or scene.lake.clock.now - timedelta(days=300)
    rows = [
        {"address": a, "size_bytes": 1, "last_modified": claimed, "reason": "expired"}
        for a in addresses
    ]
    extra = pa.Table.from_pylist(rows, schema=MARK_SCHEMA)
    scene.store.write(key, write_mark(pa.concat_tables([read_mark(scene.store.read(key)), extra])))


def test_edited_mark_deletes_nothing_that_is_live(scene: Scene) -> None:
    """Whatever a mark names, a head, a retained commit, a staged entry, a copy and a pending upload stay."""
    marked = scene.mark()
    edit_mark(scene, marked.mark_id, *scene.live.values())
    swept = scene.sweep(marked.mark_id)
    scene.assert_nothing_else_gone()
    assert not scene.left()
    assert swept.objects["deleted"] == len(scene.garbage)
    assert set(swept.revived) == set(scene.live.values()) - {scene.live["young"]}


def test_edited_mark_deletes_nothing_outside_the_namespace(scene: Scene) -> None:
    """Neither `..` nor a full address nor an absolute path leads out."""
    beside = "mem-beside/data/hr45dh069lbkm8intj0g/c0000000000000000000"
    scene.container.store(beside, b"not ours")
    marked = scene.mark()
    edit_mark(
        scene,
        marked.mark_id,
        f"../{beside}",
        f"/{beside}",
        f"mem://{scene.name}/{beside}",
        f"data/../../{beside}",
        f"data/hr45dh069lbkm8intj0g/../../../{beside}",
    )
    swept = scene.sweep(marked.mark_id)
    assert beside in scene.container.objects
    scene.assert_nothing_else_gone()
    assert swept.objects["deleted"] == len(scene.garbage)
    assert any("not those of garbage" in note for note in swept.notes)


def test_edited_mark_deletes_no_metadata_and_no_foreign_file(scene: Scene) -> None:
    """`_lakefs/`, the marker and what lakeFS did not write are safe from any mark."""
    metadata = [key for key in scene.present_keys() if key.startswith("_lakefs/")]
    marked = scene.mark()
    edit_mark(scene, marked.mark_id, *metadata, *scene.foreign, "_lakefs/dummy", "dummy", "")
    scene.sweep(marked.mark_id)
    scene.assert_nothing_else_gone()
    assert not scene.left()


def test_edited_mark_with_a_forged_date_deletes_no_young_object(scene: Scene) -> None:
    """A date in a file that somebody wrote is a claim; the store is asked for the age."""
    marked = scene.mark()
    edit_mark(scene, marked.mark_id, scene.live["young"])
    swept = scene.sweep(marked.mark_id)
    scene.assert_nothing_else_gone()
    assert not scene.left()
    assert any("every row was checked again" in note for note in swept.notes)


@pytest.mark.parametrize("what", [What.ALL, What.COMMITTED])
def test_edited_mark_deletes_no_young_object_of_an_expired_commit(
    make_scene: MakeScene, what: What
) -> None:
    """A commit can be back-dated, so that what it holds is expired and young at once; young wins in every mark."""
    scene = make_scene()
    scene.live["just written"] = scene.upload("main", "just-written")
    scene.user.commit("main", days=40)
    scene.user.delete("main", "just-written")
    scene.user.commit("main", days=30)
    scene.keep_as_is()
    marked = scene.mark(replace(AGED, what=what))
    assert scene.live["just written"] not in scene.marked(marked.mark_id)
    edit_mark(scene, marked.mark_id, scene.live["just written"])
    scene.sweep(marked.mark_id)
    scene.assert_nothing_else_gone()


def test_rows_that_a_mark_names_twice_count_once(scene: Scene) -> None:
    """Duplicates in a mark change neither what is deleted nor how it is counted."""
    marked = scene.mark()
    edit_mark(scene, marked.mark_id, *scene.garbage.values(), *scene.garbage.values())
    swept = scene.sweep(marked.mark_id)
    assert not scene.left()
    assert swept.objects["deleted"] == len(scene.garbage)
    scene.assert_nothing_else_gone()


def test_file_added_to_a_mark_is_no_way_around_the_checks(scene: Scene) -> None:
    """A second file in the mark's folder is read, and checked row by row."""
    marked = scene.mark()
    row = {
        "address": scene.live["base"],
        "size_bytes": 1,
        "last_modified": None,
        "reason": "unreferenced",
    }
    table = pa.Table.from_pylist([row], schema=MARK_SCHEMA)
    scene.store.write(f"{mark_folder(MarkId(marked.mark_id))}zzz.parquet", write_mark(table))
    scene.sweep(marked.mark_id)
    scene.assert_nothing_else_gone()
    assert not scene.left()


def test_files_added_to_a_mark_after_it_was_confirmed_do_not_widen_the_plan(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blast radius is that of what is deleted now: a mark grown by hand is measured again."""
    monkeypatch.setattr(confirmation, "SMALL_PLAN_OBJECTS", 2)
    for key, address in scene.garbage.items():
        if not key.endswith("0"):
            scene.store.delete_many([address])
    marked = scene.mark()
    assert marked.objects["garbage"] == 2
    scene.put_back(scene.garbage.values())
    edit_mark(scene, marked.mark_id, *scene.garbage.values())
    with pytest.raises(UnsafeToSweepError, match=r"more than the"):
        scene.sweep(marked.mark_id, SweepRequest(max_delete_share=30))
    assert scene.left() == set(scene.garbage)
