"""Requests that another one overtakes, or that fail half-way: what was answered before stands, and nothing stays for ever."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest

from lakesweep.errors import StorageError
from lakesweep.lake import tasks
from lakesweep.lake.errors import (
    ConflictError,
    InvalidRequestError,
    MissingError,
    NoChangesError,
    RefStoreError,
)
from lakesweep.lake.hard_delete import reviewer as reviewing
from lakesweep.lake.hard_delete.queue import Queue, Queued
from lakesweep.lake.kv.interface import Change
from lakesweep.lake.objects.objects import Objects
from lakesweep.lake.staging.resetting import Resetting
from lakesweep.lake.tasks import RunningTask
from lakesweep.lake.values import ImportSource, ObjectStats, Repository
from lakesweep.storage import DeleteOutcome, DeleteStatus, ObjectStore
from lakesweep_testing.asgi import AsgiLake
from lakesweep_testing.lakes import LakeRepo
from lakesweep_testing.memory_kv import MemoryKeyValueStore


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


def _commit_ids(repo: LakeRepo) -> set[str]:
    return {commit.id for commit in repo.lake.commits.all(repo.record)}


@pytest.mark.parametrize("is_deleted_before", [False, True])
def test_upload_that_must_find_nothing_is_written_once(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, is_deleted_before: bool
) -> None:
    """It was staged and read; that it was committed and written over at once makes no refusal of it."""
    repo.put("a", b"old")
    repo.commit()
    repo.lake.objects.delete(repo.record, "main", "a")
    if is_deleted_before:
        repo.commit()
    change_all = repo.kv.change_all

    def change_then_overwrite(changes: Sequence[Change], *rest: Any, **how: Any) -> bool:
        done = change_all(changes, *rest, **how)
        if changes[0].key == b"a":
            monkeypatch.undo()
            assert repo.read("a") == b"new"
            repo.commit()
            repo.put("a", b"newer")
        return done

    monkeypatch.setattr(repo.kv, "change_all", change_then_overwrite)
    repo.put("a", b"new", if_absent=True)
    assert repo.read("a") == b"newer"


def test_upload_that_must_find_nothing_writes_to_no_sealed_token(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit may have passed its path there: it is staged anew, and lost by nobody."""
    change_all = repo.kv.change_all

    def commit_then_change(changes: Sequence[Change], *rest: Any, **how: Any) -> bool:
        if changes[0].key == b"a":
            monkeypatch.undo()
            repo.put("b")
            repo.commit()
        return change_all(changes, *rest, **how)

    monkeypatch.setattr(repo.kv, "change_all", commit_then_change)
    repo.put("a", b"new", if_absent=True)
    assert repo.read("a") == b"new"
    repo.commit()
    assert repo.contents() == {"a": b"new", "b": b"data"}


def test_hard_reset_shows_what_it_goes_to(repo: LakeRepo) -> None:
    """What the reset of an object staged, as the old head has it, hides nothing of the new head; changes stay staged."""
    repo.put("a", b"1")
    first = repo.commit()
    repo.put("a", b"2")
    repo.commit()
    repo.put("a", b"3")
    repo.put("b", b"changed")
    repo.lake.resetting.reset(repo.record, "main", "object", "a")
    repo.lake.resetting.hard_reset(repo.record, "main", first)
    assert repo.contents() == {"a": b"1", "b": b"changed"}


