"""An embedded lake in memory, asked through its whole stack of routes, bounds and credentials, without a socket."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotoCredentials

from lakesweep.lake.api.app import API_PATH, build_app
from lakesweep.lake.api.limits import RequestLimits
from lakesweep.lake.kv.interface import KeyValueStore
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import LakeSettings
from lakesweep_testing.lakes import ANYWHERE, SetClock, make_key_file
from lakesweep_testing.memory_kv import MemoryKeyValueStore

KEY_ID, SECRET = "AKIATESTER", "tester-secret"
_URL = "http://lake.test"
_numbers = itertools.count()


class AsgiLake:
    """`with AsgiLake() as lake: lake.send("GET", "/repositories")`. Errors of the app come back as its 500."""

    def __init__(
        self,
        *,
        kv: KeyValueStore | None = None,
        limits: RequestLimits | None = None,
        **settings: Any,
    ) -> None:
        self.clock = SetClock()
        self.lake = Lake(
            kv or MemoryKeyValueStore(),
            LakeSettings(
                **{
                    "data_dir": Path("/nonexistent/lake"),
                    "key_file": make_key_file(),
                    "allow_namespaces": ANYWHERE,
                    "allow_imports": ANYWHERE,
                    **settings,
                }
            ),
            self.clock,
        )
        self.lake.credentials.setup_first_user(
            "tester", access_key_id=KEY_ID, secret_access_key=SECRET
        )
        self._runner = asyncio.Runner()
        transport = httpx.ASGITransport(
            build_app(self.lake, limits=limits), raise_app_exceptions=False
        )
        self._client = httpx.AsyncClient(transport=transport, base_url=_URL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._runner.run(self._client.aclose())
        self._runner.close()
        self.lake.close()

    def create(self, repository: str = "repo") -> str:
        """Create a repository in memory, and give its storage namespace."""
        namespace = f"mem://asgi-{next(_numbers)}/ns"
        body = {"name": repository, "storage_namespace": namespace}
        self.send("POST", "/repositories", json=body).raise_for_status()
        return namespace

    def send(
        self,
        method: str,
        path: str,
        *,
        auth: tuple[str, str] | None = (KEY_ID, SECRET),
        **how: Any,
    ) -> httpx.Response:
        """A request to the REST API, as its first user unless told otherwise."""
        return self.send_raw(method, API_PATH + path, auth=auth, **how)

    def send_raw(self, method: str, path: str, **how: Any) -> httpx.Response:
        """A request to any path of the server."""
        return self._runner.run(self._client.request(method, path, **how))

    def send_s3(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """A signed request to the gateway; `path` is percent-encoded, with its query."""
        url = _URL + path
        sent = signed_headers(method, url, KEY_ID, SECRET, content=content, headers=headers)
        return self.send_raw(method, path, content=content, headers=sent)


def signed_headers(
    method: str,
    url: str,
    key_id: str,
    secret: str,
    *,
    content: bytes = b"",
    headers: dict[str, str] | None = None,
) -> dict[str, bytes]:
    """The headers of a signed S3 request, as bytes: one may be UTF-8, which a client would take for a mistake."""
    signed = AWSRequest(method, url, data=content, headers=dict(headers or {}))
    S3SigV4Auth(BotoCredentials(key_id, secret), "s3", "us-east-1").add_auth(signed)
    return {name: str(value).encode() for name, value in signed.headers.items()}
