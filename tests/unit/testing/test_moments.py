"""Whatever a slow machine does to a run's requests, what is to happen in it happens, once and where it should."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import httpx

from lakesweep_testing.moments import OneMoment
from lakesweep_testing.trouble import POLL, Send, route_of

SERVER = "http://server/api/v1/repositories/r"


def test_question_asked_again_is_no_other_moment() -> None:
    """A client whose machine stood still gets no answer in time, and asks once more."""
    told: list[str] = []
    is_slow = True

    def answer(request: httpx.Request, send: Send) -> httpx.Response:
        nonlocal is_slow
        told.append(route_of(request))
        if is_slow:
            is_slow = False
            raise httpx.ReadTimeout("the machine stood still", request=request)
        return httpx.Response(200)

    transport = OneMoment(1, lambda: told.append("now"), answer)
    with httpx.Client(transport=transport) as client:
        try:
            client.get(f"{SERVER}/first")
        except httpx.ReadTimeout:
            client.get(f"{SERVER}/first")
        client.get(f"{SERVER}/gc/prepare_commits/status")
        client.get(f"{SERVER}/refs/main/objects/stat")
        client.get(f"{SERVER}/second")
        client.get(f"{SERVER}/third")
    asked = ["GET first", "GET first", POLL, "GET refs/main/objects/stat"]
    assert told == [*asked, "now", "GET second", "GET third"]
    assert transport.before == "GET second"


def test_moment_between_requests_of_several_threads_is_not_passed_over() -> None:
    """No request is the second of two that are asked at once; then the next one is."""
    told: list[str] = []
    both = Barrier(2)

    def answer(request: httpx.Request, send: Send) -> httpx.Response:
        if route_of(request) != "GET last":
            both.wait(60)
        return httpx.Response(200)

    transport = OneMoment(1, lambda: told.append("now"), answer)
    with httpx.Client(transport=transport) as client:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(client.get, [f"{SERVER}/first", f"{SERVER}/second"]))
        assert not told
        client.get(f"{SERVER}/last")
    assert (told, transport.before) == (["now"], "GET last")


def test_run_without_such_a_moment_says_so() -> None:
    transport = OneMoment(1, lambda: None, lambda request, send: httpx.Response(200))
    with httpx.Client(transport=transport) as client:
        client.get(f"{SERVER}/first")
    assert transport.before is None
