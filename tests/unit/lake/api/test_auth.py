"""Basic authentication, login tokens, and the gate in front of every route."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from datetime import UTC, datetime

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from lakesweep.lake.api.auth import (
    CREDENTIALS_KEY,
    LOGIN_LIFE_SECONDS,
    OPEN_ENDPOINTS,
    Authenticator,
    FindCredentials,
    RequireCredentials,
    is_valid_token,
    issue_token,
)
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.values import Credentials

ALICE = Credentials("AKIAALICE", "alice-secret", "alice", datetime(2024, 1, 1, tzinfo=UTC))
BOB = Credentials("AKIABOB", "bob-secret", "bob", datetime(2024, 1, 1, tzinfo=UTC))
NOW = 1_700_000_000.0


def find(access_key_id: str) -> Credentials | None:
    return {ALICE.access_key_id: ALICE, BOB.access_key_id: BOB}.get(access_key_id)


def authenticate(authorization: str) -> Credentials | None:
    return asyncio.run(Authenticator(find, is_remote=False).authenticate(authorization))


def basic(access_key_id: str, secret: str) -> str:
    return "Basic " + base64.b64encode(f"{access_key_id}:{secret}".encode()).decode()


def test_right_secret_is_accepted() -> None:
    """The key's own secret proves who is asking."""
    assert authenticate(basic("AKIAALICE", "alice-secret")) == ALICE


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        basic("AKIAALICE", ""),
        basic("AKIAALICE", "bob-secret"),
        basic("AKIAALICE", "alice-secret "),
        basic("akiaalice", "alice-secret"),
        basic("AKIANOBODY", "alice-secret"),
        "Bearer ",
        "Bearer x.y.z",
        "Bearer " + ".".join(["e30", "e30", ""]),
        "Bearer " + ".".join([base64.b64encode(b"[" * 3000).decode(), "e30", ""]),
        "Digest AKIAALICE",
    ],
)
def test_anything_else_is_refused(authorization: str) -> None:
    """No header, a broken one, another's secret: nobody."""
    assert authenticate(authorization) is None


def test_login_token_stands_for_its_key() -> None:
    """A token made from a key is accepted in its place."""
    assert authenticate("Bearer " + issue_token(ALICE, time.time()).token) == ALICE


def test_login_token_expires() -> None:
    """The last second of a token's life is not part of it."""
    token = issue_token(ALICE, NOW)
    assert token.expires_at == NOW + LOGIN_LIFE_SECONDS
    assert is_valid_token(token.token, ALICE, token.expires_at - 1)
    assert not is_valid_token(token.token, ALICE, token.expires_at)


def test_login_token_of_one_key_is_worthless_for_another() -> None:
    """A token says whose it is in its signed part."""
    assert not is_valid_token(issue_token(ALICE, NOW).token, BOB, NOW)


def test_login_token_with_other_claims_is_refused() -> None:
    """Changing a claim, or the algorithm to none, breaks the signature."""
    header, claims, signature = issue_token(ALICE, NOW).token.split(".")
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=="))
    later = base64.urlsafe_b64encode(json.dumps(decoded | {"exp": 2**40}).encode()).decode()
    unsigned = base64.urlsafe_b64encode(b'{"alg":"none","kid":"AKIAALICE"}').decode().rstrip("=")
    for forged in (
        f"{header}.{later.rstrip('=')}.{signature}",
        f"{unsigned}.{claims}.",
        f"{unsigned}.{claims}.{signature}",
    ):
        assert not is_valid_token(forged, ALICE, NOW)
        assert authenticate(f"Bearer {forged}") is None


@pytest.mark.parametrize("is_remote", [False, True])
def test_revoked_key_ends_with_its_next_request(is_remote: bool) -> None:
    """Nothing is remembered between requests, neither for the key itself nor for a login token made from it."""
    keys = {ALICE.access_key_id: ALICE}
    token = issue_token(ALICE, time.time()).token
    authenticator = Authenticator(keys.get, is_remote=is_remote)

    async def ask() -> list[Credentials | None]:
        return [
            await authenticator.authenticate(basic("AKIAALICE", "alice-secret")),
            await authenticator.authenticate(f"Bearer {token}"),
        ]

    assert asyncio.run(ask()) == [ALICE, ALICE]
    del keys[ALICE.access_key_id]
    assert asyncio.run(ask()) == [None, None]


async def _tell_caller(scope: Scope, receive: Receive, send: Send) -> None:
    caller: Credentials | None = scope.get(CREDENTIALS_KEY)
    await PlainTextResponse(caller.username if caller else "nobody")(scope, receive, send)


def _send(
    method: str, path: str, look_up: FindCredentials = find, **headers: str
) -> httpx.Response:
    async def run() -> httpx.Response:
        gate = RequireCredentials(_tell_caller, Authenticator(look_up, is_remote=False))
        transport = httpx.ASGITransport(app=gate)
        async with httpx.AsyncClient(transport=transport, base_url="http://lake") as client:
            return await client.request(method, path, headers=headers)

    return asyncio.run(run())


@pytest.mark.parametrize(("method", "path"), sorted(OPEN_ENDPOINTS))
def test_open_endpoints_need_no_credentials(method: str, path: str) -> None:
    """Health, setup and login are asked before anyone has credentials."""
    assert _send(method, path).text == "nobody"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/repositories"),
        ("DELETE", "/api/v1/healthcheck"),
        ("GET", "/api/v1/healthcheck/"),
        ("GET", "/api/v1/auth/login"),
        ("GET", "/api/v1/healthcheck/../repositories"),
        ("GET", "//api/v1/healthcheck"),
        ("GET", "/"),
    ],
)
def test_nothing_else_gets_past_the_gate(method: str, path: str) -> None:
    """Every other method and path is 401, known to the router or not."""
    reply = _send(method, path)
    assert (reply.status_code, set(reply.json())) == (401, {"message"})


def test_gate_tells_handlers_who_asks() -> None:
    """Behind the gate the caller is known."""
    assert _send("GET", "/x", authorization=basic("AKIABOB", "bob-secret")).text == "bob"


def test_ref_store_that_does_not_answer_is_no_bug() -> None:
    """Nobody can be recognised meanwhile: 503, which clients wait for. Where it lies is not told to whoever may ask."""

    def look_up(access_key_id: str) -> Credentials | None:
        raise RefStoreError("the ref store at db.internal is away")

    reply = _send("GET", "/x", look_up, authorization=basic("AKIABOB", "bob-secret"))
    assert reply.status_code == 503
    assert "ref store does not answer" in reply.json()["message"]
    assert "db.internal" not in reply.text
