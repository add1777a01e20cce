"""GET requests on connections of our own. With connections of httpx one costs three to four times the CPU."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping

import httpx

from lakesweep.storage.http_pool import WirePool

__all__ = ["Questions"]


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
