"""A real Nessie that stops in mid-run, and a network that delays, cuts and corrupts what it says, or refuses in its name.

Each run ends right, or with a clear error and nothing live lost; when the trouble is over, the work is finished.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

from lakesweep.engine.tasks import Engine, Scatter
from lakesweep.errors import CatalogError, LakesweepError
from lakesweep.storage import StorageOptions
from lakesweep_testing.catalog_collector import CatalogCollector
from lakesweep_testing.iceberg_tables import IcebergTable
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_walk import Cutoff, CutoffRules
from lakesweep_testing.nessie_writer import NessieWriter
from lakesweep_testing.servers import NessieServer
from lakesweep_testing.servers.process import ServerProcess
from lakesweep_testing.tcp_proxy import SERVER_SPOILS, TcpProxy

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


class KillingEngine(InProcessEngine):
    """Kills a server before the tasks of a run begin."""

    def __init__(self, server: ServerProcess) -> None:
        super().__init__()
        self._server: ServerProcess | None = server

    def collect(self, scatter: Scatter) -> pa.Table:
        if self._server is not None:
            self._server.kill()
            self._server = None
        return super().collect(scatter)


@dataclass
class Catalog:
    """A Nessie that keeps what it knows on disk, with one table in files."""

    folder: Path
    server: NessieServer
    orders: IcebergTable
    live: list[Path]

    def orphan(self) -> Path:
        """A new file that nobody knows, and old by now."""
        uri = self.orders.write_orphan(f"{uuid.uuid4().hex}.parquet")
        time.sleep(1.1)
        return _path(uri)

    def collector(self, uri: str | None = None, engine: Engine | None = None) -> CatalogCollector:
        storage = StorageOptions(local_fsync=False)
        how = {} if engine is None else {"engine": engine}
        return CatalogCollector(uri or self.server.uri, storage, self.folder / "work", **how)

    def assert_live(self) -> None:
        assert all(file.exists() for file in self.live)


def _path(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    folder = tmp_path_factory.mktemp("nessie")
    rocks = {
        "nessie.version.store.type": "ROCKSDB",
        "nessie.version.store.persist.rocks.database-path": f"{folder}/rocks",
    }

    def write(uri: str, data: bytes) -> None:
        _path(uri).parent.mkdir(parents=True, exist_ok=True)
        _path(uri).write_bytes(data)

    with NessieServer(properties=rocks) as server, NessieWriter(server.uri) as writer:
        orders = IcebergTable(write, f"file://{folder}/lake/orders")
        state = orders.append("a.parquet")
        content = table(state.metadata_location, state.snapshot_id)
        writer.commit("main", {("orders",): content})
        yield Catalog(folder, server, orders, [_path(uri) for uri in orders.live_files(state)])


HEADS = CutoffRules(Cutoff(commits=1))


def test_a_nessie_that_stops_in_mid_run_loses_nothing(catalog: Catalog) -> None:
    """Without its answer nothing goes; when it is back, the same command goes on."""
    orphan, server = catalog.orphan(), catalog.server
    collector = catalog.collector(engine=KillingEngine(server))
    marked = collector.mark(HEADS)
    with pytest.raises(CatalogError):
        collector.expire(marked, ask_nessie=True)
    assert orphan.exists()
    server.start(port=server.port)
    record = collector.expire(marked, ask_nessie=True)
    assert record.objects["deleted"] == 1
    assert not orphan.exists()
    catalog.assert_live()


@pytest.mark.parametrize("spoil", SERVER_SPOILS)
def test_a_network_that_spoils_answers_of_nessie_loses_nothing(
    catalog: Catalog, spoil: str
) -> None:
    """What Nessie says comes late, not at all, wrong, or is a refusal; when that is over, all garbage goes."""
    orphan = catalog.orphan()
    with TcpProxy(catalog.server.port, SERVER_SPOILS[spoil]()) as proxy:
        collector = catalog.collector(f"http://127.0.0.1:{proxy.port}/api/v2")
        error: LakesweepError | None = None
        try:
            collector.expire(collector.mark(HEADS), ask_nessie=True)
        except LakesweepError as failed:
            error = failed
        if spoil == "delays":
            assert error is None
        else:
            assert proxy.spoiled
        if spoil.startswith(("lets", "refuses", "corrupts")):
            assert error is not None
            assert error.exit_status in (3, 4)
            assert orphan.exists()
    again = catalog.collector()
    again.expire(again.mark(HEADS), ask_nessie=True)
    assert not orphan.exists()
    catalog.assert_live()
