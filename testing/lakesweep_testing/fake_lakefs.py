"""A lakeFS server in the test's own process: answers from plain values, and makes the mistakes it is told to make."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import httpx

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import Timeouts
from lakesweep.domain.commits import BranchHead, Commit, HeadMove, Tag
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.refs_dump import MANIFEST_KEY, RefsDump, write_refs_dump
from lakesweep.storage import ObjectStore

__all__ = ["ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "FakeLakeFS"]

ACCESS_KEY_ID = "AKIATESTONLY"
SECRET_ACCESS_KEY = "test-only-secret"
RUN_ID = "gtestrun000000000000"

Handler = Callable[[httpx.Request], httpx.Response]


@dataclass(slots=True)
class FakeLakeFS:
    """State that a test sets, and the HTTP answers that follow from it.

    `overrides` maps (method, path below the repository or the API) to a function that answers instead; it may call
    `answer` to have the usual answer too. `requests` records what came in.
    """

    store: ObjectStore
    namespace: str
    repository: str = "repo"
    commits: list[Commit] = field(default_factory=list)
    branches: list[BranchHead] = field(default_factory=list)
    tags: list[Tag] = field(default_factory=list)
    rules: RetentionRules | None = None
    head_moves: list[HeadMove] = field(default_factory=list)
    entries: dict[str, dict[str, Mapping[str, object]]] = field(default_factory=dict)
    uncommitted_pages: list[list[bytes]] = field(default_factory=list)
    page_size: int = 1000
    overrides: dict[tuple[str, str], Handler] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def client(self, *, retries: int = 2, job_seconds: float = 5.0) -> LakeFSClient:
        """A client of this server that does not really sleep."""
        return LakeFSClient(
            "http://fake.example",
            ACCESS_KEY_ID,
            SECRET_ACCESS_KEY,
            timeouts=Timeouts(job=job_seconds),
            retries=retries,
            sleep=lambda seconds: None,
            http_transport=httpx.MockTransport(self.handle),
        )

    def handle(self, request: httpx.Request) -> httpx.Response:
        """What the HTTP client calls."""
        path = request.url.path.removeprefix("/api/v1/")
        route = path.removeprefix(f"repositories/{self.repository}/")
        self.requests.append((request.method, route))
        override = self.overrides.get((request.method, route))
        return override(request) if override else self.answer(request)

    def answer(self, request: httpx.Request) -> httpx.Response:
        """The answer of a server that makes no mistakes."""
        wanted = base64.b64encode(f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {wanted}":
            return httpx.Response(401, json={"message": "error authenticating request"})
        path = request.url.path.removeprefix("/api/v1/")
        own = f"repositories/{self.repository}"
        if path == own or path.startswith(own + "/"):
            return self._repository_answer(request, path[len(own) + 1 :])
        if path == "healthcheck":
            return httpx.Response(204, headers={"date": "Wed, 01 May 2024 12:00:00 GMT"})
        if path == "config":
            storage = {"blockstore_type": "mem"}
            return httpx.Response(
                200,
                json={
                    "version_config": {"version": "1.84.0", "version_context": "lakeFS"},
                    "storage_config": storage,
                    "storage_config_list": [],
                },
            )
        if path == "config/garbage-collection":
            return httpx.Response(200, json={"grace_period": 86400})
        return httpx.Response(404, json={"message": "not found"})

    def _repository_answer(self, request: httpx.Request, route: str) -> httpx.Response:
        match request.method, route.split("/"):
            case "GET", [""]:
                return httpx.Response(200, json=self._repository_document())
            case "GET", ["branches"]:
                refs = [{"id": b.id, "commit_id": b.commit_id} for b in self.branches]
                return self._page(request, refs, "id")
            case "GET", ["tags"]:
                return self._page(
                    request, [{"id": t.id, "commit_id": t.commit_id} for t in self.tags], "id"
                )
            case "GET", ["commits", commit_id]:
                found = [c for c in self.commits if c.id == commit_id]
                return httpx.Response(200, json=_commit(found[0])) if found else _not_found()
            case "GET", ["refs", ref, "commits"]:
                return self._page(request, [_commit(c) for c in self._log(ref)], "id")
            case "PUT", ["refs", "dump"]:
                return self._dump()
            case "GET", ["gc", "head_moves"]:
                return self._page(request, [_move(m) for m in self.head_moves], None, "moves")
            case "GET", ["settings", "gc_rules"]:
                return httpx.Response(200, json=_rules(self.rules)) if self.rules else _not_found()
            case "POST", ["gc", "prepare_commits", "async"]:
                return httpx.Response(202, json={"id": "GCPCtask"})
            case "GET", ["gc", "prepare_commits", "status"]:
                return httpx.Response(200, json=self._prepare_status())
            case "POST", ["gc", "prepare_commits"]:
                status = self._prepare_status()
                return (
                    httpx.Response(201, json=status["result"])
                    if "result" in status
                    else _not_found()
                )
            case "POST", ["gc", "prepare_uncommited"]:
                return self._uncommitted_page(request)
            case "GET", ["refs", ref, "objects", "stat"]:
                entry = self.entries.get(ref, {}).get(request.url.params["path"])
                return httpx.Response(200, json=entry) if entry is not None else _not_found()
            case "GET", ["refs", ref, "objects", "ls"]:
                entries = self.entries.get(ref, {})
                prefix = request.url.params.get("prefix", "")
                rows = [entries[path] for path in sorted(entries) if path.startswith(prefix)]
                return self._page(request, rows, "path")
        return httpx.Response(501, json={"message": f"not in this fake: {route}"})

    def _repository_document(self) -> dict[str, object]:
        return {
            "id": self.repository,
            "storage_namespace": self.namespace,
            "default_branch": "main",
            "creation_date": 1700000000,
        }

    def _page(
        self,
        request: httpx.Request,
        rows: Sequence[Mapping[str, object]],
        key: str | None,
        name: str = "results",
    ) -> httpx.Response:
        after = request.url.params.get("after", "")
        start = int(after) if after and key is None else 0
        if after and key is not None:
            start = [row[key] for row in rows].index(after) + 1
        amount = min(int(request.url.params.get("amount", "100")), self.page_size)
        shown = rows[start : start + amount]
        has_more = start + amount < len(rows)
        last = str(start + amount) if key is None else str(shown[-1][key]) if shown else ""
        pagination = {
            "has_more": has_more,
            "next_offset": last if has_more else "",
            "results": len(shown),
            "max_per_page": 1000,
        }
        return httpx.Response(200, json={"pagination": pagination, name: shown})

    def _log(self, ref: str) -> list[Commit]:
        by_id = {commit.id: commit for commit in self.commits}
        seen: dict[str, Commit] = {}
        wanted = [commit for commit in self.commits if commit.id == ref]
        while wanted:
            commit = wanted.pop()
            if commit.id not in seen:
                seen[commit.id] = commit
                wanted.extend(by_id[parent] for parent in commit.parents)
        return sorted(seen.values(), key=lambda c: (c.creation_date, c.id), reverse=True)

    def _dump(self) -> httpx.Response:
        dump = write_refs_dump(RefsDump(self.commits, self.branches, self.tags))
        for key, data in dump.files:
            self.store.write(key, data)
        self.store.write(MANIFEST_KEY, dump.manifest.encode())
        return httpx.Response(201, content=dump.manifest.encode())

    def _prepare_status(self) -> dict[str, object]:
        status: dict[str, object] = {
            "task_id": "GCPCtask",
            "completed": True,
            "update_time": "2024-05-01T12:00:00Z",
        }
        if self.rules is None:
            return {**status, "error": {"message": "get gc rules: not found"}}
        key = "_lakefs/retention/gc/commits/run_id=r1/commits.csv"
        rows = [f"{c.id},false,{c.meta_range_id}\n" for c in self.commits if c.meta_range_id]
        self.store.write(key, "".join(["commit_id,expired,metarange_id\n", *rows]).encode())
        result = {"run_id": "r1", "gc_commits_location": f"{self.namespace}/{key}"}
        return {**status, "result": {**result, "gc_addresses_location": self.namespace}}

    def _uncommitted_page(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content) if request.content else {}
        number = int(body.get("continuation_token", "0"))
        location = f"_lakefs/retention/gc/uncommitted/{RUN_ID}/uncommitted/"
        files = self.uncommitted_pages[number] if self.uncommitted_pages else []
        for index, data in enumerate(files):
            self.store.write(f"{location}{number:04}-{index}", data)
        page = {
            "run_id": RUN_ID,
            "gc_uncommitted_location": f"{self.namespace}/{location}" if files else "",
        }
        if number + 1 < len(self.uncommitted_pages):
            page["continuation_token"] = str(number + 1)
        return httpx.Response(201, json=page)


def _not_found() -> httpx.Response:
    return httpx.Response(404, json={"message": "not found"})


def _commit(commit: Commit) -> dict[str, object]:
    return {
        "id": commit.id,
        "parents": list(commit.parents),
        "committer": commit.committer,
        "message": commit.message,
        "creation_date": int(commit.creation_date.timestamp()),
        "meta_range_id": commit.meta_range_id,
        "metadata": dict(commit.metadata),
        "version": commit.version,
        "generation": commit.generation,
    }


def _move(move: HeadMove) -> dict[str, object]:
    return {
        "branch_id": move.branch_id,
        "commit_id": move.commit_id,
        "until": int(move.until.timestamp()),
    }


def _rules(rules: RetentionRules) -> dict[str, object]:
    # A real server sends null, and not an empty list, when no branch has a rule.
    branches = [
        {"branch_id": b, "retention_days": d} for b, d in rules.branch_retention_days.items()
    ]
    return {"default_retention_days": rules.default_retention_days, "branches": branches or None}
