"""A mark must be right by itself: the sweep's second look would hide what it gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.collector.judge import row_format
from lakesweep.collector.lakefs.between_runs.saved import SavedRun, load_for_sweep
from lakesweep.collector.lakefs.collect import run_mark
from lakesweep.collector.lakefs.listing import CANDIDATE_SCHEMA
from lakesweep.collector.lakefs.paths import MARKS
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.listing import LISTED_SCHEMA
from lakesweep.collector.parts import read_part
from lakesweep.collector.run_files import RunId
from lakesweep.domain.cutoff import SAFETY_FULL
from lakesweep.engine.cells import Hashes
from lakesweep.engine.tasks import Meet, Scatter
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.hashing import hash_addresses
from lakesweep_testing.cut_lists import cut_out
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.moments import OneMoment
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import (
    MeddlingTransport,
    as_a_real_server,
    with_resources,
)

MakeScene = Callable[..., Scene]
CLEAN = replace(AGED, flow=Flow.CLEAN)


@pytest.mark.search
def test_what_moves_before_any_request_of_a_mark_is_not_in_it(make_scene: MakeScene) -> None:
    """Without retention rules every commit is live, so only the order of reading keeps what moves.

    Before each request in turn, what is staged is committed, what is pending is linked, and what is staged is renamed.
    """
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

        def move(moment: int = moment, pending: str = pending) -> None:
            user.commit("main")
            user.link("main", f"linked-{moment}", pending, 5)
            user.copy("dev", f"to-rename-{moment}", f"renamed-{moment}")
            user.delete("dev", f"to-rename-{moment}")

        transport = OneMoment(moment, move)
        record = run_mark(scene.context(transport=transport), CLEAN)
        marked = scene.marked(record.mark_id)
        assert scene.garbage["orphan-0"] in marked
        assert not marked & live, f"{sorted(marked & live)}, at request {moment}"
        # What did not move in the last round is pending and staged still. A round later, its token would have expired.
        moved_before.append(transport.before)
    assert {"POST gc/prepare_uncommited", "PUT refs/dump"} <= set(moved_before)


def test_list_without_a_staged_entry_ends_the_mark(scene: Scene) -> None:
    """A branch reads it, and no reference explains it: what is live was not understood."""
    transport = as_a_real_server(cut_out(scene, {scene.live["staged"]}))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_mark(scene.context(transport=transport), AGED)
    assert caught.value.kind == "dead-canary"
    assert_no_mark(scene)


def test_list_with_fewer_rows_than_the_server_wrote_ends_the_mark(scene: Scene) -> None:
    """No branch reads a pending upload, so the count of rows alone tells that its row was lost."""
    transport = MeddlingTransport(cut_out(scene, {scene.live["pending"]}))
    with pytest.raises(UnsafeToSweepError) as caught:
        run_mark(scene.context(transport=transport), AGED)
    assert caught.value.kind == "uncommitted-rows-missing"
    assert_no_mark(scene)


def assert_no_mark(scene: Scene) -> None:
    assert not list(scene.store.keys(MARKS))


class ListsTwice(InProcessEngine):
    """An engine under which one object was listed twice: the listing counts it twice, and so do its parts."""

    def __init__(self, scene: Scene) -> None:
        super().__init__()
        self._store = scene.store

    def collect(self, scatter: Scatter) -> pa.Table:
        rows = super().collect(scatter)
        if scatter.schema != LISTED_SCHEMA:
            return rows
        values = rows.to_pylist()
        task = next(row for row in values if row["parts"])
        part = task["parts"][0]
        (first,) = read_part(self._store.read(part["key"]), CANDIDATE_SCHEMA, part["key"])
        written = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([first, first.slice(0, 1)]), written)
        self._store.write(part["key"], written.getvalue().to_pybytes())
        for counted, objects in ((part, "rows"), (task, "objects")):
            counted[objects] += 1
            counted["bytes"] += first.column("size_bytes")[0].as_py()
        return pa.Table.from_pylist(values, schema=rows.schema)


def test_object_without_a_verdict_of_its_own_ends_the_mark(scene: Scene) -> None:
    """Whatever was listed got exactly one verdict, or nothing is known of anything."""
    with pytest.raises(UnsafeToSweepError, match="do not add up") as caught:
        run_mark(scene.context(engine=ListsTwice(scene)), CLEAN)
    assert caught.value.kind == "not-conserved"
    assert_no_mark(scene)


class LosesParts(InProcessEngine):
    """An engine that forgets what the meeting wrote, though not what it counted."""

    def meet(
        self, left: Scatter, right: Scatter, meet: Meet, schema: pa.Schema, partitions: int
    ) -> pa.Table:
        values = super().meet(left, right, meet, schema, partitions).to_pylist()
        for row in values:
            row["garbage_parts"] = ""
        return pa.Table.from_pylist(values, schema=schema)


def test_plan_that_is_not_the_garbage_ends_the_mark(scene: Scene) -> None:
    """What was counted as garbage is what the plan names, to the byte."""
    with pytest.raises(UnsafeToSweepError, match="are in the plan") as caught:
        run_mark(scene.context(engine=LosesParts()), CLEAN)
    assert caught.value.kind == "not-conserved"
    assert_no_mark(scene)


@pytest.mark.parametrize("ahead", [timedelta(minutes=11), -timedelta(minutes=11)])
def test_machine_whose_clock_is_wrong_marks_nothing(scene: Scene, ahead: timedelta) -> None:
    """Store and server agree with each other; this machine's clock decides how long a batch may be deleted."""
    now = datetime.now(UTC)
    scene.container.clock = lambda: now
    try:
        context = with_resources(scene.context(margins=SAFETY_FULL), clock=lambda: now + ahead)
        with pytest.raises(UnsafeToSweepError, match="clock of this machine") as caught:
            run_mark(context, MarkRequest())
    finally:
        scene.container.clock = scene.lake.clock
    assert caught.value.kind == "clock-skew"


def test_slice_is_not_settled_while_its_addresses_can_be_linked(make_scene: MakeScene) -> None:
    """However low the minimum age: an address lives for a day after it was issued, and its object comes late."""
    scene = make_scene()
    newest = scene.live["young"].split("/")[1]
    scene.lake.clock.advance(timedelta(hours=20))
    request = MarkRequest(min_age=timedelta(0), allow_lower_min_age=True, flow=Flow.CLEAN)
    record = run_mark(scene.context(), request)
    saved = load_for_sweep(scene.store, RunId(record.run_id))
    assert isinstance(saved, SavedRun)
    # Slice ids sort newest first: whatever is settled is older than the newest slice.
    assert saved.last_slice > newest
    scene.lake.clock.advance(timedelta(hours=7))
    later = run_mark(scene.context(), request)
    settled = load_for_sweep(scene.store, RunId(later.run_id))
    assert isinstance(settled, SavedRun)
    assert settled.last_slice == newest


def test_two_objects_of_one_hash_are_two_objects(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among billions of names two will have one hash, in every run on them: neither may be lost, nor stop the run."""
    scene = make_scene(each=2)
    one, other = hash_addresses(
        pa.array([scene.garbage["orphan-0"], scene.garbage["orphan-1"]])
    ).tolist()

    def colliding(names: pa.Array | pa.ChunkedArray) -> Hashes:
        hashes = hash_addresses(names)
        return np.where(hashes == other, np.uint64(one), hashes)

    monkeypatch.setattr(row_format, "hash_addresses", colliding)
    record = run_mark(scene.context(), CLEAN)
    assert scene.marked(record.mark_id) == set(scene.garbage.values())