def test_hard_reset_takes_no_change_that_comes_meanwhile(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload to a path that was staged as the head has it stays."""
    repo.put("a", b"1")
    first = repo.commit()
    repo.put("b")
    repo.commit()
    repo.put("a", b"1")
    take_away = repo.lake.resetting._staging.take_away

    def upload_then_take(*arguments: Any) -> bool:
        monkeypatch.undo()
        repo.put("a", b"meanwhile")
        return take_away(*arguments)

    monkeypatch.setattr(repo.lake.resetting._staging, "take_away", upload_then_take)
    repo.lake.resetting.hard_reset(repo.record, "main", first)
    assert repo.contents() == {"a": b"meanwhile"}


def test_hard_reset_is_not_begun_anew_by_reviews(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To look through what is staged may take longer than a review, each of which changes the fence."""
    repo.put("a", b"1")
    first = repo.commit()
    repo.put("a", b"2")
    repo.commit()
    repo.put("b")
    looks, look = [], Resetting._let_go_of_what_is_no_change

    def look_during_a_review(*arguments: Any) -> bool:
        found = repo.lake.fence.read(repo.record)
        repo.kv.change_all([repo.lake.fence.change(found, found.state)])
        looks.append(found)
        return look(*arguments)

    monkeypatch.setattr(Resetting, "_let_go_of_what_is_no_change", look_during_a_review)
    repo.lake.resetting.hard_reset(repo.record, "main", first)
    assert (len(looks), repo.read("a")) == (1, b"1")


def test_hard_reset_to_nothing_lets_go_of_nothing(repo: LakeRepo) -> None:
    """What is staged stays where the ref does not exist."""
    repo.put("a", b"1")
    repo.commit()
    staged = repo.put("a", b"1")
    with pytest.raises(MissingError):
        repo.lake.resetting.hard_reset(repo.record, "main", "nowhere")
    assert repo.address("a") == staged


def test_object_that_a_hard_reset_lets_go_of_is_reviewed() -> None:
    """The same content uploaded again has bytes of its own, which nothing names any more."""
    repo = LakeRepo(hard_delete=True).create()
    repo.put("a", b"1")
    repo.commit()
    again = repo.put("a", b"1")
    repo.lake.resetting.hard_reset(repo.record, "main", "main")
    assert [one.dropped.address for one in repo.lake.delete_queue.all(repo.record)] == [again]


def test_deleted_branch_leaves_no_commit_that_was_under_way(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its record would keep the objects for ever."""
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    repo.put("a", branch="dev")
    before, make = _commit_ids(repo), repo.lake.commits.make

    def make_then_delete(*args: Any, **how: Any) -> Any:
        made = make(*args, **how)
        repo.lake.branches.delete(repo.record, "dev")
        return made

    monkeypatch.setattr(repo.lake.commits, "make", make_then_delete)
    with pytest.raises(MissingError):
        repo.commit("dev")
    assert _commit_ids(repo) == before


def test_cancelled_import_leaves_no_commit(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Told to stop when its commit is made already, and the branch not moved yet."""
    source = LakeRepo().store
    source.write("x", b"x")
    make = repo.lake.commits.make

    def make_then_cancel(*args: Any, **how: Any) -> Any:
        made = make(*args, **how)
        for import_id in list(repo.lake.tasks._running):
            repo.lake.tasks.cancel(import_id)
        return made

    monkeypatch.setattr(repo.lake.commits, "make", make_then_cancel)
    before = _commit_ids(repo)
    sources = [ImportSource("common_prefix", f"{source.root}", "in/")]
    repo.lake.importing.start(repo.record, "main", sources, committer="me", message="m")
    repo.lake.tasks.close()
    assert _commit_ids(repo) == before


@pytest.mark.parametrize("name", ["other", "another"])
def test_creation_that_failed_leaves_its_namespace_free(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Whoever creates a repository there afterwards meets no marker of one that never came to be."""

    def fail(*_: Any, **__: Any) -> Any:
        raise RefStoreError("no room")

    namespace = f"{repo.namespace}-2"
    monkeypatch.setattr(repo.lake.branches, "create", fail)
    with pytest.raises(RefStoreError):
        repo.lake.repositories.create("other", namespace)
    monkeypatch.undo()
    repo.lake.repositories.create(name, namespace)


def test_creation_that_lost_its_name_leaves_its_namespace_free(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two users create one name at two places; the loser takes another name."""
    make = repo.lake.commits.make

    def lose_then_make(*args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        repo.server().repositories.create("wanted", f"{repo.namespace}-winner")
        return make(*args, **how)

    monkeypatch.setattr(repo.lake.commits, "make", lose_then_make)
    with pytest.raises(ConflictError):
        repo.lake.repositories.create("wanted", f"{repo.namespace}-loser")
    repo.lake.repositories.create("second", f"{repo.namespace}-loser")
    assert repo.lake.repositories.get("wanted").storage_namespace.endswith("-winner")


def test_creation_that_was_taken_over_takes_nothing_back(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server stood still for a minute, and the user asked again: what the second try made is not the first one's."""
    make = repo.lake.commits.make
    namespace = f"{repo.namespace}-2"

    def stand_still(*args: Any, **how: Any) -> Any:
        monkeypatch.undo()
        repo.clock.advance(minutes=2)
        repo.server().repositories.create("other", namespace)
        return make(*args, **how)

    monkeypatch.setattr(repo.lake.commits, "make", stand_still)
    with pytest.raises(ConflictError):
        repo.lake.repositories.create("other", namespace)
    made = repo.lake.repositories.get("other")
    assert repo.lake.branches.head(made, "main")
    store = repo.lake.repositories._context.store(made)
    assert made.instance_uid in store.read("_lakefs/dummy").decode()
    with pytest.raises(InvalidRequestError):
        repo.lake.repositories.create("third", namespace)


def test_taking_back_a_creation_harms_none_that_took_it_over(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server stood still for two minutes while it took back what it had made, and the user asked another one."""
    namespace = f"{repo.namespace}-2"
    read = ObjectStore.read

    def fail(*_: Any) -> Any:
        raise RefStoreError("no room")

    def stand_still(*arguments: Any) -> bytes:
        monkeypatch.undo()
        repo.clock.advance(minutes=2)
        repo.server().repositories.create("other", namespace)
        return read(*arguments)

    def fail_slowly(*_: Any) -> Any:
        monkeypatch.setattr(ObjectStore, "read", stand_still)
        fail()

    monkeypatch.setattr(repo.lake.branches, "create", fail_slowly)
    with pytest.raises(RefStoreError):
        repo.lake.repositories.create("other", namespace)
    made = repo.lake.repositories.get("other")
    assert repo.lake.branches.head(made, "main")
    with pytest.raises(InvalidRequestError):
        repo.lake.repositories.create("third", f"{namespace}/inside")


def test_creation_whose_end_is_not_known_can_be_repeated(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is taken back that may belong to a repository; a minute later the same creation takes it over."""
    set_if = repo.kv.set_if

    def fail_at_the_record(partition: str, key: bytes, *rest: Any) -> bool:
        if key == b"repos/other":
            raise RefStoreError("no answer")
        return set_if(partition, key, *rest)

    monkeypatch.setattr(repo.kv, "set_if", fail_at_the_record)
    with pytest.raises(RefStoreError):
        repo.lake.repositories.create("other", f"{repo.namespace}-2")
    monkeypatch.undo()
    repo.clock.advance(minutes=1)
    repo.lake.repositories.create("other", f"{repo.namespace}-2")


def test_upload_that_found_the_disk_full_can_be_aborted_at_once(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its parts are what fills the disk. Until then, only the same parts may be completed."""
    upload = repo.lake.multipart.create(repo.record, "main", "m").upload_id
    one, two = (
        repo.lake.multipart.upload_part(repo.record, upload, n, [b"%d" % n]) for n in (1, 2)
    )

    def fail(*_: Any) -> Any:
        raise StorageError("no space left on device")

    monkeypatch.setattr(ObjectStore, "write_stream", fail)
    with pytest.raises(StorageError):
        repo.lake.multipart.complete(repo.record, upload, [one, two])
    monkeypatch.undo()
    with pytest.raises(ConflictError):
        repo.lake.multipart.complete(repo.record, upload, [one])
    repo.lake.multipart.abort(repo.record, upload)
    assert not list(repo.store.keys("_lakefs/multipart/"))


def test_undo_window_begins_with_the_delete_that_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that refused at first made a first copy aside; its end takes nothing from the second."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=3)).create()
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
    repo.clock.advance(hours=1)

    def refuse(_: ObjectStore, keys: list[str]) -> list[DeleteOutcome]:
        return [DeleteOutcome(key, DeleteStatus.FAILED, "not now") for key in keys]

    monkeypatch.setattr(ObjectStore, "delete_many", refuse)
    repo.lake.reviewer.run()
    monkeypatch.undo()
    repo.clock.advance(hours=2)
    repo.lake.reviewer.run()
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert len(list(repo.lake.tombs.all(repo.record))) == 1
    repo.lake.tombs.bring_back(repo.record, address)
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert not list(repo.store.keys("_lakefs/hard-deleted/"))


def test_one_store_out_of_reach_stops_no_upkeep(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upload that ended has its parts there; the repositories behind it have their upkeep all the same."""
    upload = repo.lake.multipart.create(repo.record, "main", "m")
    repo.lake.multipart.upload_part(repo.record, upload.upload_id, 1, [b"x"])
    sane = repo.lake.repositories.create("sane", f"{repo.namespace}-2")
    repo.lake.linking.issue(sane, "main", "p")
    repo.clock.advance(days=2)

    def fail(*_: Any) -> Any:
        raise StorageError("no route to host")

    monkeypatch.setattr(ObjectStore, "delete_many", fail)
    repo.lake.housekeeping.run()
    assert not list(repo.lake.pending.all(sane))


def test_deleted_repository_leaves_no_fenced_addresses(repo: LakeRepo) -> None:
    """A sweep's batch lies in a partition of its own, of which only the repository's records tell."""
    repo.lake.fence_batches.add(repo.record, "batch-1234", ["data/x/y"])
    partition = repo.lake.fence_batches._fence.batch_partition(repo.record, "batch-1234")
    repo.lake.repositories.delete(repo.id)
    assert repo.kv.page(partition) == []


@pytest.mark.parametrize("is_part", [True, False])
def test_condition_of_a_copy_holds_for_the_bytes_that_are_copied(
    monkeypatch: pytest.MonkeyPatch, is_part: bool
) -> None:
    """The source is written anew after it was looked at: `x-amz-copy-source-if-match` names other bytes than these."""
    with AsgiLake() as lake:
        lake.lake.repositories.create("repo", f"mem://conditions-{is_part}/ns")
        etag = lake.send_s3("PUT", "/repo/main/a", b"one").headers["etag"]
        stat = Objects.stat

        def stat_then_write(self: Objects, *where: Any) -> ObjectStats:
            found = stat(self, *where)
            monkeypatch.undo()
            lake.lake.objects.upload(where[0], "main", "a", [b"two"])
            return found

        query = ""
        if is_part:
            begun = lake.send_s3("POST", "/repo/main/b?uploads=").text
            upload = begun.partition("<UploadId>")[2].partition("<")[0]
            query = f"?partNumber=1&uploadId={upload}"
        monkeypatch.setattr(Objects, "stat", stat_then_write)
        headers = {"x-amz-copy-source": "/repo/main/a", "x-amz-copy-source-if-match": etag}
        reply = lake.send_s3("PUT", f"/repo/main/b{query}", headers=headers)
        assert (reply.status_code, lake.send_s3("HEAD", "/repo/main/b").status_code) == (412, 404)


def test_diff_describes_the_commit_that_it_compares() -> None:
    """Not what is staged on the branch over it, such as a deletion."""
    with AsgiLake() as lake:
        repository = lake.lake.repositories.create("repo", "mem://right-sides/ns")
        lake.lake.refs.create_branch(repository, "dev", "main")
        committed = lake.lake.objects.upload(repository, "dev", "a", [b"one"])
        lake.lake.objects.upload(repository, "dev", "b", [b"one"])
        lake.lake.committing.commit(repository, "dev", "m", committer="me")
        lake.lake.objects.upload(repository, "dev", "a", [b"two"])
        lake.lake.objects.delete(repository, "dev", "b")
        diff = "/repositories/repo/refs/main/diff/dev?include_right_stats=true"
        reply = lake.send("GET", diff)
        assert reply.status_code == 200
        sums = [entry["right"]["checksum"] for entry in reply.json()["results"]]
        assert sums == [committed.checksum, committed.checksum]


def test_task_is_heard_of_after_the_ref_store_failed(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that goes on for long, and one whose end could not be written: neither passes for dead."""
    monkeypatch.setattr(tasks, "_HEARTBEAT", timedelta(milliseconds=1))
    set_ = repo.kv.set
    may_write, may_end, beats = threading.Event(), threading.Event(), threading.Semaphore(0)

    def fail_or_set(partition: str, key: bytes, value: bytes) -> None:
        if key.startswith(b"tasks/"):
            beats.release()
            if not may_write.is_set():
                raise RefStoreError("gone for a moment")
        set_(partition, key, value)

    def work(_: RunningTask) -> dict[str, Any]:
        may_end.wait(10)
        return {"done": True}

    ids = [repo.lake.tasks.start(repo.record, "TEST", work) for _ in range(2)]
    monkeypatch.setattr(repo.kv, "set", fail_or_set)
    repo.clock.advance(minutes=10)
    for _ in range(3):
        assert beats.acquire(timeout=10)
    may_write.set()
    while repo.lake.tasks.status(repo.record, ids[1]).completed:
        assert beats.acquire(timeout=10)
    may_write.clear()
    may_end.set()
    while repo.lake.tasks._running:
        assert beats.acquire(timeout=10)
    may_write.set()
    repo.lake.tasks.close()
    states = [repo.lake.tasks.status(repo.record, one) for one in ids]
    assert [state.result for state in states] == [{"done": True}, {"done": True}]


def test_commits_without_changes_leave_nothing_behind(repo: LakeRepo) -> None:
    """A job uploads the same file again each hour and commits: neither tokens nor objects pile up."""
    kept = repo.put("a")
    repo.commit()
    for _ in range(4):
        repo.put("a")
        with pytest.raises(NoChangesError):
            repo.commit()
        assert len(repo.lake.branches.head(repo.record, "main").sealed_tokens) <= 1
    assert (repo.address("a"), repo.uncommitted()) == (kept, [])


def test_store_that_refuses_deletes_is_asked_less_and_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each try leaves a record, and a copy aside: an hour of tries is a few of them. What can go does not wait behind."""
    monkeypatch.setattr(reviewing, "_MOST_AT_ONCE", 1)
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=3)).create()
    kept, going = repo.put("a"), repo.put("b")
    delete_many = ObjectStore.delete_many

    def refuse_one(store: ObjectStore, keys: list[str]) -> list[DeleteOutcome]:
        refused = [DeleteOutcome(key, DeleteStatus.FAILED, "locked") for key in keys if key == kept]
        return refused or delete_many(store, keys)

    monkeypatch.setattr(ObjectStore, "delete_many", refuse_one)
    for path in ("a", "b"):
        repo.lake.objects.delete(repo.record, "main", path, no_tombstone=True)
        repo.clock.advance(seconds=1)
    for _ in range(60):
        repo.clock.advance(minutes=1)
        repo.lake.reviewer.run()
    assert repo.store.find(going) is None
    assert 2 < len(list(repo.lake.delete_ledger.rows(repo.record, {kept}))) < 10
    monkeypatch.setattr(ObjectStore, "delete_many", delete_many)
    repo.clock.advance(days=1)
    repo.lake.reviewer.run()
    assert repo.store.find(kept) is None
    assert not repo.lake.reviewer._fence.read(repo.record).state.condemned


def _refuse_all(_: ObjectStore, keys: list[str]) -> list[DeleteOutcome]:
    return [DeleteOutcome(key, DeleteStatus.FAILED, "denied") for key in keys]


def test_what_a_store_refuses_does_not_pile_up_in_the_fence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every commit and copy reads the record of what is condemned. What waits for its turn goes once the store deletes."""
    monkeypatch.setattr(reviewing, "_MOST_AT_ONCE", 2)
    monkeypatch.setattr(reviewing, "_MOST_CONDEMNED", 3)
    repo = LakeRepo(hard_delete=True).create()
    for path in "abcdef":
        repo.put(path)
        repo.lake.objects.delete(repo.record, "main", path, no_tombstone=True)
    with monkeypatch.context() as refusing:
        refusing.setattr(ObjectStore, "delete_many", _refuse_all)
        for _ in range(20):
            repo.clock.advance(minutes=1)
            repo.lake.reviewer.run()
            assert len(repo.lake.reviewer._fence.read(repo.record).state.condemned) <= 3
    for _ in range(5):
        repo.clock.advance(days=1)
        repo.lake.reviewer.run()
    assert not list(repo.store.keys("data/"))
    assert not repo.lake.reviewer._fence.read(repo.record).state.condemned


def test_queue_is_not_read_for_a_refused_delete_before_its_next_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One locked object must not make every review read all that waits, which may be millions of records."""
    repo = LakeRepo(hard_delete=True).create()
    repo.put("a")
    repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
    monkeypatch.setattr(ObjectStore, "delete_many", _refuse_all)
    repo.clock.advance(minutes=5)
    repo.lake.reviewer.run()
    queue, reads = repo.lake.reviewer._queue, []

    def all_records(repository: Repository) -> Iterator[Queued]:
        reads.append(repository)
        return Queue.all(queue, repository)

    monkeypatch.setattr(queue, "all", all_records)
    for _ in range(50):
        repo.clock.advance(seconds=1)
        repo.lake.reviewer.run()
    assert len(reads) == 1


def test_stranger_who_logs_in_is_not_told_where_the_ref_store_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Logging in needs no credentials, and looks them up."""

    def fail(*_: Any) -> Any:
        raise RefStoreError("the ref store at db.internal is away")

    kv = MemoryKeyValueStore()
    with AsgiLake(kv=kv) as lake:
        monkeypatch.setattr(kv, "get", fail)
        key = {"access_key_id": "AKIAX", "secret_access_key": "x"}
        reply = lake.send_raw("POST", "/api/v1/auth/login", json=key)
        assert reply.status_code == 503
        assert "db.internal" not in reply.text
