"""The S3 gateway as an ASGI application: bytes in, one call of the lake in a worker thread, bytes out."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import unquote_to_bytes

import anyio
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lakesweep.errors import LakesweepError
from lakesweep.lake.api.auth import tell_known
from lakesweep.lake.api.gateway.access import check_operation_access
from lakesweep.lake.api.gateway.call import GatewayResponse, Handler, S3Call
from lakesweep.lake.api.gateway.errors import S3Error
from lakesweep.lake.api.gateway.objects import prepare_small_put, put_object, put_reply
from lakesweep.lake.api.gateway.request import GatewayRequest, parse_query
from lakesweep.lake.api.gateway.routing import find_handler
from lakesweep.lake.api.gateway.sigv4 import verify_request
from lakesweep.lake.api.gateway.translation import to_s3_error
from lakesweep.lake.api.gateway.xml import error_document
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.api.observing import note
from lakesweep.lake.api.streams import CHUNK_BYTES
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.lake import Lake
from lakesweep.lake.uploads.together import MOST_BYTES
from lakesweep.lake.values import Credentials

__all__ = ["DEFAULT_DOMAINS", "build_gateway"]

logger = logging.getLogger(__name__)

DEFAULT_DOMAINS: Final = ("s3.local.lakefs.io",)
# A client that is still sending when it is refused sees a broken pipe instead of the refusal. This much is
# read and thrown away, so that small bodies get their answer.
_DRAINED_BYTES: Final = 1024 * 1024
_DRAINING_SECONDS: Final = 2.0

# Metadata and types may come from JSON, where a line break is text; in a header it would begin another one.
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")

Clock = Callable[[], datetime]


def _utc_now() -> datetime:
    return datetime.now(UTC)


def build_gateway(
    lake: Lake,
    lanes: Lanes,
    *,
    domains: Sequence[str] = DEFAULT_DOMAINS,
    clock: Clock = _utc_now,
) -> ASGIApp:
    """The gateway on a lake.

    Args:
        lanes: the threads that the lake's calls run in.
        domains: hosts below which the first label is a bucket (`repo.s3.example.org`); elsewhere it is the
            path's first segment.
        clock: tells how far a signature's time is off.
    """
    return _Gateway(lake, lanes, tuple(domains), clock)


class _Gateway:
    def __init__(self, lake: Lake, lanes: Lanes, domains: tuple[str, ...], clock: Clock) -> None:
        self._lake = lake
        self._lanes = lanes
        self._domains = domains
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"the gateway answers http requests, not {scope['type']}")
        request_id = secrets.token_hex(8).upper()
        body = _IncomingBody(receive)
        request = _read_request(scope, self._domains, body.from_thread())
        response = await self._respond(scope, request, request_id, body)
        if response.status >= 400:
            await body.drain()
        await self._send(request, response, request_id, body, send)

    async def _respond(
        self, scope: Scope, request: GatewayRequest, request_id: str, body: _IncomingBody
    ) -> GatewayResponse:
        answer = partial(self._answer, request, request_id)
        if request.method not in ("PUT", "POST"):
            run = self._lanes.run_list
            if request.key:
                is_look_up = request.method in ("GET", "HEAD")
                run = self._lanes.look_up if is_look_up else self._lanes.run_read
            return await run(partial(answer, lambda: _perform(*self._admit(scope, request))))
        admitted: list[tuple[Handler, S3Call]] = []

        def admit() -> GatewayResponse:
            admitted.append(self._admit(scope, request))
            return GatewayResponse()

        refused = await self._lanes.look_up(partial(answer, admit))
        if not admitted:
            return refused
        # Nothing of a body is read before its sender is known, and however slowly it comes, it takes a thread only
        # when a whole block of it is here.
        await body.read_ahead()
        handler, call = admitted[0]
        if handler is put_object and body.is_small:
            try:
                stats = await self._lanes.upload_small(partial(prepare_small_put, call))
                if stats is not None:
                    return put_reply(stats)
            except Exception as error:  # noqa: BLE001 (the client is told)
                return self._explain(request, request_id, error)
        perform = partial(answer, partial(handler, call))
        if body.is_complete:
            return await self._lanes.run_upload(perform)
        return await self._lanes.run_long_upload(perform)

    def _admit(self, scope: Scope, request: GatewayRequest) -> tuple[Handler, S3Call]:
        """What the request asks for, once its sender has proved who they are, and that they may."""
        _check_text(request)
        call = self._authenticate(request)
        tell_known(scope)
        note(scope, call.caller, "s3", request.bucket, request.key)
        handler = find_handler(request)
        note(scope, call.caller, f"s3:{handler.__name__}", request.bucket, request.key)
        check_operation_access(handler, call)
        return handler, call

    def _answer(
        self, request: GatewayRequest, request_id: str, work: Callable[[], GatewayResponse]
    ) -> GatewayResponse:
        try:
            return work()
        except Exception as error:  # noqa: BLE001 (the client is told)
            return self._explain(request, request_id, error)

    def _explain(
        self, request: GatewayRequest, request_id: str, error: Exception
    ) -> GatewayResponse:
        if isinstance(error, S3Error):
            return _error_response(request, error, request_id)
        # Of the ref store a stranger may be told, who is not to know where it lies.
        if isinstance(error, LakesweepError) and not isinstance(error, RefStoreError):
            told = to_s3_error(error)
        else:  # the last line of defence: the client gets an id, the log the reason
            told = S3Error("InternalError", "We encountered an internal error. Please try again.")
        if told.status == 500:
            logger.error("request#%s %s failed", request_id, request.method, exc_info=error)
        return _error_response(request, told, request_id)

    async def _send(
        self,
        request: GatewayRequest,
        response: GatewayResponse,
        request_id: str,
        body: _IncomingBody,
        send: Send,
    ) -> None:
        headers = {"x-amz-request-id": request_id, **response.headers}
        if isinstance(response.body, bytes) and response.status not in (204, 304):
            headers.setdefault("Content-Length", str(len(response.body)))
        encoded = [
            (name.lower().encode("latin-1"), _CONTROL.sub(" ", value).strip().encode())
            for name, value in headers.items()
        ]
        await send({"type": "http.response.start", "status": response.status, "headers": encoded})
        if request.method == "HEAD":
            await send({"type": "http.response.body", "body": b""})
        elif isinstance(response.body, bytes):
            await send({"type": "http.response.body", "body": response.body})
        else:
            await self._send_stream(response.body, body, send)

    async def _send_stream(self, pieces: Iterator[bytes], body: _IncomingBody, send: Send) -> None:
        """Send piece by piece, and stop reading the object when the client goes away."""

        async def stop_when_gone(scope: anyio.CancelScope) -> None:
            await body.wait_until_gone()
            scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(stop_when_gone, tasks.cancel_scope)
            while (piece := await self._lanes.run_read(partial(next, pieces, None))) is not None:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
            tasks.cancel_scope.cancel()

    def _authenticate(self, request: GatewayRequest) -> S3Call:
        callers: list[Credentials] = []

        def find_secret(access_key_id: str) -> str | None:
            caller = self._lake.credentials.find(access_key_id)
            callers.extend(filter(None, [caller]))
            return caller.secret_access_key if caller else None

        authenticated = verify_request(request, find_secret, self._clock())
        (caller,) = callers
        return S3Call(self._lake, request, authenticated, caller)


def _read_request(scope: Scope, domains: tuple[str, ...], body: Iterator[bytes]) -> GatewayRequest:
    headers: dict[str, str] = {}
    for raw_name, raw_value in scope["headers"]:
        name = raw_name.decode("latin-1").lower()
        value = raw_value.decode("utf-8", "surrogateescape")
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    raw_path = scope["raw_path"].decode("latin-1")
    raw_query = scope["query_string"].decode("latin-1")
    path = unquote_to_bytes(raw_path).decode("utf-8", "surrogateescape").removeprefix("/")
    bucket = _bucket_of_host(headers.get("host", ""), domains)
    if bucket is None:
        bucket, _, path = path.partition("/")
    return GatewayRequest(
        method=scope["method"],
        raw_path=raw_path,
        raw_query=raw_query,
        headers=headers,
        bucket=bucket,
        key=path,
        query=dict(parse_query(raw_query)),
        body=body,
    )


def _check_text(request: GatewayRequest) -> None:
    """Keys, query and headers are text: bytes that are no UTF-8 could not be told back to any client."""
    try:
        for text in (
            request.bucket,
            request.key,
            *request.query.values(),
            *request.headers.values(),
        ):
            text.encode()
    except UnicodeEncodeError:
        raise S3Error("InvalidURI", "The key, the query or a header is not valid UTF-8.") from None


def _bucket_of_host(host: str, domains: tuple[str, ...]) -> str | None:
    name = host.partition(":")[0].lower()
    for domain in domains:
        if name.endswith(f".{domain}"):
            return name.removesuffix(f".{domain}")
    return None


class _IncomingBody:
    """The request's body, read by the event loop, a block at a time, whenever a worker thread asks."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        # A cloud store reads what it writes in a thread of its own, which knows of no event loop.
        self._loop = asyncio.get_running_loop()
        self._is_complete = False
        self._ahead: bytes | S3Error = b""

    @property
    def is_complete(self) -> bool:
        return self._is_complete

    @property
    def is_small(self) -> bool:
        """Whether all of it is here, and short."""
        return (
            self._is_complete and isinstance(self._ahead, bytes) and len(self._ahead) <= MOST_BYTES
        )

    async def read_ahead(self) -> None:
        """Read the first block; what goes wrong meanwhile is told to whoever wants the body."""
        try:
            self._ahead = await self._next_block()
        except S3Error as error:
            self._ahead = error

    def from_thread(self) -> Iterator[bytes]:
        if isinstance(self._ahead, S3Error):
            raise self._ahead
        if self._ahead:
            yield self._ahead
        while not self._is_complete:
            yield asyncio.run_coroutine_threadsafe(self._next_block(), self._loop).result()

    async def drain(self) -> None:
        left = _DRAINED_BYTES
        with anyio.move_on_after(_DRAINING_SECONDS):
            while left > 0 and not self._is_complete:
                try:
                    left -= len(await self._next_piece())
                except S3Error:
                    return

    async def wait_until_gone(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":
                pass
        except HTTPException:  # a body that nobody wants did not come in time
            return

    async def _next_block(self) -> bytes:
        block = bytearray()
        while len(block) < CHUNK_BYTES and not self._is_complete:
            block += await self._next_piece()
        return bytes(block)

    async def _next_piece(self) -> bytes:
        message = await self._next_message()
        self._is_complete = not message.get("more_body", False)
        piece: bytes = message.get("body", b"")
        return piece

    async def _next_message(self) -> Message:
        try:
            message = await self._receive()
        except HTTPException as error:  # the server's bounds on size and silence
            self._is_complete = True
            code = "EntityTooLarge" if error.status_code == 413 else "RequestTimeout"
            raise S3Error(code, str(error.detail)) from None
        if message["type"] == "http.disconnect":
            self._is_complete = True
            raise S3Error("IncompleteBody", "The client went away before the body was complete.")
        return message


def _perform(handler: Handler, call: S3Call) -> GatewayResponse:
    return handler(call)


def _error_response(request: GatewayRequest, error: S3Error, request_id: str) -> GatewayResponse:
    document = error_document(error, request.resource, request_id)
    headers = {"Content-Type": "application/xml"}
    if error.status == 304:
        return GatewayResponse(error.status)
    return GatewayResponse(error.status, headers, document)
