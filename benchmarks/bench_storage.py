"""Listing, small reads and bulk delete beside boto3 and obstore, on a loopback S3 server that answers by arithmetic.

Every figure is a ratio of two runs in the same minute on the same machine. The others are measured on fewer keys (they
read a page at a time, so their rate does not depend on how many follow) and compared by keys per second.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import obstore
from botocore.config import Config
from obstore.store import S3Store

from computed_keys import ComputedKeys
from lakesweep.domain.location import Location
from lakesweep.storage import (
    DeleteStatus,
    KeyRange,
    ObjectStore,
    StorageOptions,
    open_store,
    ranges_after,
)

_PREFIX = "repo/data/"
_LISTED = 1_000_000
_DELETED = 200_000
_DELETED_AT_ONCE = 20_000
_OTHERS_LISTED = 50_000
_OTHERS_DELETED = 50_000
_READ, _READ_BYTES = 5_000, 1_000
_IN_FLIGHT = 64  # as many as ours has


@dataclass(frozen=True, slots=True)
class Rate:
    """How quick one work was, and what it took of this process's CPU; each at its best round."""

    keys_per_second: float = 0.0
    cpu_per_key: float = float("inf")

    def better(self, other: Rate) -> Rate:
        return Rate(
            max(self.keys_per_second, other.keys_per_second),
            min(self.cpu_per_key, other.cpu_per_key),
        )

    def __str__(self) -> str:
        return f"{self.keys_per_second:,.0f} keys/s ({self.cpu_per_key * 1e6:.2f} µs of CPU a key)"


@dataclass(frozen=True, slots=True)
class Ratio:
    """One promise and what came out."""

    what: str
    ours: Rate
    theirs: Rate
    at_least: float = 0.0  # 0: told, and nothing is promised
    other: str = "boto3"

    @property
    def is_kept(self) -> bool:
        return self.ours.keys_per_second >= self.at_least * self.theirs.keys_per_second

    def __str__(self) -> str:
        ratio = self.ours.keys_per_second / self.theirs.keys_per_second
        by_cpu = self.theirs.cpu_per_key / self.ours.cpu_per_key
        promise = f" (at least {self.at_least:g}×) {'ok' if self.is_kept else 'TOO SLOW'}"
        return (
            f"{self.what}: {ratio:.1f}× {self.other}{promise if self.at_least else ''}, {by_cpu:.1f}× by the client's CPU: "
            f"{self.ours} against {self.theirs}"
        )


@contextmanager
def loopback(objects: int, size: int = 1 << 20) -> Iterator[str]:
    """The server in a process of its own, so that its work is not counted as ours."""
    command = [
        sys.executable,
        str(Path(__file__).with_name("s3_loopback.py")),
        "--objects",
        str(objects),
        "--size",
        str(size),
    ]
    with subprocess.Popen(
        [*command, "--prefix", _PREFIX], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def store_at(url: str) -> ObjectStore:
    options = StorageOptions(
        s3_endpoint=url,
        s3_access_key_id="key",
        s3_secret_access_key="secret",
        s3_region="us-east-1",
    )
    return open_store(Location.parse("s3://lake/repo"), options)


def boto3_at(url: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key="secret",
        config=Config(s3={"addressing_style": "path"}, proxies={}, max_pool_connections=_IN_FLIGHT),
    )


def obstore_at(url: str) -> S3Store:
    return S3Store(
        "lake",
        endpoint=url,
        region="us-east-1",
        access_key_id="key",
        secret_access_key="secret",
        client_options={"allow_http": True},
    )


Work = tuple[int, Callable[[], int]]


def best_rates(works: dict[str, Work], rounds: int) -> dict[str, Rate]:
    """How quick each work is (how many keys it must give, what gives them): the best of some rounds.

    The works take turns, so that a busy moment of the machine does not fall on one of them alone.
    """
    best = dict.fromkeys(works, Rate())
    for _ in range(rounds):
        for name, (count, work) in works.items():
            started, cpu_before = time.perf_counter(), time.process_time()
            found = work()
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu_before
            best[name] = best[name].better(Rate(count / seconds, cpu / count))
            if found != count:
                raise SystemExit(f"{name}: {found} keys where {count} were expected")
    return best


def list_ours(store: ObjectStore) -> int:
    return sum(batch.num_rows for batch in store.list("data/"))


def list_ours_split(store: ObjectStore) -> int:
    begin = [batch for _, batch in store.list_ranges([KeyRange("data/", most=10_000)])]
    first, last = begin[0].column("key")[0].as_py(), begin[-1].column("key")[-1].as_py()
    ranges = ranges_after(KeyRange("data/"), first, last, 64)
    rest = (batch for _, batch in store.list_ranges(ranges))
    return sum(batch.num_rows for batch in (*begin, *rest))


def list_boto3(client: Any) -> int:
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="lake", Prefix=_PREFIX, PaginationConfig={"MaxItems": _OTHERS_LISTED}
    )
    return sum(len(page["Contents"]) for page in pages)


