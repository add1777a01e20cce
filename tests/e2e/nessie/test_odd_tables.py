"""Tables of odd writers, and what else lies below base locations: doubt keeps their files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.collector.nessie import folder_sums
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.nessie.places import TableStores
from lakesweep.collector.record import RunStatus
from lakesweep.domain.nessie_explanations import Said
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing.iceberg_files import (
    ListedManifest,
    write_manifest,
    write_manifest_list,
)
from lakesweep_testing.iceberg_tables import Snapshot
from lakesweep_testing.nessie_contents import table
from lakesweep_testing.nessie_scene import NessieScene, SceneTable

_find_tables_in = folder_sums.find_tables_in


def _without_first_piece(stores: TableStores, pieces: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    return _find_tables_in(stores, islice(pieces, 1, None))


def _two_orphans(scene: NessieScene) -> tuple[str, str]:
    """Two old files below a table that no table has yet: in its own folder for data, and in one beside it."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orphan = orders.iceberg.write_orphan("x.parquet")
    theirs = scene.uri("orders/theirs/part-0.parquet")
    scene.write(theirs, b"nobody's yet")
    return orphan, theirs


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


class TestFilesCutShort:
    """An Avro file that ends where a block ends looks whole. What other files promise of it tells."""

    def assert_refused(self, scene: NessieScene, why: str) -> None:
        before = scene.files()
        with pytest.raises(UnsafeToSweepError, match=why):
            scene.expire(scene.mark())
        assert scene.files() == before

    def rewrite_list(self, scene: NessieScene, state: Snapshot, *listed: ListedManifest) -> None:
        assert state.manifest_list is not None
        scene.write(state.manifest_list, write_manifest_list(listed))

    def table(self, scene: NessieScene, **options: object) -> tuple[SceneTable, Snapshot]:
        orders = scene.table("orders", **options)
        orders.append("a.parquet")
        head = orders.append("b.parquet", "c.parquet")
        orders.iceberg.write_orphan("x.parquet")
        return orders, head

    def test_a_manifest_with_fewer_entries_than_its_list_promises(self, scene: NessieScene) -> None:
        """Deleted entries count too."""
        _, head = self.table(scene)
        cut = head.manifests[-1]
        scene.write(cut.path, write_manifest(cut.entries[:1], codec="null"))
        self.assert_refused(scene, "1 entries and its manifest list promises 2")

    def test_a_manifest_shorter_than_its_list_promises(self, scene: NessieScene) -> None:
        """The list says nothing of its entries here."""
        orders, _ = self.table(scene)
        state = orders.states[0]
        one = state.manifests[0]
        self.rewrite_list(scene, state, ListedManifest(one.path, one.length + 1, added=-1))
        self.assert_refused(scene, f"{one.length} bytes long and its manifest list promises")

    def test_a_manifest_list_that_names_fewer_files_than_its_snapshot_has(
        self, scene: NessieScene
    ) -> None:
        """Nobody tells how long a manifest list is, but the snapshot's summary tells what it names."""
        _, head = self.table(scene)
        one = head.manifests[0]
        self.rewrite_list(scene, head, ListedManifest(one.path, one.length, added=1))
        self.assert_refused(scene, "hold 1 files, and the snapshot's summary promises 3")

    def test_embedded_manifests_with_fewer_files_than_their_snapshot_has(
        self, scene: NessieScene
    ) -> None:
        """Without a list the summary is all that there is."""
        _, head = self.table(scene, format_version=1, embeds_manifests=True)
        cut = head.manifests[-1]
        scene.write(cut.path, write_manifest(cut.entries[:1], version=1))
        self.assert_refused(scene, "hold 2 files, and the snapshot's summary promises 3")

    def test_more_entries_than_promised_are_noted_and_live(self, scene: NessieScene) -> None:
        """Writers exist that always promise 1. No file can be cut longer."""
        orders, head = self.table(scene)
        listed = [ListedManifest(one.path, one.length, added=1) for one in head.manifests]
        self.rewrite_list(scene, head, *listed)

        record = scene.expire(scene.mark())

        assert scene.files() == orders.live_files()
        assert any(
            "1 manifests have more entries than their manifest lists say" in note
            for note in record.notes
        )


