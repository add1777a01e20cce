"""`kill -9` at each ref-store write in turn: nothing acknowledged is lost, and a new process goes on from there."""

from __future__ import annotations

from typing import Any

import pytest

from lakesweep_testing.few_of_many import few_of
from lakesweep_testing.lake_day import Contents, Death, Step, a_day, check_after_death, refusal
from lakesweep_testing.lakes import DyingKeyValueStore, LakeRepo, ProcessDiedError


def _count_writes() -> int:
    repo = LakeRepo().create()
    counting = DyingKeyValueStore(repo.kv, -1, is_written=False)
    repo.lake = repo.server(counting)
    memory: dict[str, Any] = {}
    for step in a_day().steps:
        step.call(repo, memory)
    return counting.writes


WRITES = _count_writes()


@pytest.mark.slow
@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", few_of(range(1, WRITES + 1), 4))
def test_death_at_a_write_loses_nothing_acknowledged(dies_at: int, is_written: bool) -> None:
    """After a restart every branch is as it was before the unanswered call, or as it would be after it."""
    repo = LakeRepo().create()
    repo.lake = repo.server(DyingKeyValueStore(repo.kv, dies_at, is_written=is_written))
    before: Contents = {"main": {}}
    after = before
    memory: dict[str, Any] = {}
    steps = iter(a_day().steps)
    for step in steps:
        before, after = after, step.change(after)
        try:
            step.call(repo, memory)
        except ProcessDiedError:
            break
    repo.lake = repo.server()

    check_after_death(repo, memory, Death(step, before, after, steps))


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 9))
def test_creation_cut_short_can_be_done_again(dies_at: int, is_written: bool) -> None:
    """A repository whose creator died is there, or can be created with the same name and namespace after a minute."""
    repo = LakeRepo()
    dying = DyingKeyValueStore(repo.kv, dies_at, is_written=is_written)
    try:
        repo.server(dying).repositories.create(repo.id, repo.namespace)
    except ProcessDiedError:
        repo.clock.advance(seconds=61)
        if not repo.lake.repositories.page().results:
            repo.create()
    repo.put("a")
    assert repo.commit()


@pytest.mark.parametrize("is_written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("dies_at", range(1, 7))
def test_deletion_cut_short_can_be_done_again(dies_at: int, is_written: bool) -> None:
    """A repository whose deletion was cut short is hidden or whole, and deleting again finishes it."""
    repo = LakeRepo().create()
    repo.put("a")
    dying = repo.server(DyingKeyValueStore(repo.kv, dies_at, is_written=is_written))
    try:
        dying.repositories.delete(repo.id)
    except ProcessDiedError:
        again = Step("delete", lambda r, _: r.lake.repositories.delete(r.id), lambda c: c)
        assert refusal(again, repo, {}) in (None, "repository-not-found")
    assert repo.lake.repositories.page().results == ()
    # The name is free again; the namespace is not, its objects are still there.
    repo.lake.repositories.create(repo.id, repo.namespace + "-2")
