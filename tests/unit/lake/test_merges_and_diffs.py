"""Diffs, merges, reverts, cherry-picks."""

from __future__ import annotations

import pytest

from lakesweep.domain.commits import CommitId
from lakesweep.lake.errors import (
    ConflictError,
    DirtyBranchError,
    InvalidRequestError,
    MergeConflictError,
    NoChangesError,
)
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    """Main and dev share `same`, `main`, `dev`, `both`, `gone`."""
    repo = LakeRepo().create()
    for path in ("same", "main", "dev", "both", "gone"):
        repo.put(path, b"0")
    repo.commit()
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    return repo


def _diff(repo: LakeRepo, left: str, right: str, **how: object) -> list[tuple[str, str]]:
    entries = repo.lake.diffing.diff_refs(repo.record, left, right, **how).results
    return [(entry.type, entry.path) for entry in entries]


def _uncommitted(repo: LakeRepo, branch: str = "main", **how: object) -> list[tuple[str, str]]:
    entries = repo.lake.diffing.diff_uncommitted(repo.record, branch, **how).results
    return [(entry.type, entry.path) for entry in entries]


def _merge(repo: LakeRepo, source: str = "dev", destination: str = "main", **how: object) -> str:
    return repo.lake.merging.merge(repo.record, source, destination, committer="me", **how)


class TestDiff:
    def test_staged_changes_against_the_head(self, repo: LakeRepo) -> None:
        """Added, changed, removed; identical content and deletions of nothing are none."""
        repo.put("new", b"1")
        repo.put("main", b"1")
        repo.put("same", b"0")
        repo.lake.objects.delete(repo.record, "main", "gone")
        assert _uncommitted(repo) == [("removed", "gone"), ("changed", "main"), ("added", "new")]
        assert _uncommitted(repo, prefix="n") == [("added", "new")]
        assert _uncommitted(repo, after="gone", amount=1) == [("changed", "main")]
        assert _diff(repo, "main", "main$") == _uncommitted(repo)
        with pytest.raises(InvalidRequestError):
            _diff(repo, "main~1", "main$")

    def test_changes_below_a_delimiter_are_folded(self, repo: LakeRepo) -> None:
        """One `prefix_changed` for all of a folder."""
        for path in ("d/1", "d/2", "e"):
            repo.put(path)
        assert _uncommitted(repo, delimiter="/") == [("prefix_changed", "d/"), ("added", "e")]

    def test_two_dot_compares_the_trees(self, repo: LakeRepo) -> None:
        """Whatever led to them."""
        repo.put("main", b"1")
        repo.commit()
        repo.put("dev", b"1", "dev")
        repo.lake.objects.delete(repo.record, "dev", "gone")
        repo.commit("dev")
        assert _diff(repo, "main", "dev", mode="two_dot") == [
            ("changed", "dev"),
            ("removed", "gone"),
            ("changed", "main"),
        ]
        assert _diff(repo, "dev", "main", mode="two_dot") == [
            ("changed", "dev"),
            ("added", "gone"),
            ("changed", "main"),
        ]

    def test_three_dot_shows_what_a_merge_would_bring(self, repo: LakeRepo) -> None:
        """Only the right side's changes since the base, with conflicts marked."""
        repo.put("main", b"1")
        repo.put("both", b"main")
        repo.commit()
        repo.put("dev", b"1", "dev")
        repo.put("both", b"dev", "dev")
        repo.commit("dev")
        assert _diff(repo, "main", "dev") == [("conflict", "both"), ("changed", "dev")]
        assert _diff(repo, "main", "dev", prefix="d") == [("changed", "dev")]

    def test_same_change_on_both_sides_is_no_difference(self, repo: LakeRepo) -> None:
        """Content decides, not the address."""
        repo.put("both", b"1")
        repo.commit()
        repo.put("both", b"1", "dev")
        repo.commit("dev")
        assert _diff(repo, "main", "dev") == []
        assert _diff(repo, "main", "dev", mode="two_dot") == []


