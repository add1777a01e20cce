"""Each mistake of nessie-gc that loses data, and that ours does not make it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lakesweep.errors import ConfigError, UnsafeToSweepError
from lakesweep_testing.fake_nessie import delta_table, udf
from lakesweep_testing.iceberg_tables import IcebergTable, Snapshot
from lakesweep_testing.nessie_scene import NessieScene


class TestOneJudgementForTheWholeCatalog:
    def test_nested_base_locations(self, scene: NessieScene) -> None:
        """A table inside another's folder: nessie-gc deletes all its live files when it sweeps the outer one."""
        outer, inner = scene.table("outer"), scene.table("inner", scene.uri("outer/inner"))
        outer.append("a.parquet")
        inner.append("b.parquet")
        orphans = {outer.iceberg.write_orphan("x.parquet"), inner.iceberg.write_orphan("y.parquet")}
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == orphans

    def test_two_tables_on_one_location(self, scene: NessieScene) -> None:
        """Each one's files are orphans to the other alone."""
        one = scene.table("one", scene.uri("shared"))
        two = scene.table("two", scene.uri("shared"))
        one.append("a.parquet")
        two.append("b.parquet")
        orphan = one.iceberg.write_orphan("x.parquet")
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == {orphan}

    def test_a_table_that_moved(self, scene: NessieScene) -> None:
        """Old files stay where they were, below a base location that only old metadata names."""
        moved = scene.table("moved", scene.uri("old"))
        moved.append("a.parquet")
        moved.iceberg.location = scene.uri("new")
        moved.append("b.parquet")
        orphans = {moved.iceberg.write_orphan("x.parquet")}
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == orphans

    def test_a_table_registered_twice(self, scene: NessieScene) -> None:
        """Two contents share metadata; one of them goes on."""
        first = scene.table("first")
        state = first.append("a.parquet")
        twin = scene.table("twin", first.iceberg.location)
        twin.commit(state)
        first.remove("a.parquet")

        scene.expire(scene.mark("1"))

        assert first.live_files() <= scene.files()


class TestSpellings:
    @pytest.mark.parametrize(
        "spelling",
        [
            lambda uri: uri.replace("file://", "file:"),
            lambda uri: uri.removeprefix("file://"),
            lambda uri: uri.replace("file://", "file://localhost"),
            lambda uri: uri.replace("/data/", "//data/./"),
            lambda uri: uri.replace("=", "%3D"),
            lambda uri: uri.replace("=", "%253D"),
        ],
        ids=["file:/", "bare path", "localhost", "slashes", "encoded", "encoded twice"],
    )
    def test_manifests_may_spell_files_as_they_like(self, scene: NessieScene, spelling) -> None:  # type: ignore[no-untyped-def]
        """nessie-gc compares texts, and takes a live file in another spelling for an orphan."""
        orders = scene.table(
            "orders", spelling=lambda uri: spelling(uri) if ".parquet" in uri else uri
        )
        orders.append("day=1/a.parquet")
        orphan = orders.iceberg.write_orphan("day=1/x.parquet")
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == {orphan}

    def test_a_folder_behind_a_link(self, scene: NessieScene, tmp_path: Path) -> None:
        """Two tables reach one folder by two ways; a listing by one of them finds the other's live files."""
        real = scene.table("real", f"file://{tmp_path}/lake/real")
        real.append("a.parquet")
        os.symlink(tmp_path / "lake" / "real", tmp_path / "link")
        linked = scene.table("linked", f"file://{tmp_path}/link")
        linked.append("b.parquet")
        orphan = real.iceberg.write_orphan("x.parquet")
        before = scene.files()

        scene.expire(scene.mark())

        assert before - scene.files() == {orphan}

    def test_a_dot_file_and_a_colon_in_a_name(self, scene: NessieScene) -> None:
        """The one ends nessie-gc's sweep, of the other it deletes something else."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        odd = {
            orders.iceberg.write_orphan(".hidden"),
            orders.iceberg.write_orphan("t=10:30.parquet"),
        }
        marked = scene.mark()
        scene.defer(marked)
        assert scene.deferred(marked) == odd

        scene.delete_deferred(marked)
        assert scene.files() == orders.live_files()

    def test_checksums_that_hadoop_hides_go_with_their_file_only(self, scene: NessieScene) -> None:
        """Spark writes `.name.crc` beside every local file; the live ones' must stay readable."""
        orders = scene.table("orders")
        state = orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        live = next(iter(f for f in orders.live_files(state) if f.endswith("a.parquet")))
        for file in (orphan, live):
            folder, _, name = file.rpartition("/")
            scene.write(f"{folder}/.{name}.crc", b"crc")

        marked = scene.mark()
        scene.defer(marked)
        assert scene.deferred(marked) == {orphan}
        scene.delete_deferred(marked)

        folder, _, name = live.rpartition("/")
        assert scene.files() == orders.live_files() | {f"{folder}/.{name}.crc"}


