"""Runs on a small repository are done in the driver's own process: Spark is not started, and the record is the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakesweep.collector import listing
from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.request import Flow, MarkRequest, What
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.engine.here_first import HereFirst
from lakesweep.engine.tasks import Engine, Scatter
from lakesweep.storage import memory
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingTransport, Send, as_a_real_server, route_of

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)


def no_spark() -> Engine:
    raise AssertionError("Spark was started")


@pytest.fixture
def small() -> Iterator[HereFirst]:
    """An engine that can do nothing but small work."""
    with HereFirst(no_spark, 4.0, takes_unknown=False) as engine:
        yield engine


def told(record: RunRecord) -> dict[str, Any]:
    """A record without what no two runs share."""
    values = record.as_json()
    for name in ("run_id", "mark_id", "plan_id", "mark", "started_at", "finished_at", "cutoff"):
        values.pop(name)
    values["phases"] = [(phase["name"], phase["items"]) for phase in values["phases"]]
    return values


@pytest.mark.parametrize("is_real", [False, True])
@pytest.mark.parametrize("what", list(What))
def test_a_small_mark_is_the_same_without_spark(
    scene: Scene, small: HereFirst, what: What, is_real: bool
) -> None:
    """Whatever is looked for, also on a server that tells no counts and hides re-uploads."""
    request = replace(CLEAN, what=what)
    transport = as_a_real_server() if is_real else None
    here = run_mark(scene.context(engine=small, transport=transport), request)
    elsewhere = run_mark(scene.context(transport=transport), request)
    assert here.objects["garbage"] > 0
    assert told(here) == told(elsewhere)
    assert scene.marked(here.mark_id) == scene.marked(elsewhere.mark_id)


def test_small_collections_need_no_spark(make_scene: MakeScene, small: HereFirst) -> None:
    """A clean one, and one that builds on it: the lists that were saved tell their length by their size."""
    scene = make_scene()
    first = run_gc(scene.context(engine=small), AGED, SweepRequest(max_delete_share=100))
    assert (first.status, first.flow) == (RunStatus.SWEPT, Flow.CLEAN.value)
    assert_adds_up(first)
    scene.assert_nothing_else_gone()
    dropped = scene.upload("dev", "dropped")
    scene.user.delete("dev", "dropped")
    scene.lake.clock.advance(timedelta(days=2))
    second = run_gc(scene.context(engine=small), AGED, SweepRequest(max_delete_share=100))
    assert second.flow == Flow.OPTIMIZED.value
    assert dropped not in scene.present_keys()
    scene.assert_everything_reads()


class Noting(InProcessEngine):
    """Stands for Spark, and notes how many items it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.scatters: list[int] = []

    def collect(self, scatter: Scatter) -> pa.Table:
        self.scatters.append(len(scatter.items))
        return super().collect(scatter)


def test_a_mark_that_turns_out_to_be_large_goes_on_on_spark(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was listed here and what is listed there is judged together, once."""
    scene = make_scene(each=30)
    expected = run_mark(scene.context(), CLEAN)
    monkeypatch.setattr(memory, "_BATCH_ROWS", 5)
    monkeypatch.setattr(listing, "_PAGE", 5)
    monkeypatch.setattr(listing, "SECONDS_PER_OBJECT", 0.01)
    spark = Noting()
    with HereFirst(lambda: spark, 1.0, takes_unknown=False) as engine:
        record = run_mark(scene.context(engine=engine), CLEAN)
    assert told(record) == told(expected)
    assert spark.scatters, "the listing did not fit"


@pytest.mark.parametrize("request_", [CLEAN, replace(CLEAN, what=What.COMMITTED)])
def test_a_repository_that_is_known_to_be_large_is_spark_s(
    scene: Scene, request_: MarkRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ranges tell so before anything is listed, and all of the work is done there."""
    monkeypatch.setattr("lakesweep.collector.lakefs.search.SECONDS_PER_LIVE_NAME", 1.0)
    monkeypatch.setattr("lakesweep.collector.lakefs.search.foreseen_names", lambda _: 0)
    spark = Noting()
    with HereFirst(lambda: spark, 4.0, takes_unknown=False) as engine:
        context = scene.context(engine=engine, transport=as_a_real_server())  # it tells no rows
        record = run_mark(context, request_)
        assert engine.seconds_here == 0.0
    assert record.objects["garbage"] > 0
    assert spark.scatters


def test_an_optimized_run_on_a_large_repository_is_small(
    scene: Scene, small: HereFirst, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in old slices is not listed, and its hashes are kept: only names that were read afresh cost much."""
    run_gc(scene.context(), AGED, SweepRequest())
    monkeypatch.setattr("lakesweep.collector.lakefs.search.SECONDS_PER_LIVE_NAME", 1.0)
    record = run_mark(scene.context(engine=small), AGED)
    assert record.flow == Flow.OPTIMIZED, record.notes


@pytest.mark.parametrize(("seconds", "is_begun"), [(1.0, True), (1e-9, False)])
def test_spark_starts_at_once_where_ranges_are_large(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, seconds: float, is_begun: bool
) -> None:
    """Their files tell so before anything is read."""
    monkeypatch.setattr("lakesweep.collector.lakefs.search.SECONDS_PER_LIVE_NAME", seconds)
    spark = Noting()
    begun: list[bool] = []

    def note(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "POST gc/prepare_uncommited":
            begun.append(engine.seconds_here == 0.0)
        return send(request)

    with HereFirst(lambda: spark, 4.0, takes_unknown=False) as engine:
        run_mark(scene.context(engine=engine, transport=MeddlingTransport(note)), CLEAN)
    assert begun == [is_begun]
