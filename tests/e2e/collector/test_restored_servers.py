"""A server that was restored from an older backup knows nothing of what was committed since: that is no garbage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.between_runs.known_heads import KNOWN_HEADS
from lakesweep.collector.lakefs.doctor.doctor import Check, CheckResult, examine
from lakesweep.collector.lakefs.request import Flow
from lakesweep.errors import UnsafeToSweepError
from lakesweep.lake.context import partition_of
from lakesweep.lake.kv.interface import scan
from lakesweep_testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)


def back_up(scene: Scene) -> Callable[[], None]:
    """Copy what the server knows of the repository; the answer brings it back to that."""
    lake = scene.lake.server.lake
    kv, partition = lake.branches._context.kv, partition_of(lake.repositories.get(scene.name))
    rows = list(scan(kv, partition))

    def restore() -> None:
        kv.delete_partition(partition)
        kv.set_many(partition, rows)

    return restore


def commit_later(scene: Scene) -> str:
    """An object that is committed after a backup, as old as one must be to be collected."""
    scene.lake.clock.advance(timedelta(days=1))
    scene.user.branch("made-later", "main")
    address = scene.upload("made-later", "later")
    scene.user.commit("made-later")
    scene.lake.clock.advance(timedelta(days=2))
    return address


def test_what_was_committed_after_the_backup_is_not_collected(make_scene: MakeScene) -> None:
    """No server removes a commit, so one that lacks a head which the last mark has seen is refused."""
    scene = make_scene()
    restore = back_up(scene)
    later = commit_later(scene)
    marked = scene.mark(CLEAN)

    restore()
    collections: list[Callable[[], object]] = [
        lambda: scene.gc(CLEAN),
        lambda: scene.sweep(marked.mark_id),
    ]
    for collect in collections:
        with pytest.raises(UnsafeToSweepError, match=KNOWN_HEADS) as caught:
            collect()
        assert caught.value.kind == "older-refs"
        assert scene.left() == set(scene.garbage)
    scene.store.delete_many([KNOWN_HEADS])
    scene.gc(CLEAN)
    assert later not in scene.present_keys()


def test_doctor_says_that_a_server_went_back_in_time(make_scene: MakeScene) -> None:
    """Before a run is refused for it, and only then."""
    scene = make_scene()
    restore = back_up(scene)
    commit_later(scene)
    scene.mark(CLEAN)

    def commits() -> Check:
        context = scene.context()
        checks = {c.name: c for c in examine(context.repository, context.resources)}
        return checks["commits"]

    assert commits().verdict is CheckResult.OK
    restore()
    assert commits().verdict is CheckResult.WRONG
    assert KNOWN_HEADS in commits().found


@pytest.mark.parametrize("dry_runs", [0, 1])
def test_first_run_after_newer_refs_were_given_up_lists_everything(
    make_scene: MakeScene, dry_runs: int
) -> None:
    """What an earlier run knew of its server's refs says nothing of these: its live objects are garbage now."""
    scene = make_scene()
    restore = back_up(scene)
    later = commit_later(scene)
    scene.gc()
    restore()
    scene.store.delete_many([KNOWN_HEADS])
    for _ in range(dry_runs):
        scene.mark()
    scene.gc()
    assert later not in scene.present_keys()


def test_branches_that_went_or_moved_are_no_older_refs(make_scene: MakeScene) -> None:
    """The server keeps the commit of a branch that was deleted, and of one that was reset."""
    scene = make_scene()
    commit_later(scene)
    scene.mark()
    scene.user.drop_branch("dev")
    scene.user.hard_reset("main", scene.retained_commit)
    scene.gc()
    assert not scene.left()


def test_heads_that_can_not_be_read_are_doubt(scene: Scene) -> None:
    """Whoever wrote them meant to say where branches were."""
    for note in (b"", b"[]", b'{"schema": "lakesweep.known-heads/9"}'):
        scene.store.write(KNOWN_HEADS, note)
        with pytest.raises(UnsafeToSweepError, match="can't be read"):
            scene.gc()
    assert scene.left() == set(scene.garbage)
