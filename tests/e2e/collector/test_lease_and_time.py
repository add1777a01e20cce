"""One collector at a time, and nothing deleted on an authorisation that has run out."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.guards import refuse_long_requests
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.ledger import deadline as deadline_module
from lakesweep.collector.ledger.deadline import Moment
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA, NOT_TRIED
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.cutoff import SAFETY_FULL, SafetyMargins
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import (
    ConfigError,
    PartlySweptError,
    UnsafeToSweepError,
)
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import AGED, ANY_CLOCK, LEASES, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingBackend, with_resources

MakeScene = Callable[..., Scene]

# Before any time that the store's clock tells here.
LATE = datetime(2000, 1, 1, tzinfo=UTC)


def test_second_run_at_the_same_time_is_refused(scene: Scene) -> None:
    """While one collector sweeps, another neither marks nor sweeps."""
    marked = scene.mark()
    refusals: list[str] = []

    def second(operation: str, key: str) -> None:
        if operation == "delete" and key.startswith("data/") and not refusals:
            for act in (lambda: scene.mark(), lambda: scene.sweep(marked.mark_id)):
                with pytest.raises(UnsafeToSweepError) as caught:
                    act()
                refusals.append(caught.value.kind)

    run_sweep(scene.context(wrap=MeddlingBackend.wrap(second)), marked.mark_id, SweepRequest())
    assert refusals == ["lease-held", "lease-held"]
    assert not scene.left()


def test_two_runs_started_together_sweep_once(scene: Scene) -> None:
    """Of two collectors that start at the same moment one works and the other is refused, or they take turns."""
    outcomes: list[str] = []
    barrier = threading.Barrier(2)

    def collect() -> None:
        context = scene.context()
        barrier.wait()
        try:
            outcomes.append(run_gc(context, AGED, SweepRequest()).status.value)
        except UnsafeToSweepError as error:
            outcomes.append(error.kind)

    threads = [threading.Thread(target=collect) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "swept" in outcomes
    assert set(outcomes) <= {"swept", "lease-held", "nothing-to-do"}
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_lease_lost_in_the_middle_stops_the_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another collector took over between two rounds: no further key is deleted, and the run says so."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
    marked = scene.mark()
    taken = f"{LEASES}000000000099.json"
    other = {"owner": "o", "host": "elsewhere", "pid": 1, "purpose": "gc", "released": False}

    class Overtaken(InProcessEngine):
        """Deletes one chunk, then another collector takes the lease, and the other chunks come too late."""

        def collect(self, scatter: Scatter) -> pa.Table:
            if scatter.schema == DELETED_SCHEMA:
                items = [scatter.items[0]] + [replace(c, not_after=LATE) for c in scatter.items[1:]]
                scatter = replace(scatter, items=items)
                scene.store.write(taken, json.dumps(other).encode())
            return super().collect(scatter)

    with pytest.raises(PartlySweptError, match="lost to another collector") as caught:
        run_sweep(scene.context(engine=Overtaken()), marked.mark_id, SweepRequest())
    assert caught.value.kind == "lease-lost"
    assert len(scene.left()) == len(scene.garbage) - 1
    scene.store.write(taken, json.dumps(other | {"released": True}).encode())
    resumed = run_resume(scene.context(), marked.run_id, SweepRequest())
    assert resumed.status is RunStatus.SWEPT
    assert_adds_up(resumed)
    assert not scene.left()


class LateEngine(InProcessEngine):
    """Hands deletions to executors that come to them only when the authorisation of the first rounds has run out."""

    def __init__(self, late_rounds: int) -> None:
        super().__init__()
        self._late_rounds = late_rounds
        self.rounds = 0

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema == DELETED_SCHEMA:
            self.rounds += 1
            if self.rounds <= self._late_rounds:
                # All but the first chunk: a sweep that never gets anywhere is refused as too slow.
                items = [scatter.items[0]] + [replace(c, not_after=LATE) for c in scatter.items[1:]]
                scatter = replace(scatter, items=items)
        return super().collect(scatter)


def test_chunk_past_its_time_is_refused_and_verified_again(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was not deleted in time is deleted after another re-read, and everything is counted once."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 2)
    marked = scene.mark()
    engine = LateEngine(late_rounds=1)
    context = scene.context(engine=engine)
    swept = run_sweep(context, marked.mark_id, SweepRequest())
    assert engine.rounds == 2
    assert [phase.name for phase in context.resources.phases.done].count("re-verify") == 2
    assert not scene.left()
    assert swept.objects["deleted"] == len(scene.garbage)
    assert_adds_up(swept)


@pytest.mark.usefixtures("without_fences")
def test_what_comes_back_while_a_chunk_waits_is_kept(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A revert between two rounds saves what the first round had not reached."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
    scene = make_scene()
    marked = scene.mark()

    class Reviving(LateEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            rows = super().collect(scatter)
            if scatter.schema == DELETED_SCHEMA and self.rounds == 1:
                scene.user.branch("from-old", scene.expired_commit)
            return rows

    swept = run_sweep(scene.context(engine=Reviving(late_rounds=1)), marked.mark_id, SweepRequest())
    assert swept.objects["revived"] >= 2
    assert_adds_up(swept)
    kept = [name for name in scene.garbage if name.startswith("expired") and name in scene.left()]
    assert len(kept) >= 2


def test_sweep_that_can_never_delete_in_time_is_refused(scene: Scene) -> None:
    """Where reading what is live takes longer than it is valid, nothing is deleted and the reason is given."""
    marked = scene.mark()
    no_time = SafetyMargins(
        least_age=timedelta(hours=24),
        clock_skew=ANY_CLOCK.clock_skew,
        delete_not_after=timedelta(0),
    )
    with pytest.raises(UnsafeToSweepError) as caught:
        run_sweep(scene.context(margins=no_time), marked.mark_id, SweepRequest())
    assert caught.value.kind == "verification-too-slow"
    assert "slowest step was" in caught.value.message
    assert scene.left() == set(scene.garbage)
    swept = scene.sweep(marked.mark_id)
    assert swept.status is RunStatus.SWEPT


def skewed(scene: Scene, driver: Callable[[], datetime]) -> RunContext:
    """A run on a machine with a clock of its own, compared as strictly as in earnest."""
    strict = replace(ANY_CLOCK, clock_skew=timedelta(minutes=10))
    # The embedded server dates its answers by the machine; here it is the scene's clock that counts.
    context = scene.context(margins=strict)
    client = ServerOfClock(context.repository.client, scene.lake.clock)
    return with_resources(of_client(context, client), clock=driver)


def of_client(context: RunContext, client: ServerOfClock) -> RunContext:
    repository = replace(context.repository, client=client)  # type: ignore[arg-type]
    return replace(context, repository=repository)


class ServerOfClock:
    """A client whose server dates its answers by the clock given."""

    def __init__(self, client: LakeFSClient, clock: Callable[[], datetime]) -> None:
        self._client = client
        self._clock = clock

    def server_time(self) -> datetime:
        return self._clock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@pytest.mark.parametrize("hours", [3, -3])
@pytest.mark.parametrize("whose", ["this machine", "the lakeFS server"])
@pytest.mark.parametrize("is_resumed", [False, True])
def test_sweep_alone_compares_the_clocks(
    scene: Scene, hours: int, whose: str, is_resumed: bool
) -> None:
    """A driver or a server hours off is refused before anything is read again, by sweep and by resume."""
    marked = scene.mark()
    off = lambda: scene.lake.clock() + timedelta(hours=hours)  # noqa: E731
    context = skewed(scene, off if whose == "this machine" else scene.lake.clock)
    if whose != "this machine":
        context = of_client(context, ServerOfClock(context.repository.client, off))
    act = run_resume if is_resumed else run_sweep
    with pytest.raises(UnsafeToSweepError, match=whose) as caught:
        act(context, marked.run_id if is_resumed else marked.mark_id, SweepRequest())
    assert caught.value.kind == "clock-skew"
    assert scene.left() == set(scene.garbage)


def test_machine_whose_clock_is_refused_removes_no_earlier_mark(scene: Scene) -> None:
    """By its clock all earlier runs are long past; by that of the store, which counts, they are new."""
    marked = scene.mark()
    off = lambda: scene.lake.clock() + timedelta(days=400)  # noqa: E731
    with pytest.raises(UnsafeToSweepError, match="this machine"):
        run_mark(skewed(scene, off), AGED)
    assert scene.sweep(marked.mark_id).status is RunStatus.SWEPT
    assert not scene.left()


def test_clocks_are_compared_in_every_round(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine whose clock is set while it sweeps stops before the next round."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 2)
    monkeypatch.setattr(deadline_module, "this_moment", lambda: Moment(scene.lake.clock(), 0.0))
    marked = scene.mark()
    engine = LateEngine(late_rounds=1)
    off = lambda: scene.lake.clock() + timedelta(hours=3 if engine.rounds else 0)  # noqa: E731
    context = with_resources(skewed(scene, off), engine=engine)
    with pytest.raises(PartlySweptError, match="this machine") as caught:
        run_sweep(context, marked.mark_id, SweepRequest())
    assert caught.value.kind == "clock-skew"
    assert engine.rounds == 1


def test_authority_ends_by_the_clock_of_the_store(scene: Scene) -> None:
    """It is counted from what the store's clock said before the re-read, not from what the driver's says."""
    marked = scene.mark()
    store_time = scene.lake.clock()
    ends: list[datetime] = []

    class Looking(InProcessEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            if scatter.schema == DELETED_SCHEMA:
                ends.extend(chunk.not_after for chunk in scatter.items)
            elif not ends:
                scene.lake.clock.advance(timedelta(minutes=4))  # reading takes its time
            return super().collect(scatter)

    margins = replace(ANY_CLOCK, delete_not_after=timedelta(days=3650))
    context = scene.context(margins=margins, engine=Looking())
    ahead = with_resources(context, clock=lambda: scene.lake.clock() + timedelta(minutes=9))
    run_sweep(ahead, marked.mark_id, SweepRequest())
    assert set(ends) == {store_time + margins.delete_not_after}


def test_executors_with_a_wrong_clock_stop_the_sweep(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where every executor is hours off, nothing is deleted, and the reason is the clock."""
    marked = scene.mark()
    off = Moment(scene.lake.clock() + timedelta(hours=3), 0.0)
    monkeypatch.setattr(deadline_module, "this_moment", lambda: off)
    context = skewed(scene, scene.lake.clock)
    with pytest.raises(UnsafeToSweepError, match="executor's clock") as caught:
        run_sweep(context, marked.mark_id, SweepRequest())
    assert caught.value.kind == "clock-skew"
    assert scene.left() == set(scene.garbage)


