"""`lakesweep backup` as a process beside boto3 copying one object after the other, on a real lakeFS on MinIO.

All copy the same objects on the server's side into a bucket of their own. The whole command counts, Spark's start
included; what the phase that copies takes, with the wait for Spark in it, is told beside it. That start takes about five
seconds on two cores, whatever there is to copy, and a third of the time for 20,000 objects (`--quick`).

boto3 copies in three ways. `copy` is the one by which the figure is judged, being what boto3 calls a copy: it looks at the
original, copies, and does not look at the result. Beside it stand harder ones: `copy_object` and a look at each copy, the
requests that a backup makes too; and `copy_object` alone, which verifies nothing.

Each of these takes every twentieth object, small and large alike: its speed does not depend on how many there are. They
follow each backup, as the machine's speed changes from minute to minute. So do bare copies of the same objects: no look
at a copy, no Spark, as many in flight as a task has. They tell how much faster than boto3 any client could be.

MinIO keeps its files in memory where the machine has room for that. It syncs every object to the disk, and a disk that
takes 800 of them in a second is what any client would be measured by.

    python benchmarks/bench_backup.py            60,000 small objects and 60 of 5 to 20 MB
    python benchmarks/bench_backup.py --quick    20,000 and 40
    python benchmarks/bench_backup.py --full     100,000 and 100
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import boto3

from lakesweep.domain.location import Location
from lakesweep.storage import Crew, StorageOptions, open_store
from lakesweep_testing.servers import MinIOServer, RealLakeFS
from real_lake import LAKESWEEP, Connection, connections, minio_environment, spread
from watched import watch

_AT_LEAST_TIMES = 5.0
_BUCKET, _BACKUPS = "lake", "backups"
_REPOSITORY = "backed-up"
_MB = 1_000_000
_EVERY = 20
_IN_FLIGHT = 32
_COMMAND, _COPYING, _BARE = "the command", "while it copies", "bare copies"
_IN_MEMORY = "/dev/shm"

# Size and etag.
Original = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Shape:
    """Uploads that nobody refers to any more: small ones of up to 8 kB, and some large ones."""

    small: int
    large: int

    @property
    def objects(self) -> int:
        return self.small + self.large

    def content(self, number: int) -> bytes:
        """The same bytes whenever it is asked."""
        chance = random.Random(number)
        is_large = number < self.large
        return chance.randbytes(
            chance.randint(5 * _MB, 20 * _MB) if is_large else chance.randint(0, 8000)
        )


def fill(server: RealLakeFS, shape: Shape) -> None:
    """Stage everything, and delete it again: all of it is garbage."""
    pool = connections(server)
    path = f"/repositories/{_REPOSITORY}"
    namespace = f"s3://{_BUCKET}/{_REPOSITORY}"
    pool[0].send("POST", "/repositories", {"name": _REPOSITORY, "storage_namespace": namespace})

    def put(connection: Connection, number: int) -> None:
        target = f"{path}/branches/main/objects?{urlencode({'path': f'{number:06d}'})}"
        connection.call("POST", target, shape.content(number), "application/octet-stream")

    spread(range(shape.objects), pool, put)
    paths = [f"{number:06d}" for number in range(shape.objects)]
    for first in range(0, len(paths), 1000):
        body = {"paths": paths[first : first + 1000]}
        pool[0].send("POST", f"{path}/branches/main/objects/delete", body)
    time.sleep(2)  # so that the last upload is older than the age asked for


def mark(environment: Mapping[str, str], shape: Shape) -> str:
    words = ["mark", _REPOSITORY, "--output", "json", "--no-progress"]
    words += ["--min-age", "1s", "--unsafe-min-age", _REPOSITORY]
    record = run(words, environment)[1]
    if record["objects"]["garbage"] != shape.objects:
        raise SystemExit(f"{shape} has been marked as {record['objects']}")
    return str(record["mark_id"])


def run(words: list[str], environment: Mapping[str, str]) -> tuple[Any, dict[str, Any]]:
    seen = watch([*LAKESWEEP, *words], environment)
    if seen.status:
        raise SystemExit(f"lakesweep {words[0]} ended with status {seen.status}:\n{seen.err}")
    return seen, json.loads(seen.out)


def client_of(minio: MinIOServer) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=minio.url,
        region_name=minio.region,
        aws_access_key_id=minio.access_key_id,
        aws_secret_access_key=minio.secret_access_key,
    )


def objects_below(client: Any, bucket: str, prefix: str) -> dict[str, Original]:
    """Size and etag of every object, by its key below the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    return {
        found["Key"].removeprefix(prefix): (found["Size"], found["ETag"])
        for page in pages
        for found in page.get("Contents", ())
    }


def copied(client: Any, key: str, _: Original) -> None:
    """`copy`: it looks at the original, then copies, in threads of its own."""
    client.copy(_source(key), _BACKUPS, f"copy/{key}")


def copied_and_looked_at(client: Any, key: str, original: Original) -> None:
    """The requests that we make too, one after the other."""
    client.copy_object(Bucket=_BACKUPS, Key=f"looked-at/{key}", CopySource=_source(key))
    copy = client.head_object(Bucket=_BACKUPS, Key=f"looked-at/{key}")
    if (copy["ContentLength"], copy["ETag"]) != original:
        raise SystemExit(f"the copy of {key} differs")


