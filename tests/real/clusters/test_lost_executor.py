"""An executor that is killed while it deletes, on a standalone cluster with dynamic allocation."""

from __future__ import annotations

import io
import json
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest

from lake_objects import BUCKET
from lakesweep.collector.lakefs.paths import EVENTS, RUNS
from lakesweep_testing.servers import SparkMaster, SparkWorker
from lakesweep_testing.tcp_proxy import TcpProxy
from scenario import REPOSITORY, ROOT, Scenario
from scenario_check import check_run
from scenario_server import ScenarioServer, serve

pytestmark = [pytest.mark.real, pytest.mark.cluster, pytest.mark.timeout(900)]

OBJECTS = 120_000  # as many as make four tasks of a sweep's deletes
DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.maxExecutors": "4",
    "spark.executor.cores": "1",
}


def files_below(server: ScenarioServer, folder: str, suffix: str) -> list[bytes]:
    kept = server.s3.buckets[BUCKET]
    names = [key for key in list(kept) if key.startswith(ROOT + folder) and key.endswith(suffix)]
    return [bytes(kept[name].data) for name in names]


def intents(server: ScenarioServer) -> list[dict[str, Any]]:
    """What the ledger says is about to be deleted."""
    return [json.loads(data) for data in files_below(server, RUNS, ".intent.json")]


def kill_executors(worker: SparkWorker) -> None:
    """End the executors of a worker without a word, JVMs and Pythons, as the loss of their machine would."""
    processes = psutil.Process(worker.pid).children(recursive=True)
    assert len(processes) >= 2, "a JVM and its Python"
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def test_only_the_tasks_of_a_killed_executor_are_repeated() -> None:
    """Its deletes took effect and nobody heard of it: they are made again, recorded once, and all others are made once."""
    is_killed = threading.Event()
    with (
        serve(Scenario(OBJECTS)) as server,
        TcpProxy(int(server.url.rsplit(":", 1)[1])) as proxy,
        SparkMaster() as master,
        SparkWorker(master),
        SparkWorker(master) as lost,
    ):

        def hold_deletes(request: str, piece: bytes) -> bytes:
            line = request.split("\r\n", 1)[0]
            if line.startswith("POST ") and "?delete" in line and intents(server):
                is_killed.wait(300)
            return piece

        def are_gone(begun: list[dict[str, Any]]) -> bool:
            return int((before & ~server.alive()).sum()) == sum(one["rows"] for one in begun)

        proxy.spoil = hold_deletes
        before, expected = server.alive(), server.expected()
        reached = {"AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}"}
        command = master.start_command(
            "gc", REPOSITORY, environment=server.environment | reached, conf=DYNAMIC
        )
        try:
            # Both executors have deleted a chunk, and neither was told.
            while not (len(begun := intents(server)) == 2 and are_gone(begun)):
                assert command.poll() is None, command.communicate()[1][-4000:]
                time.sleep(0.2)
            kill_executors(lost)
            is_killed.set()
            out, talk = command.communicate(timeout=600)
        finally:
            is_killed.set()
            command.kill()
        assert command.returncode == 0, talk[-4000:]
        check_run(server, before, expected, json.loads(out))
        chunks = Counter((one["part"], one["start"]) for one in intents(server))
        assert len(chunks) >= 4
        assert sorted(chunks.values())[-2:] == [1, 2], "one chunk was begun twice, the others once"
        begun_first = {(one["part"], one["start"]) for one in begun}
        assert next(chunk for chunk, times in chunks.items() if times == 2) in begun_first
        told = [
            pq.read_table(io.BytesIO(data)).to_pylist()
            for data in files_below(server, EVENTS, ".parquet")
        ]
        outcomes = Counter(row["address"] for rows in told for row in rows)
        assert len(outcomes) == len(expected.garbage)
        assert set(outcomes.values()) == {1}, "each object has one outcome"
