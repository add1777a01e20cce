"""The embedded lake beside the real lakeFS server: small uploads, gets, stats and S3 puts with 32 in flight, the list of
what was staged, and listing a large branch.

Both run as processes of their own, with refs and data in local files, and answer the same bytes of the same client. Rounds
alternate between the two, so that a busy moment of the machine meets both. The embedded lake's uploads are on the disk
before they are answered. Reported beside the rates is the CPU time that each server took for one request or row.
"""

from __future__ import annotations

import argparse
import base64
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import psutil

from lakesweep.storage.s3.sign import SigningKey, signed_headers
from lakesweep_testing.servers import RealLakeFS, ServerProcess

REPO = "bench"
IN_FLIGHT = 32
PAGE = 1000
BODY = bytes(1024)


class EmbeddedLake(ServerProcess):
    """`lakesweep serve` with its SQLite ref store and data in one folder."""

    name = "embedded-lake"
    access_key_id = "AKIABENCHONLY0000000"
    secret_access_key = "test-only-secret-access-key"

    def __init__(self, importable: Path, workers: int) -> None:
        super().__init__()
        self._importable = importable
        self._workers = workers

    def command(self) -> Sequence[str | Path]:
        words = ["serve", "--data", self.folder / "data", "--port", str(self.port)]
        words += ["--allow-import", f"file://{self._importable}"]
        if self._workers > 1:
            words += ["--workers", str(self._workers)]
        return [sys.executable, "-m", "lakesweep", *words]

    def environment(self) -> Mapping[str, str]:
        return {
            "LAKESWEEP_SERVE_ACCESS_KEY_ID": self.access_key_id,
            "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def is_ready(self) -> bool:
        return self.answers(f"{self.url}/api/v1/healthcheck", 204)


Server = EmbeddedLake | RealLakeFS


class Connection:
    """One kept-alive connection. It sends bytes made beforehand: what is measured is the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=300)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""

    def exchange(self, request: bytes) -> bytes:
        """Send a request and give the body of its reply."""
        self._socket.sendall(request)
        data = self._rest
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._read()
        head, data = data[:end].lower(), data[end + 4 :]
        if not head[9:12] < b"300":
            raise RuntimeError(f"{request[:120]!r} answered {head!r}")
        if b"transfer-encoding: chunked" in head:
            body, self._rest = self._chunks(data)
            return body
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        pieces, size = [data], len(data)
        while size < length:
            pieces.append(self._read())
            size += len(pieces[-1])
        data = b"".join(pieces)
        self._rest = data[length:]
        return data[:length]

    def post(self, path: str, document: dict[str, Any]) -> Any:
        body = json.dumps(document).encode()
        reply = self.exchange(rest_request(self._server, "POST", path, body, "application/json"))
        try:
            return json.loads(reply or b"null")
        except ValueError:
            return reply

    def get(self, path: str) -> Any:
        return json.loads(self.exchange(rest_request(self._server, "GET", path)))

    def _chunks(self, data: bytes) -> tuple[bytes, bytes]:
        body = bytearray()
        while True:
            while (end := data.find(b"\r\n")) < 0:
                data += self._read()
            size = int(data[:end], 16)
            data = data[end + 2 :]
            while len(data) < size + 2:
                data += self._read()
            body += data[:size]
            data = data[size + 2 :]
            if size == 0:
                return bytes(body), data

    def _read(self) -> bytes:
        data = self._socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the server closed the connection")
        return data


def rest_request(
    server: Server, method: str, path: str, body: bytes = b"", content_type: str = ""
) -> bytes:
    token = base64.b64encode(f"{server.access_key_id}:{server.secret_access_key}".encode()).decode()
    lines = [f"{method} /api/v1{path} HTTP/1.1", f"host: 127.0.0.1:{server.port}"]
    lines += [f"authorization: Basic {token}", f"content-length: {len(body)}"]
    if content_type:
        lines.append(f"content-type: {content_type}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def s3_put(server: Server, key: str) -> bytes:
    path = f"/{REPO}/main/{quote(key)}"
    signer = SigningKey(server.access_key_id, server.secret_access_key, None)
    host = f"127.0.0.1:{server.port}"
    now = datetime.now(UTC)
    headers = signed_headers(signer, "us-east-1", now, "PUT", host, path, "", {}, BODY)
    headers["content-length"] = str(len(BODY))
    lines = [f"PUT {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + BODY


@dataclass(slots=True)
class Measured:
    """The best rate and the least CPU time of several rounds."""

    per_second: float = 0.0
    cpu_micros: float = field(default=float("inf"))

    def note(self, count: int, seconds: float, cpu_seconds: float) -> None:
        self.per_second = max(self.per_second, count / seconds)
        self.cpu_micros = min(self.cpu_micros, cpu_seconds / count * 1e6)


def cpu_seconds(server: Server) -> float:
    first = psutil.Process(server.pid)
    times = [process.cpu_times() for process in (first, *first.children(recursive=True))]
    return sum(time.user + time.system for time in times)


def timed(server: Server, measured: Measured, count: int, work: Callable[[], None]) -> None:
    cpu = cpu_seconds(server)
    began = time.perf_counter()
    work()
    measured.note(count, time.perf_counter() - began, cpu_seconds(server) - cpu)


def spread(server: Server, requests: Sequence[bytes], measured: Measured) -> None:
    """Send every request once, 32 in flight, each on a connection of its own."""
    shared = iter(requests)

    def drain(connection: Connection) -> None:
        # `next` of one shared iterator hands each request out once.
        for request in shared:
            connection.exchange(request)

    connections = [Connection(server) for _ in range(IN_FLIGHT)]
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        timed(server, measured, len(requests), lambda: [*pool.map(drain, connections)] and None)


def list_all(connection: Connection, entries: int) -> None:
    """Page after page, as a client that wants all of them does."""
    after, found = "", 0
    while True:
        query = urlencode({"amount": PAGE, "after": after, "prefix": "many/"})
        page = connection.get(f"/repositories/{REPO}/refs/many/objects/ls?{query}")
        found += len(page["results"])
        if not page["pagination"]["has_more"]:
            break
        after = page["pagination"]["next_offset"]
    if found != entries:
        raise RuntimeError(f"the listing shows {found} of {entries} entries")


def prepare_all(connection: Connection) -> None:
    """The uncommitted list, from the first page to the last."""
    path = f"/repositories/{REPO}/gc/prepare_uncommited"
    body: dict[str, Any] = {}
    while token := connection.post(path, body).get("continuation_token"):
        body = {"continuation_token": token}


def import_entries(connection: Connection, source: Path) -> None:
    """One commit with an entry for every file in `source`, made by the server's own import."""
    path = f"/repositories/{REPO}/branches/many/import"
    connection.post(f"/repositories/{REPO}/branches", {"name": "many", "source": "main"})
    paths = [{"type": "common_prefix", "path": f"local://{source}/", "destination": "many/"}]
    started = connection.post(path, {"paths": paths, "commit": {"message": "import"}})
    deadline = time.monotonic() + 300
    while not (status := connection.get(f"{path}?id={started['id']}"))["completed"]:
        if status.get("error") or time.monotonic() > deadline:
            raise RuntimeError(f"the import did not end: {status}")
        time.sleep(0.2)


def measure_round(
    server: Server, results: dict[str, Measured], count: int, entries: int, attempt: int
) -> None:
    names = [f"small/{attempt}/{number:06}" for number in range(count)]
    objects = f"/repositories/{REPO}/branches/main/objects"
    reading = f"/repositories/{REPO}/refs/main/objects"

    def rest(method: str, path: str, name: str, body: bytes = b"") -> bytes:
        target = f"{path}?{urlencode({'path': name})}"
        return rest_request(server, method, target, body, "application/octet-stream")

    uploads = [rest("POST", objects, name, BODY) for name in names]
    spread(server, uploads, results["uploads (REST)"])
    spread(server, [s3_put(server, f"s3/{name}") for name in names], results["uploads (S3)"])
    spread(server, [rest("GET", reading, name) for name in names], results["get"])
    spread(server, [rest("GET", f"{reading}/stat", name) for name in names], results["stat"])
    connection = Connection(server)
    timed(server, results["entries listed"], entries, lambda: list_all(connection, entries))
    staged = 2 * count * (attempt + 1)
    timed(
        server,
        results["prepare uncommitted, rows"],
        staged,
        lambda: prepare_all(connection),
    )


def make_files(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{number:07}").write_bytes(b"")


# What the embedded lake has to reach beside lakeFS.
AT_LEAST = {
    "uploads (REST)": 0.8,
    "uploads (S3)": 0.8,
    "get": 0.8,
    "stat": 0.8,
    "entries listed": 1.0,
    "prepare uncommitted, rows": 1.4,
}


def servers(folder: Path, source: Path, workers: int, *, ours_only: bool) -> Iterator[Server]:
    yield EmbeddedLake(folder, workers)
    if not ours_only:
        importable = {
            "LAKEFS_BLOCKSTORE_LOCAL_IMPORT_ENABLED": "true",
            "LAKEFS_BLOCKSTORE_LOCAL_ALLOWED_EXTERNAL_PREFIXES": str(source.parent),
        }
        yield RealLakeFS(env=importable)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more uploads and rounds")
    parser.add_argument("--workers", type=int, default=1, help="processes of the embedded lake")
    parser.add_argument("--ours-only", action="store_true", help="leave lakeFS out")
    options = parser.parse_args()
    count, rounds, entries = (10_000, 5, 100_000) if options.full else (2_000, 3, 100_000)
    with tempfile.TemporaryDirectory(prefix="lakesweep-bench-") as text:
        folder = Path(text).resolve()
        source = folder / "source"
        source.mkdir()
        make_files(source, entries)
        started: list[Server] = []
        results: list[dict[str, Measured]] = []
        try:
            for server in servers(folder, source, options.workers, ours_only=options.ours_only):
                started.append(server.__enter__())
                connection = Connection(server)
                place = {"name": REPO, "storage_namespace": f"local://{REPO}"}
                connection.post("/repositories", place)
                import_entries(connection, source)
                results.append({name: Measured() for name in AT_LEAST})
            for attempt in range(rounds):
                for server, measured in zip(started, results, strict=True):
                    measure_round(server, measured, count, entries, attempt)
        finally:
            for server in started:
                server.__exit__(None, None, None)
    print(
        f"{count:,} requests of 1 KiB with {IN_FLIGHT} in flight; a branch of {entries:,} entries in pages of"
        f" {PAGE}; best of {rounds}; lakesweep {version('lakesweep')} with {options.workers} workers,"
        " lakeFS 1.84.0, both on local files"
    )
    return report(results)


def report(results: list[dict[str, Measured]]) -> int:
    is_kept = True
    for name, at_least in AT_LEAST.items():
        line = f"{name:<28}"
        for measured in (result[name] for result in results):
            line += f"{measured.per_second:>12,.0f}/s {measured.cpu_micros:>8,.0f} µs"
        if len(results) == 2:
            ratio = results[0][name].per_second / results[1][name].per_second
            is_kept &= ratio >= at_least
            line += f"{ratio:>9.2f} (at least {at_least})"
        print(line)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
