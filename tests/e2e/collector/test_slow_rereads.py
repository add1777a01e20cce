"""A re-read that takes long: its authority follows its length within bounds, and the next one reads less."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import httpx
import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.metarange_table import MetarangeTable
from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.guards import too_slow
from lakesweep.collector.lakefs import range_counts as counts_module
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.lakefs.paths import METARANGE_CACHE
from lakesweep.collector.lakefs.sweep import SLOW_STEP_ADVICE
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.record import Phase, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.commits import MetaRangeId
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import ObjectStore
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.rounds import OneChunkARound
from lakesweep_testing.scene import ANY_CLOCK, LEASES, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingTransport, Send, route_of

MakeScene = Callable[..., Scene]
MINUTE = timedelta(minutes=1)
IN_EARNEST = replace(
    ANY_CLOCK,
    delete_not_after=10 * MINUTE,
    longest_not_after=60 * MINUTE,
    lease_life=15 * MINUTE,
)


def slow_server(scene: Scene, *delays: timedelta) -> MeddlingTransport:
    """A server that takes so long for its first lists of what is staged, one after the other; the last is repeated."""
    left = list(delays)

    def wait(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "POST gc/prepare_uncommited":
            scene.lake.clock.advance(left.pop(0) if len(left) > 1 else left[0])
        return send(request)

    return MeddlingTransport(wait)


class Watching(InProcessEngine):
    """Remembers until when chunks may be deleted, and the lease of that moment."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._scene = scene
        self.not_after: list[datetime] = []
        self.lease_ends: list[datetime] = []

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == DELETED_SCHEMA:
            self.not_after += [chunk.not_after for chunk in scatter.items]
            key = max(k for k in self._scene.present_keys() if k.startswith(LEASES))
            stored = self._scene.container.objects[f"ns/{key}"]
            assert b'"life_seconds"' in stored.data
            life = float(stored.data.split(b'"life_seconds": ')[1].split(b"}")[0].split(b",")[0])
            self.lease_ends.append(stored.last_modified + timedelta(seconds=life))
        return super().collect(scatter)


def test_reread_of_forty_minutes_deletes_within_its_hour(scene: Scene) -> None:
    """Ten minutes from the start of the re-read were over before it ended; and the lease outlives the longer time."""
    marked = scene.mark()
    began = scene.lake.clock.now
    engine = Watching(scene)
    transport = slow_server(scene, 40 * MINUTE)
    context = scene.context(transport=transport, engine=engine, margins=IN_EARNEST)
    swept = run_sweep(context, marked.mark_id, SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    assert not scene.left()
    assert set(engine.not_after) == {began + 60 * MINUTE}
    assert min(engine.lease_ends) > max(engine.not_after) + IN_EARNEST.longest_request
    scene.assert_nothing_else_gone()


def test_reread_that_was_slow_once_is_made_again(scene: Scene) -> None:
    """The first one took longer than any authority lasts; the second one had less to read."""
    marked = scene.mark()
    transport = slow_server(scene, 90 * MINUTE, MINUTE)
    context = scene.context(transport=transport, margins=IN_EARNEST)
    swept = run_sweep(context, marked.mark_id, SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    assert not scene.left()


def test_slow_rereads_with_progress_in_between_do_not_end_a_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is busy at times makes a sweep longer; only two rounds in a row without any progress end it."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
    marked = scene.mark()
    transport = slow_server(scene, *(90 * MINUTE, MINUTE) * len(scene.garbage))
    context = scene.context(transport=transport, engine=OneChunkARound(scene), margins=IN_EARNEST)
    swept = run_sweep(context, marked.mark_id, SweepRequest())
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    assert not scene.left()


def test_reread_that_is_slow_again_is_refused_with_the_slow_step(scene: Scene) -> None:
    """Beyond an hour nothing is deleted on what was read, and the message says what took so long."""
    marked = scene.mark()
    context = scene.context(transport=slow_server(scene, 90 * MINUTE), margins=IN_EARNEST)
    with pytest.raises(UnsafeToSweepError, match=r"took 1h30m.*until 1h after its start") as caught:
        run_sweep(context, marked.mark_id, SweepRequest())
    assert caught.value.kind == "verification-too-slow"
    assert "slowest step was" in caught.value.message
    assert scene.left() == set(scene.garbage)
    assert scene.sweep(marked.mark_id).status is RunStatus.SWEPT


@pytest.mark.parametrize(
    ("slow", "advice"),
    [("uncommitted", "much staged"), ("judge", "more executors"), ("commits", "lakeFS server")],
)
def test_slowest_step_is_named_with_what_helps(slow: str, advice: str) -> None:
    """Steps around it, and steps that nobody can help, do not count."""
    steps = [Phase(name, 5.0, 1) for name in ("uncommitted", "commits", "judge") if name != slow]
    steps += [Phase(slow, 4000.0, 1), Phase("re-verify", 5000.0, 1)]
    error = too_slow("repo", timedelta(hours=2), timedelta(hours=1), steps, SLOW_STEP_ADVICE)
    message = error.message
    assert f"'{slow}' (4000 s)" in message
    assert advice in message


def test_second_round_reads_no_metarange_again(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files named by their content do not change: each is read once in a sweep, and what is new is read."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
    scene = make_scene()
    marked = scene.mark()
    read: Counter[str] = Counter()
    plain = counts_module.read_metarange_table

    def count(store: ObjectStore, metaranges: list[MetaRangeId], most_pairs: int) -> MetarangeTable:
        read.update(metaranges)
        return plain(store, metaranges, most_pairs)

    monkeypatch.setattr(counts_module, "read_metarange_table", count)

    def commit(number: int) -> None:
        scene.upload("main", f"file-{number}")
        scene.user.commit("main")

    engine = OneChunkARound(scene, commit)
    swept = run_sweep(scene.context(engine=engine), marked.mark_id, SweepRequest())
    assert engine.rounds == len(scene.garbage)
    assert_adds_up(swept)
    assert len(read) > 3
    assert set(read.values()) == {1}
    assert len(list(scene.store.keys(METARANGE_CACHE))) < engine.rounds, "rounds leave no files"
    assert scene.user.status("main", "staged") == 200
