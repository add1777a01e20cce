"""GET requests on connections of our own. With connections of httpx one costs three to four times the CPU."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, TypeVar

import httpx

from lakesweep.storage.bare_requests import BareKeyRequests, ordered_requests
from lakesweep.storage.congestion import CongestionControl
from lakesweep.storage.http_answer import Answer
from lakesweep.storage.http_pool import WirePool

__all__ = ["Questions"]

Told = TypeVar("Told")


class Questions:
    """Sends GET requests to one server, with the headers of a sample. Safe for many threads."""

    def __init__(
        self,
        sample: httpx.Request,
        tls: ssl.SSLContext,
        connect_timeout: float,
        read_timeout: float,
    ) -> None:
        url, is_secure = sample.url, sample.url.scheme == "https"
        tls.set_alpn_protocols(["http/1.1"])
        self._headers = dict(sample.headers)
        self._base = url.raw_path.decode("ascii")
        self._pool = WirePool(
            url.raw_host.decode("ascii"),
            url.port or (443 if is_secure else 80),
            (lambda: tls) if is_secure else None,
            connect_timeout,
            read_timeout,
        )

    def close(self) -> None:
        """Hang up."""
        self._pool.close()

    def get(self, route: str, headers: Mapping[str, str] | None) -> httpx.Response:
        """The answer to a request for a route below the sample's; raises httpx.RequestError."""
        headers = {**self._headers, **(headers or {})}
        try:
            reply = self._pool.send("GET", self._base + route, headers, b"")
        except TimeoutError as error:
            raise httpx.TimeoutException(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            # Errors of http.client often have no words of their own.
            raise httpx.NetworkError(f"{type(error).__name__}: {error}") from error
        return httpx.Response(reply.status, headers=reply.headers, content=reply.content)

    def get_many(
        self, routes: Sequence[str], ask: Callable[[str], Told | bytes], most: int
    ) -> Iterator[Told | bytes]:
        """The answers for many routes, in their order, from one thread; what `ask` says where one is no plain success."""
        requests: BareKeyRequests[Told | bytes] = _Requests(self._base, self._headers)
        congestion, multiplexer = CongestionControl(most), self._pool.multiplexer()
        told = ordered_requests(routes, requests, multiplexer, ask, congestion, most)
        return (answer for _, answer in told)


class _Requests:
    """Requests for routes, all of them with the same headers."""

    method: Literal["GET"] = "GET"

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        sent = dict(headers) | {"accept-encoding": "identity"}
        self._base = base
        self._head = "".join(f"{name}: {value}\r\n" for name, value in sent.items())

    def request(self, route: str) -> bytes:
        """The request for a route, as all its bytes."""
        return f"GET {self._base}{route} HTTP/1.1\r\n{self._head}\r\n".encode("latin-1")

    def result(self, route: str, answer: Answer) -> bytes | None:
        """The content of a success; None for any other answer, and for content in a coding that was not asked for."""
        is_plain = answer.status == http.HTTPStatus.OK
        return (
            answer.content if is_plain and b"content-encoding" not in answer.head.lower() else None
        )