class TestOtherContents:
    def test_a_delta_table_below_a_base_location(self, scene: NessieScene) -> None:
        """nessie-gc knows Iceberg alone, and deletes what else lies there."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        log = scene.uri("orders/delta/_delta_log/00000000000000000000.json")
        data = scene.uri("orders/delta/part-0.parquet")
        scene.write(log, b"{}")
        scene.write(data, b"delta")
        scene.nessie.commit("main", puts={("d",): delta_table([log])})
        orphan = orders.iceberg.write_orphan("x.parquet")
        before = scene.files()

        record = scene.expire(scene.mark())

        assert before - scene.files() == {orphan}
        assert record.objects["protected"] >= 1

    def test_a_function_below_a_base_location(self, scene: NessieScene) -> None:
        """A UDF's metadata file is nobody's orphan."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        file = scene.uri("orders/f/metadata/00000-f.metadata.json")
        scene.write(file, b"{}")
        scene.nessie.commit("main", puts={("f",): udf(file)})

        scene.expire(scene.mark())

        assert file in scene.files()

    def test_a_content_of_another_kind_that_appears_after_the_mark(
        self, scene: NessieScene
    ) -> None:
        """Asked again, the catalog tells of it."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        data = scene.uri("orders/delta/part-0.parquet")
        log = scene.uri("orders/delta/_delta_log/0.json")
        scene.write(data, b"delta")
        scene.write(log, b"{}")
        marked = scene.mark()
        scene.nessie.commit("main", puts={("d",): delta_table([log])})

        scene.expire(marked, ask_nessie=True)

        assert {data, log} <= scene.files()


class TestDroppedTables:
    def test_files_of_a_dropped_table_stay_and_are_reported(self, scene: NessieScene) -> None:
        """Its folder lies in no base location, and its name is in the record."""
        scene.table("orders").append("a.parquet")
        gone = scene.table("gone")
        gone.append("b.parquet")
        gone.drop()

        record = scene.expire(scene.mark("1"))

        assert gone.live_files() <= scene.files()
        assert any("gone" in note and "dropped" in note for note in record.notes)

    def test_a_dropped_table_inside_a_live_one(self, scene: NessieScene) -> None:
        """nessie-gc deletes it as orphans of the outer table."""
        outer = scene.table("outer")
        outer.append("a.parquet")
        inner = scene.table("inner", scene.uri("outer/inner"))
        inner.append("b.parquet")
        inner.drop()
        outer.append("c.parquet")
        orphan = outer.iceberg.write_orphan("x.parquet")

        scene.expire(scene.mark("1"))

        assert inner.live_files() <= scene.files()
        assert orphan not in scene.files()

    def test_dropped_and_created_again_at_one_location(self, scene: NessieScene) -> None:
        """The old table's files lie in the new one's folder, and are told by its own metadata."""
        old = scene.table("t", scene.uri("t"))
        old.append("old.parquet")
        old.drop()
        new = scene.table("t", scene.uri("t"))
        head = new.append("new.parquet")
        orphan = new.iceberg.write_orphan("x.parquet")

        record = scene.expire(scene.mark("1"))

        assert old.live_files(old.states[-1]) | new.live_files(head) <= scene.files()
        assert orphan not in scene.files()
        assert "of a dropped table" in record.protected

    def test_a_table_of_another_catalog_inside_a_live_one(self, scene: NessieScene) -> None:
        """Nobody here knows it, so nobody here deletes it."""
        outer = scene.table("outer")
        outer.append("a.parquet")
        foreign = IcebergTable(scene.write, scene.uri("outer/foreign"))
        foreign.append("b.parquet")

        record = scene.expire(scene.mark())

        assert foreign.live_files(*foreign.snapshots) <= scene.files()
        assert record.objects["protected"] > 0


class TestUnreadable:
    def _broken(self, scene: NessieScene) -> tuple[list[str], Snapshot]:
        orders = scene.table("orders")
        first = orders.append("a.parquet")
        second = orders.append("b.parquet")
        third = orders.append("c.parquet")
        assert second.manifest_list is not None
        broken = [first.metadata_location, second.manifest_list, third.manifests[-1].path]
        for file in broken:
            Path(file.removeprefix("file://")).unlink()
        orders.iceberg.write_orphan("x.parquet")
        return broken, third

    def test_nothing_is_deleted_and_every_file_is_named(self, scene: NessieScene) -> None:
        """A missing metadata file is a shrug to nessie-gc, and a missing manifest ends it half-way."""
        broken, _ = self._broken(scene)
        healthy = scene.table("healthy")
        healthy.append("a.parquet")
        healthy.iceberg.write_orphan("x.parquet")
        before = scene.files()

        with pytest.raises(UnsafeToSweepError) as refused:
            scene.expire(marked := scene.mark())

        assert all(refused.value.message.count(file) == 1 for file in broken)
        command = f"lakesweep nessie expire --live-set-id {marked.live_set_id}"
        assert f"`{command} --give-up {scene.tables[0].content_id}`" in refused.value.message
        assert refused.value.exit_status == 4
        assert scene.files() == before

    @pytest.mark.parametrize("damage", [b"", b"Obj\x01 nonsense", b"{]"])
    def test_a_damaged_file_counts_as_missing(self, scene: NessieScene, damage: bytes) -> None:
        """What can't be understood may name anything."""
        orders = scene.table("orders")
        state = orders.append("a.parquet")
        orders.iceberg.write_orphan("x.parquet")
        for file in (state.metadata_location, state.manifest_list, state.manifests[0].path):
            assert file is not None
            whole = Path(file.removeprefix("file://")).read_bytes()
            scene.write(file, damage)
            before = scene.files()
            with pytest.raises(UnsafeToSweepError, match="can't be read"):
                scene.expire(scene.mark())
            assert scene.files() == before
            scene.write(file, whole)

    def test_bad_manifests_are_named_once_where_the_judgement_finds_them(
        self, scene: NessieScene
    ) -> None:
        """Manifests are read last, and then all of them are looked at again."""
        states = [scene.table(name).append("a.parquet") for name in ("one", "two")]
        bad = [state.manifests[0].path for state in states]
        for path in bad:
            scene.write(path, b"Obj")
        with pytest.raises(UnsafeToSweepError, match="2 live files") as refused:
            scene.expire(scene.mark())
        # Once as the file, and once in what is wrong with it.
        assert all(refused.value.message.count(f"manifest {path} (needed by") == 1 for path in bad)

    def test_a_content_given_up_keeps_all_that_it_can_own(self, scene: NessieScene) -> None:
        """All others are collected, those inside its folder too, unless they lie where its own files lie."""
        broken, _ = self._broken(scene)
        orphans = set()
        for name, place in (("inner", "orders/inner"), ("among", "orders/data/among")):
            inner = scene.table(name, scene.uri(place))
            inner.append("a.parquet")
            orphans.add(inner.iceberg.write_orphan(f"{name}.parquet"))
        inner_orphan = min(orphans, key=len)
        scene.write(scene.uri("orders/beside/stray.parquet"), b"perhaps its own")
        healthy = scene.table("healthy")
        healthy.append("a.parquet")
        orphan = healthy.iceberg.write_orphan("x.parquet")
        before = scene.files()
        marked = scene.mark()
        with pytest.raises(UnsafeToSweepError):
            scene.expire(marked)

        record = scene.expire(marked, give_up=frozenset({scene.tables[0].content_id}))

        assert before - scene.files() == {orphan, inner_orphan}
        assert broken
        assert "below a location of a content given up" in record.protected

    def test_a_content_given_up_keeps_its_write_path_below_another_table(
        self, scene: NessieScene
    ) -> None:
        """Its properties send writers there, and nobody can tell which files of them it needs."""
        broken = scene.table("broken")
        broken.iceberg.properties["write.data.path"] = scene.uri("healthy/of-broken")
        needed = scene.uri("healthy/of-broken/needed.parquet")
        state = broken.append(needed)
        Path(state.manifests[0].path.removeprefix("file://")).unlink()
        healthy = scene.table("healthy")
        healthy.append("a.parquet")
        orphan = healthy.iceberg.write_orphan("x.parquet")
        before = scene.files()

        scene.expire(scene.mark(), give_up=frozenset({broken.content_id}))

        assert before - scene.files() == {orphan}

    def test_a_content_that_is_not_in_the_set_can_not_be_given_up(self, scene: NessieScene) -> None:
        """A slip of the pen must not look like consent."""
        scene.table("orders").append("a.parquet")
        with pytest.raises(ConfigError, match="no such content"):
            scene.expire(scene.mark(), give_up=frozenset({"nobody"}))

    def test_a_file_shared_with_a_healthy_content_can_not_be_given_up(
        self, scene: NessieScene
    ) -> None:
        """Both need it, and only one was given up."""
        first = scene.table("first")
        state = first.append("a.parquet")
        twin = scene.table("twin", first.iceberg.location)
        twin.commit(state)
        Path(state.manifests[0].path.removeprefix("file://")).unlink()

        with pytest.raises(UnsafeToSweepError, match=state.manifests[0].path):
            scene.expire(scene.mark(), give_up=frozenset({first.content_id}))


