"""Between mark and delete the world goes on: what came back to life is kept and named, a killed run goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lakesweep.collector import sweep as sweep_module
from lakesweep.collector.lease import Lease
from lakesweep.collector.listing import Listing
from lakesweep.collector.nessie import expire as expire_module
from lakesweep.collector.nessie import mark as mark_module
from lakesweep.collector.nessie.identify import Marked
from lakesweep.collector.nessie.set_files import SetFolder
from lakesweep.collector.record import RunStatus
from lakesweep.domain.live_sets import LiveSetStatus
from lakesweep.errors import (
    CatalogError,
    ConfigError,
    PartlySweptError,
    StorageError,
    UnsafeToSweepError,
)
from lakesweep.storage import DeleteOutcome, DeleteStatus, ObjectStore, local_walk
from lakesweep.storage import local as local_storage
from lakesweep_testing.iceberg_tables import Snapshot
from lakesweep_testing.nessie_scene import NessieScene, SceneTable
from lakesweep_testing.nessie_state import NO_ANCESTOR


def _cut_off(scene: NessieScene) -> tuple[SceneTable, Snapshot, str]:
    """A table whose first state is cut off by a policy of one commit, and that commit's hash."""
    orders = scene.table("orders")
    first = orders.append("a.parquet")
    hash_ = scene.nessie.head()
    orders.remove("a.parquet")
    return orders, first, hash_


def _branch(scene: NessieScene, hash_: str) -> None:
    scene.nessie.create_branch("revived", hash=hash_)


def _tag(scene: NessieScene, hash_: str) -> None:
    scene.nessie.create_tag("revived", hash=hash_)


def _assign(scene: NessieScene, hash_: str) -> None:
    scene.nessie.assign("main", hash=hash_)


def _rollback(scene: NessieScene, hash_: str) -> None:
    scene.tables[0].commit(scene.tables[0].states[0])


REVIVALS: dict[str, Callable[[NessieScene, str], None]] = {
    "a branch at an old commit": _branch,
    "a tag at an old commit": _tag,
    "a reference assigned to an old commit": _assign,
    "a rollback": _rollback,
}


@pytest.mark.parametrize("revive", REVIVALS.values(), ids=REVIVALS)
class TestRevived:
    def test_an_expiry_keeps_and_names_it(
        self, scene: NessieScene, revive: Callable[[NessieScene, str], None]
    ) -> None:
        """nessie-gc deletes by the mark, however old it is."""
        orders, first, hash_ = _cut_off(scene)
        marked = scene.mark("1")
        orphan = orders.iceberg.write_orphan("x.parquet")
        revive(scene, hash_)

        record = scene.expire(marked, ask_nessie=True)

        assert orders.live_files(first) <= scene.files()
        assert orphan not in scene.files()
        assert record.objects["revived"] > 0
        assert set(record.revived) <= orders.live_files(first)

    def test_deferred_deletes_keep_and_name_it(
        self, scene: NessieScene, revive: Callable[[NessieScene, str], None]
    ) -> None:
        """The list may be weeks old."""
        orders, first, hash_ = _cut_off(scene)
        marked = scene.mark("1")
        scene.defer(marked)
        assert scene.deferred(marked) & orders.live_files(first)
        revive(scene, hash_)

        record = scene.delete_deferred(marked, ask_nessie=True)

        assert orders.live_files(first) <= scene.files()
        assert set(record.revived) == scene.deferred(marked) & orders.live_files(first)


def test_without_nessie_the_record_says_so(scene: NessieScene) -> None:
    """The phases may run where Nessie can't be reached."""
    _cut_off(scene)
    record = scene.expire(scene.mark("1"))
    assert any("not re-verified" in note for note in record.notes)


def test_with_nessie_and_nothing_changed_the_record_does_not(scene: NessieScene) -> None:
    """Asked again, with the same heads, there is nothing to walk."""
    orders, _, _ = _cut_off(scene)
    marked = scene.mark("1")
    scene.nessie.requests.clear()
    record = scene.expire(marked, ask_nessie=True)
    assert not any("not re-verified" in note for note in record.notes)
    assert not any("history" in path for _, path, _ in scene.nessie.requests)
    assert scene.files() == orders.live_files(orders.states[-1])


