"""Ordinary use after a good sweep: old commits become live again whose files our own sweeps have collected."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakesweep.collector.nessie.collected import CollectedNames, find_collected
from lakesweep.collector.nessie.deletion import FileDeletion
from lakesweep.collector.record import RunStatus
from lakesweep.domain.location import Location
from lakesweep.errors import UnsafeToSweepError
from lakesweep.storage import StorageOptions, open_store
from lakesweep_testing.nessie_scene import NessieScene, SceneTable


class History:
    """A table with five commits on main, of which a sweep has kept three."""

    def __init__(self, scene: NessieScene, *, is_swept: bool = True) -> None:
        self.orders: SceneTable = scene.table("orders")
        self.hashes = []
        for number in range(5):
            if number:
                self.orders.commit(self.orders.iceberg.overwrite(f"{number}.parquet"))
            else:
                self.orders.append("0.parquet")
            self.hashes.append(scene.nessie.heads()["main"])
        if is_swept:
            assert scene.expire(scene.mark("3")).objects["deleted"] > 0
            assert scene.files() == self.live(2, 3, 4)
        self.orphan = self.orders.iceberg.write_orphan("x.parquet")

    def live(self, *numbers: int) -> set[str]:
        return self.orders.live_files(*(self.orders.states[number] for number in numbers))


def assert_goes_on(scene: NessieScene, history: History, policy: str) -> None:
    before = scene.files()
    record = scene.expire(scene.mark(policy))
    assert record.status is RunStatus.SWEPT
    assert history.orphan not in scene.files()
    assert before - scene.files() <= {history.orphan} | history.live(0, 1, 4)
    assert any("earlier sweeps collected them" in note for note in record.notes)


def test_a_tag_on_a_retained_commit(scene: NessieScene) -> None:
    """Counted from the tag, one more commit is live, whose metadata is gone."""
    history = History(scene)
    scene.nessie.create_tag("release", "main", history.hashes[3])
    assert_goes_on(scene, history, "3")
    assert history.live(2, 3, 4) <= scene.files()


def test_a_reset_by_one(scene: NessieScene) -> None:
    """The branch goes back to a commit that was kept, and looks back further from there."""
    history = History(scene)
    scene.nessie.assign("main", "main", history.hashes[3])
    assert_goes_on(scene, history, "3")
    assert history.live(2, 3) <= scene.files()


@pytest.mark.parametrize("policy", ["3", "NONE"])
def test_the_second_look_goes_on_too(scene: NessieScene, policy: str) -> None:
    """Somebody writes between mark and sweep; what the mark knew to be collected does not come up again."""
    history = History(scene)
    scene.nessie.create_tag("release", "main", history.hashes[3])
    marked = scene.mark(policy)
    newest = history.orders.append("since.parquet")

    record = scene.expire(marked, ask_nessie=True)

    assert record.status is RunStatus.SWEPT
    assert history.orphan not in scene.files()
    assert history.live(2, 3, 4) | history.orders.live_files(newest) <= scene.files()


@pytest.mark.parametrize("policy", ["5", "NONE"])
def test_a_reset_to_a_collected_commit_stops_the_second_look(
    scene: NessieScene, policy: str
) -> None:
    """The mark knew that state as an old one. It is at a head now, and its readers find a broken table."""
    history = History(scene)
    scene.nessie.create_tag("last", "main")
    marked = scene.mark(policy)
    scene.nessie.assign("main", "main", history.hashes[1])
    before = scene.files()

    with pytest.raises(UnsafeToSweepError, match="can't be read"):
        scene.expire(marked, ask_nessie=True)

    assert scene.files() == before


@pytest.mark.parametrize("policy", ["4", "NONE"])
def test_a_longer_policy(scene: NessieScene, policy: str) -> None:
    """What was collected under the shorter one does not come back."""
    history = History(scene)
    assert_goes_on(scene, history, policy)
    assert history.live(2, 3, 4) <= scene.files()


def test_deferred_deletes_are_remembered_too_and_go_on_themselves(scene: NessieScene) -> None:
    """Both roads of deleting write the record, and both read it."""
    history = History(scene, is_swept=False)
    first = scene.mark("3")
    scene.defer(first)
    scene.delete_deferred(first)
    assert scene.files() == history.live(2, 3, 4)
    orphan = history.orders.iceberg.write_orphan("y.parquet")

    longer = scene.mark("NONE")
    scene.defer(longer)
    record = scene.delete_deferred(longer)

    assert record.status is RunStatus.SWEPT
    assert orphan not in scene.files()
    assert scene.files() == history.live(2, 3, 4)


def test_what_a_killed_sweep_deleted_is_remembered(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The names are on the record before the first of them goes."""
    history = History(scene, is_swept=False)
    delete = FileDeletion._outcomes

    def deletes_and_dies(*args: object) -> object:
        delete(*args)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(FileDeletion, "_outcomes", deletes_and_dies)
        with pytest.raises(KeyboardInterrupt):
            scene.expire(scene.mark("3"))
    assert scene.files() == history.live(2, 3, 4)
    history.orders.iceberg.write_orphan("x.parquet")

    assert_goes_on(scene, history, "NONE")


