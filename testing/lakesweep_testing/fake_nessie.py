"""A Nessie server in the test's own process: REST v2 on a loopback port, a clock to set, and mistakes on demand.

with FakeNessie() as nessie:
    nessie.commit("main", puts={("db", "t"): table("file:///lake/t/metadata/1.json", 1)})
    nessie.create_tag("v1", "main")
    client = NessieClient(nessie.uri)            # over a socket; nessie.client() does without
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

import httpx

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep_testing.nessie_contents import (
    Content,
    Key,
    delta_table,
    namespace,
    table,
    udf,
    view,
)
from lakesweep_testing.nessie_routes import answer
from lakesweep_testing.nessie_state import NO_ANCESTOR, NessieState, Refusal

__all__ = [
    "NO_ANCESTOR",
    "Content",
    "FakeNessie",
    "Key",
    "Request",
    "delta_table",
    "namespace",
    "table",
    "udf",
    "view",
]

Request = tuple[str, str, dict[str, str]]
Tamper = Callable[[Request, dict[str, Any]], dict[str, Any]]

_BASE = "/api/v2"
_REASONS = {400: "Bad Request", 403: "Forbidden", 404: "Not Found", 409: "Conflict"}


@dataclass(slots=True)
class _Fault:
    """What happens to the next `times` requests whose path matches, after `after` others of them."""

    path: str
    times: int
    after: int
    status: int | None = None
    tamper: Tamper | None = None
    before: Callable[[], object] | None = None

    def takes(self, path: str) -> bool:
        if self.times <= 0 or not re.search(self.path, path):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return True


@dataclass(slots=True)
class FakeNessie:
    """The server and, as methods, the user of it who writes. `requests` has (method, path below the API, query)."""

    page_cap: int = 250
    token: str | None = None  # the bearer token that every request must have
    date: datetime | None = None  # what its clock says in answers without a socket
    state: NessieState = field(default_factory=NessieState)
    requests: list[Request] = field(default_factory=list)
    _faults: list[_Fault] = field(default_factory=list)
    _server: ThreadingHTTPServer | None = None
    _thread: threading.Thread | None = None

    # -- the server

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler_of(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    @property
    def uri(self) -> str:
        """Where clients find it; without a socket, a name that only `transport` knows."""
        if self._server is None:
            return f"http://nessie.example{_BASE}"
        return f"http://127.0.0.1:{self._server.server_port}{_BASE}"

    @property
    def transport(self) -> httpx.BaseTransport:
        """The server without a socket, for tests that ask it thousands of times."""
        return httpx.MockTransport(self._answer_httpx)

    def client(self, properties: Mapping[str, str] | None = None) -> NessieClient:
        """A client that asks without a socket, does not really sleep, and knows nothing of this machine's settings."""
        return NessieClient(
            self.uri,
            ClientProperties(properties or {}),
            retries=2,
            http_transport=self.transport,
            sleep=lambda seconds: None,
        )

    def handle(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]]:
        """The answer to one request."""
        parts = urlsplit(url)
        path = parts.path.removeprefix(_BASE)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        request = (method, path, query)
        with self.state.lock:
            self.requests.append(request)
            fault = next((fault for fault in self._faults if fault.takes(path)), None)
        try:
            if self.token is not None and headers.get("authorization") != f"Bearer {self.token}":
                raise Refusal(401, "UNAUTHORIZED", "Credentials are missing or wrong")
            if fault is not None and fault.before is not None:
                fault.before()
            if fault is not None and fault.status is not None:
                raise Refusal(fault.status, "UNKNOWN", "as the test asked for")
            said = answer(
                self.state, self.page_cap, method, path, query, json.loads(body) if body else {}
            )
        except Refusal as refusal:
            return refusal.status, {
                "status": refusal.status,
                "reason": _REASONS.get(refusal.status, "Error"),
                "message": refusal.message,
                "errorCode": refusal.code,
            }
        if fault is not None and fault.tamper is not None:
            said = fault.tamper(request, said)
        return 200, said

    def _answer_httpx(self, request: httpx.Request) -> httpx.Response:
        status, said = self.handle(
            request.method, str(request.url), request.headers, request.content
        )
        dated = {} if self.date is None else {"Date": format_datetime(self.date, usegmt=True)}
        return httpx.Response(status, json=said, headers=dated)

    # -- its mistakes

    def fail(self, path: str = "", *, status: int = 503, times: int = 1, after: int = 0) -> None:
        """Refuse the next `times` requests in whose path the pattern is found, once `after` of them went well."""
        self._faults.append(_Fault(path, times, after, status=status))

    def tamper(self, path: str, change: Tamper, *, times: int = 1, after: int = 0) -> None:
        """Have a function change the next good answers to such requests."""
        self._faults.append(_Fault(path, times, after, tamper=change))

    def repeat_token(self, path: str, *, after: int = 0) -> None:
        """From now on, every second page of a list leads back to itself."""

        def back(request: Request, said: dict[str, Any]) -> dict[str, Any]:
            token = request[2].get("page-token")
            return said if token is None else {**said, "hasMore": True, "token": token}

        self.tamper(path, back, times=1_000, after=after)

    def empty_page(self, path: str, *, after: int = 0) -> None:
        """A page with nothing in it that says there is more."""

        def emptied(request: Request, said: dict[str, Any]) -> dict[str, Any]:
            return {k: [] if isinstance(v, list) else v for k, v in said.items()} | {
                "hasMore": True,
                "token": "further",
            }

        self.tamper(path, emptied, after=after)

    def vanish(self, name: str, *, path: str, after: int = 0) -> None:
        """Delete a reference just before such a request is answered."""
        self._faults.append(_Fault(path, 1, after, before=lambda: self.state.delete(name)))

    # -- its user

    @property
    def now(self) -> datetime:
        """The server's clock; each commit moves it on by `state.tick`."""
        return self.state.now

    @now.setter
    def now(self, time: datetime) -> None:
        self.state.now = time

    def head(self, name: str = "main") -> str:
        """The hash that a reference points at."""
        return self.state.reference(name).hash

    def heads(self) -> dict[str, str]:
        """All references with their hashes."""
        return {name: reference.hash for name, reference in self.state.references.items()}

    def contents(self, keys: Sequence[Key], ref: str = "main") -> dict[Key, Content]:
        """Those of the keys that are there at the head of a reference, with their contents."""
        state = self.state.state_at(self.head(ref))
        return {key: state[key] for key in keys if key in state}

    def commit(
        self,
        branch: str,
        puts: Mapping[Key, Content] | None = None,
        deletes: Sequence[Key] = (),
        message: str = "",
    ) -> str:
        """Commit, with missing namespaces put first. A content without an id keeps the id of its key."""
        state = self.state.state_at(self.head(branch))
        known = {
            key: {**content, "id": state[key]["id"]}
            if "id" not in content and key in state and key not in deletes
            else content
            for key, content in (puts or {}).items()
        }
        wanted = self.state.with_namespaces(branch, known)
        return self.state.commit(branch, wanted, deletes, message=message).hash

    def rename(self, branch: str, old: Key, new: Key) -> str:
        """One commit that deletes the old key and puts the same content, id included, under the new one."""
        content = self.state.state_at(self.head(branch))[old]
        return self.commit(branch, {new: content}, [old], message=f"rename {old} to {new}")

    def merge(
        self, source: str, target: str = "main", *, drop: Sequence[Key] = (), force: bool = False
    ) -> str:
        """Merge one reference's head into a branch, but for some keys; gives the branch's new hash."""
        default_mode = "FORCE" if force else "NORMAL"
        self.state.merge(self.head(source), target, dict.fromkeys(drop, "DROP"), default_mode)
        return self.head(target)

    def create_branch(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """A branch at another reference's head, or at any commit."""
        return self.state.create("BRANCH", name, hash or self.head(source)).hash

    def create_tag(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """A tag at another reference's head, or at any commit."""
        return self.state.create("TAG", name, hash or self.head(source)).hash

    def assign(self, name: str, source: str = "main", hash: str | None = None) -> str:
        """Point a reference elsewhere."""
        return self.state.assign(name, hash or self.head(source)).hash

    def delete_reference(self, name: str) -> None:
        """Delete a branch or tag; its commits stay in the server's store, as in a real one."""
        self.state.delete(name)


def _handler_of(nessie: FakeNessie) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # Head and body in one packet; otherwise each answer waits for the client's delayed acknowledgement.
        wbufsize = -1
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status, said = nessie.handle(self.command, self.path, headers, self.rfile.read(length))
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Quiet: the test has `requests`."""

    return Handler
