"""A sweep must be right by itself: marks made by hand name what is live, and it is kept all the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakesweep.collector.lakefs import verification
from lakesweep.collector.lakefs.checks.canaries import Canary
from lakesweep.collector.lakefs.collect import run_sweep
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.request import SweepRequest
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import PartlySweptError, UnsafeToSweepError
from lakesweep.formats.tables import MARK_SCHEMA, read_mark, write_mark
from lakesweep_testing.cut_lists import cut_out
from lakesweep_testing.forged_marks import forge_mark
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.moments import OneMoment
from lakesweep_testing.scene import ANY_CLOCK, Scene
from lakesweep_testing.trouble import (
    MeddlingTransport,
    Send,
    as_a_real_server,
)

MakeScene = Callable[..., Scene]


@pytest.mark.search
@pytest.mark.usefixtures("without_fences")
def test_what_moves_before_any_request_of_a_sweep_is_kept(make_scene: MakeScene) -> None:
    """The mark names everything. Before each request in turn, what is live moves: it is committed, linked, renamed."""
    scene = make_scene(each=1)
    user = scene.user
    user.clear_rules()
    live = {scene.live["base"]}
    moved_before: list[str | None] = []
    while None not in moved_before:
        moment = len(moved_before)
        live.add(scene.upload("main", f"to-commit-{moment}"))
        live.add(scene.upload("dev", f"to-rename-{moment}"))
        scene.lake.clock.advance(timedelta(hours=30))
        pending = user.issue_address("main", f"linked-{moment}")
        live.add(scene.put(scene.relative(pending), b"12345", days_ago=2))
        scene.put_back(scene.garbage.values())
        mark_id = forge_mark(scene, {scene.garbage["orphan-0"], *live}).mark_id

        def move(moment: int = moment, pending: str = pending) -> None:
            user.commit("main")
            user.link("main", f"linked-{moment}", pending, 5)
            user.copy("dev", f"to-rename-{moment}", f"renamed-{moment}")
            user.delete("dev", f"to-rename-{moment}")

        transport = OneMoment(moment, move)
        run_sweep(scene.context(transport=transport), mark_id, SweepRequest(max_delete_share=100))
        gone = live - scene.present_keys()
        assert not gone, f"{sorted(gone)}, at request {moment}"
        assert scene.garbage["orphan-0"] not in scene.present_keys()
        # What did not move in the last round is pending and staged still. A round later, its token would have expired.
        moved_before.append(transport.before)
    assert {"POST gc/prepare_uncommited", "PUT refs/dump"} <= set(moved_before)


def test_list_without_a_staged_entry_ends_the_sweep(scene: Scene) -> None:
    """The mark was made when the server was well; what its list leaves out now is noticed by the sweep itself."""
    mark_id = forge_mark(scene, {*scene.garbage.values(), scene.live["staged"]}).mark_id
    transport = as_a_real_server(cut_out(scene, {scene.live["staged"]}))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_sweep(scene.context(transport=transport), mark_id, SweepRequest())
    assert caught.value.kind == "dead-canary"
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


def test_list_with_fewer_rows_than_the_server_wrote_ends_the_sweep(scene: Scene) -> None:
    """No branch reads a pending upload, so the count of rows alone tells that its row was lost."""
    mark_id = forge_mark(scene, {*scene.garbage.values(), scene.live["pending"]}).mark_id
    transport = MeddlingTransport(cut_out(scene, {scene.live["pending"]}))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_sweep(scene.context(transport=transport), mark_id, SweepRequest())
    assert caught.value.kind == "uncommitted-rows-missing"
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


@pytest.mark.parametrize("reason", ["unreferenced", "expired"])
def test_reupload_that_no_list_names_is_found_by_the_sweep(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    """A real server leaves it out of its list, and it is no canary: the sweep asks what the branch reads."""
    scene = make_scene()
    again = scene.upload("main", "base", "base")
    assert again != scene.live["base"]
    scene.lake.clock.advance(timedelta(days=2))
    mark_id = forge_mark(scene, {scene.garbage["orphan-0"], again}, reason).mark_id
    take = verification.take_canaries

    def take_others(*args: Any) -> list[Canary]:
        return [canary for canary in take(*args) if canary.path != "base"]

    monkeypatch.setattr(verification, "take_canaries", take_others)
    transport = as_a_real_server(cut_out(scene, {again}))
    run_sweep(scene.context(transport=transport), mark_id, SweepRequest())
    assert again in scene.present_keys()
    assert scene.user.status("main", "base") == 200
    assert scene.garbage["orphan-0"] not in scene.present_keys()


class WatchesDeletions(InProcessEngine):
    """Remembers until when each chunk may be deleted, and may change a chunk's file at the last moment."""

    def __init__(self, change: Callable[[str], None] = lambda part: None) -> None:
        super().__init__()
        self._change = change
        self.not_after: list[datetime] = []

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == DELETED_SCHEMA:
            self.not_after += [chunk.not_after for chunk in scatter.items]
            for chunk in scatter.items:
                self._change(chunk.part)
        return super().collect(scatter)


def test_time_that_the_reread_takes_is_time_that_deleting_does_not_have(scene: Scene) -> None:
    """What is live was read from the first request on; from there on the authority counts."""
    mark_id = scene.mark().mark_id
    began = scene.lake.clock.now

    def take_a_minute(request: httpx.Request, send: Send) -> httpx.Response:
        scene.lake.clock.advance(timedelta(minutes=1))
        return send(request)

    engine = WatchesDeletions()
    context = scene.context(transport=MeddlingTransport(take_a_minute), engine=engine)
    run_sweep(context, mark_id, SweepRequest())
    assert scene.lake.clock.now - began > timedelta(minutes=5)
    assert engine.not_after
    assert max(engine.not_after) <= began + ANY_CLOCK.delete_not_after + timedelta(minutes=2)


@pytest.mark.parametrize("name", ["README.txt", "data/plain", "other/x", "_lakefs/dummy"])
def test_name_that_is_no_object_of_lakefs_is_not_deleted_by_any_file(
    scene: Scene, name: str
) -> None:
    """The last look at each key stands right before its delete, after everything that could still go wrong."""
    mark_id = scene.mark().mark_id
    assert name in scene.present_keys()

    def slip_in(part: str) -> None:
        rows = read_mark(scene.store.read(part)).to_pylist()
        rows[0]["address"] = name
        scene.store.write(part, write_mark(pa.Table.from_pylist(rows, schema=MARK_SCHEMA)))

    with pytest.raises(PartlySweptError, match="protected"):
        run_sweep(scene.context(engine=WatchesDeletions(slip_in)), mark_id, SweepRequest())
    assert name in scene.present_keys()
    scene.assert_nothing_else_gone()
