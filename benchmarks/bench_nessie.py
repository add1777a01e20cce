"""Garbage collection of a Nessie catalog beside a plain one with pyiceberg: mark-live and expire --defer-deletes.

The catalog (nessie_catalog.py) is on a real Nessie server and local files. Ours are two processes that start from
nothing, with the live set in a database between them; the yardstick (naive_nessie_gc.py) is one. Both
must find exactly the known garbage. That ours reads each commit, metadata file, manifest list and manifest once is
counted from outside: files by the kernel, commits by what came over the wire in a mark that is not timed. At the end the
recorded files are deleted, with a second look, beside a process that only deletes copies of them; and a hundred files
are swept at once.

    python benchmarks/bench_nessie.py               live sets in SQLite, against the yardstick
    python benchmarks/bench_nessie.py --full        in PostgreSQL too, and the yardstick that reads manifests once
    python benchmarks/bench_nessie.py --ours-only --repeat 3
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.identify import identify
from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.domain.cutoff_policies import CutoffPolicies, CutoffPolicy
from lakesweep.domain.live_sets import parse_live_set_id
from lakesweep_testing.servers import NessieServer, PostgresServer
from nessie_catalog import LIVE_COMMITS, Catalog, make_catalog
from opened_files import OpenedFiles
from watched import Watched, watch

_AT_LEAST_TIMES = 6.0
_MOST_SECONDS = 30.0
_MOST_MIB = 1536.0
_MOST_DELETING_SECONDS = 10.0
_SMALL_SWEEP = 100
_MOST_SMALL_SECONDS = 8.0
_ONLY_DELETES = "import os, sys; [os.unlink(entry.path) for entry in list(os.scandir(sys.argv[1]))]"
_NAIVE = Path(__file__).with_name("naive_nessie_gc.py")


@dataclass(frozen=True, slots=True)
class Took:
    """What both commands took together."""

    mark: Watched
    expire: Watched

    @property
    def seconds(self) -> float:
        return self.mark.seconds + self.expire.seconds

    @property
    def cpu_seconds(self) -> float:
        return self.mark.cpu_seconds + self.expire.cpu_seconds

    @property
    def peak_mib(self) -> float:
        return max(self.mark.peak_mib, self.expire.peak_mib)

    def __str__(self) -> str:
        return f"{self.seconds:.1f} s wall, {self.cpu_seconds:.1f} s CPU, peak {self.peak_mib:,.0f} MiB"


class Bench:
    """One catalog, and the collectors on it."""

    def __init__(self, folder: Path, uri: str) -> None:
        self._folder = folder
        self._uri = uri
        self._warehouse = folder / "warehouse"
        self.catalog: Catalog = make_catalog(self._warehouse, uri)

    def run_ours(self, where: str, url: str) -> Took:
        """Both commands, checked: what they recorded, what they say, and what they opened."""
        id_file = self._folder / "live-set-id"
        mark, said = self._lakesweep(
            *("mark-live", "--jdbc-url", url, "--jdbc-schema", "CREATE_IF_NOT_EXISTS"),
            *("--uri", self._uri, "--default-cutoff", str(LIVE_COMMITS)),
            *("--write-live-set-id-to", str(id_file)),
        )
        if said["commits_read"] != self.catalog.commits:
            raise SystemExit(f"the mark read {said['commits_read']} commits")
        with OpenedFiles(self._warehouse.glob("db/*/metadata")) as opened:
            expire, record = self._lakesweep(
                *("expire", "--jdbc-url", url, "--defer-deletes"),
                *("--read-live-set-id-from", str(id_file)),
            )
        self._check_reads(opened, record)
        with open_live_sets(url) as live_sets:
            found = live_sets.deferred(parse_live_set_id(id_file.read_text()))
            self._check_garbage({file.uri for file in found}, "lakesweep")
        took = Took(mark, expire)
        print(f"lakesweep, live set in {where}: {took}")
        print(f"  mark-live: {mark}\n  expire:    {expire}")
        phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
        print(f"  phases of expire, s: {phases}", flush=True)
        return took

    def run_naive(self, *words: str) -> Watched:
        """The yardstick, checked."""
        command = [sys.executable, str(_NAIVE), self._uri, str(LIVE_COMMITS), *words]
        seen = watch(command, os.environ)
        if seen.status:
            raise SystemExit(f"the yardstick ended with status {seen.status}:\n{seen.err}")
        self._check_garbage(set(seen.out.split()), "the yardstick")
        return seen

    def run_deletes(self, url: str) -> bool:
        """Delete what was recorded last, beside a process that does nothing but delete; whether the figure is reached."""
        copies = self._folder / "copies"
        copies.mkdir()
        for number, uri in enumerate(sorted(self.catalog.garbage)):
            shutil.copyfile(_path_of(uri), copies / str(number))
        plain = watch([sys.executable, "-c", _ONLY_DELETES, str(copies)], os.environ)
        id_file = self._folder / "live-set-id"
        took, record = self._lakesweep(
            *("deferred-deletes", "--jdbc-url", url, "--read-live-set-id-from", str(id_file)),
            *("--max-delete-share", "100"),
        )
        left = sum(_path_of(uri).exists() for uri in self.catalog.garbage)
        if left or record["objects"]["deleted"] != len(self.catalog.garbage):
            raise SystemExit(f"{left:,} files are left, the record tells of {record['objects']}")
        phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
        is_reached = took.seconds <= _MOST_DELETING_SECONDS
        print(
            f"deferred-deletes of {len(self.catalog.garbage):,} files with a second look: {took} (at most "
            f"{_MOST_DELETING_SECONDS:g} s on two idle cores): {'ok' if is_reached else 'MISSED'}\n"
            f"  phases, s: {phases}\n  a process that only deletes: {plain}",
            flush=True,
        )
        return is_reached

    def run_small_sweep(self, url: str) -> bool:
        """Sweep a hundred files out of the whole catalog, after a mark of its own; whether the figure is reached."""
        folders = sorted(self._warehouse.glob("db/*/data"))
        orphans = [folders[n % len(folders)] / f"late-{n}.parquet" for n in range(_SMALL_SWEEP)]
        long_ago = time.time() - 10 * 86400
        for orphan in orphans:
            orphan.write_bytes(b"nobody's")
            os.utime(orphan, (long_ago, long_ago))
        id_file = self._folder / "small-live-set-id"
        self._lakesweep(
            *("mark-live", "--jdbc-url", url, "--uri", self._uri),
            *("--default-cutoff", str(LIVE_COMMITS), "--write-live-set-id-to", str(id_file)),
        )
        took, record = self._lakesweep(
            *("expire", "--jdbc-url", url, "--read-live-set-id-from", str(id_file))
        )
        if record["objects"]["deleted"] != _SMALL_SWEEP or any(o.exists() for o in orphans):
            raise SystemExit(
                f"{_SMALL_SWEEP} files were to go, the record tells of {record['objects']}"
            )
        phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
        is_reached = took.seconds <= _MOST_SMALL_SECONDS
        print(
            f"expire of {_SMALL_SWEEP} files with a second look: {took} (at most {_MOST_SMALL_SECONDS:g} s on two idle "
            f"cores): {'ok' if is_reached else 'MISSED'}\n  phases, s: {phases}",
            flush=True,
        )
        return is_reached

    def count_commits(self) -> None:
        """Print how many commits come over the wire in a mark."""
        transport = _CountingTransport()
        policies = CutoffPolicies(CutoffPolicy(commits=LIVE_COMMITS))
        with NessieClient(self._uri, http_transport=transport) as client:
            read = identify(client, policies).commits_read
        print(
            f"commits: {read:,} read, {transport.commits:,} came over the wire; "
            f"walks of every reference have {self.catalog.commits_walked:,}"
        )

    def _lakesweep(self, *words: str) -> tuple[Watched, dict[str, Any]]:
        here = {"XDG_STATE_HOME": str(self._folder / "state")}
        command = [sys.executable, "-m", "lakesweep", "nessie", *words, "--output", "json"]
        seen = watch(command, os.environ | here)
        if seen.status:
            raise SystemExit(f"{words[0]} ended with status {seen.status}:\n{seen.err}")
        return seen, json.loads(seen.out)

    def _check_garbage(self, found: set[str], who: str) -> None:
        if found != self.catalog.garbage:
            raise SystemExit(f"{who} found {len(found):,} files, and they are not the garbage")

    def _check_reads(self, opened: OpenedFiles, record: dict[str, Any]) -> None:
        """Every live metadata file, manifest list and manifest was opened once, and no other."""
        catalog = self.catalog
        live = catalog.metadata_files + catalog.manifest_lists + catalog.manifests
        again = {path: count for path, count in opened.counts.items() if count > 1}
        if again or len(opened.counts) != live:
            raise SystemExit(
                f"{len(opened.counts):,} metadata files were opened and {live:,} are live; "
                f"{len(again):,} more than once: {dict(list(again.items())[:3])}"
            )
        items = {phase["name"]: phase["items"] for phase in record["phases"]}
        told = (items["metadata"], items["manifest lists"], items["list"])
        if told != (catalog.metadata_files, catalog.manifest_lists, catalog.files):
            raise SystemExit(f"the record tells of {told}")


def _path_of(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


class _CountingTransport(httpx.HTTPTransport):
    """Counts the commits in all pages of histories."""

    commits = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if request.url.path.endswith("/history"):
            response.read()
            self.commits += len(response.json()["logEntries"])
        return response


def compare(bench: Bench, ours: Took) -> bool:
    """The yardstick on the same catalog; whether the figures are reached."""
    naive = bench.run_naive()
    print(f"pyiceberg, one thread: {naive}")
    times, cpu_times = naive.seconds / ours.seconds, naive.cpu_seconds / ours.cpu_seconds
    is_reached = (
        times >= _AT_LEAST_TIMES and ours.seconds <= _MOST_SECONDS and ours.peak_mib < _MOST_MIB
    )
    print(
        f"{times:.1f}× the yardstick (at least {_AT_LEAST_TIMES:g}×; {cpu_times:.1f}× by CPU), {ours.seconds:.1f} s "
        f"(at most {_MOST_SECONDS:g} s on two idle cores), {ours.peak_mib:,.0f} MiB (under {_MOST_MIB:,.0f}): "
        f"{'ok' if is_reached else 'MISSED'}",
        flush=True,
    )
    return is_reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help="PostgreSQL and a better yardstick too")
    parser.add_argument("--ours-only", action="store_true", help="leave the yardstick out")
    parser.add_argument("--repeat", type=int, default=1, help="run ours so often; the last counts")
    options = parser.parse_args()
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "pyiceberg"))
    print(f"{os.cpu_count()} cores; {versions}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())).resolve()
        bench = Bench(folder, stack.enter_context(NessieServer()).uri)
        print(bench.catalog, flush=True)
        sqlite = f"sqlite:///{folder}/live-sets.db"
        if options.full:
            postgres = stack.enter_context(PostgresServer())
            bench.run_ours("PostgreSQL", postgres.make_database("gc"))
        for _ in range(options.repeat):
            ours = bench.run_ours("SQLite", sqlite)
        bench.count_commits()
        is_reached = options.ours_only or compare(bench, ours)
        if options.full and not options.ours_only:
            better = bench.run_naive("--manifests-once")
            print(f"pyiceberg, one thread, each manifest once: {better}")
        is_reached = bench.run_deletes(sqlite) and is_reached
        is_reached = bench.run_small_sweep(sqlite) and is_reached
    return 0 if is_reached else 1


if __name__ == "__main__":
    sys.exit(main())
