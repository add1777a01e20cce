"""Whole collections on Spark: workers that die change no result, and Spark agrees with the engine in process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.lakefs.paths import mark_folder
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunStatus
from lakesweep.collector.run_files import MarkId
from lakesweep.engine.spark import SparkEngine
from lakesweep.errors import UnsafeToSweepError
from lakesweep.formats.tables import read_mark
from lakesweep_testing.embedded import EmbeddedLake
from lakesweep_testing.killing import KillingEngine
from lakesweep_testing.scene import assert_adds_up
from lakesweep_testing.user import User

pytestmark = pytest.mark.spark

EACH = 6


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedLake]:
    with EmbeddedLake(tmp_path_factory.mktemp("lake")) as lake:
        yield lake


class Repository:
    """Expired and unreferenced objects in several slices, and live ones beside them."""

    def __init__(self, lake: EmbeddedLake, name: str) -> None:
        self.lake, self.name = lake, name
        self.user: User = lake.new_user(name)
        self.user.set_rules(5)
        self.live = {self._upload("base")}
        self.garbage = {self._upload(f"expired-{n}") for n in range(EACH)}
        self.user.commit("main")
        tables = self.lake.folder / name / "_lakefs"
        self.first_tables = [f for f in tables.iterdir() if f.is_file() and len(f.name) == 64]
        lake.clock.advance(timedelta(hours=2))
        for number in range(EACH):
            self.user.delete("main", f"expired-{number}")
        self.user.commit("main")
        for number in range(EACH):
            self.garbage.add(self._upload(f"orphan-{number}"))
            lake.clock.advance(timedelta(hours=1, minutes=5))
        self.user.reset("main")
        self.live |= {self._upload("staged"), self._upload("also-staged")}
        lake.clock.advance(timedelta(days=8))

    def _upload(self, path: str) -> Path:
        address = self.user.upload("main", path)
        self.lake.date_file(address)
        return self.lake.file_of(address)

    def marked(self, mark_id: str) -> set[str]:
        store = self.lake.open_run(self.name).store
        folder = mark_folder(MarkId(mark_id))
        keys = [k for b in store.list(folder) for k in b.column("key").to_pylist()]
        return {a for k in keys for a in read_mark(store.read(k)).column("address").to_pylist()}


def test_workers_killed_half_way_change_neither_the_mark_nor_the_sweep(
    spark: SparkSession, lake: EmbeddedLake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every job one worker dies after it wrote its files or deleted its keys: all numbers are as if it had not."""
    monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 2)
    repository = Repository(lake, "killed-workers")
    proof = lake.mark(repository.name, MarkRequest(flow=Flow.CLEAN))
    engine = KillingEngine(SparkEngine(spark), tmp_path)
    marked = lake.mark(repository.name, MarkRequest(flow=Flow.CLEAN), engine=engine)
    assert engine.deaths >= 4, "listing, both sides of the judgement, and the judgement"
    assert marked.objects == proof.objects
    assert marked.bytes == proof.bytes
    assert repository.marked(marked.mark_id) == repository.marked(proof.mark_id)

    before = engine.deaths
    swept = lake.sweep(repository.name, marked.mark_id, engine=engine)
    assert engine.deaths - before >= 4
    assert swept.status is RunStatus.SWEPT
    assert_adds_up(swept)
    # A worker that died after its deletes had deleted: the second attempt finds these keys gone.
    assert swept.objects["deleted"] + swept.objects["already_gone"] == 2 * EACH
    assert not any(file.exists() for file in repository.garbage)
    assert all(file.exists() for file in repository.live)
    again = lake.gc(repository.name, MarkRequest(flow=Flow.CLEAN))
    assert again.objects["garbage"] == 0


def inventory_of(repository: Repository, folder: Path) -> str:
    """The repository's files in three Parquet files, written at the lake's time."""
    lake = repository.lake
    files = sorted(f for f in (lake.folder / repository.name).rglob("*") if f.is_file())
    folder.mkdir()
    for number in range(3):
        some = files[number::3]
        times = [datetime.fromtimestamp(file.stat().st_mtime, UTC) for file in some]
        rows = {
            "key": [str(file).lstrip("/") for file in some],
            "size": [file.stat().st_size for file in some],
            "last_modified": pa.array(times, pa.timestamp("us", "UTC")),
        }
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
        seconds = lake.clock.now.timestamp()
        os.utime(folder / f"{number}.parquet", (seconds, seconds))
    return folder.as_uri()


def test_workers_killed_half_way_change_no_mark_by_an_inventory(
    spark: SparkSession, lake: EmbeddedLake, tmp_path: Path
) -> None:
    """A file that is read twice counts once, and so does an object that is looked up twice."""
    repository = Repository(lake, "inventory")
    uri = inventory_of(repository, tmp_path / "inventory")
    gone, rewritten = sorted(repository.garbage)[:2]
    gone.unlink()
    rewritten.write_bytes(b"another object")
    request = MarkRequest(inventory=uri)
    proof = lake.mark(repository.name, request)
    deaths = tmp_path / "deaths"
    deaths.mkdir()
    engine = KillingEngine(SparkEngine(spark), deaths)
    marked = lake.mark(repository.name, request, engine=engine)
    assert engine.deaths >= 5, "files, both sides of the judgement, the judgement, and look-ups"
    assert (marked.objects, marked.bytes) == (proof.objects, proof.bytes)
    assert {**marked.inventory} == {**proof.inventory}
    assert (marked.objects["vanished"], marked.objects["rewritten"]) == (1, 1)
    assert repository.marked(marked.mark_id) == repository.marked(proof.mark_id)
    assert len(repository.marked(marked.mark_id)) == 2 * EACH - 2


def test_damaged_range_on_a_worker_is_told_with_its_name_and_kind(
    spark: SparkSession, lake: EmbeddedLake
) -> None:
    """Doubt on an executor ends the run as doubt, in the words of whoever found it."""
    repository = Repository(lake, "damaged-range")
    # Only an old commit's, so that the server itself does not meet it first.
    for file in repository.first_tables:
        if b"metaranges" not in file.read_bytes():
            file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(UnsafeToSweepError, match=r"_lakefs/[0-9a-f]{64} can't be read"):
        lake.gc(repository.name, MarkRequest(flow=Flow.CLEAN), engine=SparkEngine(spark))
    assert all(file.exists() for file in repository.garbage | repository.live)
