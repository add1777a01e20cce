"""PostgreSQL in trouble: with the refs of the embedded lake, and with the live sets of a Nessie catalog.

Its disk is full: first only its tables can't grow, and statements fail; then its log can't either, and it goes down. The
connection to it is slow, or cut. Its user may no longer log in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
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
from lakesweep_testing.tcp_proxy import Spoil, TcpProxy, cut, delayed
from lakesweep_testing.trouble import at_first, through_store

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

TABLES_FULL, LOG_FULL = "its tables can't grow", "its log can't grow"
SLOW, CUT, NO_LOGIN = "the network is slow", "the network is cut", "its user may not log in"
USER = "tenant"


class TroubledDatabase:
    """PostgreSQL on a small disk and behind a proxy, in trouble on demand."""

    def __init__(self, disk: SmallDisk, server: PostgresServer, proxy: TcpProxy) -> None:
        self.disk = disk
        self.server = server
        self._proxy = proxy
        self._untroubled: Spoil = proxy.spoil
        self._do(f"CREATE ROLE {USER} SUPERUSER LOGIN")

    def make_database(self, name: str) -> str:
        """A new database's URL, by way of the proxy."""
        url = self.server.make_database(name).replace("postgres@", f"{USER}@")
        return url.replace(f":{self.server.port}/", f":{self._proxy.port}/")

    def begin(self, trouble: str) -> None:
        if trouble in (TABLES_FULL, LOG_FULL):
            self.disk.fill()
        if trouble == LOG_FULL:
            self.server.write_until_it_stops()
        if trouble == NO_LOGIN:
            self._do(f"ALTER ROLE {USER} NOLOGIN")
            self._do(
                f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{USER}'"
            )
        if trouble in (SLOW, CUT):
            self._proxy.spoil = delayed(0.005) if trouble == SLOW else cut(every=5)

    def end(self) -> None:
        self.disk.empty()
        if not self.server.is_ready():
            self.server.kill()
            self.server.start(port=self.server.port)
        self._do(f"ALTER ROLE {USER} LOGIN")
        self._proxy.spoil = self._untroubled

    def _do(self, statement: str) -> None:
        with psycopg.connect(self.server.database_url, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture(scope="module")
def database() -> Iterator[TroubledDatabase]:
    with (
        SmallDisk(128) as disk,
        PostgresServer(within=disk.folder) as server,
        TcpProxy(server.port) as proxy,
    ):
        yield TroubledDatabase(disk, server, proxy)


@pytest.fixture(autouse=True)
def untroubled(database: TroubledDatabase) -> Iterator[None]:
    """After a test that failed in the middle, too, the next one finds no trouble."""
    yield
    database.end()


@pytest.fixture(scope="module")
def lake(
    database: TroubledDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KilledLake]:
    url = database.make_database("refs")
    with ExitStack() as stack:
        lake = KilledLake(tmp_path_factory.mktemp("lake"), stack, url)
        with psycopg.connect(url, autocommit=True) as connection:
            # So that new rows need new pages.
            connection.execute("ALTER TABLE lake_kv SET (fillfactor = 10)")
            connection.execute("VACUUM FULL lake_kv")
        yield lake


@pytest.mark.parametrize(
    ("trouble", "operation"),
    [
        (TABLES_FULL, "list"),
        (LOG_FULL, "list"),
        (LOG_FULL, "delete"),
        (NO_LOGIN, "list"),
        (NO_LOGIN, "delete"),
        (SLOW, "list"),
        (CUT, "list"),
    ],
)
def test_ref_store_of_the_embedded_lake_in_trouble_loses_nothing(
    lake: KilledLake, database: TroubledDatabase, trouble: str, operation: str
) -> None:
    """Before the sweep is announced nothing goes; after that it ends right. When the trouble is over, the work is finished."""
    if trouble in (TABLES_FULL, LOG_FULL):
        database.disk.skip_if_not_mounted()
    lake.rewind()
    wrap = at_first(operation, "data/", lambda: database.begin(trouble))
    error: LakesweepError | None = None
    try:
        record = run_gc(
            through_store(lake.context(), wrap), MarkRequest(flow=Flow.CLEAN), SweepRequest()
        )
    except LakesweepError as failed:
        error = failed
    database.end()
    lake.assert_live()
    if error is None:
        assert operation == "delete" or trouble in (SLOW, CUT)
        assert (record.status, record.objects["deleted"]) == (RunStatus.SWEPT, 2 * EACH)
    else:
        assert operation == "list"
        assert trouble != SLOW
        assert isinstance(error, CatalogError)
        assert error.exit_status == 3
        assert lake.left() == 2 * EACH
    go_on(lake)


class LiveSets:
    """A catalog with garbage whose live sets are in that PostgreSQL. New rows of empty tables need new pages."""

    def __init__(
        self, folder: Path, database: TroubledDatabase, stack: ExitStack, name: str
    ) -> None:
        self.scene = stack.enter_context(NessieScene(folder))
        self.scene.live_sets = stack.enter_context(open_live_sets(database.make_database(name)))
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
    database: TroubledDatabase, tmp_path: Path
) -> None:
    """Neither a mark nor a list of files for later is half a one; with room again the same commands go through."""
    database.disk.skip_if_not_mounted()
    with ExitStack() as stack:
        sets = LiveSets(tmp_path, database, stack, "lists")
        scene = sets.scene
        database.begin(TABLES_FULL)
        with pytest.raises(CatalogError, match="DiskFull") as refused:
            scene.mark()
        assert refused.value.exit_status == 3
        database.end()
        marked = scene.mark()
        database.begin(TABLES_FULL)
        with pytest.raises(CatalogError, match="DiskFull"):
            scene.defer(marked)
        database.end()
        sets.assert_all_files()
        assert scene.deferred(marked) == set()
        scene.defer(marked)
        assert scene.deferred(marked) == sets.garbage
        assert scene.delete_deferred(marked, ask_nessie=True).objects["deleted"] == EACH
        sets.assert_only_live_files()