class TestTablesOfOthers:
    @pytest.mark.parametrize(
        ("metadata", "kind"),
        [
            ("_delta_log/00000000000000000000.json", "Delta"),
            (".hoodie/hoodie.properties", "Hudi"),
            ("metadata/v1.metadata.json", "Iceberg"),
            ("00001-abc.metadata.json", "Iceberg"),
        ],
    )
    def test_a_table_that_nessie_does_not_know_is_protected_and_named(
        self, scene: NessieScene, metadata: str, kind: str
    ) -> None:
        """It lies below a base location, and nobody here can tell its live files from its garbage."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        for name in (metadata, "part-0.parquet", "day=1/part-1.parquet"):
            scene.write(scene.uri(f"orders/theirs/{name}"), b"theirs")
        before = scene.files()

        record = scene.expire(scene.mark())

        assert before - scene.files() == {orphan}
        assert record.objects["protected"] == 3
        assert any(f"{scene.uri('orders/theirs')} ({kind})" in note for note in record.notes)

    @pytest.mark.parametrize("name", ["metadata/v1.metadata.json", "_delta_log/0.json"])
    def test_a_table_in_a_folder_that_may_mean_another_place(
        self, scene: NessieScene, name: str
    ) -> None:
        """`%2e%2e` may stand for the folder above: its files stay, and the others go all the same."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        theirs = scene.lake / "orders" / "%2e%2e" / name
        theirs.parent.mkdir(parents=True)
        theirs.write_bytes(b"theirs")
        os.utime(theirs, (0, 0))
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == {orphan}

    @pytest.mark.parametrize("log", ["_delta_log/0.json", ".hoodie/hoodie.properties"])
    def test_a_table_that_others_read_as_delta_or_hudi_keeps_all_its_files(
        self, scene: NessieScene, log: str
    ) -> None:
        """Both formats may share a folder and its data files."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orders.iceberg.write_orphan("only-in-the-other-log.parquet")
        scene.write(scene.uri(f"orders/{log}"), b"{}")
        before = scene.files()
        marked = scene.mark()

        record = scene.defer(marked)

        assert scene.deferred(marked) == set()
        assert scene.files() == before
        assert record.objects["protected"] == 2

    @pytest.mark.parametrize(
        "metadata",
        ["_delta_log/0.json", ".hoodie/hoodie.properties", "metadata/v1.metadata.json"],
    )
    def test_a_table_that_was_made_of_recorded_files_keeps_them(
        self, scene: NessieScene, metadata: str
    ) -> None:
        """A folder of old files became a table after they were recorded (`CONVERT TO DELTA`)."""
        orphan, theirs = _two_orphans(scene)
        marked = scene.mark()
        scene.defer(marked)
        assert scene.deferred(marked) == {orphan, theirs}
        log = scene.uri(f"orders/theirs/{metadata}")
        scene.write(log, b"{}")
        scene.touch(log, datetime.now(UTC))

        scene.delete_deferred(marked)

        assert orphan not in scene.files()
        assert {theirs, log} <= scene.files()

    def test_a_table_that_was_made_of_planned_files_keeps_them(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Between an expiry that was killed and the one that goes on."""
        orphan, theirs = _two_orphans(scene)
        marked = scene.mark()

        def die(*args: object) -> object:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(FileDeletion, "_outcomes", die)
            with pytest.raises(KeyboardInterrupt):
                scene.expire(marked)
        assert {orphan, theirs} <= scene.files()
        scene.write(scene.uri("orders/theirs/_delta_log/0.json"), b"{}")

        record = scene.expire(marked)

        assert record.status is RunStatus.SWEPT
        assert orphan not in scene.files()
        assert theirs in scene.files()

    def test_a_look_for_tables_that_leaves_a_piece_out_is_refused(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nobody would know of a table there."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        marked = scene.mark()
        scene.defer(marked)
        monkeypatch.setattr(folder_sums, "find_tables_in", _without_first_piece)
        with pytest.raises(UnsafeToSweepError, match="counted exactly once"):
            scene.delete_deferred(marked)
        assert orphan in scene.files()


class TestNamesOfNoPlace:
    """A content made by hand may point anywhere, and a writer may spell a file as no store would."""

    @pytest.mark.parametrize("location", ["string", "s3://"])
    def test_a_content_that_points_nowhere_can_be_given_up_and_dropped(
        self, scene: NessieScene, location: str
    ) -> None:
        """The command that the refusal names goes on; and once the content is dropped, nothing need be given up."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        first, second = (orders.iceberg.write_orphan(f"{name}.parquet") for name in "xy")
        scene.touch(second, datetime.now(UTC))
        scene.nessie.commit("main", puts={("junk",): table(location, -1)})
        junk = str(scene.nessie.contents([("junk",)], "main")[("junk",)]["id"])
        with pytest.raises(UnsafeToSweepError, match=f"--give-up {junk}"):
            scene.expire(scene.mark("1"))

        scene.expire(scene.mark("1"), give_up=frozenset({junk}))
        assert first not in scene.files()

        scene.nessie.commit("main", deletes=[("junk",)])
        scene.touch(second, scene.written_at)
        scene.expire(scene.mark("1"))
        assert second not in scene.files()
        assert scene.explain(second, default="1").files[0].said is Said.DELETED

    def test_a_statistics_file_that_may_lie_anywhere_is_doubt(self, scene: NessieScene) -> None:
        """Nobody reads it, so its name alone must tell which file is live; whose it is is said."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        path = f"{orders.iceberg.location}/metadata/../a.stats"
        newest = orders.iceberg.snapshots[-1]
        orders.iceberg.snapshots[-1] = replace(newest, statistics=(path,))
        orders.commit(orders.iceberg.append("b.parquet"))
        orphan = orders.iceberg.write_orphan("x.parquet")
        with pytest.raises(UnsafeToSweepError, match=f"(?s)a.stats.*--give-up {orders.content_id}"):
            scene.expire(scene.mark("1"))
        scene.expire(scene.mark("1"), give_up=frozenset({orders.content_id}))
        assert orphan in scene.files()