def test_when_nessie_can_not_be_asked_nothing_is_deleted(scene: NessieScene) -> None:
    """A --uri was given, so its answer is waited for."""
    _cut_off(scene)
    marked = scene.mark("1")
    before = scene.files()
    scene.nessie.fail("/trees", status=500, times=1000)
    with pytest.raises(CatalogError):
        scene.expire(marked, ask_nessie=True)
    assert scene.files() == before
    assert scene.live_sets.get(marked.live_set_id).status is LiveSetStatus.EXPIRY_FAILED


@pytest.mark.parametrize("times", [1, 9], ids=["once", "always"])
def test_no_references_are_no_sign_that_nothing_changed(scene: NessieScene, times: int) -> None:
    """An empty list has no head that moved; it is an answer that can't be true."""
    orders, first, hash_ = _cut_off(scene)
    marked = scene.mark("1")
    _branch(scene, hash_)
    scene.nessie.tamper("/trees$", lambda request, said: {**said, "references": []}, times=times)
    with pytest.raises(CatalogError, match="lists no branch main"):
        scene.expire(marked, ask_nessie=True)
    assert orders.live_files(first) <= scene.files()


def test_a_branch_that_one_list_leaves_out_keeps_its_files(scene: NessieScene) -> None:
    """One list from a replica that is behind: the other one has the branch that brought files back to life."""
    orders, first, hash_ = _cut_off(scene)
    marked = scene.mark("1")
    _branch(scene, hash_)

    def behind(request: object, said: dict[str, Any]) -> dict[str, Any]:
        return {**said, "references": [r for r in said["references"] if r["name"] == "main"]}

    scene.nessie.tamper("/trees$", behind)
    scene.expire(marked, ask_nessie=True)
    assert orders.live_files(first) <= scene.files()


def test_a_state_with_two_answers_is_not_believed(scene: NessieScene) -> None:
    """What a branch at an old commit keeps is told by that commit's contents alone, and a page may be cut short."""
    _cut_off(scene)
    other = scene.table("other")
    other.append("o.parquet")
    scene.table("later").append("l.parquet")
    hash_ = scene.nessie.head()
    other.remove("o.parquet")
    marked = scene.mark("1")
    _branch(scene, hash_)
    scene.nessie.tamper("/entries", lambda request, said: {**said, "entries": said["entries"][:1]})
    with pytest.raises(CatalogError, match="two answers"):
        scene.expire(marked, ask_nessie=True)
    assert other.live_files(other.states[0]) <= scene.files()


