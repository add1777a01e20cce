"""Keys that can't be deleted: counted once, named, tried again, and never forgotten."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.lakefs.between_runs.history import load_run
from lakesweep.collector.lakefs.collect import run_resume, run_sweep
from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import (
    PartlySweptError,
    StorageError,
    UnsafeToSweepError,
)
from lakesweep.storage.values import NO_TERMS, DeleteOutcome, DeleteStatus, DeleteTerms
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.scene import Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingBackend

MakeScene = Callable[..., Scene]


class StubbornBackend(MeddlingBackend):
    """Deletes what it is told to, but for some keys, which have the outcome named here so many times."""

    stubborn: dict[str, list[DeleteStatus]]

    def delete(self, keys: Sequence[str], terms: DeleteTerms = NO_TERMS) -> list[DeleteOutcome]:
        answers = {}
        for key in keys:
            waiting = self.stubborn.get(key)
            if waiting:
                answers[key] = DeleteOutcome(key, waiting.pop(0), "injected")
        done = {o.key: o for o in self.inner.delete([k for k in keys if k not in answers], terms)}
        return [answers.get(key) or done[key] for key in keys]


def stubborn(scene: Scene, outcomes: dict[str, list[DeleteStatus]]) -> RunContext:
    by_key = {scene.garbage[name]: list(statuses) for name, statuses in outcomes.items()}
    kind = type("Stubborn", (StubbornBackend,), {"stubborn": by_key})
    return scene.context(wrap=kind.wrap())


def test_partial_failures_are_named_and_counted(scene: Scene) -> None:
    """The original logs them and reports success; here the run is partly swept, and says which key and why."""
    marked = scene.mark()
    context = stubborn(
        scene, {"orphan-1": [DeleteStatus.DENIED] * 9, "expired-2": [DeleteStatus.FAILED] * 9}
    )
    with pytest.raises(PartlySweptError, match="2 objects") as caught:
        run_sweep(context, marked.mark_id, SweepRequest())
    assert caught.value.exit_status == 5
    assert scene.left() == {"orphan-1", "expired-2"}
    record = load_run(scene.store, scene.name, marked.run_id)
    assert record.status is RunStatus.PARTLY_SWEPT
    assert record.objects["failed"] == 2
    assert record.objects["deleted"] == len(scene.garbage) - 2
    assert set(record.failures) == {"denied", "failed"}
    assert scene.garbage["orphan-1"] in record.failures["denied"]
    assert record.kind == "keys-failed"
    assert_adds_up(record)
    resumed = run_resume(scene.context(), marked.run_id, SweepRequest())
    assert resumed.kind == ""
    assert resumed.status is RunStatus.SWEPT
    assert not scene.left()
    assert_adds_up(resumed)


def test_key_denied_while_another_is_tried_again_counts_once(scene: Scene) -> None:
    """A second round for one failed key tries the denied one again, and counts it once all the same."""
    marked = scene.mark()
    context = stubborn(
        scene, {"orphan-1": [DeleteStatus.DENIED] * 9, "expired-2": [DeleteStatus.FAILED]}
    )
    with pytest.raises(PartlySweptError, match="1 object,"):
        run_sweep(context, marked.mark_id, SweepRequest())
    record = load_run(scene.store, scene.name, marked.run_id)
    assert record.objects["failed"] == 1
    assert_adds_up(record)


@pytest.mark.parametrize("status", [DeleteStatus.FAILED, DeleteStatus.DENIED])
def test_failed_keys_are_carried_to_the_next_optimized_run(
    make_scene: MakeScene, status: DeleteStatus
) -> None:
    """What could not be deleted lies in a slice that is not listed again, and the next run finds it all the same."""
    scene = make_scene()
    marked = scene.mark()
    with pytest.raises(PartlySweptError):
        run_sweep(stubborn(scene, {"orphan-1": [status] * 9}), marked.mark_id, SweepRequest())
    scene.lake.clock.advance(timedelta(days=3))
    again = scene.gc()
    assert again.flow == Flow.OPTIMIZED, again.notes
    assert not scene.left()


def test_driver_that_loses_its_engine_while_deleting_is_partly_swept(scene: Scene) -> None:
    """An error half-way through a round comes after deletions: exit 5 and a run to resume, never 'nothing was deleted'."""

    class Lost(InProcessEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            rows = super().collect(scatter)
            if scatter.schema == DELETED_SCHEMA:
                raise StorageError("the store went away")
            return rows

    marked = scene.mark()
    with pytest.raises(PartlySweptError, match="runs resume"):
        run_sweep(scene.context(engine=Lost()), marked.mark_id, SweepRequest())
    assert load_run(scene.store, scene.name, marked.run_id).status is RunStatus.PARTLY_SWEPT
    resumed = run_resume(scene.context(), marked.run_id, SweepRequest())
    assert resumed.status is RunStatus.SWEPT
    assert_adds_up(resumed)
    assert not scene.left()


@pytest.mark.parametrize("has_begun", [True, False])
def test_a_sweep_that_is_stopped_says_so_in_its_record(scene: Scene, has_begun: bool) -> None:
    """Once deletes have begun. Before that nothing has changed, and the mark waits for its sweep as it did."""

    class Stopped(InProcessEngine):
        def collect(self, scatter: Scatter) -> pa.Table:
            rows = super().collect(scatter)
            if scatter.schema == DELETED_SCHEMA:
                raise KeyboardInterrupt
            return rows

        def meet(self, *sides: Any) -> pa.Table:
            if not has_begun:
                raise KeyboardInterrupt
            return super().meet(*sides)

    marked = scene.mark()
    with pytest.raises(KeyboardInterrupt):
        run_sweep(scene.context(engine=Stopped()), marked.mark_id, SweepRequest())
    record = load_run(scene.store, scene.name, marked.run_id)
    if has_begun:
        assert (record.status, record.kind) == (RunStatus.PARTLY_SWEPT, "interrupted")
        assert record.reason == "stopped by the user"
        assert run_resume(scene.context(), marked.run_id, SweepRequest()).status is RunStatus.SWEPT
    else:
        assert record == marked
        assert scene.left() == set(scene.garbage)


def test_sweep_refused_before_its_first_delete_says_that_nothing_was_deleted(scene: Scene) -> None:
    """Doubt in the re-verification of a first round is exit 4, and the mark can be swept later."""

    def no_ranges(key: str, data: bytes) -> bytes | None:
        return None if key.startswith("_lakefs/") and len(key) == len("_lakefs/") + 64 else data

    marked = scene.mark()
    with pytest.raises(UnsafeToSweepError):
        run_sweep(
            scene.context(wrap=MeddlingBackend.wrap(change=no_ranges)),
            marked.mark_id,
            SweepRequest(),
        )
    assert scene.left() == set(scene.garbage)
    assert load_run(scene.store, scene.name, marked.run_id).status is RunStatus.REFUSED
    assert scene.sweep(marked.mark_id).status is RunStatus.SWEPT