def copied_only(client: Any, key: str, _: Original) -> None:
    """Whether the copy is there, and whole, nobody asks."""
    client.copy_object(Bucket=_BACKUPS, Key=f"only/{key}", CopySource=_source(key))


def _source(key: str) -> dict[str, str]:
    return {"Bucket": _BUCKET, "Key": f"{_REPOSITORY}/{key}"}


_YARDSTICK = "boto3 copy"
_WAYS = {
    _YARDSTICK: copied,
    "boto3 copy_object and look": copied_and_looked_at,
    "boto3 copy_object": copied_only,
}


def one_by_one(
    client: Any, way: Callable[[Any, str, Original], None], originals: Mapping[str, Original]
) -> float:
    """Seconds that boto3 takes for all of these."""
    began = time.perf_counter()
    for key, original in originals.items():
        way(client, key, original)
    return time.perf_counter() - began


def copy_bare(minio: MinIOServer, keys: Iterable[str]) -> float:
    """The most that the server gives: nothing but copies, many at a time."""
    options = StorageOptions(
        s3_endpoint=minio.url,
        s3_region=minio.region,
        s3_access_key_id=minio.access_key_id,
        s3_secret_access_key=minio.secret_access_key,
    )
    source = open_store(Location.parse(f"s3://{_BUCKET}/{_REPOSITORY}"), options)
    target = open_store(Location.parse(f"s3://{_BACKUPS}/bare"), options)
    began = time.perf_counter()
    with Crew(_IN_FLIGHT) as crew:
        crew.each(lambda key: target.copy_from(source, key, key), list(keys))
    return time.perf_counter() - began


def measure(server: RealLakeFS, minio: MinIOServer, shape: Shape, rounds: int) -> bool:
    fill(server, shape)
    environment = os.environ | server.lakectl_environment | minio_environment(minio)
    mark_id = mark(environment, shape)
    client = client_of(minio)
    originals = objects_below(client, _BUCKET, f"{_REPOSITORY}/")
    originals = {key: found for key, found in originals.items() if key.startswith("data/")}
    size = sum(size for size, _ in originals.values())
    print(f"{len(originals):,} objects, {size / _MB:,.0f} MB")
    spent: dict[str, float] = defaultdict(float)
    for number, sample in enumerate(some_of(originals, rounds)):
        words = ["backup", _REPOSITORY, "--mark-id", mark_id, "--output", "json", "--no-progress"]
        seen, record = run([*words, "--to", f"s3://{_BACKUPS}/round-{number}"], environment)
        if objects_below(client, _BACKUPS, f"round-{number}/") != originals:
            raise SystemExit("the backup is not what was marked")
        if record["objects"]["copied"] != shape.objects:
            raise SystemExit(f"the record does not say what happened: {record}")
        copied_in = sum(p["seconds"] for p in record["phases"] if p["name"] == "backup")
        print(f"lakesweep backup: {seen}; copying {copied_in:.1f} s")
        times = shape.objects / len(sample)
        others = {name: times * one_by_one(client, way, sample) for name, way in _WAYS.items()}
        others[_BARE] = times * copy_bare(minio, sample)
        told = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in others.items())
        print(f"for all, by {len(sample):,} of them: {told}")
        for name, seconds in ({_COMMAND: seen.seconds, _COPYING: copied_in} | others).items():
            spent[name] += seconds
    rates = {name: rounds * shape.objects / seconds for name, seconds in spent.items()}
    print("objects/s: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()))
    for name in _WAYS:
        ratios = ", ".join(
            f"{rates[ours] / rates[name]:.2f}× {ours}" for ours in (_COMMAND, _COPYING, _BARE)
        )
        print(f"against {name}: {ratios}")
    times_quicker = rates[_COMMAND] / rates[_YARDSTICK]
    is_reached = times_quicker >= _AT_LEAST_TIMES
    print(
        f"{times_quicker:.2f}× {_YARDSTICK}, at least {_AT_LEAST_TIMES:g}× are asked: "
        f"{'ok' if is_reached else 'TOO SLOW'}"
    )
    return is_reached


def some_of(originals: Mapping[str, Original], rounds: int) -> list[dict[str, Original]]:
    """For each round every twentieth object, small and large alike, and others each time."""
    large = [key for key, (size, _) in originals.items() if size >= 5 * _MB]
    small = [key for key, (size, _) in originals.items() if size < 5 * _MB]
    return [
        {key: originals[key] for key in (*large[number::_EVERY], *small[number::_EVERY])}
        for number in range(rounds)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--quick", action="store_true", help="a third of the objects")
    sizes.add_argument("--full", action="store_true", help="more of them")
    parser.add_argument(
        "--folder", help=f"where MinIO keeps its files; else {_IN_MEMORY}, if there"
    )
    options = parser.parse_args()
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "boto3"))
    print(f"{os.cpu_count()} cores; {versions}, lakeFS 1.84.0 on MinIO")
    shape = Shape(60_000, 60)
    if options.quick:
        shape = Shape(20_000, 40)
    elif options.full:
        shape = Shape(100_000, 100)
    if options.folder is None and Path(_IN_MEMORY).is_dir():
        options.folder = _IN_MEMORY
    tempfile.tempdir = options.folder
    print(f"MinIO's files are in {tempfile.gettempdir()}")
    with MinIOServer() as minio, RealLakeFS(minio) as server:
        minio.make_bucket(_BUCKET)
        minio.make_bucket(_BACKUPS)
        is_reached = measure(server, minio, shape, 2)
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
