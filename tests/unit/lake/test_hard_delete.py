"""Online hard delete: what loses its last reference goes, what anything refers to stays, and nothing comes back half."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import NoReturn

import pytest

from lakesweep.errors import ObjectNotFoundError, StorageError
from lakesweep.lake.commits.committed import Committed
from lakesweep.lake.context import partition_of
from lakesweep.lake.errors import (
    CondemnedError,
    GoneError,
    MissingError,
    NoChangesError,
    PreconditionFailedError,
)
from lakesweep.lake.hard_delete import reviewer as reviewing
from lakesweep.lake.hard_delete.references import Holder
from lakesweep.lake.lake import Lake
from lakesweep.lake.values import Repository
from lakesweep.storage import ObjectStore
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo(hard_delete=True).create()


def _review(repo: LakeRepo, lake: Lake | None = None, times: int = 1) -> None:
    """Let the grace pass, and review."""
    for _ in range(times):
        repo.clock.advance(minutes=5)
        (lake or repo.lake).reviewer.run()


def _is_there(repo: LakeRepo, address: str) -> bool:
    return repo.store.find(address) is not None


def _condemned(repo: LakeRepo) -> set[str]:
    return set(repo.lake.fence.read(repo.record).state.condemned)


def _condemn(repo: LakeRepo, *addresses: str) -> None:
    repo.lake.reviewer._condemn(repo.record, addresses, repo.clock())


def _queue_length(repo: LakeRepo) -> int:
    return repo.lake.delete_queue.length_and_oldest(repo.record)[0]


def _copy(repo: LakeRepo, dest: str, source: str) -> None:
    repo.lake.copying.copy(repo.record, "main", dest, source)


def _drop_by_overwrite(repo: LakeRepo) -> None:
    repo.put("a", b"new")


def _drop_by_delete(repo: LakeRepo) -> None:
    repo.lake.objects.delete(repo.record, "main", "a")


def _drop_without_tombstone(repo: LakeRepo) -> None:
    repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)


def _drop_many(repo: LakeRepo) -> None:
    repo.lake.objects.delete_many(repo.record, "main", ["a"])


def _drop_by_small_uploads(repo: LakeRepo) -> None:
    uploads = repo.lake.small_uploads
    new = uploads.prepare(repo.record, "main", "a", [b"new"])
    assert new is not None
    uploads.store([new])


def _reset(kind: str) -> Callable[[LakeRepo], None]:
    def reset(repo: LakeRepo) -> None:
        repo.lake.resetting.reset(repo.record, "main", kind, "" if kind == "reset" else "a")  # type: ignore[arg-type]

    return reset


def _drop_by_commit_of_a_newer_one(repo: LakeRepo) -> None:
    """Two sealed tokens have the path; the commit takes the newer."""
    repo.lake.committing._staging.seal(repo.record, "main")
    repo.put("a", b"newer")
    repo.commit()


@pytest.mark.parametrize(
    "drop",
    [
        _drop_by_overwrite,
        _drop_by_delete,
        _drop_without_tombstone,
        _drop_many,
        _drop_by_small_uploads,
        _reset("reset"),
        _reset("object"),
        _reset("common_prefix"),
        _drop_by_commit_of_a_newer_one,
    ],
)
def test_what_loses_its_last_reference_goes(
    repo: LakeRepo, drop: Callable[[LakeRepo], None]
) -> None:
    """Whatever drops a staged object, it is gone after a review, and the ledger tells of it."""
    kept = repo.put("kept", b"kept")
    address = repo.put("a", b"old")
    drop(repo)
    if "_reset" in drop.__qualname__:
        repo.commit(allow_empty=True)
    _review(repo)
    assert not _is_there(repo, address)
    [row] = list(repo.lake.delete_ledger.rows(repo.record, {address}))
    assert (row.outcome, row.dropped.path) == ("gone", "a")
    assert not _condemned(repo)
    if "kept" in repo.paths():
        assert _is_there(repo, kept)
        assert repo.read("kept") == b"kept"


def test_staged_objects_of_a_deleted_branch_go(repo: LakeRepo) -> None:
    """All that was staged there and nowhere else."""
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    address = repo.put("a", branch="dev")
    repo.lake.branches.delete(repo.record, "dev")
    _review(repo)
    assert not _is_there(repo, address)


def test_entries_that_a_commit_leaves_out_go(repo: LakeRepo) -> None:
    """A commit keeps the committed entry where the staged one has the same content: the staged object is dropped."""
    first = repo.put("a", b"same")
    repo.commit()
    second = repo.put("a", b"same")
    repo.put("b", b"other")
    repo.commit()
    assert repo.address("a") == first
    _review(repo)
    assert (_is_there(repo, first), _is_there(repo, second)) == (True, False)
    assert repo.contents() == {"a": b"same", "b": b"other"}


def test_committed_objects_stay_and_are_not_looked_at_again(repo: LakeRepo) -> None:
    """A commit that stays holds its objects, also when the branch has moved on."""
    address = repo.put("a", b"v1")
    commit = repo.commit()
    repo.put("a", b"v2")
    repo.commit()
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    assert repo.read("a", commit) == b"v1"
    assert _is_there(repo, address)
    assert _queue_length(repo) == 0


@pytest.mark.parametrize("how", ["abort", "expiry"])
def test_object_of_an_upload_that_was_given_up_goes(repo: LakeRepo, how: str) -> None:
    """Its server had joined the parts and died before it staged the entry."""
    made = repo.lake.multipart.create(repo.record, "main", "a")
    address = repo.relative(made.physical_address)
    repo.store.write(address, b"joined")
    if how == "abort":
        repo.lake.multipart.abort(repo.record, made.upload_id)
    else:
        repo.clock.advance(days=2)
        repo.lake.housekeeping.run()
    _review(repo)
    assert not _is_there(repo, address)


def test_uploads_under_way_stay(repo: LakeRepo) -> None:
    """Also when a record of the queue names the address."""
    issued = repo.lake.linking.issue(repo.record, "main", "a")
    address = repo.relative(issued.physical_address)
    repo.store.write(address, b"uploaded")
    found = repo.lake.reviewer._references.find(repo.record, {address})
    assert found == {address: Holder.PASSING}


def test_a_copied_object_goes_with_its_last_path(repo: LakeRepo) -> None:
    """It stays while a path has it or the copy is tracked, and is gone when both are over, whoever dropped it last."""
    address = repo.put("a", b"x")
    _copy(repo, "b", "a")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo, times=3)
    assert repo.read("b") == b"x"
    repo.clock.advance(days=15)
    repo.lake.housekeeping.run()
    _review(repo)
    assert repo.read("b") == b"x"
    repo.lake.objects.delete(repo.record, "main", "b")
    _review(repo)
    assert not _is_there(repo, address)


def test_new_metadata_drop_nothing(repo: LakeRepo) -> None:
    """The entry is another, its address the same."""
    repo.put("a", b"x")
    repo.lake.copying.set_user_metadata(repo.record, "main", "a", {"k": "v"})
    assert _queue_length(repo) == 0


def test_readers_have_their_time(repo: LakeRepo) -> None:
    """Nothing goes before the grace is over."""
    address = repo.put("a", b"old")
    repo.put("a", b"new")
    repo.lake.reviewer.run()
    assert _is_there(repo, address)
    _review(repo)
    assert not _is_there(repo, address)


def test_nothing_is_queued_where_it_is_off(repo: LakeRepo) -> None:
    """A repository's own switch counts before the server's."""
    repo.lake.repositories.set_hard_delete(repo.id, False)
    address = repo.put("a", b"old")
    repo.put("a", b"new")
    repo.lake.resetting.reset(repo.record, "main", "reset")
    _review(repo)
    assert _is_there(repo, address)
    assert _queue_length(repo) == 0
    repo.lake.repositories.set_hard_delete(repo.id, None)
    assert repo.record.hard_delete is None


def _shallow_copy(repo: LakeRepo) -> None:
    _copy(repo, "b", "a")


def _set_metadata(repo: LakeRepo) -> None:
    repo.lake.copying.set_user_metadata(repo.record, "main", "a", {"k": "v"})


@pytest.mark.parametrize("make", [_shallow_copy, _set_metadata, LakeRepo.commit])
def test_no_reference_is_made_to_a_condemned_address(
    repo: LakeRepo, make: Callable[[LakeRepo], object]
) -> None:
    """The operation is refused, and says what was not done."""
    address = repo.put("a", b"x")
    _condemn(repo, address)
    with pytest.raises(CondemnedError, match="nothing was"):
        make(repo)
    assert repo.lake.fence.refusals == 1


@pytest.mark.parametrize("make", [_shallow_copy, _set_metadata, LakeRepo.commit])
def test_a_fence_that_moved_keeps_a_reference_from_being_made(
    repo: LakeRepo, make: Callable[[LakeRepo], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Condemned between the check and the write: the write is not made."""
    address = repo.put("a", b"x")
    kv, fence = repo.kv, repo.lake.fence
    real = fence.read
    reads = 0

    def read_then_condemn(record: object) -> object:
        nonlocal reads
        reads += 1
        found = real(repo.record)
        if reads == 1:
            state = reviewing.replace(
                found.state,
                condemned={address: reviewing.Condemnation("x", repo.clock())},
            )
            assert kv.change_all([fence.change(found, state)])
        return found

    monkeypatch.setattr(fence, "read", read_then_condemn)
    with pytest.raises(CondemnedError):
        make(repo)


