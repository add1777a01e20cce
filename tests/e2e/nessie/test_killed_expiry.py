"""`kill -9` of an expiry at any delete: the same command goes on, and no file is lost track of."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakesweep.catalogs.nessie.live_sets.opening import open_live_sets
from lakesweep.catalogs.nessie.live_sets.schema import SchemaStrategy
from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.nessie.context import NessieContext
from lakesweep.collector.nessie.deferred import delete_deferred
from lakesweep.collector.nessie.expire import expire
from lakesweep.collector.nessie.requests import ExpireRequest
from lakesweep.collector.phases import Phases
from lakesweep.collector.record import RunStatus
from lakesweep.domain.live_sets import LiveSetId, LiveSetStatus
from lakesweep.domain.location import Location
from lakesweep.storage import DeleteOutcome, ObjectStore, StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

ORPHANS = 9
KILLED = 9


def run_and_die(
    work: str, database: str, live_set_id: LiveSetId, deletes: int, is_deferred: bool
) -> None:
    """In a process of its own: delete so many chunks, and be gone before the last one's outcome is written."""
    sweep_module._ROWS_PER_CHUNK = 3
    real = ObjectStore.delete_many
    left = deletes

    def dying(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
        nonlocal left
        outcomes = real(store, keys, **how)
        left -= keys[0].endswith(".parquet")
        if not left:
            os._exit(KILLED)
        return outcomes

    ObjectStore.delete_many = dying  # type: ignore[method-assign]
    with open_live_sets(database) as live_sets:
        context = NessieContext(
            live_sets=live_sets,
            engine=InProcessEngine(),
            storage=StorageOptions(local_fsync=False),
            work_location=Location.parse(f"file://{work}"),
            phases=Phases("killed"),
        )
        (delete_deferred if is_deferred else expire)(context, ExpireRequest(live_set_id))


def kill(
    scene: NessieScene, database: str, live_set_id: LiveSetId, at: int, *, deferred: bool
) -> None:
    words = [str(scene.work), database, live_set_id, str(at), str(deferred)]
    process = subprocess.run([sys.executable, __file__, *words], check=False, timeout=100)
    assert process.returncode == KILLED


@pytest.fixture
def orders(scene: NessieScene, tmp_path: Path) -> SceneTable:
    database = f"sqlite:///{tmp_path}/sets.db"
    scene.live_sets = open_live_sets(database)
    scene.live_sets.create_schema(SchemaStrategy.CREATE)
    orders = scene.table("orders")
    orders.append("a.parquet")
    for number in range(ORPHANS):
        orders.iceberg.write_orphan(f"{number}.parquet")
    return orders


@pytest.mark.parametrize(
    "at", [pytest.param(1, marks=pytest.mark.search), 2, pytest.param(3, marks=pytest.mark.search)]
)
def test_a_killed_expiry_goes_on(
    scene: NessieScene, orders: SceneTable, tmp_path: Path, at: int
) -> None:
    """The set is still EXPIRY_IN_PROGRESS and its lease held by a dead process; nessie-gc has no way on from there."""
    marked = scene.mark()
    kill(scene, f"sqlite:///{tmp_path}/sets.db", marked.live_set_id, at, deferred=False)
    stored = scene.live_sets.get(marked.live_set_id)
    assert stored.status is LiveSetStatus.EXPIRY_IN_PROGRESS

    record = scene.expire(marked)

    assert scene.files() == orders.live_files()
    assert record.status is RunStatus.SWEPT
    assert record.objects["garbage"] == ORPHANS
    assert record.objects["deleted"] == ORPHANS - 3
    assert record.objects["already_gone"] == 3  # deleted by a process that could not say so
    stored = scene.live_sets.get(marked.live_set_id)
    assert stored.status is LiveSetStatus.EXPIRY_SUCCESS
    scene.live_sets.close()


@pytest.mark.search
def test_killed_deferred_deletes_go_on(
    scene: NessieScene, orders: SceneTable, tmp_path: Path
) -> None:
    """What the killed process deleted and wrote down, wrote down not, and left: all is told apart."""
    marked = scene.mark()
    scene.defer(marked)
    kill(scene, f"sqlite:///{tmp_path}/sets.db", marked.live_set_id, 2, deferred=True)

    record = scene.delete_deferred(marked)

    assert scene.files() == orders.live_files()
    assert record.objects["listed"] == ORPHANS
    assert record.objects["deleted"] == ORPHANS - 6
    assert record.objects["already_gone"] == 6
    scene.live_sets.close()


if __name__ == "__main__":
    folder, url, set_id, at_delete, is_deferred_text = sys.argv[1:]
    run_and_die(folder, url, LiveSetId(set_id), int(at_delete), is_deferred_text == "True")
