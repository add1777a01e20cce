"""Requests to a lakeFS server as any user may send them: every status is an answer, and nothing is sent twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self
from urllib.parse import quote, urlsplit

import httpx
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakesweep.catalogs.connecting import advice_on_failure, new_client
from lakesweep.catalogs.lakefs.transport import Params, Timeouts, api_url, query_values
from lakesweep.errors import CatalogError

__all__ = ["RawCalls"]

_REGION = "us-east-1"  # what lakeFS calls its own unless told otherwise; it does not compare

_LEAST_WAIT_SECONDS = 60.0  # a commit or a merge may take longer than a question


class RawCalls:
    """Requests to one server, to its REST API and to its S3 gateway. Thread-safe."""

    def __init__(
        self,
        endpoint: str,
        access_key_id: str,
        secret_access_key: str,
        *,
        timeouts: Timeouts | None = None,
        http_transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.url = api_url(endpoint)
        self._gateway = "{0.scheme}://{0.netloc}".format(urlsplit(self.url))
        self._keys = (access_key_id, secret_access_key)
        waits = timeouts or Timeouts()
        longest = max(waits.read, _LEAST_WAIT_SECONDS)
        self._client = new_client(
            transport=http_transport, timeout=httpx.Timeout(longest, connect=waits.connect)
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._client.close()

    def send(
        self,
        method: str,
        route: Sequence[str],
        *,
        params: Params | None = None,
        body: object | None = None,
        content: bytes | None = None,
    ) -> httpx.Response:
        """A request to the REST API with a JSON body, or with bytes as content."""
        url = "/".join((self.url, *(quote(part, safe="") for part in route)))
        headers = {} if content is None else {"Content-Type": "application/octet-stream"}
        request = self._client.build_request(
            method, url, params=query_values(params), json=body, content=content, headers=headers
        )
        return self._sent(request, httpx.BasicAuth(*self._keys))

    def send_s3(
        self,
        method: str,
        bucket: str,
        key: str,
        *,
        content: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """A signed request to the S3 gateway; the key is `ref/path`."""
        url = f"{self._gateway}/{bucket}/{quote(key)}"
        signed = AWSRequest(method, url, data=content, headers=dict(headers or {}))
        S3SigV4Auth(Credentials(*self._keys), "s3", _REGION).add_auth(signed)
        sent = {name: str(value) for name, value in signed.headers.items()}
        return self._sent(
            self._client.build_request(method, url, content=content, headers=sent), None
        )

    def _sent(self, request: httpx.Request, auth: httpx.Auth | None) -> httpx.Response:
        try:
            return self._client.send(request, auth=auth)
        except httpx.RequestError as error:
            raise CatalogError(
                f"{request.method} {request.url.path}: the connection to {self.url} failed ({type(error).__name__}: "
                f"{error}). The call's outcome is not known. Check the endpoint.{advice_on_failure(self.url, error)}",
                kind="catalog-unreachable",
            ) from error
