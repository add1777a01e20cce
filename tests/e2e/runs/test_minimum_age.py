"""The minimum age holds on every road: a listing, an optimised run, and committed data that no listing dates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.runs.request import Flow, What
from lakesweep.testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]

COMMITTED = replace(AGED, what=What.COMMITTED)


def commit_and_expire(scene: Scene, path: str) -> str:
    """Commits an upload and its removal as of long ago, so that the object is expired and seconds old."""
    address = scene.upload("main", path)
    scene.user.commit("main", days=40)
    scene.user.delete("main", path)
    scene.user.commit("main", days=30)
    scene.live[path] = address
    scene.keep_as_is()
    return address


@pytest.mark.parametrize("what", list(What))
def test_young_object_of_a_back_dated_commit_is_in_no_mark(
    make_scene: MakeScene, what: What
) -> None:
    """A mark alone: what is seconds old is young, whatever the date of the commit that held it."""
    scene = make_scene()
    address = commit_and_expire(scene, "just-written")
    marked = scene.mark(replace(AGED, what=what))
    assert address not in scene.marked(marked.mark_id)
    assert what is What.UNCOMMITTED or marked.objects["young"] >= 1


def test_committed_objects_go_once_they_are_old_enough(make_scene: MakeScene) -> None:
    """A young object is left out of one mark and found by a later one."""
    scene = make_scene()
    address = commit_and_expire(scene, "just-written")
    scene.gc(COMMITTED)
    assert address in scene.present_keys()
    scene.lake.clock.advance(timedelta(hours=25))
    scene.gc(COMMITTED)
    assert address not in scene.present_keys()


def test_rule_of_no_days_expires_nothing_young(make_scene: MakeScene) -> None:
    """A retention of 0 days takes what a commit replaced a moment ago, and the minimum age keeps it."""
    scene = make_scene()
    scene.user.set_rules(5, main=0)
    address = scene.live["minutes old"] = scene.upload("main", "minutes-old")
    scene.user.commit("main")
    scene.user.delete("main", "minutes-old")
    scene.user.commit("main")
    scene.lake.clock.advance(timedelta(minutes=5))
    scene.keep_as_is()
    record = scene.gc(COMMITTED)
    assert record.objects["deleted"] > 0
    assert address in scene.present_keys()


def test_age_is_the_store_s_word_and_not_the_entry_s(scene: Scene) -> None:
    """An entry says when its author wrote it; the object itself was written today."""
    address = scene.garbage["expired-0"]
    scene.put(address, b"written again", days_ago=0)
    marked = scene.mark(COMMITTED)
    assert address not in scene.marked(marked.mark_id)
    assert scene.garbage["expired-1"] in scene.marked(marked.mark_id)


def test_optimised_run_takes_no_young_object_of_an_expired_commit(make_scene: MakeScene) -> None:
    """An optimised run of all takes the expired from commits: they lie in slices that it does not list."""
    scene = make_scene()
    address = scene.upload("main", "replaced")
    scene.user.commit("main", days=40)
    scene.lake.clock.advance(timedelta(days=3))
    scene.gc()
    scene.user.delete("main", "replaced")
    scene.user.commit("main", days=30)
    scene.put(address, b"written again", days_ago=0)
    marked = scene.mark()
    assert marked.flow == Flow.OPTIMIZED, marked.notes
    assert address not in scene.marked(marked.mark_id)
    scene.lake.clock.advance(timedelta(days=3))
    assert address in scene.marked(scene.mark().mark_id)