def test_a_dropped_table_some_of_whose_manifests_were_collected(scene: NessieScene) -> None:
    """Metadata that names manifests itself still names those of an older snapshot; what is left of the table stays."""
    old = scene.table("orders", format_version=1, embeds_manifests=True)
    old.append("a.parquet")
    last = old.commit(old.iceberg.compact("b.parquet"))
    assert scene.expire(scene.mark("1")).objects["deleted"] > 0
    old.drop()
    new = scene.table("again", old.iceberg.location, instead_of=old)
    new.append("c.parquet")
    orphan = new.iceberg.write_orphan("x.parquet")

    record = scene.expire(scene.mark("1"))

    assert record.objects["deleted"] == 1
    assert orphan not in scene.files()
    assert old.live_files(last) | new.live_files() <= scene.files()


def test_a_damaged_manifest_of_a_dropped_table_stops_the_run(scene: NessieScene) -> None:
    """It is there, and names files that are nobody else's to tell from garbage."""
    old = scene.table("orders")
    last = old.append("a.parquet")
    old.drop()
    new = scene.table("again", old.iceberg.location, instead_of=old)
    new.append("c.parquet")
    scene.write(last.manifests[0].path, b"Obj\x01 and nothing more")
    before = scene.files()

    with pytest.raises(UnsafeToSweepError, match=r"-m0\.avro"):
        scene.expire(scene.mark("1"))

    assert scene.files() == before


def test_what_is_missing_at_a_head_always_stops_the_run(scene: NessieScene) -> None:
    """A tag on a commit that was collected: its readers find nothing, and someone must know."""
    history = History(scene)
    scene.nessie.create_tag("too-old", "main", history.hashes[1])
    before = scene.files()
    with pytest.raises(UnsafeToSweepError, match="can't be read"):
        scene.expire(scene.mark("1"))
    assert scene.files() == before


@pytest.mark.parametrize("file", ["metadata_location", "manifest_list", "manifest"])
def test_what_is_missing_and_was_not_collected_by_us_stops_the_run(
    scene: NessieScene, file: str
) -> None:
    """An old commit whose file somebody else deleted may need files that are still there."""
    history = History(scene)
    state = history.orders.states[3]
    lost = state.manifests[-1].path if file == "manifest" else getattr(state, file)
    Path(lost.removeprefix("file://")).unlink()
    before = scene.files()
    with pytest.raises(UnsafeToSweepError, match="can't be read") as refused:
        scene.expire(scene.mark("NONE"))
    assert lost in refused.value.message
    assert scene.files() == before


def test_a_collected_file_that_is_there_but_damaged_stops_the_run(scene: NessieScene) -> None:
    """Only what is missing has been collected."""
    history = History(scene)
    scene.write(history.orders.states[1].metadata_location, b"{")
    with pytest.raises(UnsafeToSweepError, match="not JSON"):
        scene.expire(scene.mark("NONE"))


def test_where_nobody_knows_the_heads_whatever_is_missing_stops_the_run(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set that nessie-gc marked tells nothing of them."""
    History(scene)
    marked = scene.mark("NONE")
    monkeypatch.setattr(scene.live_sets, "facts", lambda live_set_id: None)
    with pytest.raises(UnsafeToSweepError, match="can't be read"):
        scene.expire(marked)


def test_the_record_knows_files_by_place_and_forgets_those_that_stayed(tmp_path: Path) -> None:
    """A store may list `s3://` what a table calls `s3a://`. What could not be deleted is off the record."""
    store = open_store(Location.parse(f"file://{tmp_path}"), StorageOptions(local_fsync=False))
    kept, gone = "s3://lake/t/metadata/kept.avro", "s3://lake/t/metadata/a%20b.avro"
    names = CollectedNames(store, "part-0")
    names.write([kept, gone, "s3://lake/t/data/a.parquet"])
    assert find_collected(store, [kept]) == {kept}

    names.write([gone])
    assert find_collected(store, [kept, "s3a://lake/t/metadata/a b.avro", "s3://lake/t/x"]) == {
        "s3a://lake/t/metadata/a b.avro"
    }
    assert find_collected(store, ["s3://lake/t/data/a.parquet"]) == set()

    names.write([])
    assert list(store.keys()) == []
