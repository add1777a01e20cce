"""A large share of a catalog's files waits for a person, on every road that deletes."""

from __future__ import annotations

import os
from dataclasses import replace

import pyarrow as pa
import pytest

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.guards import SMALL_PLAN_BYTES
from lakesweep.collector.ledger.deleting import DELETED_SCHEMA
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.engine.tasks import Scatter
from lakesweep.errors import ConfigError, PartlySweptError, StorageError, UnsafeToSweepError
from lakesweep_testing.iceberg_tables import IcebergTable
from lakesweep_testing.inprocess import InProcessEngine
from lakesweep_testing.nessie_scene import NessieScene


class FailsHalfWay(InProcessEngine):
    """Deletes the first chunk, and then loses its store."""

    def collect(self, scatter: Scatter) -> pa.Table:
        if scatter.schema != DELETED_SCHEMA:
            return super().collect(scatter)
        super().collect(replace(scatter, items=scatter.items[:1]))
        raise StorageError("The store is away.")


def _many(scene: NessieScene) -> IcebergTable:
    orders = scene.table("orders")
    orders.append("a.parquet")
    for number in range(1001):
        orders.iceberg.write_orphan(f"{number}.parquet")
    return orders.iceberg


def test_a_large_plan_waits_for_its_id(scene: NessieScene) -> None:
    """--max-delete-share stops it, --confirm lets exactly this plan go on."""
    _many(scene)
    marked = scene.mark()
    before = scene.files()
    with pytest.raises(UnsafeToSweepError, match="--confirm") as refused:
        scene.expire(marked, max_delete_share=50.0)
    assert scene.files() == before
    plan_id = refused.value.message.rsplit(" ", 1)[-1].rstrip(".")

    with pytest.raises(ConfigError, match="has plan"):
        scene.expire(marked, max_delete_share=50.0, confirm="0123456789abcdef")
    record = scene.expire(marked, max_delete_share=50.0, confirm=plan_id)

    assert record.objects["deleted"] == 1001
    assert len(scene.files()) == 4


def test_of_a_set_in_memory_the_message_names_commands_that_work(scene: NessieScene) -> None:
    """Neither the set nor its plan will be there to be confirmed."""
    _many(scene)
    with pytest.raises(UnsafeToSweepError, match="--jdbc-url") as refused:
        scene.expire(scene.mark(), is_in_memory=True)
    assert "--confirm" not in refused.value.message
    share = refused.value.message.rsplit(" ", 1)[-1]
    record = scene.expire(scene.mark(), is_in_memory=True, max_delete_share=float(share))
    assert record.objects["deleted"] == 1001


def test_a_large_list_waits_for_its_id(scene: NessieScene) -> None:
    """What an expiry recorded is measured as it would have measured it, whenever it is deleted."""
    _many(scene)
    marked = scene.mark()
    scene.defer(marked)
    before = scene.files()
    for _ in range(2):
        with pytest.raises(UnsafeToSweepError, match=r"1005 objects") as refused:
            scene.delete_deferred(marked)
        assert refused.value.kind == "blast-radius"
        assert scene.files() == before
    command = refused.value.message.split(": ")[-1]
    assert command.startswith("lakesweep nessie deferred-deletes --live-set-id ")
    plan_id = command.rsplit(" ", 1)[-1]

    with pytest.raises(ConfigError, match="names another plan"):
        scene.delete_deferred(marked, confirm="0123456789abcdef")
    record = scene.delete_deferred(marked, confirm=plan_id)

    assert record.objects["deleted"] == 1001
    assert record.plan_id == plan_id
    assert scene.delete_deferred(marked).objects["already_gone"] == 1001


def test_a_list_that_was_changed_has_another_id(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exactly what was confirmed goes."""
    _many(scene)
    marked = scene.mark()
    scene.defer(marked)
    with pytest.raises(UnsafeToSweepError) as refused:
        scene.delete_deferred(marked)
    plan_id = refused.value.message.rsplit(" ", 1)[-1]
    files = list(scene.live_sets.deferred(marked.live_set_id))
    changed = [replace(files[0], path_uri="data/another.parquet"), *files[1:]]
    monkeypatch.setattr(scene.live_sets, "deferred", lambda live_set_id: iter(changed))
    with pytest.raises(ConfigError, match="names another plan"):
        scene.delete_deferred(marked, confirm=plan_id)


def test_a_list_of_nobody_knows_what_counts_as_all_there_is(scene: NessieScene) -> None:
    """nessie-gc leaves no word of what is live beside its list."""
    _many(scene)
    marked = scene.mark()
    scene.defer(marked)
    (scene.work / SetFolder(marked.live_set_id).record).unlink()
    with pytest.raises(UnsafeToSweepError, match=r"100\.0 %"):
        scene.delete_deferred(marked, max_delete_share=99.9)
    assert scene.delete_deferred(marked, max_delete_share=100.0).objects["deleted"] == 1001


def test_a_short_list_of_nobody_knows_what_is_measured_in_bytes(scene: NessieScene) -> None:
    """nessie-gc's list tells no sizes, and a few large files are a large delete."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    large = orders.iceberg.write_orphan("large.parquet")
    os.truncate(large.removeprefix("file://"), SMALL_PLAN_BYTES + 1)
    scene.touch(large, scene.written_at)
    marked = scene.mark()
    scene.defer(marked)
    (scene.work / SetFolder(marked.live_set_id).record).unlink()
    with pytest.raises(UnsafeToSweepError, match="--confirm") as refused:
        scene.delete_deferred(marked)
    plan_id = refused.value.message.rsplit(" ", 1)[-1]
    assert scene.delete_deferred(marked, confirm=plan_id).objects["deleted"] == 1


def test_deletes_of_a_confirmed_list_go_on_without_a_second_confirmation(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message of a sweep that stopped half-way names the command without one."""
    _many(scene)
    marked = scene.mark()
    scene.defer(marked)
    with pytest.raises(UnsafeToSweepError) as refused:
        scene.delete_deferred(marked)
    plan_id = refused.value.message.rsplit(" ", 1)[-1]
    with monkeypatch.context() as broken:
        broken.setattr(sweep_module, "_ROWS_PER_CHUNK", 500)
        broken.setattr(scene, "engine", FailsHalfWay())
        with pytest.raises(PartlySweptError):
            scene.delete_deferred(marked, confirm=plan_id)
    scene.delete_deferred(marked)
    assert len(scene.files()) == 4


def test_the_limit_is_half_by_default_and_can_be_lifted(scene: NessieScene) -> None:
    """As for lakeFS."""
    _many(scene)
    with pytest.raises(UnsafeToSweepError, match="50 %"):
        scene.expire(scene.mark())
    record = scene.expire(scene.mark(), max_delete_share=100.0)
    assert record.objects["deleted"] == 1001