@pytest.mark.parametrize(
    ("trouble", "kind"), [(LOG_FULL, "live-sets"), (NO_LOGIN, "live-sets-denied")]
)
def test_live_sets_that_go_away_in_a_sweep_lose_nothing(
    database: TroubledDatabase,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: str,
    kind: str,
) -> None:
    """What was deleted is told although the set can't be marked as expired; the same command goes on and says it again."""
    if trouble == LOG_FULL:
        database.disk.skip_if_not_mounted()
    real = ObjectStore.delete_many
    begun: list[bool] = []

    def delete(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
        if not begun and keys[0].endswith(".parquet"):
            begun.append(True)
            database.begin(trouble)
        return real(store, keys, **how)

    with ExitStack() as stack:
        sets = LiveSets(tmp_path, database, stack, kind.replace("-", "_"))
        marked = sets.scene.mark()
        monkeypatch.setattr(ObjectStore, "delete_many", delete)
        with pytest.raises(PartlySweptError) as stopped:
            sets.scene.expire(marked, ask_nessie=True)
        assert (stopped.value.exit_status, stopped.value.kind) == (5, kind)
        database.end()
        assert sets.status(marked.live_set_id) is LiveSetStatus.EXPIRY_IN_PROGRESS
        record = sets.scene.expire(marked, ask_nessie=True)
        assert (record.status, record.objects["deleted"]) == (RunStatus.SWEPT, EACH)
        assert sets.status(marked.live_set_id) is LiveSetStatus.EXPIRY_SUCCESS
        sets.assert_only_live_files()


@pytest.mark.parametrize("trouble", [SLOW, CUT])
def test_live_sets_behind_a_bad_network_lose_nothing(
    database: TroubledDatabase, tmp_path: Path, trouble: str
) -> None:
    """A mark and an expiry come through or say that they did not, and nothing live goes."""
    with ExitStack() as stack:
        sets = LiveSets(tmp_path, database, stack, f"network_{trouble.split()[-1]}")
        database.begin(trouble)
        error: LakesweepError | None = None
        try:
            sets.scene.expire(sets.scene.mark(), ask_nessie=True)
        except LakesweepError as failed:
            error = failed
        database.end()
        if error is None:
            sets.assert_only_live_files()
        else:
            assert trouble == CUT
            assert error.exit_status in (3, 5)
            assert sets.orders.live_files() <= sets.scene.files()
        sets.scene.expire(sets.scene.mark(), ask_nessie=True)
        sets.assert_only_live_files()
