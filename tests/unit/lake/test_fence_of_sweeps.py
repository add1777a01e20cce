"""The fence of a collector's sweep: what would bring an object of it back is refused, also in the last moment."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from lakesweep.domain.rules import RetentionRules
from lakesweep.lake.errors import (
    CondemnedError,
    InvalidRequestError,
    MissingError,
    RefStoreError,
)
from lakesweep.lake.hard_delete.fence import Fence, FenceState, FoundFence
from lakesweep.lake.values import Repository
from lakesweep_testing.lakes import LakeRepo

_BATCH = "batch-0001"


class History:
    """A commit that holds `a`, and two later ones that do not."""

    def __init__(self) -> None:
        self.repo = repo = LakeRepo().create()
        self.address = repo.put("a", b"x")
        self.old = repo.commit()
        repo.lake.objects.delete(repo.record, "main", "a")
        self.deletion = repo.commit()
        repo.put("b", b"y")
        repo.commit()
        repo.lake.refs.create_branch(repo.record, "side", f"{self.old}~1")
        repo.lake.fence_batches.add(repo.record, _BATCH, [self.address])

    def put_up(self, **until: float) -> None:
        until = until or {"hours": 1}
        end = self.repo.clock() + timedelta(**until)
        self.repo.lake.fence_batches.put_up(self.repo.record, _BATCH, end)


@pytest.fixture
def history() -> History:
    return History()


_REVIVALS: dict[str, Callable[[History], object]] = {
    "branch": lambda h: h.repo.lake.refs.create_branch(h.repo.record, "back", h.old),
    "tag": lambda h: h.repo.lake.refs.create_tag(h.repo.record, "back", h.old),
    "hard reset": lambda h: h.repo.lake.resetting.hard_reset(h.repo.record, "main", h.old),
    "merge": lambda h: h.repo.lake.merging.merge(h.repo.record, h.old, "side", committer="me"),
    "revert": lambda h: h.repo.lake.reverting.revert(
        h.repo.record, "main", h.deletion, committer="me"
    ),
    "cherry-pick": lambda h: h.repo.lake.reverting.cherry_pick(
        h.repo.record, "main", h.old, committer="me"
    ),
    "metarange": lambda h: h.repo.commit(
        source_metarange=h.repo.lake.refs.commit(h.repo.record, h.old).meta_range_id
    ),
}


@pytest.mark.parametrize("how", _REVIVALS)
def test_what_a_fence_overtakes_is_refused(
    history: History, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fence is put up after the operation has read it, and before it writes: the write is not made."""
    real = Fence.read

    def overtaken(fence: Fence, repository: Repository) -> FoundFence:
        found = real(fence, repository)
        monkeypatch.undo()
        history.put_up()
        return found

    before = history.repo.branches(), history.repo.paths("main"), history.repo.paths("side")
    monkeypatch.setattr(Fence, "read", overtaken)
    with pytest.raises(CondemnedError, match="is being deleted for good"):
        _REVIVALS[how](history)
    after = history.repo.branches(), history.repo.paths("main"), history.repo.paths("side")
    assert after == before


@pytest.mark.parametrize("how", _REVIVALS)
def test_a_fence_ends_by_its_time_and_by_being_lifted(history: History, how: str) -> None:
    """Afterwards all is as before it."""
    history.put_up(minutes=5)
    history.repo.clock.advance(minutes=6)
    _REVIVALS[how](history)


def test_a_lifted_fence_refuses_nothing(history: History) -> None:
    """Also one whose time is not over."""
    history.put_up()
    history.repo.lake.fence_batches.lift(history.repo.record, _BATCH)
    _REVIVALS["branch"](history)


def test_a_large_commit_is_looked_through_at_once(history: History) -> None:
    """Many addresses are compared by hashes first; the one that is fenced is found."""
    repo = history.repo
    for number in range(50):
        repo.put(f"many/{number}", b"z")
    fenced = repo.address("many/42")
    large = repo.commit()
    repo.lake.fence_batches.add(repo.record, _BATCH, [fenced])
    history.put_up()
    with pytest.raises(CondemnedError, match=fenced):
        repo.lake.refs.create_branch(repo.record, "back", large)


def test_each_of_several_batches_counts(history: History) -> None:
    """Two sweeps delete at once: what either has named is refused, also where many addresses are compared by hashes."""
    repo = history.repo
    fenced = []
    for batch in ("batch-0002", "batch-0003"):
        for number in range(50):
            repo.put(f"many/{number}", batch.encode())
        address = repo.address("many/42")
        fenced.append((address, repo.commit()))
        repo.lake.fence_batches.add(repo.record, batch, [address])
        repo.lake.fence_batches.put_up(repo.record, batch, repo.clock() + timedelta(hours=1))
    for address, commit in fenced:
        with pytest.raises(CondemnedError, match=address):
            repo.lake.refs.create_branch(repo.record, "back", commit)


