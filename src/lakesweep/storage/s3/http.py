"""Keep-alive connections to one S3 host.

botocore's own connections do more for every request than a page of a listing costs to read; they are used only where
the environment names a proxy.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, HeadersDict
from botocore.httpsession import URLLib3Session, get_cert_path
from botocore.utils import get_environ_proxies

from lakesweep.domain.storage_options import StorageOptions
from lakesweep.storage.http_pool import WirePool
from lakesweep.storage.http_wire import Reply
from lakesweep.storage.multiplexer import Multiplexer


class Connections:
    """Sends requests to `origin`, one at a time on each connection, as many connections as there are callers."""

    def __init__(self, origin: str, options: StorageOptions, ca_bundle: str | None) -> None:
        self._origin = origin
        is_secure = origin.startswith("https://")
        address = urlsplit(origin)
        self._named = {"host": address.netloc}
        verify: Any = (
            ca_bundle or True
        )  # A path or a truth; botocore's annotation knows only the latter.
        tls = partial(ssl.create_default_context, cafile=get_cert_path(verify))
        self._pool = WirePool(
            address.hostname or "",
            address.port or (443 if is_secure else 80),
            tls if is_secure else None,
            options.connect_timeout_seconds,
            options.request_timeout_seconds,
        )
        proxies = get_environ_proxies(origin)
        self._by_proxy: Any = None
        if proxies:
            self._by_proxy = URLLib3Session(
                verify=verify,
                proxies=proxies,
                timeout=(options.connect_timeout_seconds, options.request_timeout_seconds),  # type: ignore[arg-type]
                max_pool_connections=options.max_requests_in_flight,
            )

    def multiplexer(self) -> Multiplexer | None:
        """Many requests in flight from one thread; None where a proxy stands between."""
        return None if self._by_proxy is not None else self._pool.multiplexer()

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The answer to one request; raises the errors of `http.client`, the operating system and botocore."""
        if self._by_proxy is not None:
            # botocore's connections want its own kind of headers, whatever their annotation says.
            own: Any = HeadersDict(headers)
            request = AWSPreparedRequest(method, self._origin + target, own, body, False)
            response = self._by_proxy.send(request)
            return Reply(response.status_code, response.headers, response.content)
        return self._pool.send(
            method, target, headers if "host" in headers else self._named | dict(headers), body
        )
