"""A real lakeFS on MinIO for benchmarks: many uploads at once, and lakesweep as a process beside it."""

from __future__ import annotations

import base64
import http.client
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from lakesweep_testing.servers import MinIOServer, RealLakeFS

LAKESWEEP = (sys.executable, "-m", "lakesweep")
_IN_FLIGHT = 16


class Connection:
    """One kept-alive connection to the server's REST API."""

    def __init__(self, server: RealLakeFS) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
        token = f"{server.access_key_id}:{server.secret_access_key}".encode()
        self._headers = {"Authorization": f"Basic {base64.b64encode(token).decode()}"}

    def call(self, method: str, path: str, body: bytes = b"", kind: str = "") -> bytes:
        headers = self._headers | ({"Content-Type": kind} if kind else {})
        self._http.request(method, f"/api/v1{path}", body, headers)
        reply = self._http.getresponse()
        data = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path} answered {reply.status}: {data[:300]!r}")
        return data

    def send(self, method: str, path: str, document: dict[str, Any]) -> None:
        self.call(method, path, json.dumps(document).encode(), "application/json")


def connections(server: RealLakeFS) -> list[Connection]:
    """As many as are worth having at once."""
    return [Connection(server) for _ in range(_IN_FLIGHT)]


def spread(
    numbers: Iterable[int],
    pool: Sequence[Connection],
    work: Callable[[Connection, int], None],
) -> None:
    """Do the work for each number once, on all connections at the same time."""
    shared: Iterator[int] = iter(numbers)

    def drain(connection: Connection) -> None:
        # `next` of one shared iterator hands each number out once.
        for number in shared:
            work(connection, number)

    with ThreadPoolExecutor(len(pool)) as threads:
        list(threads.map(drain, pool))


def minio_environment(minio: MinIOServer) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": minio.url,
        "AWS_REGION": minio.region,
        "AWS_ACCESS_KEY_ID": minio.access_key_id,
        "AWS_SECRET_ACCESS_KEY": minio.secret_access_key,
    }
