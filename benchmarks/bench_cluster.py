"""A mark and a sweep on a standalone cluster with 1, 2 and 4 executors, and the speed-up from one executor to two.

    python benchmarks/bench_cluster.py                      400,000 objects, some minutes
    python benchmarks/bench_cluster.py --full               2,000,000
    python benchmarks/bench_cluster.py --executors 1,2 --share 1

Every executor is pinned to a core. Where the machine has fewer cores than executors and two more, executors share the
first core, each with a fixed share of it (`--share`, by a cgroup, which needs root), and the last core is left to the
driver, the master and the loopback server: else what would be measured is how they compete. With `--share 1` on such a
machine they do compete, as where there are no cgroups to be had, and then the speed-up is shown and not judged.

Each cluster collects twice in one session: executors start and compile in the first run, and the second is timed, if
its result is exactly what the lake has by construction. The yardstick of two and four executors is one.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).resolve().parents[1] / "testing"))

from lakesweep_testing.servers import SparkMaster, SparkWorker
from loopback_http import Load
from scenario import Scenario
from scenario_check import check_run
from scenario_server import ScenarioServer, serve

_SMALL, _FULL = 0.02, 0.1
_LEAST_SPEED_UP = 1.8
_SHARE = 0.25  # of a core, where cores are too few
# Phases whose work is that of executors; in all others the driver asks the server, too, or does nothing else.
_ON_EXECUTORS = ("list", "ranges", "judge", "delete")
_SUM_OF_OTHERS = "re-verify"
_HERE = Path(__file__).resolve().parent


_CGROUPS = Path("/sys/fs/cgroup")
_CGROUPS_1 = _CGROUPS / "cpu"  # where they are of version 1


class CpuShare:
    """A cgroup (version 1 or 2) whose processes have at most a part of a core together, once it is limited."""

    def __init__(self, name: str) -> None:
        self._is_first = _CGROUPS_1.exists()
        top = _CGROUPS_1 if self._is_first else _CGROUPS
        self._folder = top / f"lakesweep-{os.getpid()}-{name}"

    @staticmethod
    def is_possible() -> bool:
        """Whether this process may make such groups."""
        if _CGROUPS_1.exists():
            return os.access(_CGROUPS_1, os.W_OK)
        control = _CGROUPS / "cgroup.subtree_control"
        return os.access(control, os.W_OK) and "cpu" in control.read_text().split()

    def __enter__(self) -> CpuShare:
        self._folder.mkdir()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._folder.rmdir()

    @property
    def members(self) -> Path:
        """Where a process writes its id to join."""
        return self._folder / "cgroup.procs"

    def limit(self, share: float) -> None:
        """From now on they have this share of a core. Turns are short, so that no request waits long for one."""
        period, quota = 20_000, round(20_000 * share)
        if self._is_first:
            (self._folder / "cpu.cfs_period_us").write_text(str(period))
            (self._folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (self._folder / "cpu.max").write_text(f"{quota} {period}")


class PinnedWorker(SparkWorker):
    """A worker whose executor runs on one core, and maybe in a cgroup."""

    def __init__(self, master: SparkMaster, core: int, share: CpuShare | None) -> None:
        super().__init__(master)
        self._core, self._share = core, share

    def command(self) -> Sequence[str | Path]:
        words = ["taskset", "-c", str(self._core), *super().command()]
        if self._share is None:
            return words
        return ["sh", "-c", f'echo $$ > {self._share.members} && exec "$@"', "sh", *words]

    def cpu_seconds(self) -> float:
        """What its executors have used so far: the JVM, and Python with what it forked."""
        total = 0.0
        for process in psutil.Process(self.pid).children(recursive=True):
            try:
                total += sum(
                    process.cpu_times()[:4]
                )  # its own, and that of children which have ended
            except psutil.Error:
                continue
        return total


@dataclass(frozen=True, slots=True)
class Timed:
    """An exact mark and sweep on a cluster."""

    executors: int
    records: list[dict[str, Any]]
    cpu_seconds: float  # of all executors
    load: Load

    def seconds(self, *names: str) -> float:
        """Wall time of phases with these names, or of all."""
        phases = [phase for record in self.records for phase in record["phases"]]
        counted = [p for p in phases if p["name"] in names or not names]
        return sum(p["seconds"] for p in counted if p["name"] != _SUM_OF_OTHERS)

    def show(self) -> None:
        """Print all that was measured."""
        for record in self.records:
            phases = ", ".join(f"{p['name']} {p['seconds']:.1f}" for p in record["phases"])
            print(f"{self.executors} executors, {record['status']}: {phases}")
        busy = self.load.cpu_seconds / self.seconds()
        print(
            f"  phases of executors {self.seconds(*_ON_EXECUTORS):.1f} s, all {self.seconds():.1f} s; CPU of executors "
            f"{self.cpu_seconds:.1f} s; server {self.load} ({busy:.0%} of the time)",
            flush=True,
        )


def collect(server: ScenarioServer, executors: int, cores: Sequence[int], share: float) -> Timed:
    """The second of two collections on a new cluster."""
    with ExitStack() as stack:
        master = stack.enter_context(SparkMaster())
        shares: list[CpuShare] = []
        workers: list[PinnedWorker] = []
        for number in range(executors):
            if share < 1:
                shares.append(stack.enter_context(CpuShare(str(number))))
            worker = PinnedWorker(
                master, cores[number % len(cores)], shares[-1] if shares else None
            )
            workers.append(stack.enter_context(worker))
        with driving(server, master, executors) as driver:
            warm(server, driver)
            for one in shares:
                one.limit(share)
            server.reset()
            before, expected = server.alive(), server.expected()
            used = sum(worker.cpu_seconds() for worker in workers)
            server.take_load()
            records = collect_once(driver)
            load = server.take_load()
            used = sum(worker.cpu_seconds() for worker in workers) - used
            check_run(server, before, expected, records[-1])
    return Timed(executors, records, used, load)


@contextmanager
def driving(
    server: ScenarioServer, master: SparkMaster, executors: int
) -> Iterator[subprocess.Popen[str]]:
    """A driver process on the cluster."""
    words = [sys.executable, str(_HERE / "cluster_driver.py"), master.master_url, str(executors)]
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **server.environment, "SPARK_LOCAL_IP": "127.0.0.1"},
        start_new_session=True,
    ) as driver:
        try:
            yield driver
        except BaseException:
            os.killpg(driver.pid, signal.SIGKILL)  # and its JVM
            raise


def warm(server: ScenarioServer, driver: subprocess.Popen[str]) -> None:
    """A first collection: it starts executors, and compiles."""
    server.reset()
    collect_once(driver)


def collect_once(driver: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The records of a mark and of its sweep."""
    assert driver.stdin is not None
    assert driver.stdout is not None
    driver.stdin.write("\n")
    driver.stdin.flush()
    answer = driver.stdout.readline()
    if not answer:
        raise SystemExit(f"the driver ended with status {driver.wait()}")
    records: list[dict[str, Any]] = json.loads(answer)
    return records


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--full", action="store_true", help=f"scale {_FULL} instead of {_SMALL}")
    parser.add_argument("--scale", type=float, help="of the seed's lake; at least 0.001")
    parser.add_argument("--executors", default="1,2,4", help="how many, each on a new cluster")
    parser.add_argument("--share", type=float, help="of a core for each executor, at most 1")
    options = parser.parse_args()
    counts = [int(count) for count in options.executors.split(",")]
    all_cores = sorted(os.sched_getaffinity(0))
    has_cores = len(all_cores) >= max(counts) + 2
    share = options.share or (1.0 if has_cores or not CpuShare.is_possible() else _SHARE)
    if has_cores:
        cores, others = all_cores[: max(counts)], all_cores[max(counts) :]
    elif share < 1:
        cores, others = all_cores[:1], all_cores[1:] or all_cores
    else:
        cores, others = all_cores, all_cores
    # Threads and processes that are started from here on inherit it.
    os.sched_setaffinity(0, others)
    versions = ", ".join(f"{p} {version(p)}" for p in ("lakesweep", "pyspark", "pyarrow"))
    print(f"{len(all_cores)} cores; {versions}; load before {os.getloadavg()[0]:.1f}")
    print(f"executors on cores {cores}, {share:g} of one each; server and driver on {others}")
    scenario = Scenario.at_scale(options.scale or (_FULL if options.full else _SMALL))
    print(scenario, flush=True)
    timed: dict[int, Timed] = {}
    with serve(scenario) as server:
        for count in counts:
            timed[count] = collect(server, count, cores, share)
            timed[count].show()
    one = timed.get(1)
    for count in counts if one is not None else []:
        if count > 1:
            compare(one, timed[count])
    if one is None or 2 not in timed:
        return 0
    speed_up = one.seconds(*_ON_EXECUTORS) / timed[2].seconds(*_ON_EXECUTORS)
    is_reached = speed_up >= _LEAST_SPEED_UP
    said = "ok" if is_reached else "MISSED"
    print(f"= from one executor to two: {speed_up:.2f}× (at least {_LEAST_SPEED_UP}×): {said}")
    is_judged = has_cores or share < 1
    return 1 if is_judged and not is_reached else 0


def compare(one: Timed, more: Timed) -> None:
    """Print how much sooner a larger cluster was done, by phase."""
    each = ", ".join(
        f"{name} {one.seconds(name) / more.seconds(name):.2f}×"
        for name in _ON_EXECUTORS
        if more.seconds(name)
    )
    ours = one.seconds(*_ON_EXECUTORS) / more.seconds(*_ON_EXECUTORS)
    print(
        f"{more.executors} executors against one: {ours:.2f}× ({each}); "
        f"all phases {one.seconds() / more.seconds():.2f}×"
    )


if __name__ == "__main__":
    sys.exit(main())