def test_a_listing_that_fails_half_way_deletes_nothing(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a listing is no listing."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    for number in range(5):
        orders.iceberg.write_orphan(f"part={number}/x.parquet")
    marked = scene.mark()
    before = scene.files()
    real = local_walk._sorted_entries

    def failing(path: str):  # type: ignore[no-untyped-def]
        if path.endswith("part=3"):
            raise PermissionError(13, "no", path)
        return real(path)

    monkeypatch.setattr(local_walk, "_sorted_entries", failing)
    with pytest.raises(StorageError):
        scene.expire(marked)
    assert scene.files() == before


class TestDeferredDeletes:
    def test_a_second_call_says_what_was_gone_already(self, scene: NessieScene) -> None:
        """nessie-gc claims the same deletes again."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        for number in range(3):
            orders.iceberg.write_orphan(f"{number}.parquet")
        marked = scene.mark()
        scene.defer(marked)

        first = scene.delete_deferred(marked)
        second = scene.delete_deferred(marked)

        assert (first.objects["deleted"], first.objects["already_gone"]) == (3, 0)
        assert (second.objects["deleted"], second.objects["already_gone"]) == (0, 3)
        assert second.objects["listed"] == 3

    def test_deferring_deletes_nothing(self, scene: NessieScene) -> None:
        """It is the dry run."""
        orders, _, _ = _cut_off(scene)
        before = scene.files()
        record = scene.defer(scene.mark("1"))
        assert scene.files() == before
        assert record.status is RunStatus.MARKED
        assert record.objects["deleted"] == 0
        assert orders.states

    def test_a_file_written_anew_since_is_another_file(self, scene: NessieScene) -> None:
        """The list knows a name; under that name there is something else now."""
        orders = scene.table("orders")
        orders.append("a.parquet")
        same = orders.iceberg.write_orphan("same.parquet")
        anew = orders.iceberg.write_orphan("anew.parquet")
        marked = scene.mark()
        scene.defer(marked)
        scene.write(anew, b"new content")
        scene.touch(anew, marked.created + timedelta(seconds=30))

        record = scene.delete_deferred(marked)

        assert anew in scene.files()
        assert same not in scene.files()
        assert any("written anew" in note for note in record.notes)

    def test_a_list_that_names_live_files_deletes_none_of_them(self, scene: NessieScene) -> None:
        """Made by nessie-gc on nested tables, or changed by hand: every file is judged again."""
        from lakesweep.domain.live_sets import deferred_file

        orders = scene.table("orders")
        orders.append("a.parquet")
        outside = scene.uri("elsewhere/file.parquet")
        scene.write(outside, b"nobody's")
        marked = scene.mark()
        scene.live_sets.start_expire(marked.live_set_id, marked.created)
        scene.live_sets.add_deferred(
            marked.live_set_id,
            [
                deferred_file(scene.uri(""), uri, scene.written_at)
                for uri in sorted(orders.live_files() | {outside})
            ],
        )
        scene.live_sets.finish_expire(marked.live_set_id, marked.created)
        before = scene.files()

        record = scene.delete_deferred(marked)

        assert scene.files() == before
        assert record.objects["revived"] == len(orders.live_files())

    def test_before_an_expiry_there_is_nothing_to_delete(self, scene: NessieScene) -> None:
        """The set's status says whether its list is whole."""
        scene.table("orders").append("a.parquet")
        with pytest.raises(ConfigError, match="IDENTIFY_SUCCESS"):
            scene.delete_deferred(scene.mark())


NEW_CONTENT = {"size": b"longer than it was", "time": b"", "inode": b""}


@pytest.mark.parametrize("other", NEW_CONTENT)
@pytest.mark.parametrize("is_resumed", [False, True], ids=["at once", "gone on with"])
def test_a_file_written_anew_under_a_planned_name_is_kept(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch, other: str, is_resumed: bool
) -> None:
    """The plan says that another file was garbage; a writer that uses a name again may have committed this one."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    same, anew = (orders.iceberg.write_orphan(f"{name}.parquet") for name in ("same", "anew"))
    marked = scene.mark()
    real = expire_module.save_plan

    def planned(*about: Any) -> Any:
        plan = real(*about)
        if is_resumed:
            raise KeyboardInterrupt
        write_anew()
        return plan

    def write_anew() -> None:
        path = Path(anew.removeprefix("file://"))
        content = NEW_CONTENT[other] or path.read_bytes()
        path.rename(path.with_suffix(".kept"))
        path.write_bytes(content)
        at = scene.written_at + timedelta(days=1) if other == "time" else scene.written_at
        scene.touch(anew, at)

    monkeypatch.setattr(expire_module, "save_plan", planned)
    if is_resumed:
        with pytest.raises(KeyboardInterrupt):
            scene.expire(marked)
        resources = scene.context().resources
        begun_record = expire_module.find_record(resources.store, marked.live_set_id)
        assert begun_record is not None
        begun_record = resources.ended(begun_record, RunStatus.PARTLY_SWEPT)
        resources.save_record(SetFolder(marked.live_set_id).record, begun_record)
        write_anew()

    record = scene.expire(marked)

    assert anew in scene.files()
    assert same not in scene.files()
    assert any("anew.parquet" in note for note in record.notes)


def _reset_by_one(scene: NessieScene, hashes: list[str]) -> None:
    scene.nessie.assign("main", hash=hashes[-2])


def _branch_in_the_middle(scene: NessieScene, hashes: list[str]) -> None:
    scene.nessie.create_branch("fork", hash=hashes[len(hashes) // 2])


def _three_commits(scene: NessieScene, hashes: list[str]) -> None:
    for number in range(3):
        scene.tables[0].append(f"new-{number}.parquet")


CHANGES: dict[str, Callable[[NessieScene, list[str]], None]] = {
    "three commits": _three_commits,
    "a reset by one": _reset_by_one,
    "a branch in the middle": _branch_in_the_middle,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("policy", ["NONE", "P36500D"])
def test_the_second_look_reads_what_changed(
    scene: NessieScene, policy: str, change: Callable[[NessieScene, list[str]], None]
) -> None:
    """With hundreds of thousands of commits a whole walk takes longer than its answer is valid."""
    orders = scene.table("orders")
    hashes = []
    for number in range(60):
        orders.append(f"{number}.parquet")
        hashes.append(scene.nessie.head())
    orphan = orders.iceberg.write_orphan("x.parquet")
    marked = scene.mark(policy)
    change(scene, hashes)
    scene.nessie.requests.clear()

    scene.expire(marked, ask_nessie=True)

    assert orphan not in scene.files()
    assert orders.live_files() <= scene.files()
    pages = [query for _, path, query in scene.nessie.requests if "/history" in path]
    assert [query["max-records"] for query in pages] == ["10"]


def test_a_head_that_a_shorter_policy_walked_from_ends_no_longer_walk(scene: NessieScene) -> None:
    """A branch that keeps all is made at the head of one that keeps its head alone."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    scene.nessie.create_branch("keep-0")
    orders.append("b.parquet")
    orders.append("c.parquet")
    marked = scene.mark("1", {"keep-.*": "NONE"})
    scene.nessie.create_branch("keep-1")

    scene.expire(marked, ask_nessie=True)

    assert orders.live_files() <= scene.files()


def test_a_live_commit_ends_no_walk_that_counts(scene: NessieScene) -> None:
    """Two commits from an older head reach further back than two from the newest."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    orders.append("b.parquet")
    older = scene.nessie.head()
    orders.append("c.parquet")
    marked = scene.mark("2")
    scene.nessie.create_branch("fork", hash=older)

    scene.expire(marked, ask_nessie=True)

    assert orders.live_files() <= scene.files()


def test_a_walk_to_where_history_was_cut_finds_what_was_put_before(scene: NessieScene) -> None:
    """Nessie's `cut-history` makes a commit the first one and keeps its contents, which no commit puts any more."""
    orders = scene.table("orders")
    orders.append("a.parquet")
    scene.table("other").append("a.parquet")
    first = scene.nessie.head()
    commits = scene.nessie.state.commits
    commits[first] = replace(commits[first], parents=(NO_ANCESTOR,))
    orders.remove("a.parquet")
    marked = scene.mark("1")
    scene.nessie.create_tag("release", hash=first)

    record = scene.expire(marked, ask_nessie=True)

    assert orders.live_files() <= scene.files()
    assert record.objects["revived"] > 0


def test_the_second_look_at_a_set_of_nessie_gc_stops_at_its_time(
    scene: NessieScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was committed long before that mark is in it."""
    orders = scene.table("orders")
    scene.nessie.now = datetime.now(UTC) - timedelta(days=30)
    for number in range(60):
        orders.append(f"{number}.parquet")
    marked = scene.mark()
    monkeypatch.setattr(scene.live_sets, "facts", lambda live_set_id: None)
    scene.nessie.now = datetime.now(UTC)
    orders.append("new.parquet")
    scene.nessie.requests.clear()

    scene.expire(marked, ask_nessie=True)

    assert orders.live_files() <= scene.files()
    pages = [query for _, path, query in scene.nessie.requests if "/history" in path]
    asked = [query["max-records"] for query in pages]
    assert asked == [*["1"] * 5, "10"], "some commits, by which the catalog is known, and a page"


class TestGivenUp:
    """What became live since the mark needs a manifest that is lost, and its content was not given up."""

    def _broken(self, scene: NessieScene) -> tuple[SceneTable, frozenset[str]]:
        broken = scene.table("broken")
        state = broken.append("a.parquet")
        Path(state.manifests[0].path.removeprefix("file://")).unlink()
        healthy = scene.table("healthy")
        healthy.append("a.parquet")
        healthy.iceberg.write_orphan("x.parquet")
        return broken, frozenset({broken.content_id})

    def _refuses(self, scene: NessieScene, marked: Marked, give_up: frozenset[str]) -> None:
        before = scene.files()
        with pytest.raises(UnsafeToSweepError, match=r"-m0\.avro.*needed by"):
            scene.expire(marked, ask_nessie=True, give_up=give_up)
        assert scene.files() == before

    def test_a_table_registered_from_the_same_metadata(self, scene: NessieScene) -> None:
        """Its state is one that the mark knows, of the other content."""
        broken, give_up = self._broken(scene)
        marked = scene.mark()
        scene.table("twin", broken.iceberg.location).commit(broken.states[0])
        self._refuses(scene, marked, give_up)

    def test_a_table_whose_own_metadata_names_the_manifest(self, scene: NessieScene) -> None:
        """A copy that went on: its list names the manifest beside a new one."""
        broken, give_up = self._broken(scene)
        marked = scene.mark()
        copy = scene.table("copy")
        copy.iceberg.snapshots = list(broken.iceberg.snapshots)
        copy.append("b.parquet")
        self._refuses(scene, marked, give_up)

    def test_the_content_itself_may_go_on(self, scene: NessieScene) -> None:
        """It was given up, with what it commits since the mark."""
        broken, give_up = self._broken(scene)
        marked = scene.mark()
        broken.append("b.parquet")
        record = scene.expire(marked, ask_nessie=True, give_up=give_up)
        assert record.status is RunStatus.SWEPT
        assert broken.live_files() - scene.files() == {broken.states[0].manifests[0].path}


class TestDiedEarly:
    """Killed after the set was taken and before the lease: there is no file of that run anywhere."""

    def _begun(self, scene: NessieScene, work: str) -> Marked:
        _cut_off(scene)
        marked = scene.mark("1")
        scene.live_sets.start_expire(marked.live_set_id, marked.created, work=work)
        return marked

    def test_the_same_command_goes_on(self, scene: NessieScene) -> None:
        marked = self._begun(scene, scene.context().work_location.uri)
        record = scene.expire(marked)
        assert record.objects["deleted"] > 0
        stored = scene.live_sets.get(marked.live_set_id)
        assert stored.status is LiveSetStatus.EXPIRY_SUCCESS

    def test_from_another_work_location_it_does_not(self, scene: NessieScene) -> None:
        """What that process deleted would not be known here."""
        marked = self._begun(scene, "s3://elsewhere/work")
        with pytest.raises(ConfigError, match="s3://elsewhere/work"):
            scene.expire(marked)

    def test_who_comes_late_to_the_lease_leaves_the_status_alone(self, scene: NessieScene) -> None:
        """Two processes read on; the one that has the lease ends the expiry."""
        marked = scene.mark()
        purpose, folder = "expiry", SetFolder(marked.live_set_id).root
        with (
            Lease(scene.context().resources.store, purpose, purpose, folder=folder),
            pytest.raises(UnsafeToSweepError, match="Another collector"),
        ):
            scene.expire(marked)
        stored = scene.live_sets.get(marked.live_set_id)
        assert stored.status is LiveSetStatus.EXPIRY_IN_PROGRESS


class TestInterrupted:
    def _with_orphans(self, scene: NessieScene, count: int = 30) -> SceneTable:
        orders = scene.table("orders")
        orders.append("a.parquet")
        for number in range(count):
            orders.iceberg.write_orphan(f"{number:02d}.parquet")
        return orders

    @pytest.mark.parametrize("survived", [0, 1, 2])
    def test_the_same_command_goes_on_and_the_totals_add_up(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch, survived: int
    ) -> None:
        """Killed between two chunks, with deletes done whose outcome was never written."""
        orders = self._with_orphans(scene)
        marked = scene.mark()
        monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 10)
        calls = 0
        real = ObjectStore.delete_many

        def dying(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
            nonlocal calls
            calls += keys[0].endswith(".parquet")
            outcomes = real(store, keys, **how)
            if calls > survived:
                raise KeyboardInterrupt
            return outcomes

        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "delete_many", dying)
            with pytest.raises(KeyboardInterrupt):
                scene.expire(marked)
        assert scene.live_sets.get(marked.live_set_id).status is LiveSetStatus.EXPIRY_FAILED

        record = scene.expire(marked)

        assert scene.files() == orders.live_files()
        assert record.status is RunStatus.SWEPT
        assert record.objects["garbage"] == 30
        # The chunk whose outcome nobody could write down is found gone.
        assert record.objects["deleted"] + record.objects["already_gone"] == 30
        assert record.objects["already_gone"] == 10

    def test_what_came_back_to_life_meanwhile_is_kept(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Going on re-verifies like any sweep."""
        orders, first, hash_ = _cut_off(scene)
        marked = scene.mark("1")

        def dying(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
            if keys[0].endswith(".json"):  # the lease's own
                return real(store, keys, **how)
            raise KeyboardInterrupt

        real = ObjectStore.delete_many
        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "delete_many", dying)
            with pytest.raises(KeyboardInterrupt):
                scene.expire(marked, ask_nessie=True)
        _branch(scene, hash_)

        record = scene.expire(marked, ask_nessie=True)

        assert orders.live_files(first) <= scene.files()
        assert record.objects["revived"] > 0

    def test_files_that_can_not_be_deleted_are_named(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Exit status 5, and the same command tries them again."""
        orders = self._with_orphans(scene, 3)
        marked = scene.mark()
        real = local_storage.LocalBackend._delete_one

        def denied(self: local_storage.LocalBackend, key: str, *how: Any) -> DeleteOutcome:
            if key.endswith("01.parquet"):
                return DeleteOutcome(key, DeleteStatus.DENIED, "not yours")
            return real(self, key, *how)

        with monkeypatch.context() as patched:
            patched.setattr(local_storage.LocalBackend, "_delete_one", denied)
            with pytest.raises(PartlySweptError, match=r"01\.parquet"):
                scene.expire(marked)
        assert len(scene.files() - orders.live_files()) == 1

        record = scene.expire(marked)
        assert scene.files() == orders.live_files()
        assert record.objects["deleted"] == 3

    @pytest.mark.parametrize("deferred", [False, True])
    def test_a_failure_after_the_first_delete_says_that_something_is_gone(
        self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch, deferred: bool
    ) -> None:
        """Exit status 5: that of the failure itself would promise that nothing was deleted."""
        orders = self._with_orphans(scene)
        marked = scene.mark()
        if deferred:
            scene.defer(marked)
        act = scene.delete_deferred if deferred else scene.expire
        monkeypatch.setattr(sweep_module, "_ROWS_PER_CHUNK", 10)
        real = ObjectStore.delete_many
        calls = 0

        def failing(store: ObjectStore, keys: list[str], **how: Any) -> list[DeleteOutcome]:
            nonlocal calls
            calls += keys[0].endswith(".parquet")
            if calls > 1:
                raise StorageError("the store is out of reach.")
            return real(store, keys, **how)

        with monkeypatch.context() as patched:
            patched.setattr(ObjectStore, "delete_many", failing)
            with pytest.raises(PartlySweptError, match="half-way") as stopped:
                act(marked)
        assert stopped.value.exit_status == 5
        assert len(scene.files() - orders.live_files()) == 20

        assert act(marked).status is RunStatus.SWEPT
        assert scene.files() == orders.live_files()

    def test_two_at_once(self, scene: NessieScene, monkeypatch: pytest.MonkeyPatch) -> None:
        """The second is refused and leaves no trace: the first goes on as if nobody had asked."""
        orders = self._with_orphans(scene)
        marked = scene.mark()
        real = mark_module.list_objects
        refused: list[UnsafeToSweepError] = []

        def meanwhile(*given: Any, **more: Any) -> Listing:
            monkeypatch.setattr(mark_module, "list_objects", real)
            with pytest.raises(UnsafeToSweepError, match="Another collector") as second:
                scene.expire(marked)
            refused.append(second.value)
            return real(*given, **more)

        monkeypatch.setattr(mark_module, "list_objects", meanwhile)
        record = scene.expire(marked)

        assert refused
        assert record.status is RunStatus.SWEPT
        assert scene.files() == orders.live_files()
        stored = scene.live_sets.get(marked.live_set_id)
        assert stored.status is LiveSetStatus.EXPIRY_SUCCESS

    def test_a_set_that_another_machine_expires_is_left_alone(
        self, scene: NessieScene, tmp_path: Path
    ) -> None:
        """Its status says that somebody is at work, and nothing of that work is here."""
        self._with_orphans(scene)
        marked = scene.mark()
        scene.live_sets.start_expire(marked.live_set_id, marked.created)
        before = scene.files()
        with pytest.raises(ConfigError, match="being expired"):
            scene.expire(marked)
        assert scene.files() == before
