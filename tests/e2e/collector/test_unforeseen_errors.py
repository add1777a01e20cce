"""A panic inside the store's client, or any exception that is not ours, ends a run as an error of ours does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import PartlySweptError, UnexpectedError
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingBackend


class Panic(BaseException):
    """What a panic in Rust is to Python: no `Exception`."""


@pytest.fixture(params=[Panic, ZeroDivisionError])
def foreign(request: pytest.FixtureRequest) -> type[BaseException]:
    kind: type[BaseException] = request.param
    return kind


def raising(
    foreign: type[BaseException], operation: str, within: str
) -> Callable[[str, str], None]:
    def before(done: str, key: str) -> None:
        if done == operation and within in key:
            raise foreign("index out of\nbounds")

    return before


def only_run(scene: Scene) -> RunRecord:
    [run] = list_runs(scene.store)
    assert isinstance(run, RunRecord)
    return run


def test_a_mark_is_on_record_as_failed(scene: Scene, foreign: type[BaseException]) -> None:
    """The record says what happened, the lease is given back, and the next run works."""
    wrap = MeddlingBackend.wrap(before=raising(foreign, "list", "data/"))
    with pytest.raises(
        UnexpectedError, match=r"index out of bounds\. Nothing was deleted"
    ) as caught:
        run_mark(scene.context(wrap=wrap), AGED)
    assert isinstance(caught.value.__cause__, foreign)
    run = only_run(scene)
    assert run.status is RunStatus.FAILED
    assert f"{foreign.__name__}: index out of bounds" in run.reason
    scene.gc()
    assert not scene.left()


def test_a_sweep_that_deleted_nothing_is_on_record_as_failed(
    scene: Scene, foreign: type[BaseException]
) -> None:
    """It broke off while it read what is live."""
    marked = run_mark(scene.context(), AGED)
    wrap = MeddlingBackend.wrap(before=raising(foreign, "read", f"mark_id={marked.mark_id}"))
    with pytest.raises(UnexpectedError, match="No further object was deleted"):
        run_sweep(scene.context(wrap=wrap), marked.mark_id, SweepRequest())
    assert only_run(scene).status is RunStatus.FAILED
    assert len(scene.left()) == len(scene.garbage)


def test_a_sweep_that_may_have_deleted_is_on_record_as_partly_swept(
    scene: Scene, foreign: type[BaseException]
) -> None:
    """Nobody knows how far the tasks came; going on reads it from the store."""
    wrap = MeddlingBackend.wrap(before=raising(foreign, "delete", "data/"))
    with pytest.raises(PartlySweptError, match=r"index out of bounds.*runs resume"):
        run_gc(scene.context(wrap=wrap), AGED, SweepRequest())
    run = only_run(scene)
    assert run.status is RunStatus.PARTLY_SWEPT
    assert f"{foreign.__name__}: index out of bounds" in run.reason
    assert run.finished_at is not None
    assert run_resume(scene.context(), run.run_id, SweepRequest()).status is RunStatus.SWEPT
    assert not scene.left()


def test_a_store_that_panics_again_does_not_hide_the_first_error(scene: Scene) -> None:
    """The record can't be written either, and what stopped the run is what is told."""

    failing = {"now": False}

    def panicking(done: str, key: str) -> None:
        if done == "delete" and "data/" in key:
            failing["now"] = True
            raise Panic("the first")
        if failing["now"] and done == "write" and key.endswith("record.json"):
            raise Panic("the second")

    wrap = MeddlingBackend.wrap(before=panicking)
    with pytest.raises(PartlySweptError, match="the first"):
        run_gc(scene.context(wrap=wrap), AGED, SweepRequest())
