"""The scenario as servers see it: an S3 store and a lakeFS API on one loopback port.

The API answers what a collector asks of a real lakeFS (it gives no row counts, and does not call itself embedded).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from hashlib import md5

import numpy as np

from lakesweep.formats.refs_dump import MANIFEST_KEY, RefsDump, write_refs_dump
from s3_loopback import Kept, LoopbackS3, Request, Response
from scenario import (
    BUCKET,
    ENTRIES_PER_RANGE,
    NAMESPACE,
    REPOSITORY,
    RETENTION_DAYS,
    ROOT,
    Built,
    Scenario,
    checksum_of,
    path_of,
    size_of,
)

ACCESS_KEY_ID, SECRET_ACCESS_KEY = "AKIABENCHONLY0000000", "bench-only-secret"
_GC = "_lakefs/retention/gc/"
_REPOSITORY: dict[str, object] = {
    "id": REPOSITORY,
    "storage_namespace": NAMESPACE,
    "default_branch": "main",
    "creation_date": 1_700_000_000,
}


@dataclass(slots=True)
class ScenarioServer:
    """A running scenario. What a collector did to it can be looked up here."""

    scenario: Scenario
    built: Built
    s3: LoopbackS3
    staged_files: list[bytes]
    _runs: int = 0

    @property
    def url(self) -> str:
        """Both the S3 endpoint and the lakeFS server."""
        return self.s3.url

    @property
    def environment(self) -> dict[str, str]:
        """What a user of lakectl and of the AWS tools would have set."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        }

    def reset(self) -> None:
        """As if no collector had ever come by."""
        self.scenario.keys.is_alive[:] = True
        kept = self.s3.buckets[BUCKET]
        kept.clear()
        for key, data in self.built.files.items():
            self._write(key, data)

    def files(self, folder: str) -> list[bytes]:
        """Objects written below a folder of the namespace."""
        kept = self.s3.buckets[BUCKET]
        return [kept[key].data for key in sorted(kept) if key.startswith(ROOT + folder)]

    def deleted(self) -> np.ndarray:
        """Which objects are gone."""
        return np.flatnonzero(~self.scenario.keys.is_alive)

    def answer(self, request: Request) -> Response | None:
        """The lakeFS API; everything else is left to the store."""
        if request.bucket != "api":
            return None
        parts = request.key.removeprefix("v1/").split("/")
        match request.method, parts:
            case "GET", ["healthcheck"]:
                return Response(204, b"", {"Date": formatdate(usegmt=True)})
            case "GET", ["config"]:
                version = {"version": "1.84.0", "version_context": "lakeFS"}
                storage = {"blockstore_type": "s3"}
                return _json(
                    {
                        "version_config": version,
                        "storage_config": storage,
                        "storage_config_list": [],
                    }
                )
            case "GET", ["config", "garbage-collection"]:
                return _json({"grace_period": 86_400})
            case "GET", ["repositories"]:
                return _page([_REPOSITORY])
            case _, ["repositories", name, *rest] if name == REPOSITORY:
                return self._repository(request, rest)
        return _json({"message": "not found"}, 404)

    def _repository(self, request: Request, parts: list[str]) -> Response:
        match request.method, parts:
            case "GET", []:
                return _json(_REPOSITORY)
            case "GET", ["branches"]:
                refs = [{"id": b.id, "commit_id": b.commit_id} for b in self.built.branches]
                return _page(refs)
            case "GET", ["branches", "main", "diff"]:
                return _page([])  # canaries come from commits: what is staged has no paths here
            case "GET", ["settings", "gc_rules"]:
                return _json({"default_retention_days": RETENTION_DAYS, "branches": None})
            case "PUT", ["refs", "dump"]:
                return self._dump()
            case "POST", ["gc", "prepare_commits", "async"]:
                return _json({"id": "GCPC1"}, 202)
            case "GET", ["gc", "prepare_commits", "status"]:
                return self._prepare_commits()
            case "POST", ["gc", "prepare_uncommited"]:
                return self._prepare_uncommitted()
            case "GET", ["refs", "main" | "main@", "objects", "ls"]:
                return self._list(request)
            case "GET", ["refs", "main" | "main@", "objects", "stat"]:
                return self._stat(request.query["path"])
        return _json({"message": f"not in this scenario: {request.method} {parts}"}, 501)

    def _dump(self) -> Response:
        dump = write_refs_dump(RefsDump(self.built.commits, self.built.branches, []))
        for key, data in dump.files:
            self._write(key, data)
        manifest = dump.manifest.encode()
        self._write(MANIFEST_KEY, manifest)
        return Response(201, manifest, {"Content-Type": "application/json"})

    def _prepare_commits(self) -> Response:
        key = f"{_GC}commits/run_id=r{self._runs}/commits.csv"
        self._write(key, self.built.retained_csv())
        result = {
            "run_id": f"r{self._runs}",
            "gc_commits_location": f"{NAMESPACE}/{key}",
            "gc_addresses_location": NAMESPACE,
        }
        return _json({"task_id": "GCPC1", "completed": True, "result": result})

    def _prepare_uncommitted(self) -> Response:
        self._runs += 1
        run_id = f"gbench{self._runs:014d}"
        folder = f"{_GC}uncommitted/{run_id}/uncommitted/"
        for number, data in enumerate(self.staged_files):
            self._write(f"{folder}part-{number:05d}.parquet", data)
        return _json({"run_id": run_id, "gc_uncommitted_location": f"{NAMESPACE}/{folder}"}, 201)

    def _list(self, request: Request) -> Response:
        """Entries from the first on; that is all that a look for canaries asks for."""
        amount = min(int(request.query.get("amount", "100")), ENTRIES_PER_RANGE)
        return _page([self._entry(*self.scenario.entry(0, row)) for row in range(amount)])

    def _stat(self, path: str) -> Response:
        position, row = path.removeprefix("tables/events/part-").removesuffix(".parquet").split("/")
        if path != path_of(int(position), int(row)):
            return _json({"message": "not found"}, 404)
        return _json(self._entry(*self.scenario.entry(int(position), int(row))))

    def _entry(self, path: str, index: int) -> dict[str, object]:
        return {
            "path": path,
            "path_type": "object",
            "physical_address": f"{NAMESPACE}/{self.scenario.address(index)}",
            "checksum": checksum_of(index),
            "mtime": 1_704_067_200,
            "size_bytes": int(size_of(np.array([index]))[0]),
        }

    def _write(self, key: str, data: bytes) -> None:
        etag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
        self.s3.buckets[BUCKET][ROOT + key] = Kept(data, etag, float(int(time.time())))


def _page(rows: list[dict[str, object]]) -> Response:
    pagination = {"has_more": False, "next_offset": "", "results": len(rows), "max_per_page": 1000}
    return _json({"pagination": pagination, "results": rows})


def _json(document: object, status: int = 200) -> Response:
    headers = {"Content-Type": "application/json", "Date": formatdate(usegmt=True)}
    return Response(status, json.dumps(document).encode(), headers)


@contextmanager
def serve(scenario: Scenario) -> Iterator[ScenarioServer]:
    """Build the scenario and serve it from a thread of this process."""
    built = scenario.build()
    staged = scenario.staged_files()
    with LoopbackS3(computed=scenario.keys, buckets=(BUCKET,)) as s3:
        server = ScenarioServer(scenario, built, s3, staged)
        s3.intercept = server.answer
        server.reset()
        yield server
