"""Every route and gateway operation under requests that nobody foresaw: no 5xx, and a bounded cost, counted."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakesweep.lake.api.app import build_routes
from lakesweep_testing.api_requests import (
    REPOSITORY,
    DrawnRequest,
    Operation,
    gateway_requests,
    read_operations,
    requests_of,
    worst_requests,
)
from lakesweep_testing.asgi import AsgiLake
from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.memory_kv import MemoryKeyValueStore

pytestmark = pytest.mark.slow

OPERATIONS = [
    operation
    for operation in read_operations(build_routes().openapi())
    # Deleting the one repository is tried below, where a new one is made for each story.
    if str(operation) != "DELETE /api/v1/repositories/{repository}"
]
# A request of a thousand keys looks each up on a branch: all others need a few dozen.
MOST_CALLS = 100
MOST_CALLS_OF_MANY_KEYS = 5000
_HEADER_VALUE = re.compile(rb"[^\x00-\x1f\x7f]*")
_QUICK = settings(
    max_examples=max(3, settings.default.max_examples // 16),  # type: ignore[union-attr]
    suppress_health_check=list(HealthCheck),
)


class CountedKeyValueStore(MemoryKeyValueStore):
    """Counts what it is asked."""

    calls = 0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("get", "set", "set_if", "set_many", "delete", "delete_if", "page"):
            type(self).calls += 1
        return found


class FuzzedLake:
    """A lake with a little of everything, and judgement of its replies."""

    def __init__(self, asgi: AsgiLake) -> None:
        self.asgi = asgi

    def refill(self) -> None:
        """The repository as it should be, made anew when an earlier request took it away."""
        branches = f"/repositories/{REPOSITORY}/branches"
        if self.asgi.send("GET", branches + "/dev").is_success:
            return
        self.asgi.send("DELETE", f"/repositories/{REPOSITORY}")
        self.asgi.create(REPOSITORY)
        for path in ("p", "folder/q"):
            for number in range(3):
                content = f"{number}".encode()
                self.asgi.send("POST", f"{branches}/main/objects?path={path}", content=content)
                self.asgi.send("POST", f"{branches}/main/commits", json={"message": "m"})
        self.asgi.send("POST", branches, json={"name": "dev", "source": "main"})
        self.asgi.send("POST", f"/repositories/{REPOSITORY}/tags", json={"id": "v1", "ref": "main"})
        self.asgi.send("POST", f"{branches}/dev/objects?path=staged", content=b"x")

    def send(self, request: DrawnRequest, send: Callable[..., httpx.Response]) -> None:
        """Send, and judge the reply and what it cost."""
        before = CountedKeyValueStore.calls
        content, headers = request.content, dict(request.headers)
        reply = send(request.method, request.path, content=content, headers=headers)
        calls = CountedKeyValueStore.calls - before
        assert reply.status_code < 500 or reply.status_code == 501, (request, reply.text)
        for _, value in reply.headers.raw:
            assert _HEADER_VALUE.fullmatch(value)
            assert value == value.strip()
        kind = reply.headers.get("content-type", "")
        if reply.content and kind == "application/json":
            reply.json()
        most = MOST_CALLS_OF_MANY_KEYS if content.count(b"<Object>") > 10 else MOST_CALLS
        assert calls <= most, (request, calls)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FuzzedLake]:
    logging.disable(logging.CRITICAL)
    with AsgiLake(
        kv=CountedKeyValueStore(),
        data_dir=tmp_path_factory.mktemp("lake"),
        is_default_branch_protected=False,
        allow_namespaces=("mem://",),
        allow_imports=("mem://elsewhere",),
    ) as asgi:
        yield FuzzedLake(asgi)
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("operation", few_of(OPERATIONS, 3), ids=str)
def test_every_part_of_every_route_may_be_spoiled(lake: FuzzedLake, operation: Operation) -> None:
    """Half a surrogate pair, a line break, thousands of tildes or digits: in each parameter, in each part of a body."""
    for request in worst_requests(operation):
        lake.refill()
        lake.send(request, _authenticated(lake))


@pytest.mark.parametrize("operation", few_of(OPERATIONS, 3), ids=str)
def test_every_route_takes_whatever_comes(lake: FuzzedLake, operation: Operation) -> None:
    """A few requests to each: likely, nasty and shapeless ones."""

    @_QUICK
    @given(requests_of(operation))
    def ask(request: DrawnRequest) -> None:
        lake.refill()
        lake.send(request, _authenticated(lake))

    ask()


@settings(suppress_health_check=list(HealthCheck))
@given(gateway_requests())
def test_the_gateway_takes_whatever_comes(lake: FuzzedLake, request: DrawnRequest) -> None:
    """Any method on any level with any sub-resource."""
    lake.refill()
    lake.send(request, lake.asgi.send_s3)


@settings(suppress_health_check=list(HealthCheck))
@given(st.data())
def test_stories_of_requests_end_well(lake: FuzzedLake, data: st.DataObject) -> None:
    """One after the other on one repository, which may be gone half-way."""
    lake.refill()
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.integers(0, 9)) == 0:
            lake.asgi.send("DELETE", f"/repositories/{REPOSITORY}")
        operation = data.draw(st.sampled_from(OPERATIONS))
        lake.send(data.draw(requests_of(operation)), _authenticated(lake))


def _authenticated(lake: FuzzedLake) -> Callable[..., httpx.Response]:
    def send(method: str, path: str, **how: Any) -> httpx.Response:
        prefix = "/api/v1"
        if path.startswith(prefix):
            return lake.asgi.send(method, path.removeprefix(prefix), **how)
        return lake.asgi.send_raw(method, path, **how)

    return send
