"""The embedded lake beside the real lakeFS server: small uploads with 32 in flight, the list of what they staged, and
listing a large branch.

Both run as processes of their own, each alone while it is measured, with refs and data in local files, and answer the
same REST requests of the same client. There is no figure to reach: the ratio is reported.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from lakesweep.testing.servers import RealLakeFS, ServerProcess

REPO = "bench"
IN_FLIGHT = 32
PAGE = 1000


class EmbeddedLake(ServerProcess):
    """`lakesweep serve` with its SQLite ref store and data in one folder."""

    name = "embedded-lake"
    access_key_id = "AKIABENCHONLY0000000"
    secret_access_key = "test-only-secret-access-key"

    def __init__(self, importable: Path) -> None:
        super().__init__()
        self._importable = importable

    def command(self) -> Sequence[str | Path]:
        words = ["serve", "--data", self.folder / "data", "--port", str(self.port)]
        words += ["--local-import-root", self._importable]
        return [sys.executable, "-m", "lakesweep", *words]

    def environment(self) -> Mapping[str, str]:
        return {
            "LAKESWEEP_SERVE_ACCESS_KEY_ID": self.access_key_id,
            "LAKESWEEP_SERVE_SECRET_ACCESS_KEY": self.secret_access_key,
        }

    def is_ready(self) -> bool:
        return self.answers(f"{self.url}/api/v1/healthcheck", 204)


class Connection:
    """One kept-alive connection to a lakeFS REST API."""

    def __init__(self, server: EmbeddedLake | RealLakeFS) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        token = f"{server.access_key_id}:{server.secret_access_key}".encode()
        self._headers = {"Authorization": f"Basic {base64.b64encode(token).decode()}"}

    def call(
        self, method: str, path: str, body: bytes | None = None, content_type: str = ""
    ) -> bytes:
        headers = self._headers | ({"Content-Type": content_type} if content_type else {})
        self._http.request(method, f"/api/v1{path}", body, headers)
        reply = self._http.getresponse()
        data = reply.read()
        if reply.status >= 300:
            raise RuntimeError(f"{method} {path} answered {reply.status}: {data[:300]!r}")
        return data

    def post(self, path: str, document: dict[str, Any]) -> Any:
        return json.loads(
            self.call("POST", path, json.dumps(document).encode(), "application/json") or b"null"
        )

    def get(self, path: str) -> Any:
        return json.loads(self.call("GET", path))


@dataclass(frozen=True, slots=True)
class Measured:
    """What one server did in a second."""

    uploads: float
    prepared: float
    listed: float


def measure(
    server: EmbeddedLake | RealLakeFS, uploads: int, entries: int, source: Path, rounds: int
) -> Measured:
    connection = Connection(server)
    connection.post("/repositories", {"name": REPO, "storage_namespace": f"local://{REPO}"})
    upload_rate = max(measure_uploads(server, uploads, attempt) for attempt in range(rounds))
    prepare_rate = max(measure_prepare(connection, uploads * rounds) for _ in range(rounds))
    import_entries(connection, source)
    list_rate = max(measure_listing(connection, entries) for _ in range(rounds))
    return Measured(upload_rate, prepare_rate, list_rate)


def measure_uploads(server: EmbeddedLake | RealLakeFS, count: int, attempt: int) -> float:
    """Uploads of 1 KiB a second, 32 in flight, each on its own connection."""
    names = iter(range(count))
    body = bytes(1024)

    def work(connection: Connection) -> None:
        # `next` of one shared iterator hands each number out once.
        for number in names:
            query = urlencode({"path": f"small/{attempt}/{number:06}"})
            target = f"/repositories/{REPO}/branches/main/objects?{query}"
            connection.call("POST", target, body, "application/octet-stream")

    connections = [Connection(server) for _ in range(IN_FLIGHT)]
    began = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        list(pool.map(work, connections))
    return count / (time.perf_counter() - began)


def measure_prepare(connection: Connection, staged: int) -> float:
    """Rows of the uncommitted list written a second, from the first page to the last."""
    began = time.perf_counter()
    body: dict[str, Any] = {}
    while token := connection.post(f"/repositories/{REPO}/gc/prepare_uncommited", body).get(
        "continuation_token"
    ):
        body = {"continuation_token": token}
    return staged / (time.perf_counter() - began)


def import_entries(connection: Connection, source: Path) -> None:
    """One commit with an entry for every file in `source`, made by the server's own import."""
    path = f"/repositories/{REPO}/branches/many/import"
    connection.call(
        "POST",
        f"/repositories/{REPO}/branches",
        json.dumps({"name": "many", "source": "main"}).encode(),
        "application/json",
    )
    paths = [{"type": "common_prefix", "path": f"local://{source}/", "destination": "many/"}]
    started = connection.post(path, {"paths": paths, "commit": {"message": "import"}})
    deadline = time.monotonic() + 300
    while not (status := connection.get(f"{path}?id={started['id']}"))["completed"]:
        if status.get("error") or time.monotonic() > deadline:
            raise RuntimeError(f"the import did not end: {status}")
        time.sleep(0.2)


def measure_listing(connection: Connection, entries: int) -> float:
    """Entries listed a second, page after page, as a client that wants all of them does."""
    began = time.perf_counter()
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
    return found / (time.perf_counter() - began)


def make_files(folder: Path, count: int) -> None:
    for number in range(count):
        (folder / f"{number:07}").write_bytes(b"")


def report(name: str, of: Callable[[Measured], float], ours: Measured, theirs: Measured) -> None:
    ratio = of(ours) / of(theirs)
    print(f"{name:<32}{of(ours):>12,.0f}/s{of(theirs):>12,.0f}/s{ratio:>9.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="more uploads and rounds")
    options = parser.parse_args()
    uploads, rounds, entries = (10_000, 5, 100_000) if options.full else (2_000, 3, 100_000)
    with tempfile.TemporaryDirectory(prefix="lakesweep-bench-") as text:
        source = Path(text).resolve() / "source"
        source.mkdir()
        make_files(source, entries)
        with EmbeddedLake(source.parent) as embedded:
            ours = measure(embedded, uploads, entries, source, rounds)
        importable = {
            "LAKEFS_BLOCKSTORE_LOCAL_IMPORT_ENABLED": "true",
            "LAKEFS_BLOCKSTORE_LOCAL_ALLOWED_EXTERNAL_PREFIXES": str(source.parent),
        }
        with RealLakeFS(env=importable) as real:
            theirs = measure(real, uploads, entries, source, rounds)
    print(
        f"{uploads:,} uploads of 1 KiB with {IN_FLIGHT} in flight; a branch of {entries:,} entries in pages of"
        f" {PAGE}; best of {rounds}; lakesweep {version('lakesweep')}, lakeFS 1.84.0, both on local files"
    )
    print(f"{'':<32}{'embedded':>14}{'lakeFS':>14}{'ratio':>9}")
    report("small uploads", lambda rates: rates.uploads, ours, theirs)
    report("prepare uncommitted, rows", lambda rates: rates.prepared, ours, theirs)
    report("entries listed", lambda rates: rates.listed, ours, theirs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