@pytest.mark.usefixtures("without_fences")
def test_zombie_executors_delete_nothing_past_their_time(
    make_scene: MakeScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died and its tasks go on: the store's clock tells them that it is over, though their own runs late."""
    scene = make_scene()
    marked = scene.mark()
    zombies: list[Scatter] = []

    class Dying(InProcessEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            if scatter.schema == DELETED_SCHEMA:
                zombies.append(scatter)
                raise KeyboardInterrupt
            return super().collect(scatter)

    late = timedelta(minutes=9)  # as much as may go unnoticed
    monkeypatch.setattr(
        deadline_module, "this_moment", lambda: Moment(scene.lake.clock() - late, 0.0)
    )
    strict = replace(
        ANY_CLOCK, clock_skew=timedelta(minutes=10), delete_not_after=timedelta(minutes=10)
    )
    context = with_resources(skewed(scene, scene.lake.clock), engine=Dying(), margins=strict)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(context, marked.mark_id, SweepRequest())
    scene.release_lease()
    scene.lake.clock.advance(timedelta(minutes=11))
    scene.user.branch("revived", scene.expired_commit)
    [zombie] = zombies
    rows = InProcessEngine().collect(zombie).to_pylist()
    assert {row["outcome"] for row in rows} == {NOT_TRIED}
    assert scene.left() == set(scene.garbage)
    assert scene.user.status("revived", "expired-0") == 200


def test_timeouts_that_outlast_a_lease_are_refused(scene: Scene) -> None:
    """A delete that may take ten minutes could take effect when another collector holds the lease."""
    slow = StorageOptions(request_timeout_seconds=600)
    with pytest.raises(ConfigError, match="request_timeout_seconds") as caught:
        open_repository(scene.lake.client, scene.name, slow, InProcessEngine())
    assert caught.value.kind == "long-requests"
    refuse_long_requests(StorageOptions(), SAFETY_FULL)
