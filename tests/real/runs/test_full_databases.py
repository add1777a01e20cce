"""PostgreSQL on a disk that is full: with the refs of the embedded lake, and with the live sets of a Nessie catalog.

First only its tables can't grow, and statements fail. Then its log can't either, and the server goes down.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.collector.lakefs.collect import run_gc
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunStatus
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.errors import CatalogError, LakesweepError, PartlySweptError
from lakesweep.storage import DeleteOutcome, ObjectStore
from lakesweep_testing.kill_search.collectors import go_on
from lakesweep_testing.killed_lake import EACH, KilledLake
from lakesweep_testing.nessie_scene import NessieScene, SceneTable
from lakesweep_testing.servers import PostgresServer
from lakesweep_testing.small_disk import SmallDisk
from lakesweep_testing.trouble import at_first, through_store

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

# The first statement that needs a page more fails; the next segment of the log can't be made.
TABLES, LOG = "tables", "log"


class FullDatabase:
    """PostgreSQL whose disk is full on demand."""

    def __init__(self, disk: SmallDisk, server: PostgresServer) -> None:
        self.disk = disk
        self.server = server

    def fill(self, what: str) -> None:
        self.disk.fill()
        if what == TABLES:
            return
        # As other users' writes would, until the log needs a new file.
        words = "SELECT pg_logical_emit_message(true, '', ''), pg_switch_wal()"
        with suppress(psycopg.OperationalError):
            with psycopg.connect(self.server.database_url, autocommit=True) as connection:
                for _ in range(20):
                    connection.execute(words)
            raise AssertionError("PostgreSQL is still there")

    def repair(self) -> None:
        """There is room again; a server that went down is started."""
        self.disk.empty()
        if not self.server.is_ready():
            self.server.kill()
            self.server.start(port=self.server.port)


@pytest.fixture(scope="module")
def database() -> Iterator[FullDatabase]:
    with SmallDisk(128) as disk:
        disk.skip_if_not_mounted()
        with PostgresServer(within=disk.folder) as server:
            yield FullDatabase(disk, server)


@pytest.fixture(scope="module")
def lake(database: FullDatabase, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KilledLake]:
    url = database.server.make_database("refs")
    with ExitStack() as stack:
        lake = KilledLake(tmp_path_factory.mktemp("lake"), stack, url)
        with psycopg.connect(url, autocommit=True) as connection:
            # So that new rows need new pages.
            connection.execute("ALTER TABLE lake_kv SET (fillfactor = 10)")
            connection.execute("VACUUM FULL lake_kv")
        yield lake


@pytest.mark.parametrize(("what", "operation"), [(TABLES, "list"), (LOG, "list"), (LOG, "delete")])
def test_full_ref_store_of_the_embedded_lake_loses_nothing(
    lake: KilledLake, database: FullDatabase, what: str, operation: str
) -> None:
    """Before the sweep was announced nothing goes; after that it ends right. With room again the work is finished."""
    lake.rewind()
    wrap = at_first(operation, "data/", lambda: database.fill(what))
    error: LakesweepError | None = None
    try:
        record = run_gc(
            through_store(lake.context(), wrap), MarkRequest(flow=Flow.CLEAN), SweepRequest()
        )
    except LakesweepError as failed:
        error = failed
    database.repair()
    lake.assert_live()
    if operation == "list":
        assert isinstance(error, CatalogError)
        assert (error.exit_status, error.kind) == (3, "http-503")
        assert lake.left() == 2 * EACH
    else:
        assert error is None
        assert (record.status, record.objects["deleted"]) == (RunStatus.SWEPT, 2 * EACH)
    go_on(lake)


class LiveSets:
    """A catalog with garbage whose live sets are in that PostgreSQL. New rows of empty tables need new pages."""

    def __init__(self, folder: Path, database: FullDatabase, stack: ExitStack, name: str) -> None:
        self.scene = stack.enter_context(NessieScene(folder))
        self.scene.live_sets = stack.enter_context(
            open_live_sets(database.server.make_database(name))
        )
        self.scene.live_sets.create_schema(SchemaStrategy.CREATE)
        self.orders: SceneTable = self.scene.table("orders")
        self.orders.append("a.parquet")
        self.garbage = {self.orders.iceberg.write_orphan(f"{n}.parquet") for n in range(EACH)}

    def assert_only_live_files(self) -> None:
        assert self.scene.files() == self.orders.live_files()

    def assert_all_files(self) -> None:
        assert self.scene.files() == self.orders.live_files() | self.garbage

    def status(self, live_set_id: LiveSetId) -> LiveSetStatus:
        return self.scene.live_sets.get(live_set_id).status


def test_live_sets_that_can_not_be_written_delete_nothing(
    database: FullDatabase, tmp_path: Path
) -> None:
    """Neither a mark nor a list of files for later is half a one; with room again the same commands go through."""
    with ExitStack() as stack:
        sets = LiveSets(tmp_path, database, stack, "lists")
        scene = sets.scene
        database.fill(TABLES)
        with pytest.raises(CatalogError, match="DiskFull") as refused:
            scene.mark()
        assert refused.value.exit_status == 3
        database.repair()
        marked = scene.mark()
        database.fill(TABLES)
        with pytest.raises(CatalogError, match="DiskFull"):
            scene.defer(marked)
        database.repair()
        sets.assert_all_files()
        assert scene.deferred(marked) == set()
        scene.defer(marked)
        assert scene.deferred(marked) == sets.garbage
        assert scene.delete_deferred(marked, ask_nessie=True).objects["deleted"] == EACH
        sets.assert_only_live_files()


def test_live_sets_that_go_down_in_a_sweep_lose_nothing(
    database: FullDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was deleted is told although the set can't be marked as expired; the same command goes on and says it again."""
    real = ObjectStore.delete_many
    filled: list[bool] = []

    def delete(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
        if not filled and keys[0].endswith(".parquet"):
            filled.append(True)
            database.fill(LOG)
        return real(store, keys, **how)

    with ExitStack() as stack:
        sets = LiveSets(tmp_path, database, stack, "sweeps")
        marked = sets.scene.mark()
        monkeypatch.setattr(ObjectStore, "delete_many", delete)
        with pytest.raises(PartlySweptError) as stopped:
            sets.scene.expire(marked, ask_nessie=True)
        assert (stopped.value.exit_status, stopped.value.kind) == (5, "live-sets")
        database.repair()
        assert sets.status(marked.live_set_id) is LiveSetStatus.EXPIRY_IN_PROGRESS
        record = sets.scene.expire(marked, ask_nessie=True)
        assert (record.status, record.objects["deleted"]) == (RunStatus.SWEPT, EACH)
        assert sets.status(marked.live_set_id) is LiveSetStatus.EXPIRY_SUCCESS
        sets.assert_only_live_files()