def list_obstore(store: S3Store) -> int:
    found = 0
    for batch in obstore.list(store, _PREFIX, chunk_size=1000, return_arrow=True):
        found += batch.num_rows
        if found >= _OTHERS_LISTED:
            break
    return found


def read_ours(store: ObjectStore, keys: list[str]) -> int:
    return sum(1 for _, content in store.read_many(keys) if content is not None)


def read_boto3(client: Any, keys: list[str]) -> int:
    def read(key: str) -> bytes:
        content: bytes = client.get_object(Bucket="lake", Key=key)["Body"].read()
        return content

    with ThreadPoolExecutor(_IN_FLIGHT) as pool:
        return sum(1 for content in pool.map(read, keys) if content is not None)


def read_obstore(store: S3Store, keys: list[str]) -> int:
    """All in one event loop, so many at a time."""

    async def read_all() -> int:
        room = asyncio.Semaphore(_IN_FLIGHT)

        async def read(key: str) -> bytes:
            async with room:
                answer = await obstore.get_async(store, key)
                return bytes(await answer.bytes_async())

        contents = await asyncio.gather(*map(read, keys))
        return sum(1 for content in contents if content is not None)

    return asyncio.run(read_all())


def delete_obstore(store: S3Store, keys: list[str]) -> int:
    """In bulk, and no word of what became of each key."""
    obstore.delete(store, keys)
    return len(keys)


def delete_boto3(client: Any, keys: list[str]) -> int:
    done = 0
    for first in range(0, len(keys), 1000):
        batch = [{"Key": key} for key in keys[first : first + 1000]]
        answer = client.delete_objects(Bucket="lake", Delete={"Objects": batch, "Quiet": True})
        done += len(batch) - len(answer.get("Errors", ()))
    return done


def delete_ours(store: ObjectStore, keys: list[str]) -> int:
    gone = 0
    for first in range(0, len(keys), _DELETED_AT_ONCE):
        outcomes = store.delete_many(keys[first : first + _DELETED_AT_ONCE])
        gone += sum(outcome.status is DeleteStatus.GONE for outcome in outcomes)
    return gone


def server_ceiling(url: str, method: str, target: str, body: bytes) -> float:
    """Keys per second (a thousand a request) that the server answers to clients that throw its answers away."""
    host = url.removeprefix("http://")
    requests = 150

    def ask(_: int) -> None:
        connection = http.client.HTTPConnection(host)
        for _ in range(requests):
            connection.request(method, target, body)
            connection.getresponse().read()
        connection.close()

    def ask_all() -> int:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(ask, range(4)))
        return 4 * requests * 1000

    return best_rates({"ceiling": (4 * requests * 1000, ask_all)}, rounds=3)[
        "ceiling"
    ].keys_per_second


def print_ceilings(url: str) -> None:
    computed = ComputedKeys(_PREFIX, 1, 1000)
    rows = "".join(f"<Object><Key>{computed.key(index)}</Key></Object>" for index in range(1000))
    deleting = f"<Delete><Quiet>true</Quiet>{rows}</Delete>".encode()
    listing = f"/lake?list-type=2&prefix={_PREFIX}&encoding-type=url"
    print(f"server's own ceiling, listing: {server_ceiling(url, 'GET', listing, b''):,.0f} keys/s")
    print(
        f"server's own ceiling, deleting: {server_ceiling(url, 'POST', '/lake?delete', deleting):,.0f} keys/s"
    )


