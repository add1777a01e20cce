"""Every REST route × every role: who is let through is decided by one table, and a route without an entry is not served."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest
from fastapi import APIRouter

from lakesweep.lake.api.app import _ROUTERS, API_PATH, build_rest
from lakesweep.lake.api.auth import OPEN_ENDPOINTS
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.api.metrics import Metrics
from lakesweep.lake.api.rest import setup
from lakesweep.lake.api.rest.access import NEED_OF_ROUTE, routes_in, set_up_access
from lakesweep.lake.api.rest.unsupported import UNSUPPORTED_OPERATIONS
from lakesweep.lake.context import LakeContext
from lakesweep.lake.users.access import Need
from lakesweep.lake.users.credentials import CredentialStore
from lakesweep.lake.values import Credentials
from lakesweep_testing.lakes import LakeRepo

AT_THE_ROOT = {path for _, path in routes_in([setup.health_router])}
ALL_ROUTERS = (setup.health_router, *_ROUTERS)

# What each role may do in the repository `sales`.
MAY = {
    "admin": {Need.OPEN, Need.KEY, Need.READ, Need.WRITE, Need.MANAGE},
    "reader": {Need.OPEN, Need.KEY, Need.READ},
    "writer-of-sales": {Need.OPEN, Need.KEY, Need.READ, Need.WRITE},
    "reader-of-sales": {Need.OPEN, Need.KEY, Need.READ},
    "writer-elsewhere": {Need.OPEN, Need.KEY},
    "nobody": {Need.OPEN},
}


def test_every_route_has_a_need() -> None:
    """And the table has no entry for a route that is gone."""
    assert set(routes_in(ALL_ROUTERS)) == NEED_OF_ROUTE.keys()


def test_routes_that_change_something_need_the_right_to_write() -> None:
    """By their methods; lakectl's statistics are thrown away, and what is not supported does nothing."""
    harmless = {(o.method, o.path) for o in UNSUPPORTED_OPERATIONS} | {("POST", "/statistics")}
    needs = {
        need
        for (method, path), need in NEED_OF_ROUTE.items()
        if method not in ("GET", "HEAD") and (method, path) not in harmless
    }
    assert needs == {Need.WRITE, Need.MANAGE, Need.OPEN}
    assert all("{repository}" in p for (_, p), need in NEED_OF_ROUTE.items() if need is Need.WRITE)


def test_route_without_a_need_is_not_served() -> None:
    """Whoever adds a route decides who may call it, or the server does not start."""
    router = APIRouter()
    router.add_api_route("/new", lambda: None, methods=["GET"])
    with pytest.raises(LookupError, match="/new"):
        set_up_access([*ALL_ROUTERS, router])


def test_open_routes_are_those_that_the_gate_lets_through() -> None:
    """Two lists that must agree: the gate's, before routing, and the table's."""
    opened = {
        (method, path if path in AT_THE_ROOT else API_PATH + path)
        for (method, path), need in NEED_OF_ROUTE.items()
        if need is Need.OPEN
    }
    assert opened == OPEN_ENDPOINTS


@pytest.fixture(scope="module")
def lake() -> LakeRepo:
    return LakeRepo()


@pytest.fixture(scope="module")
def keys(lake: LakeRepo) -> dict[str, Credentials]:
    store = CredentialStore(LakeContext(lake.kv, lake.settings, lake.clock))
    return {
        "admin": store.setup_first_user("admin", None, None),
        "reader": store.add("reader", is_read_only=True),
        "writer-of-sales": store.add("writer-of-sales", repositories=["sales"]),
        "reader-of-sales": store.add("reader-of-sales", is_read_only=True, repositories=["sales"]),
        "writer-elsewhere": store.add("writer-elsewhere", repositories=["other"]),
    }


@pytest.mark.slow
@pytest.mark.parametrize("role", MAY)
def test_roles_and_routes(lake: LakeRepo, keys: dict[str, Credentials], role: str) -> None:
    """403 where the role may not, and no 403 where it may. `sales` does not exist: who may, gets as far as 404."""
    key = keys.get(role)
    auth = (key.access_key_id, key.secret_access_key) if key else None

    async def ask_all() -> dict[tuple[str, str], int]:
        transport = httpx.ASGITransport(build_rest(lake.lake, Lanes(lake.lake), Metrics(lake.lake)))
        async with httpx.AsyncClient(transport=transport, base_url="http://lake", auth=auth) as api:
            return {
                (method, path): (await api.request(method, url_of(path))).status_code
                for method, path in NEED_OF_ROUTE
            }

    refusal = 403 if key else 401
    statuses = asyncio.run(ask_all())
    wrong = {
        (route, status)
        for route, status in statuses.items()
        if (status == refusal) != (NEED_OF_ROUTE[route] not in MAY[role])
        and not (route[1] == "/auth/login" and status == 400)
    }
    assert wrong == set()
    # The lake's folder does not exist, so it says that it is not ready.
    assert statuses.pop(("GET", "/_ready")) == 503
    assert {status for status in statuses.values() if status >= 500} <= {501}


def url_of(path: str) -> str:
    """The path with `sales` as its repository, and something in every other place."""
    filled = re.sub(r"\{[^}]+\}", "x", path.replace("{repository}", "sales"))
    return filled if path in AT_THE_ROOT else API_PATH + filled


def test_listing_shows_what_the_key_reaches(lake: LakeRepo, keys: dict[str, Credentials]) -> None:
    """Pages included: what is left out does not count."""
    for name in ("aaa", "other", "zzz"):
        lake.lake.repositories.create(name, f"{lake.namespace}-{name}")
    listed = lake.lake.repositories.page(amount=1, caller=keys["writer-elsewhere"])
    assert ([r.id for r in listed.results], listed.has_more) == (["other"], False)
    assert len(lake.lake.repositories.page(caller=keys["reader"]).results) == 3
