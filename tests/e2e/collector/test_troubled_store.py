"""A store that fails, throttles, denies, loses answers or cuts reads short, anywhere in a collection.

Each run ends with the right result or with an error of ours, and nothing live is lost; when the trouble is over, a run
finishes the work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.collector.lakefs.between_runs.history import list_runs
from lakesweep.collector.lakefs.between_runs.pruning import tidy_up
from lakesweep.collector.lakefs.collect import run_gc, run_resume
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import (
    LakesweepError,
    PartlySweptError,
    StorageDeniedError,
    StorageError,
    UnsupportedStoreError,
)
from lakesweep.storage import ObjectInfo, ObjectStore
from lakesweep_testing.faults import FaultPlan, FaultyStore
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.scene import AGED, Scene, assert_adds_up
from lakesweep_testing.trouble import MeddlingBackend

CLEAN = replace(AGED, flow=Flow.CLEAN)

PLANS = {
    "errors": FaultPlan(errors=0.15),
    "lost answers": FaultPlan(lost_answers=0.15),
    "throttling": FaultPlan(throttling=0.2),
    "broken listings": FaultPlan(broken_listings=0.4),
    "failing deletes": FaultPlan(failed_deletes=0.4),
    "throttled deletes": FaultPlan(throttled_deletes=0.5),
    "short reads": FaultPlan(truncation=0.05),
    "denials": FaultPlan(denials=0.02),
    "all of it": FaultPlan(
        errors=0.05, lost_answers=0.05, throttling=0.05, broken_listings=0.1, failed_deletes=0.2
    ),
}


def faulty(plan: FaultPlan, seed: int) -> Callable[[ObjectStore], ObjectStore]:
    return lambda store: FaultyStore(store, seed, plan)


def collect(scene: Scene, wrap: Callable[[ObjectStore], ObjectStore]) -> LakesweepError | None:
    """Collect through the trouble; None when it went through, which must be told by what is left."""
    try:
        record = run_gc(scene.context(wrap=wrap), CLEAN, SweepRequest())
    except LakesweepError as error:
        return error
    assert record.status is RunStatus.SWEPT
    assert not scene.left()
    return None


def assert_recovers(scene: Scene, error: LakesweepError | None) -> None:
    """With the trouble over, what was begun is resumed and the rest is collected; all of it adds up."""
    scene.assert_nothing_else_gone()
    scene.release_lease()  # which the trouble may have kept from being given back
    deleted = set(scene.garbage) - scene.left()
    if error is not None:
        assert error.exit_status == 5 if deleted else error.exit_status in (3, 4, 5)
    for run in list_runs(scene.store):
        if isinstance(run, RunRecord) and run.status is RunStatus.PARTLY_SWEPT:
            resumed = run_resume(scene.context(), run.run_id, SweepRequest())
            assert resumed.status is RunStatus.SWEPT
            assert_adds_up(resumed)
    scene.gc(CLEAN)
    assert not scene.left()
    scene.assert_nothing_else_gone()


@pytest.mark.parametrize("seed", few_of(range(2), 2))
@pytest.mark.parametrize("trouble", PLANS)
def test_troubled_store_loses_nothing_and_a_later_run_finishes(
    scene: Scene, trouble: str, seed: int
) -> None:
    """Faults by chance, the same for one seed."""
    assert_recovers(scene, collect(scene, faulty(PLANS[trouble], seed)))


@pytest.mark.parametrize("trouble", ["errors", "throttling", "broken listings", "lost answers"])
def test_passing_trouble_is_sat_out(scene: Scene, trouble: str) -> None:
    """What is safe to repeat is repeated: a store that fails now and then changes no result."""
    rare = {
        "errors": FaultPlan(errors=0.03),
        "throttling": FaultPlan(throttling=0.05),
        "broken listings": FaultPlan(broken_listings=0.1),
        # A conditional write whose answer is lost is not repeated; the lease is the only one.
        "lost answers": FaultPlan(lost_answers=0.02),
    }[trouble]
    assert collect(scene, faulty(rare, seed=1)) is None


class StoreGoesAway:
    """From some operation on, the store answers nothing any more."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.operations = 0

    def __call__(self, operation: str, key: str) -> None:
        self.operations += 1
        if self.operations > self.left:
            raise StorageDeniedError("the store went away (injected)")


def test_store_that_goes_away_at_any_operation_loses_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation of a collection in turn is the last one that works."""
    counter = StoreGoesAway(after=1 << 30)
    needed: list[int] = []

    def count_and_tidy_up(*args: Any) -> None:
        needed.append(counter.operations)
        tidy_up(*args)

    monkeypatch.setattr("lakesweep.collector.lakefs.collect.tidy_up", count_and_tidy_up)
    run_gc(scene.context(wrap=MeddlingBackend.wrap(counter)), CLEAN, SweepRequest())
    # Last of all our own files are tidied up and the lease is given back, whose failures are warnings only.
    for after in range(0, counter.operations - 4, 14):
        scene.rewind()
        error = collect(scene, MeddlingBackend.wrap(StoreGoesAway(after)))
        if after >= needed[0]:
            assert error is None
            assert not scene.left()
            scene.assert_nothing_else_gone()
            scene.release_lease()
            continue
        assert error is not None
        is_partly = isinstance(error, PartlySweptError)
        assert is_partly or scene.left() == set(scene.garbage), f"after {after}: {error}"
        scene.assert_nothing_else_gone()
        # The lease of the run that could not release it is this process's own.
        scene.release_lease()
        if is_partly:
            assert_recovers(scene, error)


class OneFails:
    """Exactly one operation fails, for good."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.operations = 0

    def __call__(self, operation: str, key: str) -> None:
        self.operations += 1
        if self.operations == self.number:
            raise StorageError("refused (injected)")


def test_any_single_failure_is_an_error_or_no_matter(scene: Scene) -> None:
    """Each operation of a collection in turn fails: the run says so, or did not need it, and nothing live is lost."""
    counter = StoreGoesAway(after=1 << 30)
    run_gc(scene.context(wrap=MeddlingBackend.wrap(counter)), CLEAN, SweepRequest())
    for number in range(1, counter.operations + 1, 14):
        scene.rewind()
        collect(scene, MeddlingBackend.wrap(OneFails(number)))
        scene.assert_nothing_else_gone()


@pytest.mark.parametrize("answer", ["done all the same", "501"])
def test_store_without_create_if_absent_is_refused(scene: Scene, answer: str) -> None:
    """Two collectors could run at once there, so nothing is deleted unless the user vouches for it."""

    class NoCreate(MeddlingBackend):
        def put(self, key: str, data: bytes, *, create: bool, if_match: str | None) -> ObjectInfo:
            if create and answer == "501":
                raise UnsupportedStoreError(f"{key} was not written: not implemented")
            return super().put(key, data, create=False, if_match=if_match)

    error = collect(scene, NoCreate.wrap())
    assert error is not None
    assert error.kind == "no-lease"
    assert scene.left() == set(scene.garbage)
    context = replace(scene.context(wrap=NoCreate.wrap()), use_lease=False)
    run_gc(context, CLEAN, SweepRequest())
    assert not scene.left()
