"""Run a program and watch it with all its children: wall time, CPU time, memory, by kind of process."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import psutil

_EVERY_SECONDS = 0.2
# What processes share is told by a walk through all their pages, which takes time and holds them up.
_WALK_EVERY_SECONDS = 2.0
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Watched:
    """What a program took.

    Memory is summed over its processes as resident sets, in which what they share counts more than once; the smaller
    sum (`peak_shared_once_mib`) gives each process its share of what it shares.
    """

    status: int
    out: str
    err: str
    seconds: float
    cpu_seconds: float
    peak_mib: float
    peak_shared_once_mib: float
    peak_by_kind: Mapping[str, float]  # driver, jvm, workers: each at its own worst moment
    cpu_by_kind: Mapping[str, float]
    load: float  # what else the machine had to do: the load average of the minute before the start

    def __str__(self) -> str:
        parts = ", ".join(f"{kind} {mib:,.0f}" for kind, mib in self.peak_by_kind.items())
        cpu = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in self.cpu_by_kind.items())
        return (
            f"{self.seconds:.1f} s wall, {self.cpu_seconds:.1f} s CPU ({cpu}), peak {self.peak_mib:,.0f} MiB ({parts}), "
            f"{self.peak_shared_once_mib:,.0f} MiB with shared pages once; load before {self.load:.1f}"
        )


def watch(command: Sequence[str], environment: Mapping[str, str]) -> Watched:
    """Run to the end. Its output is kept, not shown."""
    load = os.getloadavg()[0]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err, env=dict(environment))
        sampler = _Sampler(psutil.Process(process.pid))
        sampler.start()
        try:
            status = process.wait()
        finally:
            sampler.done.set()
            process.kill()
        seconds = time.perf_counter() - started
        sampler.join()
        out.seek(0)
        err.seek(0)
        return Watched(
            status=status,
            out=out.read(),
            err=err.read(),
            seconds=seconds,
            cpu_seconds=sum(sampler.cpu.values()),
            peak_mib=sampler.peak,
            peak_shared_once_mib=sampler.peak_shared_once,
            peak_by_kind=sampler.peak_by_kind,
            cpu_by_kind={
                kind: sum(sampler.cpu[pid] for pid, its in sampler.kinds.items() if its == kind)
                for kind in sampler.peak_by_kind
            },
            load=load,
        )


@dataclass
class _Sampler(threading.Thread):
    """Samples until told to stop. A child's CPU time is what was last seen of it."""

    root: psutil.Process
    cpu: dict[int, float] = field(default_factory=dict)
    kinds: dict[int, str] = field(default_factory=dict)
    peak: float = 0.0
    peak_shared_once: float = 0.0
    walked_at: float = field(default_factory=time.perf_counter)
    peak_by_kind: dict[str, float] = field(
        default_factory=lambda: {"driver": 0.0, "jvm": 0.0, "workers": 0.0}
    )
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        while not self.done.wait(_EVERY_SECONDS):
            self._sample()

    def _sample(self) -> None:
        now = dict.fromkeys(self.peak_by_kind, 0.0)
        shared_once = 0.0
        is_walk = time.perf_counter() - self.walked_at >= _WALK_EVERY_SECONDS
        try:
            family = [self.root, *self.root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return
        for process in family:
            try:
                with process.oneshot():
                    times, name = process.cpu_times(), process.name()
                    memory = process.memory_info().rss
                    if is_walk:
                        shared_once += process.memory_full_info().pss / _MIB
            except psutil.Error:
                continue
            self.cpu[process.pid] = times.user + times.system
            kind = "jvm" if name == "java" else "driver" if process == self.root else "workers"
            self.kinds[process.pid] = kind
            now[kind] += memory / _MIB
        self.peak = max(self.peak, sum(now.values()))
        if is_walk:
            self.peak_shared_once = max(self.peak_shared_once, shared_once)
            self.walked_at = time.perf_counter()
        for kind, mib in now.items():
            self.peak_by_kind[kind] = max(self.peak_by_kind[kind], mib)
