"""Objects that are gone when a sweep comes to them: by our own hand, or by somebody else's."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs import earlier_deletes
from lakesweep.collector.lakefs.between_runs import compaction
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.paths import events_folder
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.parts import PartWriter
from lakesweep.collector.request import SweepRequest
from lakesweep.collector.run_files import RunId
from lakesweep.engine.tasks import Scatter
from lakesweep.formats.tables import MARK_SCHEMA
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import Scene

NOTE = (
    "of {} objects that were already gone, {} had been deleted by lakesweep and {} by somebody else"
)


def lose(scene: Scene, *names: str) -> None:
    for name in names:
        del scene.container.objects[f"ns/{scene.garbage[name]}"]


def tell_restored(scene: Scene, address: str) -> None:
    order = int(scene.lake.clock.now.timestamp() * 1000)
    writer = PartWriter(scene.store, events_folder(order, "restored", RunId("r")), "p", MARK_SCHEMA)
    row = {"address": address, "size_bytes": 1}
    writer.add(pa.RecordBatch.from_pylist([row], schema=MARK_SCHEMA))
    writer.close()
    scene.lake.clock.advance(timedelta(days=10))  # a restored object is young for a while


def notes_of_sweep(scene: Scene, mark_id: str) -> tuple[str, ...]:
    return run_sweep(scene.context(), mark_id, SweepRequest()).notes


def test_what_our_own_run_deleted_is_told_from_what_somebody_else_did(scene: Scene) -> None:
    """Two marks name the same garbage, and the second sweep comes too late for all of it."""
    first, second = scene.mark(), scene.mark()
    lose(scene, "orphan-0", "expired-1")
    assert NOTE.format(2, 0, 2) in notes_of_sweep(scene, first.mark_id)
    assert NOTE.format(6, 4, 2) in notes_of_sweep(scene, second.mark_id)


def test_deletions_that_were_written_together_tell_who_deleted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else deleted is not taken for our own because its file became part of another."""
    first, second = scene.mark(), scene.mark()
    lose(scene, "orphan-0", "expired-1")
    notes_of_sweep(scene, first.mark_id)
    monkeypatch.setattr(compaction, "MOST_SMALL_FILES", 0)
    assert compaction.compact_deletions(scene.store, set(), scene.lake.clock.now)
    assert NOTE.format(6, 4, 2) in notes_of_sweep(scene, second.mark_id)


def test_what_was_put_back_after_our_delete_was_lost_by_somebody_else(scene: Scene) -> None:
    """The last that happened to it before is what counts."""
    notes_of_sweep(scene, scene.mark().mark_id)
    scene.put_back([scene.garbage["orphan-0"]])
    tell_restored(scene, scene.garbage["orphan-0"])
    marked = scene.mark()
    lose(scene, "orphan-0")
    assert NOTE.format(1, 0, 1) in notes_of_sweep(scene, marked.mark_id)


def test_nothing_is_said_when_nothing_was_gone(scene: Scene) -> None:
    """The usual case has no note."""
    assert not [n for n in notes_of_sweep(scene, scene.mark().mark_id) if "already gone" in n]


def test_what_the_servers_hard_delete_took_is_told_apart(scene: Scene) -> None:
    """An embedded lake deleted an object by itself between mark and sweep: that is nobody else's doing."""
    lake = scene.lake
    lake.client.set_hard_delete(scene.name, True)
    dropped = scene.upload("main", "twice", "first")
    lake.clock.advance(timedelta(days=3))
    scene.upload("main", "twice", "second")
    marked = scene.mark()
    assert dropped in scene.marked(marked.mark_id)
    lake.clock.advance(timedelta(minutes=5))
    lake.server.lake.reviewer.run()
    lose(scene, "expired-0")
    [note] = [n for n in notes_of_sweep(scene, marked.mark_id) if "already gone" in n]
    gone, ours, server, others = map(int, re.findall(r"\d+", note))
    assert "by the server's own hard delete" in note
    # What the scene's reset threw away may have gone with it.
    assert (ours, others) == (0, 1)
    assert server == gone - 1 >= 1


def test_a_task_that_was_tried_twice_is_no_somebody_else(
    make_scene: Callable[..., Scene],
) -> None:
    """A second attempt finds gone what the first one, lost with its executor, has deleted."""

    class Twice(InProcessEngine):
        """Runs every task that deletes a second time, and believes that one."""

        def collect(self, scatter: Scatter) -> pa.Table:
            if scatter.schema == DELETED_SCHEMA:
                super().collect(scatter)
            return super().collect(scatter)

    scene = make_scene()
    marked = scene.mark()
    lose(scene, "orphan-0")
    record = run_sweep(scene.context(engine=Twice()), marked.mark_id, SweepRequest())
    assert record.objects["already_gone"] == len(scene.garbage)
    assert NOTE.format(6, 5, 1) in record.notes


def test_what_the_server_does_not_tell_is_laid_on_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it can't be asked, or about too many, the record leaves open whether the server deleted them itself."""
    marked = scene.mark()
    lose(scene, "orphan-0", "expired-1")
    monkeypatch.setattr(earlier_deletes, "_MOST_ASKED", 1)
    told = NOTE.format(2, 0, 2) + " or the server itself"
    assert told in notes_of_sweep(scene, marked.mark_id)
