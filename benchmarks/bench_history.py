"""`lakesweep mark` of a small lake with a long history: what commits cost, as a process of its own.

The lake (long_history.py) lies on a loopback server in this process. It is marked with a short history, then with the long
one, with as many branches; the garbage must be exactly what is known by construction. What the long one takes more is what commits cost.
The yardstick reads the same refs dump with the plain reader, a Python object for each commit, and applies the plain rule.

    python benchmarks/bench_history.py               30,000 commits
    python benchmarks/bench_history.py --full        1,000,000 commits
    python benchmarks/bench_history.py --commits 200000
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from email.utils import formatdate
from hashlib import md5
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from lakesweep.domain.commits import CommitGraph
from lakesweep.domain.durations import format_time
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.formats.refs_dump import MANIFEST_KEY, read_refs_dump
from lakesweep.formats.tables import UNCOMMITTED_SCHEMA, write_uncommitted
from long_history import (
    BUCKET,
    ENTRY_BYTES,
    NAMESPACE,
    REPOSITORY,
    ROOT,
    BuiltHistory,
    LongHistory,
    checksum_of,
    path_of,
)
from s3_loopback import Kept, LoopbackS3, Request, Response
from watched import Watched, watch

_COMMITS, _MANY = 30_000, 1_000_000
_BRANCHES, _MANY_BRANCHES = 100, 1_000
_MOST_SECONDS, _MOST_MIB = 60.0, 2_048.0
# Seconds of the driver: what one run differs from the next, and for each commit.
_NOISE_SECONDS, _SECONDS_PER_COMMIT = 1.5, 10e-6
_GC = "_lakefs/retention/gc/"
_MARK = f"{_GC}addresses/mark_id="


@dataclass(slots=True)
class HistoryServer:
    """A lakeFS server that answers what a mark asks, and the store that it writes to."""

    built: BuiltHistory
    s3: LoopbackS3
    _runs: int = 0

    @property
    def environment(self) -> dict[str, str]:
        """What a user of lakectl and of the AWS tools would have set."""
        return {
            "LAKECTL_SERVER_ENDPOINT_URL": self.s3.url,
            "LAKECTL_CREDENTIALS_ACCESS_KEY_ID": "AKIABENCHONLY0000000",
            "LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY": "bench-only-secret",
            "AWS_ENDPOINT_URL": self.s3.url,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "AKIABENCHONLY0000000",
            "AWS_SECRET_ACCESS_KEY": "bench-only-secret",
        }

    def write(self, key: str, data: bytes) -> None:
        """Put a file below the namespace."""
        etag = f'"{md5(data, usedforsecurity=False).hexdigest()}"'
        self.s3.buckets[BUCKET][ROOT + key] = Kept(data, etag, float(int(time.time())))

    def marked(self) -> dict[str, str]:
        """Addresses in all marks, with their reasons."""
        found: dict[str, str] = {}
        for key, kept in self.s3.buckets[BUCKET].items():
            if key.startswith(ROOT + _MARK) and key.endswith(".parquet"):
                rows = pq.read_table(io.BytesIO(kept.data), columns=["address", "reason"])
                found |= dict(zip(*rows.to_pydict().values(), strict=True))
        return found

    def answer(self, request: Request) -> Response | None:
        """The lakeFS API; everything else is left to the store."""
        if request.bucket != "api":
            return None
        repository: dict[str, object] = {
            "id": REPOSITORY,
            "storage_namespace": NAMESPACE,
            "default_branch": "main",
            "creation_date": 1_600_000_000,
        }
        match request.method, request.key.removeprefix("v1/").split("/"):
            case "GET", ["healthcheck"]:
                return Response(204, b"", {"Date": formatdate(usegmt=True)})
            case "GET", ["config"]:
                about = {"version": "1.84.0", "version_context": "lakeFS"}
                storage: dict[str, object] = {"blockstore_type": "s3"}
                return _json({"version_config": about, "storage_config": storage})
            case "GET", ["config", "garbage-collection"]:
                return _json({"grace_period": 86_400})
            case "GET", ["repositories"]:
                return _page([repository])
            case "GET", ["repositories", _]:
                return _json(repository)
            case _, ["repositories", _, *rest]:
                return self._in_repository(request, rest)
        return _json({"message": "not found"}, 404)

    def _in_repository(self, request: Request, parts: list[str]) -> Response:
        match request.method, parts:
            case "GET", ["branches"]:
                return self._branches(request.query.get("after", ""))
            case "GET", ["branches", _, "diff"]:
                return _page([])  # nothing is staged
            case "GET", ["settings", "gc_rules"]:
                return _json(self.built.history.rules.as_json())
            case "PUT", ["refs", "dump"]:
                return self._dump()
            case "POST", ["gc", "prepare_commits", "async"]:
                return _json({"id": "GCPC1"}, 202)
            case "GET", ["gc", "prepare_commits", "status"]:
                key = f"{_GC}commits/run_id=r{self._runs}/commits.csv"
                self.write(key, self.built.retained_csv)
                places = {"gc_commits_location": f"{NAMESPACE}/{key}"}
                result = {"run_id": f"r{self._runs}", "gc_addresses_location": NAMESPACE, **places}
                return _json({"task_id": "GCPC1", "completed": True, "result": result})
            case "POST", ["gc", "prepare_uncommited"]:
                return self._prepare_uncommitted()
            case "GET", ["refs", _, "objects", "ls"]:
                return _page([self._entry(n) for n in range(int(request.query["amount"]))])
        return _json({"message": f"not in this lake: {request.method} {parts}"}, 501)

    def _branches(self, after: str) -> Response:
        later = [head for head in self.built.heads if head.id > after]
        refs = [{"id": head.id, "commit_id": head.commit_id} for head in later[:1_000]]
        return _page(refs, has_more=len(later) > 1_000)

    def _dump(self) -> Response:
        for key, data in self.built.dump.files:
            self.write(key, data)
        manifest = self.built.dump.manifest.encode()
        self.write(MANIFEST_KEY, manifest)
        return Response(201, manifest, {"Content-Type": "application/json"})

    def _prepare_uncommitted(self) -> Response:
        self._runs += 1
        run_id = f"ghistory{self._runs:012d}"
        folder = f"{_GC}uncommitted/{run_id}/uncommitted/"
        self.write(
            f"{folder}part-00000.parquet", write_uncommitted(UNCOMMITTED_SCHEMA.empty_table())
        )
        return _json({"run_id": run_id, "gc_uncommitted_location": f"{NAMESPACE}/{folder}"}, 201)

    def _entry(self, index: int) -> dict[str, object]:
        return {
            "path": path_of(index),
            "path_type": "object",
            "physical_address": f"{NAMESPACE}/{self.built.history.address(index)}",
            "checksum": checksum_of(index),
            "mtime": 1_704_067_200,
            "size_bytes": ENTRY_BYTES,
        }


def _page(rows: list[dict[str, object]], *, has_more: bool = False) -> Response:
    following = str(rows[-1]["id"]) if has_more else ""
    pagination: dict[str, object] = {"has_more": has_more, "next_offset": following}
    pagination |= {"results": len(rows), "max_per_page": 1000}
    return _json({"pagination": pagination, "results": rows})


def _json(document: object, status: int = 200) -> Response:
    headers = {"Content-Type": "application/json", "Date": formatdate(usegmt=True)}
    return Response(status, json.dumps(document).encode(), headers)


@contextmanager
def serve(built: BuiltHistory) -> Iterator[HistoryServer]:
    """Serve a history from a thread of this process."""
    with LoopbackS3(computed=built.history.keys, buckets=(BUCKET,)) as s3:
        server = HistoryServer(built, s3)
        s3.intercept = server.answer
        for key, data in built.files.items():
            server.write(key, data)
        yield server


def run_mark(built: BuiltHistory) -> tuple[Watched, dict[str, Any]]:
    """A mark as a process, checked: what it found, and how many commits it says are retained."""
    with serve(built) as server:
        # Rules are applied at the moment that the history was made for: a commit is made every other minute.
        now = format_time(built.history.now)
        words = ["mark", REPOSITORY, "--now", now, "--output", "json", "--no-progress"]
        seen = watch([sys.executable, "-m", "lakesweep", *words], os.environ | server.environment)
        if seen.status:
            raise SystemExit(f"lakesweep mark ended with status {seen.status}:\n{seen.err}")
        record = json.loads(seen.out)
        marked = server.marked()
    if marked != built.history.garbage:
        raise SystemExit(f"{len(marked)} objects are marked, and they are not the garbage")
    retained = int(built.history.retained.sum())
    told = record["retained_commits"], record["expired_commits"]
    if told != (retained, built.history.commits - retained):
        raise SystemExit(f"{retained} commits are retained, and the record says {told}")
    return seen, record


def run_plain(built: BuiltHistory) -> Watched:
    """The yardstick as a process: the plain reader and the plain rule, checked."""
    history = built.history
    dump = built.dump
    question = (dict(dump.files), dump.manifest, history.rules, history.now)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "dump.pickle")
        file.write_bytes(pickle.dumps(question))
        seen = watch([sys.executable, __file__, "--plain", str(file)], os.environ)
    retained = int(history.retained.sum())
    if seen.status or int(seen.out) != retained:
        raise SystemExit(f"the plain rule retains {seen.out}, not {retained}:\n{seen.err}")
    return seen


def answer_plain(file: Path) -> int:
    """What the yardstick does: commits as objects, their retention by the rule in `domain/`."""
    question: tuple[dict[str, bytes], Any, RetentionRules, datetime]
    question = pickle.loads(file.read_bytes())
    files, manifest, rules, now = question
    dump = read_refs_dump(files.__getitem__, manifest)
    print(len(retained_commits(CommitGraph(dump.commits), dump.branches, rules, now)))
    return 0


def shown(commits: int, branches: int) -> tuple[Watched, BuiltHistory]:
    """Mark a history of so many commits, and say what it took."""
    built = LongHistory(commits, branches).build()
    size = sum(len(data) for _, data in built.dump.files) / 1e6
    print(
        f"{commits:,} commits, {built.history.retained.sum():,} of them retained; {len(built.heads):,} branches; "
        f"a refs dump of {size:.1f} MB; {len(built.history.garbage):,} garbage of {len(built.history.keys):,} objects"
    )
    seen, record = run_mark(built)
    print(f"  lakesweep mark: {seen}")
    phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
    print(f"  phases, s: {phases}", flush=True)
    return seen, built


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help=f"{_MANY:,} commits")
    parser.add_argument("--commits", type=int, default=_COMMITS, help="a multiple of ten")
    parser.add_argument("--plain", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plain is not None:
        return answer_plain(options.plain)
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "numpy"))
    print(f"{os.cpu_count()} cores; {versions}")
    commits = _MANY if options.full else options.commits
    branches = _MANY_BRANCHES if options.full else _BRANCHES
    few_commits = 20 * branches  # as few as so many branches can have
    few, _ = shown(few_commits, branches)
    many, built = shown(commits, branches)
    plain = run_plain(built)
    print(f"  plain reader and rule: {plain}")
    more_cpu = many.cpu_by_kind["driver"] - few.cpu_by_kind["driver"]
    more_mib = many.peak_by_kind["driver"] - few.peak_by_kind["driver"]
    most_cpu = _NOISE_SECONDS + commits * _SECONDS_PER_COMMIT
    is_reached = (
        many.seconds < _MOST_SECONDS
        and many.peak_by_kind["driver"] < _MOST_MIB
        and more_cpu < most_cpu
    )
    print(
        f"{commits:,} commits cost the driver {more_cpu:.1f} s of CPU (at most {most_cpu:.1f}) and {more_mib:,.0f} MiB more than "
        f"{few_commits:,}; the plain way takes {plain.cpu_seconds:.1f} s and {plain.peak_mib:,.0f} MiB. In all {many.seconds:.1f} s (under "
        f"{_MOST_SECONDS:g}) and {many.peak_by_kind['driver']:,.0f} MiB (under {_MOST_MIB:,.0f}): "
        f"{'ok' if is_reached else 'MISSED'}"
    )
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
