"""The minimum age holds on every road: a listing, an optimised run, and committed data that no listing dates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.lakefs.collect import run_resume
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.lakefs.request import Flow, What
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import ConfigError
from lakesweep.report.text import run_text
from lakesweep_testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]

COMMITTED = replace(AGED, what=What.COMMITTED)
AT_ONCE = replace(AGED, min_age=timedelta(0))


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


def test_mark_with_a_lowered_age_says_so_wherever_it_is_read(scene: Scene) -> None:
    """Plan, record and report carry the minimum age, and that it was lowered."""
    lowered, safe = scene.mark(AT_ONCE), scene.mark()
    for marked, seconds, is_lowered in ((lowered, 0, True), (safe, 87_000, False)):
        plan = load_plan(scene.store, scene.name, parse_mark_id(marked.mark_id))
        assert (plan.min_age_seconds, plan.is_min_age_lowered) == (seconds, is_lowered)
        record = load_run(scene.store, scene.name, marked.run_id)
        assert (record.min_age_seconds, record.min_age_lowered) == (seconds, is_lowered)
        assert ("LOWERED" in run_text(record)) is is_lowered
        assert (f"--unsafe-min-age {scene.name}" in run_text(record)) is is_lowered


def test_sweep_of_a_mark_with_a_lowered_age_asks_for_the_flag_again(scene: Scene) -> None:
    """What is seconds old is not deleted by a command that does not say so; dry runs and resumes ask too."""
    scene.lake.clock.advance(timedelta(seconds=30))
    marked = scene.mark(AT_ONCE)
    young = scene.live["young"]
    assert young in scene.marked(marked.mark_id)
    for request in (
        SweepRequest(),
        SweepRequest(dry_run=True),
        SweepRequest(confirm=marked.plan_id),
    ):
        with pytest.raises(ConfigError, match=f"--unsafe-min-age {scene.name}") as caught:
            scene.sweep(marked.mark_id, request)
        assert caught.value.kind == "min-age-lowered"
    with pytest.raises(ConfigError, match="minimum age of 0s"):
        run_resume(scene.context(), marked.run_id, SweepRequest())
    assert young in scene.present_keys()
    assert scene.left() == set(scene.garbage)
    swept = scene.sweep(marked.mark_id, SweepRequest(allow_lower_min_age=True))
    assert swept.status is RunStatus.SWEPT
    assert swept.min_age_lowered
    assert young not in scene.present_keys()


def test_one_command_asks_for_the_flag_once(scene: Scene) -> None:
    """`gc` was given it, for its mark and its sweep."""
    scene.lake.clock.advance(timedelta(seconds=30))
    assert scene.gc(AT_ONCE).status is RunStatus.SWEPT
    assert scene.live["young"] not in scene.present_keys()


def test_an_age_beyond_the_calendar_is_refused_in_words(scene: Scene) -> None:
    """A number that stands for "never" is no bug of ours, in a mark or in a sweep."""
    never = timedelta(days=10_000_000)
    with pytest.raises(ConfigError, match="before the calendar begins"):
        scene.mark(replace(AGED, min_age=never))
    with pytest.raises(ConfigError, match="minimum age of 10000000d"):
        scene.sweep(scene.mark().mark_id, SweepRequest(min_age=never))
    assert scene.left() == set(scene.garbage)
