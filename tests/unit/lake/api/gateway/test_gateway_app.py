"""The ASGI side of the gateway: streaming with bounded memory, clients that vanish, errors nobody foresaw."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials
from starlette.exceptions import HTTPException

from lakesweep.lake.api.gateway.app import build_gateway
from lakesweep.lake.api.lanes import Lanes
from lakesweep.lake.errors import GoneError, MissingError, RefStoreError
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import Credentials, ObjectContent, ObjectStats

KEY_ID, SECRET, HOST = "AKIATESTONLY", "secret", "lake.test"
MIB = 1024 * 1024


class StubLake:
    """Takes uploads and gives objects, and remembers how."""

    def __init__(self) -> None:
        self.largest_chunk = 0
        self.stored = 0
        self.staged: list[str] = []
        self.error: Exception | None = None
        self.pieces = 3
        self.pieces_read = 0
        # The parts that the gateway asks; one object plays them all.
        self.objects = self.credentials = self.repositories = self.kv = self.small_uploads = self
        self.is_remote = True
        self.store = None

    def writable(self, repository_id: str) -> str:
        return repository_id

    def get(self, repository_id: str) -> str:
        return repository_id

    def find(self, access_key_id: str) -> Credentials | None:
        known = Credentials(KEY_ID, SECRET, "admin", datetime.now(UTC))
        return known if access_key_id == KEY_ID else None

    def upload(
        self, repository: str, branch_id: str, path: str, chunks: Iterable[bytes], **_: Any
    ) -> ObjectStats:
        for chunk in chunks:
            self.largest_chunk = max(self.largest_chunk, len(chunk))
            self.stored += len(chunk)
        self.staged.append(path)
        return ObjectStats(path, checksum="abc")

    def open(self, repository: str, ref: str, path: str, asked: Any) -> ObjectContent:
        if self.error is not None:
            raise self.error
        stats = ObjectStats(
            path,
            checksum="abc",
            size_bytes=3 * MIB,
            mtime=datetime.now(UTC),
            content_type="text/plain\r\nx-evil: 1",
        )
        return ObjectContent(stats, 0, 3 * MIB, False, self._read_pieces())

    def _read_pieces(self) -> Iterator[bytes]:
        for _ in range(self.pieces):
            self.pieces_read += 1
            yield b"x" * MIB


@dataclass
class Client:
    """Plays the HTTP server's part: sends a request into the app and collects what comes back."""

    lake: StubLake = field(default_factory=StubLake)
    messages: list[Mapping[str, Any]] = field(default_factory=list)
    handed_over: int = 0
    most_unread: int = 0

    def send(
        self,
        method: str,
        path: str,
        body: Iterable[bytes | Exception | None] = (),
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """The reply's status and body. In `body`, None stands for a client that hangs up."""
        url = f"http://{HOST}{path}" + (f"?{query}" if query else "")
        signed = dict(headers or {}) | {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"}
        request = AWSRequest(method=method, url=url, headers=signed, data=b"")
        signer = S3SigV4Auth(BotoCredentials(KEY_ID, SECRET), "s3", "us-east-1")
        signer.payload = lambda _: "UNSIGNED-PAYLOAD"
        signer.add_auth(request)
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", HOST.encode())]
            + [
                (name.lower().encode(), str(value).encode())
                for name, value in request.headers.items()
            ],
        }
        asyncio.run(self._exchange(scope, iter(body)))
        start = self.messages[0]
        return start["status"], b"".join(part.get("body", b"") for part in self.messages[1:])

    async def _exchange(
        self, scope: dict[str, Any], body: Iterator[bytes | Exception | None]
    ) -> None:
        is_complete = False

        async def receive() -> dict[str, Any]:
            nonlocal is_complete
            piece = next(body, b"")
            if is_complete and piece is not None:
                await (
                    asyncio.Event().wait()
                )  # as a server does: nothing more comes until the client leaves
            is_complete = piece == b""
            if isinstance(piece, Exception):
                raise piece
            if piece is None:
                return {"type": "http.disconnect"}
            self.handed_over += len(piece)
            self.most_unread = max(self.most_unread, self.handed_over - self.lake.stored)
            return {"type": "http.request", "body": piece, "more_body": bool(piece)}

        async def send(message: Mapping[str, Any]) -> None:
            self.messages.append(message)

        gateway: Any = build_gateway(cast(Lake, self.lake), Lanes(cast(Lake, self.lake)))
        await gateway(scope, receive, send)


def test_a_large_upload_streams_in_bounded_memory() -> None:
    """Of 64 MiB, never more than a few blocks are in memory between the socket and the store."""
    client = Client()
    status, _ = client.send("PUT", "/repo/main/a", [b"x" * 65536] * 1024)
    assert status == 200
    assert client.lake.stored == 64 * MIB
    assert client.lake.largest_chunk <= 2 * MIB
    assert client.most_unread <= 3 * MIB


def test_a_download_is_sent_piece_by_piece() -> None:
    """The object's pieces go out as they come, under the length told before."""
    client = Client()
    status, body = client.send("GET", "/repo/main/a")
    assert (status, len(body)) == (200, 3 * MIB)
    assert dict(client.messages[0]["headers"])[b"content-length"] == str(3 * MIB).encode()
    assert max(len(part.get("body", b"")) for part in client.messages[1:]) == MIB


def test_an_object_is_not_read_on_when_its_reader_left() -> None:
    """A client that goes away in the middle of a large object costs no more than a few pieces."""
    client = Client()
    client.lake.pieces = 10_000
    client.send("GET", "/repo/main/a", [b"", None])
    assert client.lake.pieces_read < 100


def test_a_line_break_in_a_value_begins_no_header() -> None:
    """A content type that came through JSON can't smuggle headers into a reply."""
    client = Client()
    client.send("GET", "/repo/main/a")
    assert dict(client.messages[0]["headers"])[b"content-type"] == b"text/plain  x-evil: 1"


def test_a_client_that_hangs_up_stages_nothing() -> None:
    """Half a body is no object."""
    client = Client()
    status, body = client.send("PUT", "/repo/main/a", [b"x" * 100, None])
    assert status == 400
    assert b"IncompleteBody" in body
    assert client.lake.staged == []


@pytest.mark.parametrize(("limit", "code"), [(408, b"RequestTimeout"), (413, b"EntityTooLarge")])
def test_the_servers_bounds_become_s3_errors(limit: int, code: bytes) -> None:
    """A body that is too slow or too large is refused in S3's words and stages nothing."""
    client = Client()
    status, body = client.send("PUT", "/repo/main/a", [b"x", HTTPException(limit, "bound")])
    assert status == 400
    assert code in body
    assert client.lake.staged == []


def test_a_refused_request_with_a_small_body_is_read_to_its_end() -> None:
    """The client gets its answer instead of a broken pipe."""
    client = Client()
    status, _ = client.send("PUT", "/repo/noslash", [b"x" * 65536] * 4)
    assert status == 404
    assert client.handed_over == 4 * 65536


def test_a_refused_request_with_a_large_body_is_cut_off() -> None:
    """A refusal does not mean reading gigabytes."""
    client = Client()
    client.send("PUT", "/repo/noslash", [b"x" * 65536] * 1024)
    assert client.handed_over <= 2 * MIB


def test_gone_bytes_answer_410() -> None:
    """The lake's own word for hard-deleted bytes reaches the client as HTTP 410."""
    client = Client()
    client.lake.error = GoneError("hard-deleted")
    status, body = client.send("GET", "/repo/main/a")
    assert status == 410
    assert b"<Code>Gone</Code>" in body


def test_an_error_nobody_foresaw_tells_nothing_but_its_id(caplog: pytest.LogCaptureFixture) -> None:
    """The client gets 500 and an id; the reason is in the log under that id."""
    client = Client()
    client.lake.error = RuntimeError("a secret detail")
    status, body = client.send("GET", "/repo/main/a")
    assert status == 500
    assert b"secret detail" not in body
    request_id = dict(client.messages[0]["headers"])[b"x-amz-request-id"].decode()
    assert request_id in body.decode()
    assert request_id in caplog.text
    assert "a secret detail" in caplog.text


def test_a_stranger_is_not_told_where_the_ref_store_lies(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """While it is away nobody can be recognised, and whoever asks gets no more than an id."""
    client = Client()

    def find(access_key_id: str) -> Credentials | None:
        raise RefStoreError("the ref store at db.internal is away")

    monkeypatch.setattr(client.lake.credentials, "find", find)
    status, body = client.send("GET", "/repo/main/a")
    assert (status, b"db.internal" in body) == (500, False)
    assert "db.internal" in caplog.text


def test_an_error_to_head_has_no_body() -> None:
    """HEAD answers with headers alone, errors included."""
    client = Client()
    client.lake.error = MissingError("no entry", kind="entry-not-found")
    status, body = client.send("HEAD", "/repo/noslash")
    assert (status, body) == (404, b"")


@pytest.mark.parametrize("path", ["/repo/main/%FF", "/%FF/main/a"])
def test_keys_that_are_no_text_are_refused(path: str) -> None:
    """Bytes that are no UTF-8 could not be told back in XML or JSON."""
    status, body = Client().send("GET", path)
    assert status == 400
    assert b"InvalidURI" in body
