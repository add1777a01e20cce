"""The blast radius on every road: a share of live + garbage, in objects and in bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lakesweep.collector import guards as confirmation
from lakesweep.collector.lakefs.marks import load_plan
from lakesweep.collector.lakefs.paths import parse_mark_id
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.plan import Plan
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.verdicts import Tally
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.scene import AGED, Scene

MakeScene = Callable[..., Scene]

COMMITTED = replace(AGED, what=What.COMMITTED)


def plan_of(scene: Scene, record: RunRecord) -> Plan:
    return load_plan(scene.store, scene.name, parse_mark_id(record.mark_id))


def test_listed_road_counts_neither_foreign_nor_young_files(scene: Scene) -> None:
    """A folder full of somebody's files does not make a large plan look small."""
    for number in range(50):
        scene.put(f"other/{number}", b"x" * 1000, days_ago=30)
    plan = plan_of(scene, scene.mark())
    live = [a for name, a in scene.live.items() if name != "young"]
    assert plan.live == Tally(len(live), sum(len(scene.store.read(a)) for a in live))
    assert plan.garbage.objects == len(scene.garbage)


@pytest.mark.parametrize("road", ["committed", "optimised", "optimised, uncommitted"])
def test_roads_without_a_full_listing_know_the_bytes_of_what_is_live(
    make_scene: MakeScene, road: str
) -> None:
    """Each live address counts once, however many ranges hold it, and from the cache as from the ranges."""
    scene = make_scene()
    size = 100_000
    scene.live["large"] = scene.upload("main", "large", "x" * size)
    scene.user.commit("main")
    for number in range(4):  # each commit writes the range anew
        scene.live[f"small-{number}"] = scene.upload("main", f"small-{number}")
        scene.user.commit("main")
    request = AGED
    if road == "committed":
        request = COMMITTED
    else:
        scene.lake.clock.advance(timedelta(days=3))
        scene.gc()
        request = replace(AGED, what=What.UNCOMMITTED if "uncommitted" in road else What.ALL)
    for _ in range(2):
        marked = scene.mark(request)
        assert road == "committed" or marked.flow == Flow.OPTIMIZED, marked.notes
        live = plan_of(scene, marked).live
        assert 6 <= live.objects <= len(scene.live)
        assert size * 5 / 6 < live.bytes < size * 5 / 4


@pytest.mark.parametrize("request_", [AGED, COMMITTED], ids=["listed", "committed"])
@pytest.mark.parametrize("small", ["SMALL_PLAN_OBJECTS", "SMALL_PLAN_BYTES"])
def test_plan_that_is_large_in_bytes_alone_is_refused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, request_: MarkRequest, small: str
) -> None:
    """Few of the objects, most of the bytes; small in objects does not help where it is large in bytes, nor the reverse."""
    monkeypatch.setattr(confirmation, small, 1)
    scene.put(scene.garbage["expired-0"], b"x" * 1_000_000, days_ago=20)
    marked = scene.mark(request_)
    with pytest.raises(UnsafeToSweepError, match=r"100\.0 % of what is live or garbage"):
        scene.sweep(marked.mark_id, SweepRequest(max_delete_share=90))
    assert scene.left() == set(scene.garbage)
    scene.sweep(marked.mark_id, SweepRequest(confirm=marked.plan_id))
    assert scene.garbage["expired-0"] not in scene.present_keys()
