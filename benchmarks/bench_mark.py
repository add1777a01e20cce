"""`lakesweep mark` as a process on a real lakeFS on MinIO: fifteen objects, eighty thousand, and as many of ten sizes.

Small repositories are where a start from nothing shows. lakeFS's own collector, measured elsewhere on a machine of this
kind when idle, takes 41 s on 15 objects, and 95 s with 2.3 GB on 80,798 objects in 60 commits.

With `--crowded` every object has one of ten sizes, on 6 and on 200 branches: each of the unreferenced could be a staged
re-upload of any of them. The yardstick there is one thread of boto3 that lists the bucket, plus the mark of fifteen objects.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import urlencode

import boto3

from lakesweep_testing.servers import MinIOServer, RealLakeFS
from real_lake import LAKESWEEP, Connection, connections, minio_environment, spread
from watched import watch

_MOST_SECONDS = 15.0
_MOST_MIB = 1.5e9 / (1 << 20)
_DAY = 86_400
_BUCKET = "lake"


@dataclass(frozen=True, slots=True)
class Shape:
    """A repository: commits of so many uploads each, every fourth of the older half deleted again by a later commit.

    As many uploads again are staged, and as many were staged and deleted. All objects are small and many of one size,
    so that every one of the unreferenced could be a staged re-upload and has to be looked for.
    """

    name: str
    commits: int
    uploads: int
    sizes: int = 0  # 0: as they come
    branches: int = 1
    most_seconds: float = _MOST_SECONDS

    def content(self, folder: str, number: int) -> bytes:
        """What an upload holds: no two are alike."""
        text = f"{folder}{number}"
        return (text.ljust(20 + number % self.sizes, "-") if self.sizes else text).encode()

    @property
    def objects(self) -> int:
        """How many objects the store holds."""
        return (self.commits + 2) * self.uploads

    @property
    def expired(self) -> int:
        """How many the rule lets go: what the older half of the commits brought and deleted again."""
        return (self.commits // 2) * len(range(0, self.uploads, 4))


class Loader:
    """Fills a repository with many uploads at once."""

    def __init__(self, server: RealLakeFS, shape: Shape) -> None:
        self._shape = shape
        self._path = f"/repositories/{shape.name}"
        self._connections = connections(server)

    def fill(self) -> None:
        """History by date: half of the commits lie before the rule's time, and after them one of deletions."""
        first = self._connections[0]
        first.send(
            "POST",
            "/repositories",
            {"name": self._shape.name, "storage_namespace": f"s3://{_BUCKET}/{self._shape.name}"},
        )
        rules = {"default_retention_days": 7, "branches": []}
        first.send("PUT", f"{self._path}/settings/gc_rules", rules)
        now, commits = int(time.time()), self._shape.commits
        old = [f"c{number:03d}" for number in range(commits // 2)]
        for number, folder in enumerate(old):
            self._upload(folder)
            self._commit(now - 30 * _DAY + number)
        for folder in old:
            self._delete(folder)
        self._commit(now - 20 * _DAY)
        for number in range(len(old), commits):
            self._upload(f"c{number:03d}")
            self._commit(now - 5 * _DAY + number)
        for number in range(1, self._shape.branches):
            body = {"name": f"b{number}", "source": "main"}
            first.send("POST", f"{self._path}/branches", body)
        self._upload("dropped")
        self._delete("dropped", every=1)
        self._upload("staged")

    def _commit(self, date: int) -> None:
        body = {"message": "m", "date": date}
        self._connections[0].send("POST", f"{self._path}/branches/main/commits", body)

    def _upload(self, folder: str) -> None:
        def put(connection: Connection, number: int) -> None:
            query = urlencode({"path": f"{folder}/{number:06d}"})
            target = f"{self._path}/branches/main/objects?{query}"
            content = self._shape.content(folder, number)
            connection.call("POST", target, content, "application/octet-stream")

        spread(range(self._shape.uploads), self._connections, put)

    def _delete(self, folder: str, *, every: int = 4) -> None:
        paths = [f"{folder}/{number:06d}" for number in range(0, self._shape.uploads, every)]
        for first in range(0, len(paths), 1000):
            body = {"paths": paths[first : first + 1000]}
            self._connections[0].send("POST", f"{self._path}/branches/main/objects/delete", body)


def listing_seconds(minio: MinIOServer, shape: Shape) -> float:
    """One thread of boto3 that lists what the repository holds."""
    client = boto3.client(
        "s3",
        endpoint_url=minio.url,
        region_name=minio.region,
        aws_access_key_id=minio.access_key_id,
        aws_secret_access_key=minio.secret_access_key,
    )
    began = time.perf_counter()
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=_BUCKET, Prefix=f"{shape.name}/"
    )
    objects = sum(len(page.get("Contents", ())) for page in pages)
    seconds = time.perf_counter() - began
    print(f"  boto3 lists {objects:,} objects in {seconds:.1f} s")
    return seconds


def measure(
    server: RealLakeFS, minio: MinIOServer, shape: Shape, rounds: int, start: float = 0.0
) -> tuple[bool, float]:
    """Fill and mark; whether the best round is quick and small enough, and how long it took.

    Args:
        start: what a mark of next to nothing takes, for the yardstick of a crowded repository.
    """
    began = time.perf_counter()
    Loader(server, shape).fill()
    print(
        f"{shape.objects:,} objects, {shape.commits} commits with objects "
        f"(loaded in {time.perf_counter() - began:.0f} s)"
    )
    environment = os.environ | server.lakectl_environment | minio_environment(minio)
    words = ["mark", shape.name, "--output", "json", "--no-progress"]
    words += ["--run", "clean", "--min-age", "1s", "--unsafe-min-age", shape.name]
    time.sleep(2)  # so that the last upload is older than the age asked for
    best = None
    for _ in range(rounds):
        seen = watch([*LAKESWEEP, *words], environment)
        if seen.status:
            raise SystemExit(f"lakesweep mark ended with status {seen.status}:\n{seen.err}")
        record = json.loads(seen.out)
        objects = record["objects"]
        found = (objects["listed"], objects["expired"], objects["unreferenced"])
        if found != (shape.objects, shape.expired, shape.uploads):
            raise SystemExit(f"{shape} has been marked as {objects}")
        print(f"  {seen}")
        print("  " + ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"]))
        if best is None or seen.seconds < best.seconds:
            best = seen
    assert best is not None
    is_reached = best.seconds < shape.most_seconds and best.peak_mib < _MOST_MIB
    print(
        f"  best: {best.seconds:.1f} s (under {shape.most_seconds:g} s on two idle cores), {best.peak_mib:,.0f} MiB "
        f"(under {_MOST_MIB:,.0f}): {'ok' if is_reached else 'MISSED'}"
    )
    if start:
        yardstick = listing_seconds(minio, shape) + start
        is_reached &= best.seconds <= yardstick
        print(f"  {best.seconds / yardstick:.2f} of that listing and a start ({yardstick:.1f} s)")
    return is_reached, best.seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="more rounds")
    parser.add_argument("--small-only", action="store_true", help="fifteen objects only")
    parser.add_argument(
        "--crowded", action="store_true", help="many objects of ten sizes; with --full 400,000 too"
    )
    options = parser.parse_args()
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "pyarrow"))
    print(f"{os.cpu_count()} cores; {versions}, lakeFS 1.84.0 on MinIO")
    small = Shape("small", commits=3, uploads=3)
    shapes = [] if options.small_only else [Shape("large", commits=60, uploads=1_303)]
    if options.crowded:
        shapes = [Shape(f"sizes-{n}", 60, 1_303, 10, n, most_seconds=10) for n in (6, 200)]
        if options.full:
            shapes += [Shape(f"many-{n}", 60, 6_516, 10, n, most_seconds=20) for n in (6, 200)]
    with MinIOServer() as minio, RealLakeFS(minio) as server:
        minio.make_bucket(_BUCKET)
        rounds = 5 if options.full and not options.crowded else 3
        is_reached, start = measure(server, minio, small, rounds)
        reached = [is_reached]
        for shape in shapes:
            reached.append(measure(server, minio, shape, rounds, start if shape.sizes else 0.0)[0])
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