def test_a_batch_counts_beside_what_a_review_condemned(history: History) -> None:
    """The single addresses of a hard delete don't hide those of a sweep."""
    repo = history.repo
    repo.lake.reviewer._condemn(repo.record, ["data/another"], repo.clock())
    history.put_up()
    with pytest.raises(CondemnedError, match=history.address):
        _REVIVALS["branch"](history)


def test_a_fence_that_was_put_up_and_lifted_is_another(history: History) -> None:
    """Who read it before can't take it for untouched: meanwhile, what was fenced may have been deleted."""
    fence, record = history.repo.lake.fence, history.repo.record
    before = fence.read(record)
    history.put_up()
    history.repo.lake.fence_batches.lift(record, _BATCH)
    after = fence.read(record)
    assert after.state.batches == before.state.batches
    assert after.held != before.held


def test_rules_that_a_sweep_overtook_are_put_back(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep may have read either, so the rules it deletes by stay."""
    repo = history.repo
    repo.lake.rules.set(repo.record, RetentionRules(1))
    reads = 0
    real = Fence.read

    def overtaken(fence: Fence, repository: Repository) -> FoundFence:
        nonlocal reads
        reads += 1
        if reads == 2:
            monkeypatch.undo()
            history.put_up()
        return real(fence, repository)

    monkeypatch.setattr(Fence, "read", overtaken)
    for rules in (RetentionRules(400), None):
        with pytest.raises(CondemnedError, match="the rules were not changed"):
            repo.lake.rules.set(repo.record, rules) if rules else repo.lake.rules.delete(
                repo.record
            )
        assert repo.lake.rules.get(repo.record) == RetentionRules(1)


def test_rules_are_not_written_while_a_sweep_deletes(history: History) -> None:
    """Not even for a moment: the sweep might read them."""
    repo = history.repo
    repo.lake.rules.set(repo.record, RetentionRules(1))
    history.put_up()
    written = repo.store.stat("_lakefs/retention/gc/rules/config.json")
    repo.clock.advance(seconds=1)
    with pytest.raises(CondemnedError, match="the rules were not changed"):
        repo.lake.rules.set(repo.record, RetentionRules(400))
    assert repo.store.stat("_lakefs/retention/gc/rules/config.json") == written


def test_metadata_of_a_fenced_object_can_not_be_set(history: History) -> None:
    """That would stage its address once more."""
    repo = history.repo
    fenced = repo.address("b")
    repo.lake.fence_batches.add(repo.record, _BATCH, [fenced])
    history.put_up()
    with pytest.raises(CondemnedError):
        repo.lake.copying.set_user_metadata(repo.record, "main", "b", {"k": "v"})


def test_old_batches_are_forgotten(history: History) -> None:
    """Their rows go a day after their last use; a batch that stands keeps them."""
    repo, fence = history.repo, history.repo.lake.fence
    partition = fence.batch_partition(repo.record, _BATCH)
    history.put_up(days=3)
    repo.clock.advance(days=2)
    repo.lake.housekeeping.run()
    assert repo.kv.page(partition)
    repo.clock.advance(days=2)
    repo.lake.housekeeping.run()
    assert not repo.kv.page(partition)
    assert not fence.read(repo.record).state.batches


@pytest.mark.parametrize("is_added_to", [False, True])
def test_old_batch_that_a_sweep_takes_up_again_is_whole(
    history: History, is_added_to: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is put up just when it is to be forgotten: it stands with all its addresses, or not at all."""
    repo = history.repo
    if not is_added_to:
        history.put_up(minutes=1)
    repo.clock.advance(days=2)
    real = Fence.state_if_any
    looks = 0

    def overtaken(fence: Fence, repository: Repository) -> FenceState:
        nonlocal looks
        found = real(fence, repository)
        looks += 1
        if looks == 2:
            if is_added_to:
                repo.lake.fence_batches.add(repo.record, _BATCH, [history.address])
            history.put_up()
        return found

    monkeypatch.setattr(Fence, "state_if_any", overtaken)
    repo.lake.housekeeping.run()
    with pytest.raises(CondemnedError):
        repo.lake.refs.create_branch(repo.record, "back", history.old)


def test_batch_that_is_being_forgotten_can_not_be_put_up(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sweep hears of it, and deletes nothing by it; the next round of upkeep forgets what is left."""
    repo = history.repo
    history.repo.clock.advance(days=2)
    real = repo.kv.delete_partition

    def broken_off(_: str) -> None:
        with pytest.raises(MissingError):
            history.put_up()
        with pytest.raises(InvalidRequestError):
            repo.lake.fence_batches.add(repo.record, _BATCH, ["another"])
        raise RefStoreError("the connection ended")

    monkeypatch.setattr(repo.kv, "delete_partition", broken_off)
    with pytest.raises(RefStoreError):
        repo.lake.housekeeping.run()
    monkeypatch.setattr(repo.kv, "delete_partition", real)
    repo.lake.housekeeping.run()
    assert not repo.kv.page(repo.lake.fence.batch_partition(repo.record, _BATCH))
    with pytest.raises(MissingError):
        history.put_up()
