"""Bounds on the size and the slowness of requests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from lakesweep.lake.api.limits import LimitRequests, RequestLimits

DOCUMENT = "/api/v1/repositories"
UPLOAD = "/api/v1/repositories/r/branches/b/objects"
TIGHT = RequestLimits(
    max_document_bytes=100, max_object_bytes=1000, silence_seconds=0.05, document_seconds=0.2
)


async def _count(request: Request) -> Response:
    return PlainTextResponse(str(len(await request.body())))


def post(path: str, content: bytes | AsyncIterator[bytes]) -> httpx.Response:
    async def run() -> httpx.Response:
        inner = Starlette(routes=[Route("/{path:path}", _count, methods=["POST", "PUT"])])
        transport = httpx.ASGITransport(app=LimitRequests(inner, TIGHT))
        async with httpx.AsyncClient(transport=transport, base_url="http://lake") as client:
            return await client.post(path, content=content)

    return asyncio.run(run())


async def _stream(*pieces: bytes, pause_seconds: float = 0.0) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(pause_seconds)
        yield piece


@pytest.mark.parametrize(
    ("path", "largest"), [(DOCUMENT, 100), (UPLOAD, 1000), ("/repo/main/key", 1000)]
)
def test_body_at_its_bound_passes_and_one_byte_more_does_not(path: str, largest: int) -> None:
    """Documents have a small bound, objects (of the API and of the gateway) a large one."""
    assert post(path, b"x" * largest).text == str(largest)
    assert post(path, b"x" * (largest + 1)).status_code == 413


def test_body_of_unknown_length_is_cut_off_at_the_bound() -> None:
    """A chunked body can't get around the bound."""
    assert post(DOCUMENT, _stream(b"x" * 60, b"x" * 40)).text == "100"
    assert post(DOCUMENT, _stream(b"x" * 60, b"x" * 41)).status_code == 413


def test_silent_sender_is_given_up() -> None:
    """A pause between two pieces that is too long is 408."""
    assert post(UPLOAD, _stream(b"a", b"b", pause_seconds=0.2)).status_code == 408


def test_dripping_document_is_given_up() -> None:
    """Pieces that come often enough still have to end in time."""
    dripping = _stream(*[b"a"] * 30, pause_seconds=0.02)
    assert post(DOCUMENT, dripping).status_code == 408


def test_slow_but_steady_upload_passes() -> None:
    """An object may take as long as it keeps coming."""
    assert post(UPLOAD, _stream(*[b"a"] * 20, pause_seconds=0.02)).text == "20"
