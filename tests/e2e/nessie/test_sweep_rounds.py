"""Every round of a sweep looks at the clocks, has an authority that ends, and a lease that outlives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA, Chunk
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import ConfigError, PartlySweptError, UnsafeToSweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene

MINUTE = timedelta(minutes=1)
Sweep = Callable[[], RunRecord]


class LateRounds(InProcessEngine):
    """Lets chunks of a round come too late: those for which `is_late` says so, told the round and the chunk's place."""

    def __init__(self, is_late: Callable[[int, int], bool]) -> None:
        super().__init__()
        self._is_late = is_late
        self.rounds = 0
        self.chunks: list[Chunk] = []
        self.after_round: Callable[[], None] = lambda: None

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema != DELETED_SCHEMA:
            return super().collect(scatter)
        self.chunks += scatter.items
        late = datetime.now(UTC) - MINUTE
        items = [
            replace(chunk, not_after=late) if self._is_late(self.rounds, number) else chunk
            for number, chunk in enumerate(scatter.items)
        ]
        self.rounds += 1
        done = super().collect(replace(scatter, items=items))
        self.after_round()
        return done


def _orphans(scene: NessieScene, count: int = 2) -> set[str]:
    orders = scene.table("orders")
    orders.append("a.parquet")
    return {orders.iceberg.write_orphan(f"x{number}.parquet") for number in range(count)}


def _immediate(scene: NessieScene, marked: Marked, *, ask_nessie: bool = True) -> Sweep:
    return lambda: scene.expire(marked, ask_nessie=ask_nessie)


def _from_a_list(scene: NessieScene, marked: Marked, *, ask_nessie: bool = True) -> Sweep:
    scene.defer(marked)
    return lambda: scene.delete_deferred(marked, ask_nessie=ask_nessie)


@pytest.fixture(params=[_immediate, _from_a_list], ids=["expire", "deferred-deletes"])
def way(request: pytest.FixtureRequest) -> Callable[..., Sweep]:
    made: Callable[..., Sweep] = request.param
    return made


def test_clocks_are_compared_before_every_round(
    scene: NessieScene, way: Callable[..., Sweep], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that was set wrong while a sweep ran tells no authority's end any more."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 1)
    orphans = _orphans(scene)
    sweep = way(scene, scene.mark())
    scene.engine = engine = LateRounds(lambda round, number: number > 0)

    def set_wrong() -> None:
        scene.nessie.date = datetime.now(UTC) - 11 * MINUTE

    engine.after_round = set_wrong
    with pytest.raises(PartlySweptError, match="the Nessie server") as stopped:
        sweep()
    assert stopped.value.kind == "clock-skew"
    assert len(orphans & scene.files()) == 1


def test_a_long_look_authorises_for_longer_under_a_lease_that_outlives_it(
    scene: NessieScene,
) -> None:
    """Forty minutes of asking leave twenty of the hour that deletes have."""
    _orphans(scene)
    marked = scene.mark()
    scene.engine = engine = LateRounds(lambda round, number: False)
    asked = len(scene.nessie.requests)

    def clock() -> datetime:
        is_slow = any(path == "/trees" for _, path, _ in scene.nessie.requests[asked:])
        return datetime.now(UTC) + (40 * MINUTE if is_slow else timedelta(0))

    lives: list[float] = []

    def note_lease() -> None:
        files = sorted((scene.work / SetFolder(marked.live_set_id).root / "lease").iterdir())
        lives.append(json.loads(files[-1].read_bytes())["life_seconds"])

    engine.after_round = note_lease
    context = replace(scene.context(), clock=clock)
    began = datetime.now(UTC)
    with scene.nessie.client() as client:
        expire(context, ExpireRequest(marked.live_set_id), client)
    authority = engine.chunks[0].not_after - began
    assert 59 * MINUTE < authority < 61 * MINUTE
    assert timedelta(seconds=lives[0]) > authority + context.margins.longest_request


@pytest.mark.parametrize("ask_nessie", [True, False])
def test_every_authority_ends(
    scene: NessieScene, way: Callable[..., Sweep], ask_nessie: bool
) -> None:
    """Also where nobody is asked: tasks of a dead run must not outlive its lease."""
    _orphans(scene)
    sweep = way(scene, scene.mark(), ask_nessie=ask_nessie)
    scene.engine = engine = LateRounds(lambda round, number: False)
    sweep()
    ends = {chunk.not_after for chunk in engine.chunks}
    assert all(end <= datetime.now(UTC) + 10 * MINUTE for end in ends)


def test_a_round_that_was_too_late_once_is_followed_by_another(
    scene: NessieScene, way: Callable[..., Sweep]
) -> None:
    """The second look reads what changed since the first, and is quicker."""
    orphans = _orphans(scene)
    sweep = way(scene, scene.mark())
    scene.engine = LateRounds(lambda round, number: round == 0)
    assert sweep().status is RunStatus.SWEPT
    assert not orphans & scene.files()


def test_two_rounds_that_were_too_late_end_the_sweep_and_name_the_slow_step(
    scene: NessieScene, way: Callable[..., Sweep]
) -> None:
    """Nothing is deleted on what was read long ago."""
    orphans = _orphans(scene)
    sweep = way(scene, scene.mark())
    scene.engine = engine = LateRounds(lambda round, number: True)
    with pytest.raises(UnsafeToSweepError, match="slowest step") as refused:
        sweep()
    assert refused.value.kind == "verification-too-slow"
    assert engine.rounds == 2
    assert orphans <= scene.files()


def test_a_request_may_not_outlive_the_lease_it_was_sent_under(
    scene: NessieScene, way: Callable[..., Sweep]
) -> None:
    """Timeouts that are too long are refused before the set is touched."""
    orphans = _orphans(scene)
    marked = scene.mark()
    sweep = way(scene, marked)
    status = scene.live_sets.get(marked.live_set_id).status
    scene.storage = StorageOptions(local_fsync=False, request_timeout_seconds=170)
    with pytest.raises(ConfigError, match="request_timeout_seconds") as refused:
        sweep()
    assert refused.value.kind == "long-requests"
    assert scene.live_sets.get(marked.live_set_id).status is status
    assert orphans <= scene.files()