def peak_memory_mib() -> float:
    """Of this process alone: getrusage would also count what its parent had when it was started."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def listing_memory_mib(url: str) -> float:
    """Peak memory of a process that lists everything and keeps nothing."""
    command = [sys.executable, __file__, "--only-list", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout)


def measure_listing(url: str) -> list[Ratio]:
    store, client, plain = store_at(url), boto3_at(url), obstore_at(url)
    list_ours(store)  # compiles or loads the page reader
    works: dict[str, Work] = {
        "boto3": (_OTHERS_LISTED, lambda: list_boto3(client)),
        "obstore": (_OTHERS_LISTED, lambda: list_obstore(plain)),
        "page after page": (_LISTED, lambda: list_ours(store)),
        "split in 16": (_LISTED, lambda: list_ours_split(store)),
    }
    best = best_rates(works, rounds=3)
    return [
        Ratio(f"listing 1M keys of one flat prefix, {name}", best[name], best[other], least, other)
        for name in ("page after page", "split in 16")
        for other, least in (("boto3", 20), ("obstore", 0))
    ]


def measure_reading(url: str) -> list[Ratio]:
    computed = ComputedKeys(_PREFIX, 1, _READ)
    keys = [computed.key(index) for index in range(_READ)]
    relative = [key.removeprefix("repo/") for key in keys]
    store, client, plain = store_at(url), boto3_at(url), obstore_at(url)
    works: dict[str, Work] = {
        "boto3": (_READ, lambda: read_boto3(client, keys)),
        "obstore": (_READ, lambda: read_obstore(plain, keys)),
        "ours": (_READ, lambda: read_ours(store, relative)),
    }
    best = best_rates(works, rounds=3)
    what = f"reading {_READ:,} objects of {_READ_BYTES:,} bytes, {_IN_FLIGHT} in flight"
    return [Ratio(what, best["ours"], best[other], other=other) for other in ("boto3", "obstore")]


def measure_deleting(url: str) -> list[Ratio]:
    computed = ComputedKeys(_PREFIX, 1, _DELETED)
    keys = [computed.key(index) for index in range(_DELETED)]
    relative = [key.removeprefix("repo/") for key in keys]
    store, client, plain = store_at(url), boto3_at(url), obstore_at(url)
    works: dict[str, Work] = {
        "boto3": (_OTHERS_DELETED, lambda: delete_boto3(client, keys[:_OTHERS_DELETED])),
        "obstore": (_OTHERS_DELETED, lambda: delete_obstore(plain, keys[:_OTHERS_DELETED])),
        "ours": (_DELETED, lambda: delete_ours(store, relative)),
    }
    best = best_rates(works, rounds=6)
    what = "bulk delete of 200k keys, one outcome each"
    return [
        Ratio(what, best["ours"], best["boto3"], 6),
        Ratio(what, best["ours"], best["obstore"], other="obstore (no outcomes)"),
    ]


def show(ratios: list[Ratio]) -> list[Ratio]:
    print(*ratios, sep="\n", flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="the sizes are full ones already")
    parser.add_argument("--only-list", metavar="URL", help="list everything there, print peak MiB")
    arguments = parser.parse_args()
    if arguments.only_list:
        list_ours_split(store_at(arguments.only_list))
        print(peak_memory_mib())
        return
    print(
        f"{os.cpu_count()} cores, Python {sys.version.split()[0]}, boto3 {boto3.__version__} and obstore {obstore.__version__} on "
        f"{_OTHERS_LISTED:,} keys, compared by rate; best of 3 rounds (deletes: 6)"
    )
    # As our Spark workers do after their imports: the collector need not walk all modules again and again.
    gc.freeze()
    ratios: list[Ratio] = []
    with loopback(_READ, _READ_BYTES) as url:
        ratios += show(measure_reading(url))
    with loopback(_DELETED) as url:
        ratios += show(measure_deleting(url))
        print_ceilings(url)
    with loopback(_LISTED) as url:
        ratios += show(measure_listing(url))
        memory = listing_memory_mib(url)
    with loopback(4 * _LISTED) as url:
        memory_of_more = listing_memory_mib(url)
    print(
        f"peak memory while listing 1M keys: {memory:.0f} MiB (under 300); 4M keys: {memory_of_more:.0f} MiB"
    )
    if not all(ratio.is_kept for ratio in ratios) or max(memory, memory_of_more) >= 300:
        raise SystemExit("a promise was not kept")


if __name__ == "__main__":
    main()
