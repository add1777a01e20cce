"""Questions to a lakeFS server on connections of our own: asked, answered and refused as httpx would have it."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
import trustme

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.errors import CatalogError
from lakesweep.storage import http_pool

ENTRY = {
    "path": "p",
    "path_type": "object",
    "physical_address": "a",
    "checksum": "c",
    "mtime": 1,
    "size_bytes": 2,
}


class Server(ThreadingHTTPServer):
    """Answers all questions alike, and keeps what was asked; it hangs up on everything else."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"127.0.0.1:{self.server_port}"
        self.status, self.body = 200, json.dumps(ENTRY).encode()
        self.headers: dict[str, str] = {}
        self.is_silent = False
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.connections = 0
        self.over = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.over.set()
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not like the certificate is no matter."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        server = self.server
        server.asked.append((self.command, self.path, dict(self.headers.items())))
        if server.is_silent:
            server.over.wait(30)
            return
        self.send_response(server.status)
        for name, value in server.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def do_POST(self) -> None:
        self.server.asked.append((self.command, self.path, dict(self.headers.items())))
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http", "https", "all", "no"):
        monkeypatch.delenv(f"{name}_proxy", raising=False)
        monkeypatch.delenv(f"{name}_proxy".upper(), raising=False)
    server = Server()
    yield server
    server.close()


def client_of(url: str, transport: httpx.BaseTransport | None = None) -> LakeFSClient:
    return LakeFSClient(
        url,
        "key",
        "sécret",
        timeouts=Timeouts(connect=5, read=5),
        retries=1,
        sleep=lambda seconds: None,
        http_transport=transport,
    )


def test_a_question_reads_as_if_httpx_had_asked(server: Server) -> None:
    """Its path, its query and every header, whatever stands in them."""
    for transport in (None, httpx.HTTPTransport()):
        with client_of(f"http://{server.host}/base/", transport) as client:
            client.stat_object("repo", "a b/ü", "p q/+&%41?ü#")
            client.object_state("repo", "main", "p")
    ours, theirs = server.asked[:2], server.asked[2:]
    assert [(command, path) for command, path, _ in ours] == [
        (command, path) for command, path, _ in theirs
    ]
    for (_, _, sent), (_, _, wanted) in zip(ours, theirs, strict=True):
        assert {n.lower(): v for n, v in sent.items()} == {n.lower(): v for n, v in wanted.items()}


def test_connections_are_kept_but_not_for_long(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A firewall may have forgotten a connection that was idle for a while."""
    with client_of(f"http://{server.host}") as client:
        for _ in range(3):
            client.stat_object("repo", "main", "p")
        assert server.connections == 1
        monkeypatch.setattr(http_pool, "LONGEST_IDLE_SECONDS", 0)
        client.stat_object("repo", "main", "p")
        assert server.connections == 2


def test_compressed_answers_are_read(server: Server) -> None:
    """A proxy before the server may compress."""
    server.headers["Content-Encoding"] = "gzip"
    server.body = gzip.compress(server.body)
    with client_of(f"http://{server.host}") as client:
        entry = client.stat_object("repo", "main", "p")
    assert entry is not None
    assert entry.physical_address == "a"


def test_redirects_are_not_followed(server: Server) -> None:
    """Credentials go to the endpoint and nowhere else."""
    server.status = 302
    server.headers["Location"] = f"http://{server.host}/elsewhere"
    with client_of(f"http://{server.host}") as client, pytest.raises(CatalogError) as caught:
        client.stat_object("repo", "main", "p")
    assert caught.value.kind == "http-302"
    assert len(server.asked) == 1


def test_a_server_that_says_nothing_takes_too_long(server: Server) -> None:
    """It is asked again, and then the run stops."""
    server.is_silent = True
    client = LakeFSClient(
        f"http://{server.host}",
        "key",
        "secret",
        timeouts=Timeouts(read=0.05),
        retries=1,
        sleep=lambda seconds: None,
    )
    with client, pytest.raises(CatalogError, match="took too long") as caught:
        client.stat_object("repo", "main", "p")
    assert caught.value.kind == "catalog-unreachable"
    assert len(server.asked) == 2


def test_a_server_out_of_reach_is_told_as_one(server: Server) -> None:
    """In the words of the operating system, without a secret."""
    server.close()
    with (
        client_of(f"http://{server.host}") as client,
        pytest.raises(CatalogError, match="ConnectionRefusedError") as caught,
    ):
        client.stat_object("repo", "main", "p")
    assert caught.value.kind == "catalog-unreachable"


def test_half_an_answer_is_none(server: Server) -> None:
    """What is cut off or spoilt on its way is asked for again, and never a shorter answer."""
    server.headers["Transfer-Encoding"] = "chunked"
    server.body = b"no chunk\r\n"
    with (
        client_of(f"http://{server.host}") as client,
        pytest.raises(CatalogError, match="IncompleteRead") as caught,
    ):
        client.stat_object("repo", "main", "p")
    assert caught.value.kind == "catalog-unreachable"


def test_a_call_that_does_something_is_sent_once(server: Server) -> None:
    """Though the server hung up without an answer, as on a connection that it no longer keeps."""
    with client_of(f"http://{server.host}") as client:
        client.stat_object("repo", "main", "p")
        with pytest.raises(CatalogError):
            client.prepare_uncommitted("repo")
    assert [command for command, _, _ in server.asked] == ["GET", "POST"]


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_a_proxy_in_the_environment_is_used(
    server: Server, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The question goes to the proxy, for a host that nobody could reach."""
    monkeypatch.setenv(name, f"http://{server.host}")
    with client_of("http://lakefs.nowhere.invalid") as client:
        assert client.stat_object("repo", "main", "p") is not None
    assert server.asked[0][1].startswith("http://lakefs.nowhere.invalid/api/v1/")


def test_tls_asks_for_a_certificate_that_somebody_vouches_for(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the bundle that SSL_CERT_FILE names; credentials are not sent to anyone else."""
    authority, stranger = trustme.CA(), trustme.CA()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    for vouching in (authority, stranger):
        bundle = tmp_path / "bundle.pem"
        bundle.unlink(missing_ok=True)
        vouching.cert_pem.write_to_path(bundle)
        monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
        with client_of(f"https://{server.host}") as client:
            if vouching is authority:
                assert client.stat_object("repo", "main", "p") is not None
                continue
            with pytest.raises(CatalogError, match="CERTIFICATE_VERIFY_FAILED"):
                client.stat_object("repo", "main", "p")
    assert len(server.asked) == 1
