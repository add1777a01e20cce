"""Commits that lost a race are removed by who made them, unless somebody else relies on them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.domain.commits import Commit, CommitId
from lakesweep.lake.commits.commit_records import Commits
from lakesweep.lake.errors import MissingError, RefStoreError, TooManyTriesError
from lakesweep.lake.lake import Lake
from lakesweep.lake.refs.branches import MAX_TRIES
from lakesweep_testing.lakes import LakeRepo

DATE = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


def ids(repo: LakeRepo) -> set[str]:
    return {commit.id for commit in repo.lake.commits.all(repo.record)}


def reachable(repo: LakeRepo) -> set[str]:
    """Ids that the branches reach."""
    seen: set[str] = set()
    todo = [record.head.commit_id for record in repo.lake.branches.all(repo.record)]
    while todo:
        commit_id = todo.pop()
        if commit_id not in seen:
            seen.add(commit_id)
            todo += repo.lake.commits.get(repo.record, commit_id).parents
    return seen


def after_each_make(
    monkeypatch: pytest.MonkeyPatch, lake: Lake, then: Callable[[Commit], None]
) -> None:
    """Have something happen whenever that server has stored a commit and not yet moved a head."""
    make = lake.commits.make

    def make_and_wait(*args: Any, **how: Any) -> Commit:
        commit = make(*args, **how)
        then(commit)
        return commit

    monkeypatch.setattr(lake.commits, "make", make_and_wait)


@pytest.mark.slow
def test_a_year_of_lost_races_leaves_no_commits(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every day another server is quicker; all that is left is what the branch reaches."""
    other, number = repo.server(), 0

    def outrun(_commit: Commit) -> None:
        nonlocal number
        number += 1
        if number % 2:
            how: dict[str, Any] = {"committer": "other", "allow_empty": True}
            other.committing.commit(repo.record, "main", f"quicker {number}", **how)

    after_each_make(monkeypatch, repo.lake, outrun)
    for day in range(365):
        repo.put("a", b"%d" % day)
        repo.commit(message=f"day {day}", allow_empty=True)
        repo.clock.advance(days=1)
    assert number == 2 * 365
    assert ids(repo) == reachable(repo)
    assert len(ids(repo)) == 1 + 2 * 365


