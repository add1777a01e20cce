"""A mark that fails leaves a record of why, and nothing that a sweep would take for a mark."""

from __future__ import annotations

from dataclasses import replace

import httpx
import pytest

from lakesweep.collector.lakefs.between_runs.history import (
    DamagedRun,
    forget_run,
    list_runs,
    load_run,
)
from lakesweep.collector.lakefs.collect import run_gc, run_mark, run_resume, run_sweep
from lakesweep.collector.record import RunRecord, RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import CatalogError, ConfigError, LakesweepError, StorageError
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import MeddlingBackend, MeddlingTransport, Send, route_of


def failing_server(route: str) -> MeddlingTransport:
    """One that refuses what is asked on a route."""

    def meddle(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == route:
            return httpx.Response(400, json={"message": "not today"})
        return send(request)

    return MeddlingTransport(meddle)


def only_run(scene: Scene) -> RunRecord:
    (run,) = list_runs(scene.store)
    assert not isinstance(run, DamagedRun)
    return run


def refused_by_all(scene: Scene, run: RunRecord) -> None:
    """Neither its id nor its mark's is good for a sweep, and nothing is gone."""
    with pytest.raises(ConfigError):
        run_resume(scene.context(), run.run_id, SweepRequest())
    with pytest.raises(LakesweepError):
        run_sweep(scene.context(), run.mark_id or run.run_id, SweepRequest())
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


@pytest.mark.parametrize(
    "route", ["GET branches", "POST gc/prepare_uncommited", "GET settings/gc_rules"]
)
def test_mark_whose_server_fails_is_listed_with_the_reason(scene: Scene, route: str) -> None:
    """Before and after the run has the server's id: `runs list` and `runs show` tell how it ended."""
    with pytest.raises(CatalogError) as caught:
        run_mark(scene.context(transport=failing_server(route)), AGED)
    run = only_run(scene)
    assert run.status is RunStatus.FAILED
    assert run.reason == caught.value.message
    assert run.kind == caught.value.kind == "http-400"
    assert run.finished_at is not None
    assert load_run(scene.store, scene.name, run.run_id) == run
    refused_by_all(scene, run)


def test_mark_that_fails_after_its_plan_was_written_is_not_swept(scene: Scene) -> None:
    """The plan is there, and whole; but the run did not end well, so it counts for nothing."""

    def no_report(operation: str, key: str) -> None:
        if operation == "write" and key.endswith("summary.json"):
            raise StorageError("no report today")

    context = scene.context(wrap=MeddlingBackend.wrap(before=no_report))
    with pytest.raises(StorageError):
        run_gc(context, replace(AGED, mark_id="mine"), SweepRequest())
    run = only_run(scene)
    assert (run.status, run.mark_id) == (RunStatus.FAILED, "mine")
    assert "no report today" in run.reason
    refused_by_all(scene, run)


def test_failed_mark_leads_to_no_other_mark(scene: Scene) -> None:
    """A mark id in use is refused without a trace; a mark that fails beside a good one leaves that alone."""
    first = run_mark(scene.context(), replace(AGED, mark_id="mine"))
    with pytest.raises(ConfigError):
        run_mark(scene.context(), replace(AGED, mark_id="mine"))
    assert [run.run_id for run in list_runs(scene.store)] == [first.run_id]
    with pytest.raises(CatalogError):
        run_mark(
            scene.context(transport=failing_server("GET settings/gc_rules")),
            replace(AGED, mark_id="other"),
        )
    failed = next(run for run in list_runs(scene.store) if run.run_id != first.run_id)
    assert isinstance(failed, RunRecord)
    refused_by_all(scene, failed)
    forget_run(scene.store, scene.name, failed.run_id)
    assert only_run(scene) == first


def test_mark_after_a_failed_one_is_as_if_that_had_not_been(scene: Scene) -> None:
    """It stands in nobody's way."""
    with pytest.raises(CatalogError):
        run_mark(scene.context(transport=failing_server("GET settings/gc_rules")), AGED)
    scene.gc()
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_record_that_can_not_be_written_does_not_hide_why_the_mark_failed(scene: Scene) -> None:
    """The first error is the one that is told."""

    def no_records(operation: str, key: str) -> None:
        if operation == "write" and key.endswith("record.json"):
            raise StorageError("no record today")

    context = scene.context(
        transport=failing_server("GET settings/gc_rules"),
        wrap=MeddlingBackend.wrap(before=no_records),
    )
    with pytest.raises(CatalogError, match="not today"):
        run_mark(context, AGED)
