"""lakesweep on a Spark standalone cluster with worker processes of their own, against a real lakeFS on MinIO."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from lakesweep.collector.lakefs.context import RunContext
from lakesweep.collector.lakefs.paths import RUNS
from lakesweep_testing.servers import MinIOServer, RealLakeFS, SparkMaster, SparkWorker
from lakesweep_testing.user import User

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

OpenRun = Callable[..., RunContext]
EACH = 30


@pytest.fixture(scope="module")
def master() -> Iterator[SparkMaster]:
    with SparkMaster() as master:
        yield master


@pytest.fixture
def workers(master: SparkMaster) -> Iterator[list[SparkWorker]]:
    """Two workers with one core each."""
    with SparkWorker(master) as first, SparkWorker(master) as second:
        assert {first.port, second.port} <= master.alive_workers()
        yield [first, second]


@pytest.fixture
def start(
    master: SparkMaster, minio: MinIOServer, real_lakefs: RealLakeFS
) -> Callable[..., subprocess.Popen[str]]:
    """Starts the command line with the cluster as its master."""

    def started(*words: str) -> subprocess.Popen[str]:
        conf = {
            "spark.speculation": "true",
            "spark.speculation.quantile": "0.5",
            "spark.speculation.multiplier": "1.1",
        }
        environment = {**real_lakefs.lakectl_environment, **minio.aws_environment}
        return master.start_command(*words, environment=environment, conf=conf)

    return started


def ended(process: subprocess.Popen[str]) -> dict[str, object]:
    """The record that a command printed; its talk is shown when it failed."""
    try:
        out, talk = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, talk[-4000:]
    record: dict[str, object] = json.loads(out)
    return record


def write_history(user: User) -> None:
    user.set_rules(5)
    user.upload("main", "base")
    for number in range(EACH):
        user.upload("main", f"expired-{number:03d}")
    user.commit("main", days=40)
    for number in range(EACH):
        user.delete("main", f"expired-{number:03d}")
    user.commit("main", days=30)
    for number in range(EACH):
        user.upload("main", f"orphan-{number:03d}")
    user.reset("main")
    user.upload("main", "staged")
    time.sleep(2.1)


def test_collection_on_a_cluster_survives_the_loss_of_a_worker(
    workers: list[SparkWorker],
    start: Callable[..., subprocess.Popen[str]],
    new_user: Callable[[], User],
    open_run: OpenRun,
) -> None:
    """Mark and sweep on two workers with speculation on, one of them killed half-way: the numbers are the right ones."""
    user = new_user()
    write_history(user)
    store = open_run(user.repository).store
    ages = ("--min-age", "1s", "--unsafe-min-age", user.repository)
    process = start("gc", user.repository, *ages)
    while not any("/listing/" in key for key in store.keys(RUNS)):
        assert process.poll() is None, "it ended before a task had written what it listed"
        time.sleep(0.05)
    workers[1].kill()
    record = ended(process)
    assert record["status"] == "swept"
    objects = record["objects"]
    assert isinstance(objects, dict)
    assert objects["expired"] == objects["unreferenced"] == EACH
    assert objects["deleted"] + objects["already_gone"] == 2 * EACH
    assert objects["failed"] == objects["revived"] == 0
    left = [key for batch in store.list("data/") for key in batch.column("key").to_pylist()]
    assert len(left) == 2
    assert user.status("main", "base") == user.status("main", "staged") == 200
    again = ended(start("mark", user.repository, *ages))
    assert again["status"] == "nothing-to-do"