@pytest.mark.parametrize("verb", ["merge", "revert"])
def test_every_verb_removes_what_it_lost(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Merges and reverts make their commits as commits do."""
    repo.put("a")
    first = repo.commit()
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    repo.put("b", branch="dev")
    repo.commit("dev")
    other, is_outrun = repo.server(), False

    def outrun(_commit: Commit) -> None:
        nonlocal is_outrun
        if not is_outrun:
            is_outrun = True
            how: dict[str, Any] = {"committer": "other", "allow_empty": True}
            other.committing.commit(repo.record, "main", "quicker", **how)

    after_each_make(monkeypatch, repo.lake, outrun)
    if verb == "merge":
        repo.lake.merging.merge(repo.record, "dev", "main", committer="me")
    else:
        repo.lake.reverting.revert(repo.record, "main", first, committer="me", parent_number=0)
    assert is_outrun
    assert ids(repo) == reachable(repo)


def test_the_same_commit_of_two_servers_stays(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Equal content is one record. Who loses with it must not take it from who won."""
    other, is_made = repo.server(), False

    def win_with_the_same(_commit: Commit) -> None:
        nonlocal is_made
        if not is_made:
            is_made = True
            other.committing.commit(
                repo.record, "main", "m", committer="me", date=DATE, allow_empty=True
            )

    after_each_make(monkeypatch, repo.lake, win_with_the_same)
    repo.commit(date=DATE, allow_empty=True)
    assert ids(repo) == reachable(repo)
    assert len(ids(repo)) == 3


@pytest.mark.parametrize("verb", ["branch", "tag", "reset", "merge"])
def test_commit_that_somebody_named_stays(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Whoever points at it before the race is lost keeps it."""
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    other = repo.server()
    lost: list[CommitId] = []

    def name_and_outrun(commit: Commit) -> None:
        if lost:
            return
        lost.append(commit.id)
        if verb == "branch":
            other.refs.create_branch(repo.record, "named", commit.id[:12])
        elif verb == "tag":
            other.refs.create_tag(repo.record, "v1", commit.id)
        elif verb == "reset":
            other.resetting.hard_reset(repo.record, "dev", commit.id)
        else:
            other.commits.make(
                repo.record,
                committer="c",
                message="child",
                meta_range_id=commit.meta_range_id,
                creation_date=DATE,
                parents=(other.refs.commit(repo.record, "main"), commit),
                metadata={},
            )
        other.committing.commit(repo.record, "main", "q", committer="other", allow_empty=True)

    after_each_make(monkeypatch, repo.lake, name_and_outrun)
    repo.commit(allow_empty=True)
    assert lost[0] in ids(repo)


def test_commit_that_is_gone_can_not_be_named(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though a server has it in its memory still."""
    commit = repo.lake.commits.make(
        repo.record,
        committer="c",
        message="m",
        meta_range_id=repo.lake.refs.commit(repo.record, "main").meta_range_id,
        creation_date=DATE,
        parents=(),
        metadata={},
    )
    other = repo.server()
    other.commits.get(repo.record, commit.id)
    repo.lake.commits.remove_lost(repo.record, commit)
    monkeypatch.setattr(Commits, "find_by_prefix", lambda *_: commit.id)
    with pytest.raises(MissingError):
        other.refs.create_tag(repo.record, "v1", commit.id)


def test_branch_that_others_keep_moving_leaves_no_commits(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not one of the twenty tries."""
    other = repo.server()

    def outrun(commit: Commit) -> None:
        how: dict[str, Any] = {"committer": commit.id, "allow_empty": True}
        other.committing.commit(repo.record, "main", "quicker", **how)

    after_each_make(monkeypatch, repo.lake, outrun)
    repo.put("a")
    with pytest.raises(TooManyTriesError):
        repo.commit(allow_empty=True)
    assert ids(repo) == reachable(repo)
    assert len(ids(repo)) == 1 + MAX_TRIES


def _merge(lake: Lake, repo: LakeRepo, _first: str) -> None:
    lake.merging.merge(repo.record, "dev", "main", committer="me")


def _revert(lake: Lake, repo: LakeRepo, first: str) -> None:
    lake.reverting.revert(repo.record, "main", first, committer="me")


def _cherry_pick(lake: Lake, repo: LakeRepo, _first: str) -> None:
    lake.reverting.cherry_pick(repo.record, "main", "dev", committer="me")


def _commit_of_a_metarange(lake: Lake, repo: LakeRepo, _first: str) -> None:
    dev = lake.refs.commit(repo.record, "dev").meta_range_id
    lake.committing.commit(repo.record, "main", "again", committer="me", source_metarange=dev)


@pytest.mark.parametrize(
    "verb", [_merge, _revert, _cherry_pick, _commit_of_a_metarange], ids=lambda verb: verb.__name__
)
def test_head_that_moved_though_the_answer_got_lost_keeps_its_commit(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, verb: Callable[[Lake, LakeRepo, str], None]
) -> None:
    """A connection to PostgreSQL ends between the change and its answer: the head may point at the commit."""
    repo.put("a")
    first = repo.commit()
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    repo.put("b", branch="dev")
    repo.commit("dev")
    lake = repo.server()
    replace = lake.branches.replace

    def replace_and_lose_the_answer(*args: Any) -> None:
        assert replace(*args) is not None
        raise RefStoreError("the connection ended; whether the last change was made is not known")

    monkeypatch.setattr(lake.branches, "replace", replace_and_lose_the_answer)
    with pytest.raises(RefStoreError):
        verb(lake, repo, first)

    assert reachable(repo) <= ids(repo)
    head = repo.lake.branches.head(repo.record, "main")
    assert repo.server().commits.get(repo.record, head.commit_id).id == head.commit_id
