"""Requests that another one overtakes, or that fail half-way: what was answered before stands, and nothing stays for ever."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from lakesweep.lake.kv.interface import Change
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


def _commit_ids(repo: LakeRepo) -> set[str]:
    return {commit.id for commit in repo.lake.commits.all(repo.record)}


def test_upload_that_must_find_nothing_undoes_no_delete(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The branch's token is sealed under it: the deletion that it wrote over is there when it takes its entry back."""
    repo.put("a", b"old")
    repo.commit()
    repo.lake.objects.delete(repo.record, "main", "a")
    change_all = repo.kv.change_all

    def change_then_seal(changes: Sequence[Change], *rest: Any, **how: Any) -> bool:
        done = change_all(changes, *rest, **how)
        if changes[0].key == b"a":
            monkeypatch.undo()
            repo.lake.committing._staging.seal(repo.record, "main")
        return done

    monkeypatch.setattr(repo.kv, "change_all", change_then_seal)
    repo.put("a", b"new", if_absent=True)
    assert repo.read("a") == b"new"


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


def test_object_that_a_hard_reset_lets_go_of_is_reviewed() -> None:
    """The same content uploaded again has bytes of its own, which nothing names any more."""
    repo = LakeRepo(hard_delete=True).create()
    repo.put("a", b"1")
    repo.commit()
    again = repo.put("a", b"1")
    repo.lake.resetting.hard_reset(repo.record, "main", "main")
    assert [one.dropped.address for one in repo.lake.delete_queue.all(repo.record)] == [again]