def test_the_source_is_read_again_when_the_fence_moved(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy whose source was dropped, deleted and lifted while it waited finds no source, and no dead address."""
    repo.put("a", b"x")
    other = repo.server()
    change_all = repo.kv.change_all
    is_done = False

    def slow(*arguments: object) -> bool:
        nonlocal is_done
        if not is_done:
            is_done = True
            monkeypatch.undo()
            other.objects.delete(repo.record, "main", "a")
            repo.clock.advance(days=15)
            other.housekeeping.run()
            _review(repo, other)
        return change_all(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(repo.kv, "change_all", slow)
    with pytest.raises(MissingError):
        _copy(repo, "b", "a")
    assert repo.paths() == []


def test_an_upload_that_was_thrown_away_is_not_staged_again(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset and a review between the first try and the second: the client is told, and no entry is dead."""
    repo.put("first", b"dropped before")
    repo.lake.objects.delete(repo.record, "main", "first")
    _review(repo)
    other = repo.server()
    staging = repo.lake.objects._staging
    real = staging._is_unchanged
    monkeypatch.setattr(
        staging,
        "_is_unchanged",
        lambda *arguments: (
            monkeypatch.undo(),
            other.resetting.reset(repo.record, "main", "reset"),
            _review(repo, other),
            real(*arguments),
        )[-1],
    )
    with pytest.raises(GoneError, match="thrown away"):
        repo.put("a", b"x")
    assert repo.paths() == []


class _Second:
    """Lets something happen between two looks of a review."""

    def __init__(self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
        self._references = repo.lake.reviewer._references
        self._patch = monkeypatch
        self.looks = 0

    def before_look(self, number: int, act: Callable[[], object]) -> None:
        real = self._references.find

        def find(*arguments: object) -> object:
            self.looks += 1
            if self.looks == number:
                act()
            return real(*arguments)  # type: ignore[arg-type]

        self._patch.setattr(self._references, "find", find)


def test_a_reference_made_between_the_looks_keeps_the_object(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second look finds it, and the condemnation is lifted."""
    address = repo.put("a", b"x")
    raw = repo.kv.get(repo.lake.branches.head(repo.record, "main").staging_token, b"a")
    assert raw is not None
    token = repo.lake.branches.head(repo.record, "main").staging_token
    repo.lake.objects.delete(repo.record, "main", "a")
    condemn = repo.lake.reviewer._condemn

    def slow(*arguments: object) -> object:
        repo.kv.set(token, b"b", raw)
        return condemn(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(repo.lake.reviewer, "_condemn", slow)
    _review(repo)
    assert repo.read("b") == b"x"
    assert not _condemned(repo)
    assert _queue_length(repo) == 1
    assert _is_there(repo, address)


def test_a_look_outside_its_condemnation_proves_nothing(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody lifted it while this reviewer looked: nothing is deleted."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    reviewer = repo.lake.reviewer

    def lift() -> None:
        reviewer._lift(repo.record, repo.lake.fence.read(repo.record).state.condemned, [])

    _Second(repo, monkeypatch).before_look(2, lift)
    _review(repo)
    assert _is_there(repo, address)


def test_nobody_lifts_what_a_review_has_taken_over(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another reviewer found a reference before it vanished, and lifts when this one is about to delete."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    other = repo.server().reviewer
    seen: list[object] = []

    def read_fence() -> None:
        seen.append(repo.lake.fence.read(repo.record).state.condemned)

    _Second(repo, monkeypatch).before_look(2, read_fence)
    real = ObjectStore.delete_many

    def lift_and_delete(store: ObjectStore, keys: list[str], **how: object) -> object:
        other._lift(repo.record, seen[0], [])  # type: ignore[arg-type]
        assert _condemned(repo) == {address}
        return real(store, keys, **how)  # type: ignore[arg-type]

    monkeypatch.setattr(ObjectStore, "delete_many", lift_and_delete)
    _review(repo)
    assert not _is_there(repo, address)
    assert not _condemned(repo)


def test_a_review_goes_on_where_another_died(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it had done: the next one deletes with the same condemnation, and lifts it."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")

    def die() -> None:
        raise RuntimeError

    _Second(repo, monkeypatch).before_look(2, die)
    with pytest.raises(RuntimeError):
        _review(repo)
    monkeypatch.undo()
    assert _condemned(repo) == {address}
    _review(repo, repo.server())
    assert not _is_there(repo, address)
    assert not _condemned(repo)
    assert _queue_length(repo) == 0


def _deny_deletes(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ObjectStore.delete_many

    def deny(store: ObjectStore, keys: list[str], **_how: object) -> object:
        return [
            outcome._replace(status=type(outcome.status).FAILED)
            for outcome in real(store, [f"absent/{key}" for key in keys])
            for outcome in [outcome._replace(key=outcome.key.removeprefix("absent/"))]
        ]

    monkeypatch.setattr(ObjectStore, "delete_many", deny)


@pytest.fixture
def reviews(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each review took of a queue of three, where one review takes two at most."""
    monkeypatch.setattr(reviewing, "_MOST_AT_ONCE", 2)
    taken: list[int] = []
    real = repo.lake.reviewer.review

    def counted(repository: Repository) -> int:
        assert len(taken) < 10, "reviews go on for ever"
        taken.append(real(repository))
        return taken[-1]

    monkeypatch.setattr(repo.lake.reviewer, "review", counted)
    for path in ("a", "b", "c"):
        repo.put(path, b"old")
        repo.put(path, b"new")
    return taken


def test_reviews_follow_each_other_until_nothing_is_due(repo: LakeRepo, reviews: list[int]) -> None:
    """One of them takes a bounded number of records."""
    _review(repo)
    assert reviews == [2, 1]


def test_what_the_store_keeps_is_not_tried_again_at_once(
    repo: LakeRepo, reviews: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try is a record in the ledger: a store that refuses deletes would fill the ref store as fast as it can answer."""
    _deny_deletes(monkeypatch)
    _review(repo)
    assert len(reviews) == 1


def test_where_it_was_switched_off_what_is_condemned_is_seen_through_once(
    repo: LakeRepo, reviews: list[int]
) -> None:
    """What else is due stays in the queue, however much it is."""
    address = repo.put("d", b"old")
    repo.put("d", b"new")
    _condemn(repo, address)
    repo.lake.repositories.set_hard_delete(repo.id, False)
    _review(repo)
    assert len(reviews) == 1
    assert not _is_there(repo, address)
    assert _queue_length(repo) == 3


def test_who_switches_it_off_ends_the_reviews(
    repo: LakeRepo, reviews: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for its review waits on, though a reviewer was at work on a long queue."""
    real = repo.lake.reviewer.review

    def switched_off_meanwhile(repository: Repository) -> int:
        taken = real(repository)
        repo.lake.repositories.set_hard_delete(repo.id, False)
        return taken

    monkeypatch.setattr(repo.lake.reviewer, "review", switched_off_meanwhile)
    _review(repo)
    assert reviews == [2]
    assert _queue_length(repo) == 1


def test_nothing_goes_while_its_repository_is_deleted(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that finds no commits any more proves nothing: refs that were dumped before may be restored."""
    address = repo.put("a", b"x")
    repo.commit()
    repo.lake.copying.set_user_metadata(repo.record, "main", "a", {"k": "v"})
    repo.lake.resetting.reset(repo.record, "main", "reset")
    repo.clock.advance(days=20)
    repo.lake.housekeeping.run()
    real = repo.lake.reviewer._dropped_entries.queue_all

    def deleted_in_part(repository: Repository) -> None:
        real(repository)
        partition = partition_of(repository)
        repo.kv.set(*repo.lake.repositories.held(replace(repository, is_in_deletion=True)))
        for key, _ in repo.kv.page(partition):
            if key < b"fence":
                repo.kv.delete(partition, key)

    monkeypatch.setattr(repo.lake.reviewer._dropped_entries, "queue_all", deleted_in_part)
    _review(repo)
    assert _is_there(repo, address)


def test_who_is_told_to_stop_leaves_the_rest_queued(repo: LakeRepo, reviews: list[int]) -> None:
    """A process whose server has gone must not go on for as long as there is something to delete."""
    repo.lake.reviewer.is_stopped = lambda: bool(reviews)
    _review(repo)
    assert reviews == [2]
    assert _queue_length(repo) == 1


def test_what_the_store_keeps_stays_condemned(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delete that failed may still arrive, so nobody may refer to the address; the next review tries again."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    with monkeypatch.context() as patch:
        _deny_deletes(patch)
        _review(repo)
    assert _condemned(repo) == {address}
    _review(repo)
    assert not _is_there(repo, address)
    assert not _condemned(repo)


def test_a_commit_that_was_lost_holds_its_objects_only_for_a_while(repo: LakeRepo) -> None:
    """While its record is there nothing goes; when its maker has removed it, the object does."""
    address = repo.put("a", b"x")
    repo.lake.committing._staging.seal(repo.record, "main")
    parent = repo.lake.commits.get(
        repo.record, repo.lake.branches.head(repo.record, "main").commit_id
    )
    record = repo.lake.branches.read(repo.record, "main")
    metarange, _ = repo.lake.committing._lay_over(repo.record, record, parent)
    commit = repo.lake.commits.make(
        repo.record,
        committer="me",
        message="lost",
        meta_range_id=metarange,
        creation_date=repo.clock(),
        parents=(parent,),
        metadata={},
    )
    repo.lake.resetting.reset(repo.record, "main", "reset")
    _review(repo)
    assert _is_there(repo, address)
    assert _queue_length(repo) == 1
    repo.lake.commits.remove_lost(repo.record, commit)
    _review(repo, times=2)
    assert not _is_there(repo, address)


def test_a_metarange_that_no_commit_has_is_not_committed(repo: LakeRepo) -> None:
    """It holds nothing, so what it names may be gone."""
    repo.put("a", b"x")
    commit = repo.commit()
    known = repo.lake.commits.get(repo.record, commit).meta_range_id  # type: ignore[arg-type]
    repo.lake.resetting.hard_reset(repo.record, "main", f"{commit}~1")
    repo.put("b", b"y")
    record = repo.lake.committing._staging.seal(repo.record, "main")
    parent = repo.lake.commits.get(repo.record, record.head.commit_id)
    unknown, _ = repo.lake.committing._lay_over(repo.record, record, parent)
    repo.lake.resetting.reset(repo.record, "main", "reset")
    _review(repo)
    with pytest.raises(CondemnedError) as refused:
        repo.commit(source_metarange=unknown)
    assert refused.value.kind == "unknown-metarange"
    repo.commit(source_metarange=known)
    assert repo.read("a") == b"x"


def test_two_reviewers_share_the_work_by_a_lease(repo: LakeRepo) -> None:
    """The second leaves it alone until the first has been silent for a while."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    other = repo.server()
    assert repo.lake.reviewer._has_lease(repo.record)
    repo.clock.advance(seconds=90)
    other.reviewer.run()
    assert _is_there(repo, address)
    _review(repo, other)
    assert not _is_there(repo, address)


def test_tokens_wait_for_their_entries_to_be_queued(repo: LakeRepo) -> None:
    """Housekeeping removes a dropped token only after a review has seen what was in it."""
    address = repo.put("a", b"x")
    repo.lake.resetting.reset(repo.record, "main", "reset")
    repo.clock.advance(days=1)
    repo.lake.housekeeping.run()
    _review(repo)
    assert not _is_there(repo, address)
    repo.lake.housekeeping.run()
    assert repo.kv.page("cleanup-tokens") == []


def test_a_deleted_object_is_brought_back_at_a_new_address() -> None:
    """With its metadata, where it was; a late delete of the old address hits nothing."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    address = repo.put("a", b"x", metadata={"k": "v"})
    repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
    _review(repo)
    assert not _is_there(repo, address)
    [tomb] = repo.lake.tombs.all(repo.record)
    assert tomb.dropped.address == address
    stats = repo.lake.tombs.bring_back(repo.record, address)
    assert stats.metadata == {"k": "v"}
    assert repo.relative(stats.physical_address) != address
    repo.store.delete_many([address])
    assert repo.read("a") == b"x"


def test_what_is_brought_back_replaces_nothing() -> None:
    """An object that was put there meanwhile stays."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    repo.put("a", b"newer")
    with pytest.raises(PreconditionFailedError, match="exists"):
        repo.lake.tombs.bring_back(repo.record, address)
    assert repo.read("a") == b"newer"
    repo.lake.tombs.bring_back(repo.record, address, path="b")
    assert repo.read("b") == b"x"


def test_upkeep_leaves_what_can_be_brought_back() -> None:
    """Until its time is over, its record and its bytes stay."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    repo.clock.advance(minutes=50)
    repo.lake.housekeeping.run()
    repo.lake.tombs.bring_back(repo.record, address)
    assert repo.read("a") == b"x"


def test_where_no_more_copies_can_be_kept_the_others_are_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else a disk that is full of copies stays full: each delete makes the room that the next copy needs."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    addresses = [repo.put(path, path.encode()) for path in "abc"]
    repo.lake.objects.delete_many(repo.record, "main", ["a", "b", "c"])
    room = iter(range(1))

    def copy(store: ObjectStore, source: str, target: str) -> None:
        if next(room, None) is None:
            raise StorageError("No space left on device")
        store.write(target, store.read(source))

    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "copy", copy)
        _review(repo)
    there = [address for address in addresses if _is_there(repo, address)]
    assert len(there) == 2
    assert _condemned(repo) == set(there)
    told = {row.dropped.address: row.outcome for row in repo.lake.delete_ledger.rows(repo.record)}
    assert [address for address in addresses if told[address] == "failed"] == there
    _review(repo)
    assert {tomb.dropped.address for tomb in repo.lake.tombs.all(repo.record)} == set(addresses)
    assert not any(_is_there(repo, address) for address in addresses)


def test_what_is_too_big_to_be_kept_stands_in_nobodys_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3 copies no object of more than 5 GiB, and a small disk has no room for one: all smaller ones go."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    # Reviewed in the order of their names, one of which comes before and one after that of the big one.
    addresses = {path: repo.put(path, b"x" * (1 + 8 * (path == "b"))) for path in "abc"}
    repo.lake.objects.delete_many(repo.record, "main", ["a", "b", "c"])
    real = ObjectStore.copy

    def copy(store: ObjectStore, source: str, target: str) -> None:
        if source == addresses["b"]:
            raise StorageError(
                "The specified copy source is larger than the maximum allowable size"
            )
        real(store, source, target)

    monkeypatch.setattr(ObjectStore, "copy", copy)
    _review(repo)
    assert [path for path in "abc" if _is_there(repo, addresses[path])] == ["b"]
    assert _condemned(repo) == {addresses["b"]}


def test_nothing_is_brought_back_after_its_time() -> None:
    """The bytes are removed, and the record after them."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    repo.clock.advance(hours=2)
    with pytest.raises(MissingError):
        repo.lake.tombs.bring_back(repo.record, address)
    repo.lake.housekeeping.run()
    with pytest.raises(ObjectNotFoundError):
        repo.store.stat(f"_lakefs/hard-deleted/{address}")
    assert repo.kv.page(partition_of(repo.record), prefix=b"hard-delete/tombs/") == []


def test_a_tomb_is_remembered_until_its_bytes_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No collector looks where the bytes lie: without the record they would stay for ever."""
    repo = LakeRepo(hard_delete=True, undo_window=timedelta(hours=1)).create()
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    repo.clock.advance(hours=2)
    with monkeypatch.context() as patch:
        _deny_deletes(patch)
        repo.lake.housekeeping.run()
    assert repo.store.find(f"_lakefs/hard-deleted/{address}") is not None
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert repo.store.find(f"_lakefs/hard-deleted/{address}") is None


def test_what_is_held_is_looked_at_later_and_later(repo: LakeRepo) -> None:
    """After 1, 2, 4 … minutes, at last once a day: who holds a million objects for weeks would keep a reviewer busy."""
    repo.put("a", b"x")
    _copy(repo, "b", "a")
    repo.lake.objects.delete(repo.record, "main", "a")
    waits: list[timedelta] = []
    repo.clock.advance(minutes=2)
    for _ in range(13):
        repo.lake.reviewer.run()
        [queued] = repo.lake.delete_queue.all(repo.record)
        waits.append(queued.due - repo.clock())
        repo.clock.now = queued.due
    assert waits[:4] == [timedelta(minutes=2**number) for number in range(4)]
    assert waits[-1] == timedelta(days=1)


def test_objects_that_others_put_there_are_left_alone(repo: LakeRepo) -> None:
    """Only what this lake put below data/ goes."""
    references = repo.lake.reviewer._references
    assert references.find(repo.record, {"elsewhere/x"}) == {}
    repo.store.write("elsewhere/x", b"theirs")
    note = repo.lake.delete_queue.note(
        repo.record, reviewing.Dropped("elsewhere/x", "main", "a", repo.clock())
    )
    repo.kv.change_all([note])
    _review(repo)
    assert _is_there(repo, "elsewhere/x")
    assert _queue_length(repo) == 0


def _held(repo: LakeRepo, address: str) -> Holder | None:
    return repo.lake.reviewer._references.find(repo.record, {address}).get(address)


def test_a_tracked_copy_holds_its_object(repo: LakeRepo) -> None:
    """Whoever made the copy may be about to stage it."""
    address = repo.put("a", b"x")
    _copy(repo, "b", "a")
    repo.lake.objects.delete_many(repo.record, "main", ["a", "b"])
    assert _held(repo, address) is Holder.PASSING


def test_sealed_entries_hold_their_objects(repo: LakeRepo) -> None:
    """A commit under way has them; also one that newer entries hide."""
    address = repo.put("a", b"x")
    repo.lake.committing._staging.seal(repo.record, "main")
    repo.lake.objects.delete(repo.record, "main", "a")
    assert _held(repo, address) is Holder.PASSING


def test_committed_objects_stay_whatever_is_queued(repo: LakeRepo) -> None:
    """The look finds each of several objects in a range, and tells that its commit stays."""
    addresses = [repo.put(path, path.encode()) for path in ("a", "b", "c")]
    repo.commit()
    repo.lake.objects.delete_many(repo.record, "main", ["a", "b", "c"])
    repo.commit()
    for address in addresses:
        assert _held(repo, address) is Holder.COMMIT
        dropped = reviewing.Dropped(address, "main", "a", repo.clock())
        repo.kv.change_all([repo.lake.delete_queue.note(repo.record, dropped)])
    _review(repo)
    assert all(_is_there(repo, address) for address in addresses)
    assert _queue_length(repo) == 0


def test_the_fence_is_read_before_the_source_of_a_copy(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the source may be dropped, deleted and lifted in between, and the fence says nothing of it."""
    address = repo.put("a", b"x")
    copying, other = repo.lake.copying, repo.server()
    real = copying._entries.find_staged
    finds = 0

    def find(*arguments: object) -> bytes | None:
        nonlocal finds
        finds += 1
        found = real(*arguments)  # type: ignore[arg-type]
        if finds == 2:
            # What the copy is made of was read for the last time.
            other.objects.delete(repo.record, "main", "a")
            repo.clock.advance(days=15)
            other.housekeeping.run()
            _review(repo, other)
            assert not _is_there(repo, address)
        return found

    monkeypatch.setattr(copying._entries, "find_staged", find)
    with pytest.raises(MissingError):
        _copy(repo, "b", "a")
    assert repo.paths() == []


def test_of_two_uploads_to_a_path_in_one_batch_one_goes(repo: LakeRepo) -> None:
    """The later one is staged, the other is queued at once."""
    uploads = repo.lake.small_uploads
    both = [uploads.prepare(repo.record, "main", "a", [body]) for body in (b"1", b"2")]
    first, second = uploads.store([upload for upload in both if upload is not None])
    assert not isinstance(first, Exception)
    assert not isinstance(second, Exception)
    _review(repo)
    assert not _is_there(repo, repo.relative(first.physical_address))
    assert repo.read("a") == b"2"


def test_of_writers_of_one_path_each_queues_what_it_writes_over(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another upload comes between the look at what is there and the write: it is not forgotten."""
    between: list[str] = []
    real = repo.kv.change_all

    def slow(*arguments: object) -> bool:
        if not between:
            monkeypatch.undo()
            between.append(repo.put("a", b"between"))
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(repo.kv, "change_all", slow)
    repo.put("a", b"last")
    _review(repo)
    assert repo.read("a") == b"last"
    assert not _is_there(repo, between[0])


def test_who_reviews_lets_others_write(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rest follows every transaction: who condemned, took over or lifted does not write again at once."""
    repo.put("a", b"old")
    repo.put("a", b"new")
    happened: list[str] = []
    real = repo.kv.change_all

    def counted(*arguments: object, is_durable: bool) -> bool:
        happened.append("transaction")
        return real(*arguments, is_durable=is_durable)  # type: ignore[arg-type]

    monkeypatch.setattr(repo.kv, "change_all", counted)
    monkeypatch.setattr(repo.lake.reviewer, "rest", lambda _: happened.append("rest"))
    repo.clock.advance(minutes=5)
    repo.lake.reviewer.review(repo.record)
    assert _queue_length(repo) == 0
    assert happened == ["transaction", "rest"] * 3


def test_only_what_tells_of_a_delete_waits_for_the_disk(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is on the disk before the bytes go. What comes before and after may be undone by a power cut: it is repeated."""
    address = repo.put("a", b"old")
    repo.put("a", b"new")
    happened: list[tuple[bool, bool]] = []
    real = repo.kv.change_all

    def watched(*arguments: object, is_durable: bool) -> bool:
        happened.append((is_durable, _is_there(repo, address)))
        return real(*arguments, is_durable=is_durable)  # type: ignore[arg-type]

    monkeypatch.setattr(repo.kv, "change_all", watched)
    _review(repo)
    leased, condemned, taken_over, lifted = happened
    assert leased == condemned == (False, True)
    assert taken_over == (True, True)
    assert lifted == (False, False)


def test_a_review_waits_until_nobody_drops(repo: LakeRepo) -> None:
    """Users go first, as long as they write without a pause, and it is not for too long."""
    address = repo.put("a", b"0")
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        repo.clock.advance(seconds=seconds)
        assert _is_there(repo, address)
        if len(pauses) < 5:
            repo.put("a", b"%d" % len(pauses))
        return False

    repo.put("a", b"1")
    repo.clock.advance(minutes=5)
    repo.put("a", b"2")
    repo.lake.reviewer.pause = pause
    repo.lake.reviewer.run()
    assert len(pauses) > 5
    assert not _is_there(repo, address)


def test_a_review_does_not_wait_for_ever(repo: LakeRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users never stop, it goes on beside them."""
    address = repo.put("a", b"0")
    repo.put("a", b"1")
    repo.clock.advance(minutes=5)
    passed = 0.0
    monkeypatch.setattr(reviewing.time, "monotonic", lambda: passed)

    def pause(seconds: float) -> bool:
        nonlocal passed
        passed += seconds
        assert passed < 60
        repo.put("a", b"again")
        return False

    repo.put("a", b"2")
    repo.lake.reviewer.pause = pause
    repo.lake.reviewer.run()
    assert passed > 1
    assert not _is_there(repo, address)


def test_who_is_told_to_end_waits_no_longer(repo: LakeRepo) -> None:
    """The review that it is at is its last."""
    repo.put("a", b"0")
    repo.put("a", b"1")
    pauses: list[float] = []
    repo.lake.reviewer.pause = lambda seconds: not pauses.append(seconds)  # type: ignore[func-returns-value]
    repo.lake.reviewer.run()
    assert len(pauses) == 1


def test_a_record_that_was_put_off_is_no_drop(repo: LakeRepo) -> None:
    """Its time lies further ahead than that of anything that users drop now."""
    address = repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    queue = repo.lake.delete_queue
    moment = repo.clock()
    assert queue.has_drops(repo.record, moment - timedelta(seconds=1))
    repo.clock.advance(minutes=5)
    assert not queue.has_drops(repo.record, moment + timedelta(seconds=1))
    (one,) = queue.all(repo.record)
    assert one.dropped.address == address
    repo.kv.change_all(queue.later(repo.record, one, repo.clock() + timedelta(minutes=9)))
    assert not queue.has_drops(repo.record, repo.clock())


def test_a_fence_of_many_addresses_is_packed(repo: LakeRepo) -> None:
    """Who writes it keeps others waiting for as long as it is; it reads as it was."""
    addresses = {f"data/ft94kpt9jc67fgg3iop0/dbubh8d9jc67fgg3k{n:04}" for n in range(1000)}
    _condemn(repo, *addresses)
    assert _condemned(repo) == addresses
    assert len(repo.lake.fence.read(repo.record).held[2]) < 20_000


def test_no_commit_is_stored_of_entries_that_were_thrown_away(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset and a review while the commit writes its ranges: no record may name the object, not even for a moment."""
    address = repo.put("a", b"x")
    committing, other = repo.lake.committing, repo.server()
    real = committing._lay_over

    def slow(*arguments: object) -> object:
        laid = real(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(committing, "_lay_over", real)
        other.resetting.reset(repo.record, "main", "reset")
        _review(repo, other)
        assert not _is_there(repo, address)
        return laid

    monkeypatch.setattr(committing, "_lay_over", slow)
    made: list[object] = []
    make = repo.lake.commits.make
    monkeypatch.setattr(
        repo.lake.commits, "make", lambda *a, **k: made.append(commit := make(*a, **k)) or commit
    )
    with pytest.raises(NoChangesError):
        repo.commit()
    assert made == []


def test_a_commit_leaves_out_what_a_slow_writer_took_from_a_sealed_token(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the entry; then a delete that began before the seal writes over it, and a review deletes the object."""
    address = repo.put("a", b"x")
    repo.put("kept", b"y")
    committing, other = repo.lake.committing, repo.server()
    before = other.branches.read(repo.record, "main")
    real = committing._lay_over

    def slow(*arguments: object) -> object:
        laid = real(*arguments)  # type: ignore[arg-type]
        monkeypatch.undo()
        other.objects._staging._write_noting(repo.record, before, [(b"a", b"")], [])
        _review(repo, other)
        assert not _is_there(repo, address)
        return laid

    monkeypatch.setattr(committing, "_lay_over", slow)
    repo.commit()
    assert repo.contents() == {"kept": b"y"}


def test_a_drop_that_did_not_come_about_queues_nothing(repo: LakeRepo) -> None:
    """A branch noted its token, and died before it let go of it."""
    repo.put("a", b"x")
    record = repo.lake.branches.read(repo.record, "main")
    repo.lake.resetting._dropped_tokens.note(repo.record, "main", record.tokens, repo.clock())
    repo.lake.reviewer.review(repo.record)
    assert _queue_length(repo) == 0


def test_entries_of_a_commit_that_died_stay_though_their_drop_was_noted() -> None:
    """The branch has their token still, as a sealed one: the note is forgotten, and they are not."""
    repo = LakeRepo().create()
    repo.put("a", b"x")
    record = repo.lake.committing._staging.seal(repo.record, "main")
    repo.lake.resetting._dropped_tokens.note(repo.record, "main", record.tokens, repo.clock())
    repo.clock.advance(hours=2)
    repo.lake.housekeeping.run()
    assert repo.read("a") == b"x"
    assert repo.kv.page("cleanup-tokens") == []


def test_a_look_that_failed_is_made_again_in_full(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A range that could not be read is no range without addresses."""
    address = repo.put("a", b"x")
    repo.commit()

    def fail(*_: object) -> NoReturn:
        raise StorageError("the store was away")

    with monkeypatch.context() as patch:
        patch.setattr(Committed, "addresses", fail)
        with pytest.raises(StorageError):
            _held(repo, address)
    assert _held(repo, address) is Holder.COMMIT


def test_a_stream_that_was_given_up_does_not_go_on(repo: LakeRepo) -> None:
    """Its address was queued, so a delete may yet come for it."""

    def slow_body() -> Iterator[bytes]:
        yield b"x" * (9 * 1024 * 1024)
        repo.clock.advance(days=2)
        repo.server().housekeeping.run()
        yield b"y"

    with pytest.raises(MissingError, match="silent for too long"):
        repo.lake.objects.upload(repo.record, "main", "a", slow_body())
    assert repo.paths() == []


def test_the_ledger_tells_of_a_delete_for_three_months(repo: LakeRepo) -> None:
    """Then it forgets it."""
    repo.put("a", b"x")
    repo.lake.objects.delete(repo.record, "main", "a")
    _review(repo)
    repo.clock.advance(days=89)
    repo.lake.housekeeping.run()
    assert [row.outcome for row in repo.lake.delete_ledger.rows(repo.record)] == ["gone"]
    repo.clock.advance(days=1)
    repo.lake.housekeeping.run()
    assert not list(repo.lake.delete_ledger.rows(repo.record))
