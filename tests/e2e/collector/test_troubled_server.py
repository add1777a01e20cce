"""A server that fails, is busy, hangs up, cuts its answers short or answers nonsense, at any call of a collection."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import httpx
import pytest

from lakesweep.collector.lakefs.collect import run_gc, run_sweep
from lakesweep.collector.lakefs.request import Flow
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.errors import CatalogError, LakesweepError
from lakesweep_testing.scene import AGED, Scene
from lakesweep_testing.trouble import POLL, MeddlingTransport, Send, route_of

CLEAN = replace(AGED, flow=Flow.CLEAN)


def _hang_up(request: httpx.Request, send: Send) -> httpx.Response:
    raise httpx.ReadError("connection reset (injected)", request=request)


def _lost_answer(request: httpx.Request, send: Send) -> httpx.Response:
    send(request)
    raise httpx.RemoteProtocolError("no answer (injected)", request=request)


def _cut(request: httpx.Request, send: Send) -> httpx.Response:
    response = send(request)
    body = response.content
    return httpx.Response(response.status_code, content=body[: len(body) // 2])


def _emptied(request: httpx.Request, send: Send) -> httpx.Response:
    """The same answer with every list in it emptied and every count left as it is."""
    response = send(request)
    try:
        values = response.json()
    except ValueError:
        return response
    if isinstance(values, dict):
        values = {k: [] if isinstance(v, list) else v for k, v in values.items()}
    return httpx.Response(response.status_code, content=json.dumps(values).encode())


TROUBLES: dict[str, Callable[[httpx.Request, Send], httpx.Response]] = {
    "500": lambda request, send: httpx.Response(500, json={"message": "broken"}),
    "403": lambda request, send: httpx.Response(403, json={"message": "no right"}),
    "404": lambda request, send: httpx.Response(404, json={"message": "not found"}),
    "hang up": _hang_up,
    "lost answer": _lost_answer,
    "cut short": _cut,
    "a web page": lambda request, send: httpx.Response(200, text="<html>log in</html>"),
    "an empty object": lambda request, send: httpx.Response(201, json={}),
    "lists emptied": _emptied,
}


@pytest.fixture(scope="module")
def routes(make_scene: Callable[[], Scene]) -> list[str]:
    """Every call that a collection makes."""
    quiet = MeddlingTransport()
    run_gc(make_scene().context(transport=quiet), CLEAN, SweepRequest())
    return sorted(set(quiet.routes))


def attempted(scene: Scene, transport: MeddlingTransport) -> LakesweepError | None:
    try:
        record = run_gc(scene.context(transport=transport), CLEAN, SweepRequest())
    except LakesweepError as error:
        return error
    assert record.status in (RunStatus.SWEPT, RunStatus.NOTHING_TO_DO)
    return None


@pytest.mark.parametrize("trouble", TROUBLES)
def test_server_in_trouble_at_any_call_loses_nothing(
    scene: Scene, routes: list[str], trouble: str
) -> None:
    """Whatever a call answers, the run does the right thing or says that it did nothing."""
    # Each call meets half of the troubles; `make safety` has a fault of every kind at each of them.
    for wrong in routes[list(TROUBLES).index(trouble) % 2 :: 2]:
        scene.rewind()

        def meddle(request: httpx.Request, send: Send, wrong: str = wrong) -> httpx.Response:
            return TROUBLES[trouble](request, send) if route_of(request) == wrong else send(request)

        error = attempted(scene, MeddlingTransport(meddle))
        assert error is None or error.exit_status in (3, 4), f"{wrong}: {error}"
        if error is not None:
            assert scene.left() == set(scene.garbage), f"{wrong}: {error}"
        scene.assert_nothing_else_gone()


def test_busy_server_is_waited_for(scene: Scene, routes: list[str]) -> None:
    """Questions are asked again after 429, 503 and a broken connection, so the result is the right one."""
    failed: set[str] = set()

    def first_time_busy(request: httpx.Request, send: Send) -> httpx.Response:
        route = route_of(request)
        if request.method == "GET" and route not in failed:
            failed.add(route)
            return [
                lambda: httpx.Response(429, json={"message": "slow down"}),
                lambda: httpx.Response(503, json={"message": "later"}),
                lambda: _hang_up(request, send),
            ][len(failed) % 3]()
        return send(request)

    assert attempted(scene, MeddlingTransport(first_time_busy)) is None
    assert len(failed) > 5
    assert not scene.left()
    scene.assert_nothing_else_gone()


def test_server_that_fails_once_the_sweep_has_begun_leaves_a_run_to_resume(scene: Scene) -> None:
    """Trouble in the re-verification of a sweep: nothing was deleted yet, and sweeping the mark later goes through."""
    marked = scene.mark(CLEAN)

    def broken(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) == "PUT refs/dump":
            return httpx.Response(500, json={"message": "broken"})
        return send(request)

    with pytest.raises(CatalogError):
        run_sweep(
            scene.context(transport=MeddlingTransport(broken)), marked.mark_id, SweepRequest()
        )
    assert scene.left() == set(scene.garbage)
    scene.sweep(marked.mark_id)
    assert not scene.left()


@pytest.mark.parametrize("page", ["cut", "shuffled", "repeated"])
def test_pages_of_branches_that_do_not_fit_together_are_refused(scene: Scene, page: str) -> None:
    """A list of branches that loses one would make its staged data look dead."""

    def wrong_page(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) != "GET branches":
            return response
        values = response.json()
        if page == "cut":
            values["results"] = values["results"][:-1]
        elif page == "shuffled":
            values["pagination"] |= {"has_more": True, "next_offset": ""}
        else:
            values["pagination"] |= {"has_more": True, "next_offset": values["results"][-1]["id"]}
            values["results"] = values["results"] * 2
        return httpx.Response(200, json=values)

    error = attempted(scene, MeddlingTransport(wrong_page))
    assert error is not None
    assert error.exit_status in (3, 4)
    assert scene.left() == set(scene.garbage)
    scene.assert_nothing_else_gone()


def test_task_that_never_ends_is_given_up(scene: Scene) -> None:
    """The server's list of retained commits is waited for, and not for ever."""

    def never(request: httpx.Request, send: Send) -> httpx.Response:
        response = send(request)
        if route_of(request) == POLL:
            values = {**response.json(), "completed": False}
            values.pop("result", None)
            return httpx.Response(200, json=values)
        return response

    error = attempted(scene, MeddlingTransport(never))
    assert error is not None
    assert error.kind == "catalog-timeout"
    assert scene.left() == set(scene.garbage)
