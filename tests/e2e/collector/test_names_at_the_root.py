"""Files named by 32 hex digits at the root of the namespace: foreign, unless the repository's commits hold such names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.deletion import ObjectDeletion
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.ledger.deleting import Chunk, LedgerFolders, delete_chunks
from lakesweep.collector.run_files import MarkId
from lakesweep.formats.entries import AddressType, Entry
from lakesweep.formats.tables import MARK_SCHEMA, write_mark
from lakesweep_testing.scene import AGED, ANY_CLOCK, Scene

MakeScene = Callable[..., Scene]
FOREIGN = "d41d8cd98f00b204e9800998ecf8427e"
COMMITTED = "b0c968736d8f42a2b1c6284835f08226"
AT_ROOT = "foreign file at the root of the namespace"


def add_row(scene: Scene, mark_id: str, address: str) -> None:
    """Write one more row into a mark, as of long ago."""
    row = {
        "address": address,
        "size_bytes": 3,
        "last_modified": scene.lake.clock.now - timedelta(days=30),
        "reason": "unreferenced",
    }
    table = pa.Table.from_pylist([row], schema=MARK_SCHEMA)
    scene.store.write(f"{mark_folder(MarkId(mark_id))}more.parquet", write_mark(table))


def entry(scene: Scene, address: str, kind: AddressType = AddressType.RELATIVE) -> Entry:
    at = scene.lake.clock.now - timedelta(days=20)
    return Entry(address, at, 3, "e", address_type=kind)


@pytest.mark.parametrize("what", [What.ALL, What.UNCOMMITTED])
def test_a_mark_protects_and_names_a_foreign_file_with_an_md5_name(
    make_scene: MakeScene, what: What
) -> None:
    """Its name is one that a server of long ago gave, but no commit of this repository holds such a name."""
    scene = make_scene()
    scene.put(FOREIGN, b"abc", days_ago=30)
    record = scene.mark(replace(AGED, what=what))
    assert FOREIGN not in scene.marked(record.mark_id)
    assert FOREIGN in record.protected[AT_ROOT]
    assert "README.txt" in record.protected[AT_ROOT]
    assert record.objects["listed"] == sum(
        record.objects[v] for v in ("live", "young", "protected", "garbage")
    )


def test_a_sweep_keeps_a_foreign_file_that_a_mark_names(make_scene: MakeScene) -> None:
    """The mark's word is not enough: what commits hold is read again, and they hold no such name."""
    scene = make_scene()
    scene.put(FOREIGN, b"abc", days_ago=30)
    marked = scene.mark()
    add_row(scene, marked.mark_id, FOREIGN)
    scene.sweep(marked.mark_id)
    assert FOREIGN in scene.present_keys()
    assert not scene.left()


@pytest.mark.parametrize("root_names", [False, True])
def test_the_last_look_at_a_key_knows_whose_names_at_the_root_are(
    make_scene: MakeScene, root_names: bool
) -> None:
    """Key by key before the delete: the re-verification says whether such names are the repository's own."""
    scene = make_scene()
    scene.put(FOREIGN, b"abc", days_ago=30)
    marked = scene.mark()
    add_row(scene, marked.mark_id, FOREIGN)
    part = f"{mark_folder(MarkId(marked.mark_id))}more.parquet"
    context = scene.context()
    chunk = Chunk(
        part, 0, 1, context.resources.clock() + timedelta(days=36500), ANY_CLOCK.clock_skew
    )
    folders, deleter = LedgerFolders("ledger/", "deleted/"), ObjectDeletion(root_names)
    list(delete_chunks(context.resources.target, folders, deleter, iter([chunk])))
    assert (FOREIGN in scene.present_keys()) is not root_names


@pytest.mark.parametrize("what", list(What))
def test_a_repository_from_before_slices_is_collected(make_scene: MakeScene, what: What) -> None:
    """Commits that hold names at the root make such names the repository's own: live, expired or unreferenced."""
    scene = make_scene()
    live, expired, orphan = (f"{n:032x}" for n in range(3))
    for address in (live, expired, orphan):
        scene.put(address, b"abc", days_ago=30)
    scene.commit_entries("old", {"live": entry(scene, live), "expired": entry(scene, expired)})
    scene.lake.clock.advance(timedelta(days=1))
    scene.user.delete("old", "expired")
    scene.user.commit("old")
    scene.lake.clock.advance(timedelta(days=9))
    record = scene.gc(replace(AGED, what=what, flow=Flow.CLEAN))
    gone = {live, expired, orphan} - scene.present_keys()
    assert (
        gone
        == {
            What.ALL: {expired, orphan},
            What.UNCOMMITTED: {orphan},
            What.COMMITTED: {expired},
        }[what]
    )
    assert not set(record.protected.get(AT_ROOT, [])) & {live, expired, orphan}


def test_a_foreign_file_linked_by_its_full_address_makes_no_others_ours(
    make_scene: MakeScene,
) -> None:
    """Somebody imported a file that lies at the root: its neighbours are as foreign as before, and so is it."""
    scene = make_scene()
    for address in (FOREIGN, COMMITTED):
        scene.put(address, b"abc", days_ago=30)
    full = f"mem://{scene.name}/ns/{COMMITTED}"
    scene.commit_entries("imported", {"file": entry(scene, full, AddressType.FULL)})
    scene.lake.clock.advance(timedelta(days=1))
    scene.user.delete("imported", "file")
    scene.user.commit("imported")
    scene.lake.clock.advance(timedelta(days=9))
    for what in (What.COMMITTED, What.ALL):
        scene.gc(replace(AGED, what=what, flow=Flow.CLEAN))
        assert {FOREIGN, COMMITTED} <= scene.present_keys()
