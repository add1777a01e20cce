"""Tables of odd writers, and what else lies below base locations: doubt keeps their files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakesweep.runs.record import RunStatus
from lakesweep.testing.nessie_scene import NessieScene


class TestSnapshots:
    @pytest.mark.parametrize("snapshot_id", [0, 404])
    def test_a_table_whose_content_names_an_unlisted_snapshot_keeps_all_that_its_metadata_lists(
        self, scene: NessieScene, snapshot_id: int
    ) -> None:
        """Readers that go by the metadata see a healthy table; the record says that the id is odd."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        head = orders.commit(orders.iceberg.overwrite("b.parquet"))
        orders.commit(replace(head, snapshot_id=snapshot_id))
        orphan = orders.iceberg.write_orphan("x.parquet")
        before = scene.files()

        record = scene.expire(scene.mark("1"))

        assert before - scene.files() == {orphan, *orders.iceberg.metadata_files[:-1]}
        assert any("do not list the snapshot" in note for note in record.notes)

    def test_an_older_snapshot_that_a_content_names_and_the_current_one_are_both_live(
        self, scene: NessieScene
    ) -> None:
        """Nessie's own catalog reads the current one, others the one that is named."""
        orders = scene.table("orders")
        first = orders.append("a.parquet")
        head = orders.commit(orders.iceberg.overwrite("b.parquet"))
        orders.commit(replace(head, snapshot_id=first.snapshot_id))

        record = scene.expire(scene.mark("1"))

        old = orders.live_files(first) - {first.metadata_location}
        assert scene.files() == old | orders.live_files(head)
        assert not any("do not list" in note for note in record.notes)

    def test_statistics_of_older_snapshots_that_live_metadata_lists_stay(
        self, scene: NessieScene
    ) -> None:
        """Readers of the live metadata may open any statistics file that it lists."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orders.commit(orders.iceberg.add_statistics("old.stats"))
        head = orders.append("b.parquet")

        record = scene.expire(scene.mark("1"))

        assert record.status is RunStatus.SWEPT
        assert scene.files() == orders.live_files(head)
        assert f"{orders.iceberg.location}/metadata/old.stats" in scene.files()
