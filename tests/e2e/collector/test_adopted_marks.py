"""Marks of the seeds' older clients, swept by their path: every row is looked at as if nobody had vouched for it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakesweep.catalogs.lakefs.values import ServerProfile
from lakesweep.collector.lakefs import repository as repository_module
from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_resume, run_sweep
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.cutoff import Cutoff
from lakesweep.errors import ConfigError, PartlySweptError, UnsafeToSweepError
from lakesweep_testing.embedded import MIN_AGE
from lakesweep_testing.faults import FaultPlan, FaultyStore
from lakesweep_testing.scene import Scene

FOLDER = "_lakefs/retention/gc/addresses/run_id=old-client/"


@pytest.fixture(autouse=True)
def _usual_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a sweep takes its minimum age from the margins, and those of a scene, whose clock is its own, are centuries."""

    def decide(store_time: datetime, *_: object, **__: object) -> Cutoff:
        return Cutoff(store_time, MIN_AGE)

    monkeypatch.setattr(repository_module, "decide_cutoff", decide)


def write_old_mark(scene: Scene, addresses: Iterable[str]) -> None:
    """As an older client wrote it: the address alone, and Spark's marker beside it."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"address": list(addresses)}), sink)
    scene.put(f"{FOLDER}part-0000.snappy.parquet", sink.getvalue().to_pybytes())
    scene.put(f"{FOLDER}_SUCCESS", b"")


def test_only_what_is_garbage_now_is_deleted(scene: Scene) -> None:
    """Live, young, foreign and absent rows are kept or passed over, and the sweep says what it did."""
    absent = scene.garbage["orphan-0"]
    named = [*scene.garbage.values(), *scene.live.values(), *scene.foreign, "_lakefs/dummy", "../x"]
    write_old_mark(scene, named)
    scene.store.delete_many([absent])
    record = run_sweep(scene.context(), FOLDER, SweepRequest())
    assert record.status is RunStatus.SWEPT
    assert not scene.left()
    assert record.objects["deleted"] == len(scene.garbage) - 1
    assert record.objects["already_gone"] == 1
    assert set(record.revived) == set(scene.live.values()) - {scene.live["young"]}
    scene.assert_nothing_else_gone()
    again = run_sweep(scene.context(), FOLDER, SweepRequest())
    assert any("swept already" in note for note in again.notes)


def test_old_mark_is_refused_where_the_server_does_not_tell_of_all_that_is_staged(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows that its rows were ever committed, and linked objects of such a server look like garbage."""
    monkeypatch.setattr(ServerProfile, "lists_linked_objects", False)
    write_old_mark(scene, scene.garbage.values())
    with pytest.raises(UnsafeToSweepError) as caught:
        run_sweep(scene.context(), FOLDER, SweepRequest())
    assert caught.value.kind == "local-store"
    assert scene.left() == set(scene.garbage)


def test_old_mark_that_failed_half_way_is_resumed_and_adds_up(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deleted, already gone and failed keys make up the whole mark, before and after the resume."""
    write_old_mark(scene, scene.garbage.values())
    context = scene.context(wrap=lambda store: FaultyStore(store, 3, FaultPlan()))
    stubborn = scene.garbage["orphan-0"]

    def happens(self: object, kind: str, key: str, share: float) -> bool:
        return kind == "failed-delete" and key == stubborn

    monkeypatch.setattr(type(context.store.backend), "_happens", happens)
    with pytest.raises(PartlySweptError):
        run_sweep(context, FOLDER, SweepRequest())
    (begun,) = [run for run in list_runs(scene.store) if isinstance(run, RunRecord)]
    o = begun.objects
    assert o["deleted"] + o["already_gone"] + o["failed"] == o["garbage"] == len(scene.garbage)
    resumed = run_resume(scene.context(), begun.run_id, SweepRequest())
    assert resumed.status is RunStatus.SWEPT
    assert resumed.objects["deleted"] + resumed.objects["already_gone"] == len(scene.garbage)
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_a_folder_that_was_written_anew_is_a_mark_of_its_own(scene: Scene) -> None:
    """Older clients may be told the mark's id, and write each day's list into one folder."""
    write_old_mark(scene, [scene.garbage["orphan-0"]])
    first = run_sweep(scene.context(), FOLDER, SweepRequest())
    assert first.objects["deleted"] == 1
    write_old_mark(scene, [scene.garbage["orphan-1"]])
    second = run_sweep(scene.context(), FOLDER, SweepRequest())
    assert second.objects["deleted"] == 1
    assert second.mark_id != first.mark_id
    assert scene.left() == set(scene.garbage) - {"orphan-0", "orphan-1"}
    scene.assert_nothing_else_gone()


def test_a_higher_minimum_age_holds_for_an_old_mark_too(scene: Scene) -> None:
    """An older client's mark tells no ages, so the sweep's own say what is young."""
    write_old_mark(scene, scene.garbage.values())
    request = SweepRequest(min_age=timedelta(days=5))
    record = run_sweep(scene.context(), FOLDER, request)
    assert record.objects["deleted"] == 3
    assert scene.left() == {"orphan-0", "orphan-1", "orphan-2"}
    scene.assert_nothing_else_gone()


@pytest.mark.parametrize("path", ["data/", "_lakefs/", "/etc", "mem://elsewhere/ns/x/", "a/../b"])
def test_path_that_leads_elsewhere_is_refused(scene: Scene, path: str) -> None:
    """Only folders where marks lie are marks."""
    with pytest.raises(ConfigError):
        run_sweep(scene.context(), path, SweepRequest())
    assert scene.left() == set(scene.garbage)


def test_folder_without_a_list_is_no_mark(scene: Scene) -> None:
    """Nothing found is said, and not taken for nothing to do."""
    with pytest.raises(ConfigError, match="no mark"):
        run_sweep(scene.context(), FOLDER, SweepRequest())