class TestOwnFiles:
    def test_a_work_location_below_a_table_is_refused(self, scene: NessieScene) -> None:
        """A listing would find our own files there."""
        scene.table("orders").append("a.parquet")
        scene.work = scene.lake / "orders" / "work"
        with pytest.raises(ConfigError, match="below the base location"):
            scene.expire(scene.mark())
        assert not scene.work.exists()

    def test_a_table_that_claims_a_whole_store_is_refused(self, scene: NessieScene) -> None:
        """All else in the bucket would be its garbage."""
        scene.table("orders").append("a.parquet")
        scene.table("greedy", "file:///").commit(
            Snapshot(scene.tables[0].states[0].metadata_location, -1)
        )
        metadata = Path(scene.tables[0].states[0].metadata_location.removeprefix("file://"))
        metadata.write_text(metadata.read_text().replace(scene.uri("orders"), "file:///", 1))
        with pytest.raises(UnsafeToSweepError, match="whole store"):
            scene.expire(scene.mark())

    def test_a_table_that_claims_a_whole_store_can_be_given_up(self, scene: NessieScene) -> None:
        """It keeps what lies where its own metadata does; other tables are collected as ever."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        orphan = orders.iceberg.write_orphan("x.parquet")
        greedy = scene.table("greedy")
        state = greedy.append("a.parquet")
        kept = greedy.iceberg.write_orphan("x.parquet")
        metadata = Path(state.metadata_location.removeprefix("file://"))
        whole_store = f'"location": "{scene.uri("greedy")}"'
        scene.write(
            state.metadata_location,
            metadata.read_text().replace(whole_store, '"location": "file:///"').encode(),
        )
        before = scene.files()

        scene.expire(scene.mark(), give_up=frozenset({greedy.content_id}))

        assert before - scene.files() == {orphan}
        assert kept in scene.files()