class TestMerge:
    def test_both_sides_changes_are_kept(self, repo: LakeRepo) -> None:
        """Paths changed on one side only take that side's; parents, metadata and message are lakeFS's."""
        repo.put("main", b"m")
        repo.put("new-main", b"m")
        destination = repo.commit()
        repo.put("dev", b"d", "dev")
        repo.put("new-dev", b"d", "dev")
        repo.lake.objects.delete(repo.record, "dev", "gone")
        source = repo.commit("dev")
        merged = repo.lake.refs.commit(repo.record, _merge(repo, metadata={"k": "v"}))
        assert repo.contents() == {
            "same": b"0",
            "main": b"m",
            "dev": b"d",
            "both": b"0",
            "new-main": b"m",
            "new-dev": b"d",
        }
        assert merged.parents == (destination, source)
        assert merged.message == "Merge 'dev' into 'main'"
        assert merged.metadata == {"k": "v", ".lakefs.merge.strategy": "default"}
        assert merged.generation == 4

    @pytest.mark.parametrize(
        ("main", "dev"),
        [(b"m", b"d"), (None, b"d"), (b"m", None)],
        ids=["changed otherwise", "deleted and changed", "changed and deleted"],
    )
    def test_conflict_needs_a_strategy(
        self, repo: LakeRepo, main: bytes | None, dev: bytes | None
    ) -> None:
        """Without one nothing is merged; with one the named side wins, that path only."""
        for branch, content in (("main", main), ("dev", dev)):
            if content is None:
                repo.lake.objects.delete(repo.record, branch, "both")
            else:
                repo.put("both", content, branch)
            repo.put(f"new-{branch}", b"n", branch)
            repo.commit(branch)
        head = repo.lake.branches.head(repo.record, "main")
        with pytest.raises(MergeConflictError):
            _merge(repo)
        assert repo.lake.branches.head(repo.record, "main") == head
        repo.lake.refs.create_branch(repo.record, "theirs", "main")
        _merge(repo, strategy="dest-wins")
        assert repo.contents().get("both") == main
        _merge(repo, destination="theirs", strategy="source-wins")
        assert repo.contents("theirs").get("both") == dev
        for ref in ("main", "theirs"):
            assert {"new-main", "new-dev"} <= set(repo.paths(ref))
        strategy = repo.lake.refs.commit(repo.record, "main").metadata[".lakefs.merge.strategy"]
        assert strategy == "dest-wins"

    def test_both_deleted_or_equally_changed_is_no_conflict(self, repo: LakeRepo) -> None:
        """Equal ends agree, and the source's record is taken."""
        for branch in ("main", "dev"):
            repo.lake.objects.delete(repo.record, branch, "gone")
            repo.put("both", b"equal", branch)
            repo.put(f"new-{branch}", b"n", branch)
            repo.commit(branch)
        source = repo.address("both", "dev")
        _merge(repo)
        assert "gone" not in repo.paths()
        assert repo.address("both") == source

    def test_destination_at_the_base_takes_the_sources_metarange(self, repo: LakeRepo) -> None:
        """Nothing to combine, nothing to write."""
        repo.put("dev", b"1", "dev")
        source = repo.lake.refs.commit(repo.record, repo.commit("dev"))
        merged = repo.lake.refs.commit(repo.record, _merge(repo))
        assert merged.meta_range_id == source.meta_range_id

    def test_nothing_to_merge(self, repo: LakeRepo) -> None:
        """Refused, unless an empty merge is asked for."""
        with pytest.raises(NoChangesError):
            _merge(repo)
        repo.put("main", b"1")
        repo.commit()
        with pytest.raises(NoChangesError):
            _merge(repo)
        _merge(repo, allow_empty=True)
        assert repo.contents()["main"] == b"1"

    def test_squash_has_one_parent(self, repo: LakeRepo) -> None:
        """The destination's head alone."""
        repo.put("dev", b"1", "dev")
        repo.commit("dev")
        head = repo.lake.branches.head(repo.record, "main").commit_id
        merged = repo.lake.refs.commit(
            repo.record, _merge(repo, squash_merge=True, message="squashed")
        )
        assert (merged.parents, merged.message) == ((head,), "squashed")

    def test_dirty_destination_is_refused(self, repo: LakeRepo) -> None:
        """Merges, reverts and cherry-picks want a clean branch; what is staged on the source does not matter."""
        repo.put("dev", b"1", "dev")
        repo.commit("dev")
        repo.put("staged", b"1", "dev")
        repo.put("staged", b"1")
        for call in (
            lambda: _merge(repo),
            lambda: repo.lake.reverting.revert(repo.record, "main", "main", committer="me"),
            lambda: repo.lake.reverting.cherry_pick(repo.record, "main", "dev", committer="me"),
        ):
            with pytest.raises(DirtyBranchError):
                call()
        repo.lake.resetting.reset(repo.record, "main", "reset")
        _merge(repo)
        assert "staged" not in repo.paths()

    @pytest.mark.parametrize(
        "way", ["uploaded again", "reset", "left by a commit", "came and went"]
    )
    def test_what_is_staged_as_the_head_has_it_hides_nothing(
        self, repo: LakeRepo, way: str
    ) -> None:
        """It makes no branch dirty, so it may not stand before what the merge brings, nor be committed over it."""
        repo.put("dev", b"1", "dev")
        repo.put("new", b"1", "dev")
        repo.commit("dev")
        if way == "reset":
            repo.put("dev", b"2")
            repo.lake.resetting.reset(repo.record, "main", "object", "dev")
        elif way == "came and went":
            repo.put("new", b"2")
            repo.lake.objects.delete(repo.record, "main", "new")
        else:
            repo.put("dev", b"0")
        if way == "left by a commit":
            with pytest.raises(NoChangesError):
                repo.commit()
        _merge(repo)
        assert (repo.read("dev"), repo.read("new")) == (b"1", b"1")
        assert _uncommitted(repo) == []
        repo.commit(allow_empty=True)
        assert (repo.read("dev"), repo.read("new")) == (b"1", b"1")

    def test_reverts_and_picks_are_not_hidden_either(self, repo: LakeRepo) -> None:
        """They move the head in the same way."""
        repo.put("main", b"1")
        changed = repo.commit()
        repo.put("main", b"1")
        repo.lake.reverting.revert(repo.record, "main", changed, committer="me")
        assert repo.read("main") == b"0"
        repo.put("main", b"0")
        repo.lake.reverting.cherry_pick(repo.record, "main", changed, committer="me")
        assert repo.read("main") == b"1"

    def test_change_that_is_staged_meanwhile_stops_the_merge(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Somebody was told that it is stored. The merge is refused, and leaves no commit."""
        repo.put("dev", b"1", "dev")
        repo.commit("dev")
        repo.put("dev", b"0")
        before = len(list(repo.lake.commits.all(repo.record)))
        other, replace = repo.server(), repo.lake.branches.replace

        def staged_first(*how: object, **more: object) -> object:
            other.objects.upload(repo.record, "main", "dev", [b"2"])
            return replace(*how, **more)

        monkeypatch.setattr(repo.lake.branches, "replace", staged_first)
        with pytest.raises(DirtyBranchError):
            _merge(repo)
        assert repo.read("dev") == b"2"
        assert len(list(repo.lake.commits.all(repo.record))) == before

    def test_unknown_strategy_is_refused(self, repo: LakeRepo) -> None:
        """Two there are."""
        with pytest.raises(InvalidRequestError):
            _merge(repo, strategy="coin-toss")

    def test_base_is_the_nearest_common_commit(self, repo: LakeRepo) -> None:
        """After a merge, that merge's source."""
        base = repo.lake.branches.head(repo.record, "main").commit_id
        found = repo.lake.merging.merge_base(repo.record, "dev", "main")
        assert found.base_commit_id == base
        repo.put("dev", b"1", "dev")
        source = CommitId(repo.commit("dev"))
        _merge(repo)
        assert repo.lake.merging.merge_base(repo.record, "dev", "main").base_commit_id == source
        repo.put("dev", b"2", "dev")
        repo.commit("dev")
        _merge(repo)
        assert repo.read("dev") == b"2"


class TestRevert:
    def test_revert_takes_a_commits_changes_back(self, repo: LakeRepo) -> None:
        """Later changes stay."""
        repo.put("new", b"1")
        repo.put("main", b"1")
        repo.lake.objects.delete(repo.record, "main", "gone")
        reverted = repo.commit()
        repo.put("later", b"1")
        repo.commit()
        commit = repo.lake.reverting.revert(repo.record, "main", reverted, committer="me")
        contents = repo.contents()
        assert "new" not in contents
        assert (contents["main"], contents["gone"], contents["later"]) == (b"0", b"0", b"1")
        assert commit.message == f"Revert {reverted}"

    def test_conflicting_revert_changes_nothing(self, repo: LakeRepo) -> None:
        """A path changed again since."""
        repo.put("main", b"1")
        reverted = repo.commit()
        repo.put("main", b"2")
        repo.commit()
        with pytest.raises(MergeConflictError):
            repo.lake.reverting.revert(repo.record, "main", reverted, committer="me")
        assert repo.read("main") == b"2"

    def test_revert_of_a_merge_names_a_parent(self, repo: LakeRepo) -> None:
        """Parent 1 takes the source's changes back, parent 2 the destination's."""
        repo.put("dev", b"1", "dev")
        repo.commit("dev")
        repo.put("main", b"1")
        repo.commit()
        merge = _merge(repo)
        with pytest.raises(ConflictError) as refused:
            repo.lake.reverting.revert(repo.record, "main", merge, committer="me")
        assert refused.value.kind == "revert-of-merge"
        with pytest.raises(InvalidRequestError):
            repo.lake.reverting.revert(repo.record, "main", merge, committer="me", parent_number=3)
        repo.lake.reverting.revert(repo.record, "main", merge, committer="me", parent_number=1)
        assert (repo.read("dev"), repo.read("main")) == (b"0", b"1")

    def test_revert_that_changes_nothing(self, repo: LakeRepo) -> None:
        """Already reverted: refused, unless an empty commit is asked for."""
        repo.put("main", b"1")
        reverted = repo.commit()
        repo.lake.reverting.revert(repo.record, "main", reverted, committer="me")
        with pytest.raises(NoChangesError):
            repo.lake.reverting.revert(repo.record, "main", reverted, committer="me")
        repo.lake.reverting.revert(repo.record, "main", reverted, committer="me", allow_empty=True)

    def test_first_commit_has_nothing_to_go_back_to(self, repo: LakeRepo) -> None:
        """No parent, no revert, no cherry-pick."""
        for call in (repo.lake.reverting.revert, repo.lake.reverting.cherry_pick):
            with pytest.raises(InvalidRequestError):
                call(repo.record, "main", "main~1", committer="me")


class TestCherryPick:
    def test_picked_changes_come_alone(self, repo: LakeRepo) -> None:
        """One commit's changes, not those before it; where it came from is noted."""
        repo.put("before", b"1", "dev")
        repo.commit("dev")
        repo.put("dev", b"1", "dev")
        picked = repo.lake.committing.commit(
            repo.record, "dev", "pick me", committer="them", metadata={"k": "v"}
        )
        made = repo.lake.reverting.cherry_pick(repo.record, "main", "dev", committer="me")
        assert (repo.read("dev"), "before" in repo.paths()) == (b"1", False)
        assert (made.message, made.committer) == ("pick me", "me")
        assert made.metadata == {
            "k": "v",
            "cherry-pick-origin": picked.id,
            "cherry-pick-committer": "them",
        }
        assert made.parents == (repo.lake.refs.resolve(repo.record, "main~1").commit_id,)

    def test_pick_of_a_merge_names_a_parent(self, repo: LakeRepo) -> None:
        """Against its first parent, a merge brings the source's changes."""
        repo.lake.refs.create_branch(repo.record, "third", "main")
        repo.put("dev", b"1", "dev")
        repo.commit("dev")
        repo.put("main", b"1")
        repo.commit()
        merge = _merge(repo)
        with pytest.raises(InvalidRequestError):
            repo.lake.reverting.cherry_pick(repo.record, "third", merge, committer="me")
        repo.lake.reverting.cherry_pick(
            repo.record, "third", merge, committer="me", parent_number=1, message="m"
        )
        assert (repo.read("dev", "third"), repo.read("main", "third")) == (b"1", b"0")
