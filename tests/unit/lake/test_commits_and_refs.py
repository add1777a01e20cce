"""Commits, branches, tags, ref expressions, log, resets."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

import pytest

from lakesweep.domain.commits import Commit, CommitId, HeadMove, MetaRangeId
from lakesweep.lake.errors import (
    ConflictError,
    DirtyBranchError,
    ForbiddenError,
    InvalidRequestError,
    MissingError,
    NoChangesError,
    RefStoreError,
)
from lakesweep_testing.lakes import LakeRepo


@pytest.fixture
def repo() -> LakeRepo:
    return LakeRepo().create()


class TestCommit:
    def test_commit_holds_what_was_staged(self, repo: LakeRepo) -> None:
        """Added, changed and deleted paths, over what was there."""
        repo.put("a", b"1")
        repo.put("b", b"1")
        first = repo.commit()
        repo.put("a", b"2")
        repo.lake.objects.delete(repo.record, "main", "b")
        repo.put("c", b"3")
        second = repo.commit()
        assert repo.contents(first) == {"a": b"1", "b": b"1"}
        assert repo.contents(second) == repo.contents() == {"a": b"2", "c": b"3"}
        assert repo.uncommitted() == []

    def test_record_is_as_lakefs_makes_it(self, repo: LakeRepo) -> None:
        """Parent, generation, version, date and metadata."""
        repo.put("a")
        date = datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC)
        commit = repo.lake.committing.commit(
            repo.record, "main", "text", committer="me", metadata={"k": "v"}, date=date
        )
        assert (commit.message, commit.committer, commit.metadata) == ("text", "me", {"k": "v"})
        assert (commit.creation_date, commit.generation, commit.version) == (date, 2, 1)
        assert commit.parents == (repo.lake.refs.resolve(repo.record, "main~1").commit_id,)
        assert repo.lake.refs.commit(repo.record, commit.id) == commit

    def test_nothing_staged_is_no_commit(self, repo: LakeRepo) -> None:
        """Unless an empty one is asked for, which keeps the metarange."""
        with pytest.raises(NoChangesError):
            repo.commit()
        repo.put("a")
        metarange = repo.lake.refs.commit(repo.record, repo.commit()).meta_range_id
        assert (
            repo.lake.refs.commit(repo.record, repo.commit(allow_empty=True)).meta_range_id
            == metarange
        )

    def test_identical_content_keeps_the_committed_address(self, repo: LakeRepo) -> None:
        """And is no change by itself; what was staged stays visible until a commit takes it."""
        old = repo.put("a", b"same")
        repo.commit()
        new = repo.put("a", b"same")
        for _ in range(3):
            with pytest.raises(NoChangesError):
                repo.commit()
        assert repo.address("a") == new
        # Failed commits do not pile up sealed tokens.
        assert len(repo.lake.branches.head(repo.record, "main").sealed_tokens) <= 1
        repo.put("b")
        repo.commit()
        assert repo.address("a") == old

    def test_deletion_of_nothing_is_no_change(self, repo: LakeRepo) -> None:
        """A path staged and deleted before any commit leaves nothing to commit."""
        repo.put("a")
        repo.lake.objects.delete(repo.record, "main", "a")
        with pytest.raises(NoChangesError):
            repo.commit()
        assert repo.lake.diffing.diff_uncommitted(repo.record, "main").results == ()

    def test_last_object_deleted_leaves_an_empty_metarange(self, repo: LakeRepo) -> None:
        """The empty metarange is a file; the first commit has none."""
        repo.put("a")
        repo.commit()
        repo.lake.objects.delete(repo.record, "main", "a")
        commit = repo.lake.refs.commit(repo.record, repo.commit())
        expected = "00fb7eff1a97c500eb3ca8d2ef5464131d6b6a5f9512e41eba97843522213b66"
        assert commit.meta_range_id == expected
        assert repo.paths() == []

    def test_untouched_ranges_are_reused(self, repo: LakeRepo) -> None:
        """A small commit onto a large one writes only the ranges it touches."""
        token = repo.lake.branches.head(repo.record, "main").staging_token
        repo.put("x", b"value")
        value = repo.kv.get(token, b"x")
        assert value is not None
        repo.kv.set_many(token, [(b"%07d" % n, value) for n in range(150_000)])
        repo.commit()
        committed = repo.lake.committing._committed
        repository = repo.record

        def ranges() -> list[str]:
            head = repo.lake.refs.commit(repo.record, "main")
            return [info.id for info in committed.ranges(repository, head.meta_range_id)]

        before = ranges()
        assert len(before) > 1
        repo.put("0000001-new", b"n")
        repo.commit()
        assert ranges()[1:] == before[1:]
        assert ranges()[0] != before[0]
        assert repo.read("0000001-new") == b"n"
        repo.put("zzz", b"end")
        repo.commit()
        assert repo.read("zzz") == b"end"

    def test_commit_of_a_given_metarange(self, repo: LakeRepo) -> None:
        """Only onto a clean branch, and only one that exists."""
        repo.put("a", b"1")
        first = repo.lake.refs.commit(repo.record, repo.commit())
        repo.put("a", b"2")
        with pytest.raises(DirtyBranchError):
            repo.commit(source_metarange=first.meta_range_id)
        repo.commit()
        with pytest.raises(MissingError):
            repo.commit(source_metarange="0" * 64)
        repo.commit(source_metarange=first.meta_range_id)
        assert repo.contents() == {"a": b"1"}

    def test_plumbing_record_must_have_its_own_id(self, repo: LakeRepo) -> None:
        """A record whose id is not its content's is refused; a right one is stored and points nowhere."""
        head = repo.lake.refs.commit(repo.record, "main")
        wrong = Commit(CommitId("0" * 64), "me", "m", repo.clock.now, MetaRangeId(""), (head.id,))
        with pytest.raises(InvalidRequestError) as refused:
            repo.lake.commits.create_record(repo.record, wrong)
        right = str(refused.value).split("has the id ")[1].split(",")[0]
        made = Commit(CommitId(right), "me", "m", repo.clock.now, MetaRangeId(""), (head.id,))
        repo.lake.commits.create_record(repo.record, made)
        assert repo.lake.refs.commit(repo.record, right) == made

    # A write that must find nothing is done when it is written: a reset behind it throws it away.
    @pytest.mark.parametrize(
        ("meanwhile", "if_absent"),
        [("commit", False), ("seal", False), ("reset", False), ("commit", True), ("seal", True)],
    )
    def test_write_overtaken_by_a_commit_is_not_lost(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch, meanwhile: str, if_absent: bool
    ) -> None:
        """Between writing to the token and looking at the branch again, the token is sealed, committed or dropped."""
        repo.put("before", b"b")
        method = "change_all" if if_absent else "set"
        write = getattr(repo.kv, method)
        acted = []
        calls = {
            "commit": lambda: repo.commit(),
            "seal": lambda: repo.lake.committing._staging.seal(repo.record, "main"),
            "reset": lambda: repo.lake.resetting.reset(repo.record, "main", "reset"),
        }

        def write_then_act(*how: Any) -> object:
            done = write(*how)
            keys = [change.key for change in how[0]] if if_absent else [how[1]]
            if b"a" in keys:
                monkeypatch.undo()
                calls[meanwhile]()
                acted.append(meanwhile)
            return done

        monkeypatch.setattr(repo.kv, method, write_then_act)
        repo.put("a", b"1", if_absent=if_absent)
        assert acted
        assert repo.read("a") == b"1"
        live = set(repo.uncommitted()) | repo.committed()
        assert repo.address("a") in live

    def test_write_that_a_commit_passed_is_in_the_next_token(self, repo: LakeRepo) -> None:
        """A writer that wrote to a sealed token too late for its commit has the entry staged anew."""
        repo.put("x")
        stale = repo.lake.branches.head(repo.record, "main").staging_token
        repo.commit()
        repo.kv.set(stale, b"late", b"never visible")
        assert repo.paths() == ["x"]

    def test_writers_beside_commits_lose_nothing(self, repo: LakeRepo) -> None:
        """Uploads from many threads and servers while others commit: every acknowledged one is there at the end."""
        servers = [repo.server() for _ in range(3)]
        stop = threading.Event()

        def commit_on(n: int) -> int:
            made = 0
            while not stop.is_set():
                try:
                    servers[n].committing.commit(repo.record, "main", "m", committer="me")
                    made += 1
                except NoChangesError:
                    continue
            return made

        def upload(n: int) -> str:
            path = f"{n:03d}"
            servers[n % 3].objects.upload(repo.record, "main", path, [path.encode()])
            assert (
                b"".join(servers[0].objects.open(repo.record, "main", path).chunks) == path.encode()
            )
            return path

        with ThreadPoolExecutor(6) as pool:
            committers = [pool.submit(commit_on, n) for n in range(2)]
            paths = list(pool.map(upload, range(120)))
            stop.set()
            assert sum(future.result() for future in committers) > 0
        assert repo.paths() == paths
        live = set(repo.uncommitted()) | repo.committed()
        assert {repo.address(path) for path in paths} <= live


class TestBranchesAndTags:
    def test_branch_starts_at_a_commit_without_staged_changes(self, repo: LakeRepo) -> None:
        """What is staged on the source stays there."""
        repo.put("a", b"1")
        repo.commit()
        repo.put("b", b"2")
        repo.lake.refs.create_branch(repo.record, "dev", "main")
        assert repo.contents("dev") == {"a": b"1"}

    @pytest.mark.parametrize("name", ["", "-a", "a b", "a/b", "a.b", "a~1", "ä", "a" * 1025])
    def test_bad_branch_names_are_refused(self, repo: LakeRepo, name: str) -> None:
        """Letters, digits, '_' and '-'."""
        with pytest.raises(InvalidRequestError):
            repo.lake.refs.create_branch(repo.record, name, "main")

    @pytest.mark.parametrize(
        "name", ["", "@", "a..b", "a.lock", "a.", "a/b", "a@{b", "a^", "a b", "a\x1f", "a~1"]
    )
    def test_bad_tag_names_are_refused(self, repo: LakeRepo, name: str) -> None:
        """Nothing a ref expression could be mistaken for."""
        with pytest.raises(InvalidRequestError):
            repo.lake.refs.create_tag(repo.record, name, "main")

    def test_names_are_taken_once(self, repo: LakeRepo) -> None:
        """A branch and a tag; a missing source is an error."""
        repo.lake.refs.create_tag(repo.record, "v1.0", "main")
        for call in (
            lambda: repo.lake.refs.create_branch(repo.record, "main", "main"),
            lambda: repo.lake.refs.create_tag(repo.record, "v1.0", "main"),
        ):
            with pytest.raises(ConflictError):
                call()
        for call in (
            lambda: repo.lake.refs.create_branch(repo.record, "x", "no"),
            lambda: repo.lake.refs.create_tag(repo.record, "x", "no"),
            lambda: repo.lake.tags.delete(repo.record, "x"),
            lambda: repo.lake.branches.delete(repo.record, "x"),
            lambda: repo.lake.tags.get(repo.record, "x"),
        ):
            with pytest.raises(MissingError):
                call()
        repo.lake.tags.delete(repo.record, "v1.0")
        assert repo.lake.tags.page(repo.record).results == ()

    def test_default_branch_is_protected(self, repo: LakeRepo) -> None:
        """It can't be deleted."""
        with pytest.raises(ForbiddenError):
            repo.lake.branches.delete(repo.record, "main")

    def test_hidden_branches_are_listed_when_asked(self, repo: LakeRepo) -> None:
        """Pages skip them otherwise."""
        for n in range(4):
            repo.lake.refs.create_branch(repo.record, f"b{n}", "main", is_hidden=n % 2 == 0)
        shown = repo.lake.branches.page(repo.record, prefix="b").results
        assert [branch.id for branch in shown] == ["b1", "b3"]
        page = repo.lake.branches.page(repo.record, prefix="b", amount=3, show_hidden=True)
        assert (len(page.results), page.has_more, page.next_offset) == (3, True, "b2")

    def test_left_heads_are_logged(self, repo: LakeRepo) -> None:
        """A hard reset and a deletion leave a head that a child does not name; commits need no record."""
        repo.lake.refs.create_branch(repo.record, "dev", "main")
        repo.put("a", branch="dev")
        first = CommitId(repo.commit("dev"))
        repo.put("b", branch="dev")
        second = CommitId(repo.commit("dev"))
        at_reset = repo.clock.now
        repo.lake.resetting.hard_reset(repo.record, "dev", first)
        repo.clock.advance(hours=1)
        repo.lake.branches.delete(repo.record, "dev")
        moves = repo.lake.head_moves.page(repo.record).results
        branch = moves[0].branch_id
        assert moves == (
            HeadMove(branch, second, at_reset),
            HeadMove(branch, first, repo.clock.now),
        )
        page = repo.lake.head_moves.page(repo.record, amount=1)
        assert page.has_more
        assert repo.lake.head_moves.page(repo.record, after=page.next_offset).results == moves[1:]


class TestRefExpressions:
    @pytest.fixture
    def history(self, repo: LakeRepo) -> list[str]:
        """Four commits on main, oldest first; the last is a merge of dev."""
        ids = [repo.lake.refs.resolve(repo.record, "main").commit_id]
        for n in range(2):
            repo.put(f"{n}")
            ids.append(CommitId(repo.commit()))
        repo.lake.refs.create_branch(repo.record, "dev", ids[1])
        repo.put("dev", branch="dev")
        ids.append(CommitId(repo.commit("dev")))
        ids.append(repo.lake.merging.merge(repo.record, "dev", "main", committer="me"))
        repo.lake.refs.create_tag(repo.record, "tag", ids[1])
        return [str(commit_id) for commit_id in ids]

    @pytest.mark.parametrize(
        ("expression", "place"),
        [
            ("main", 4),
            ("main@", 4),
            ("main~", 2),
            ("main~1", 2),
            ("main~2", 1),
            ("main~~", 1),
            ("main^", 2),
            ("main^0", 4),
            ("main^2", 3),
            ("main^2~1", 1),
            ("tag", 1),
            ("tag~1", 0),
            ("dev", 3),
        ],
    )
    def test_expression_finds_its_commit(
        self, repo: LakeRepo, history: list[str], expression: str, place: int
    ) -> None:
        """Branches, tags and steps from them."""
        assert repo.lake.refs.resolve(repo.record, expression).commit_id == history[place]

    def test_commit_ids_and_their_prefixes(self, repo: LakeRepo, history: list[str]) -> None:
        """Whole, or as much as is needed to be unique; a branch of that name comes first."""
        for commit_id in history:
            assert repo.lake.refs.resolve(repo.record, commit_id).commit_id == commit_id
            assert repo.lake.refs.resolve(repo.record, commit_id[:12]).commit_id == commit_id
        repo.lake.refs.create_branch(repo.record, history[1][:12], history[2])
        assert repo.lake.refs.resolve(repo.record, history[1][:12]).commit_id == history[2]
        repo.lake.refs.create_branch(repo.record, history[0], history[2])
        assert repo.lake.refs.resolve(repo.record, history[0]).commit_id == history[0]

    @pytest.mark.parametrize("expression", ["no", "main~9", "main^3", "tag~2", "0" * 64])
    def test_missing_ones(self, repo: LakeRepo, history: list[str], expression: str) -> None:
        """Nothing there is a `ref-not-found`."""
        with pytest.raises(MissingError):
            repo.lake.refs.resolve(repo.record, expression)

    @pytest.mark.parametrize("expression", ["", "tag@", "tag$", "main@~1", "main~1@"])
    def test_wrong_ones(self, repo: LakeRepo, history: list[str], expression: str) -> None:
        """`@` and `$` belong to a branch, alone."""
        with pytest.raises(InvalidRequestError):
            repo.lake.refs.resolve(repo.record, expression)

    def test_staged_data_is_read_through_the_branch_name_only(self, repo: LakeRepo) -> None:
        """`main` sees what is staged, `main@` does not."""
        repo.put("a")
        assert repo.paths("main") == ["a"]
        assert repo.paths("main@") == []


class TestLog:
    def test_newest_first_over_both_sides_of_a_merge(self, repo: LakeRepo) -> None:
        """By creation date, then by id; the first parents alone when asked."""
        repo.put("a")
        repo.commit(date=repo.clock.now + timedelta(seconds=1))
        repo.lake.refs.create_branch(repo.record, "dev", "main")
        repo.put("b", branch="dev")
        on_dev = repo.commit("dev", date=repo.clock.now + timedelta(seconds=3))
        repo.put("c")
        on_main = repo.commit(date=repo.clock.now + timedelta(seconds=2))
        repo.clock.advance(seconds=9)
        merge = repo.lake.merging.merge(repo.record, "dev", "main", committer="me")
        log = [commit.id for commit in repo.lake.log.page(repo.record, "main").results]
        assert log[:3] == [merge, on_dev, on_main]
        first = repo.lake.log.page(repo.record, "main", first_parent=True).results
        assert on_dev not in [commit.id for commit in first]

    def test_pages_filters_and_bounds(self, repo: LakeRepo) -> None:
        """`after` is exclusive; `stop_at` inclusive; `limit` ends the log; paths filter it."""
        ids = []
        for n, path in enumerate(["a", "d/b", "d/c", "a"]):
            repo.clock.advance(minutes=1)
            repo.put(path, b"%d" % n)
            ids.append(repo.commit())
        newest = ids[::-1]
        lake = repo.lake

        def log(**how: object) -> list[str]:
            return [commit.id for commit in lake.log.page(repo.record, "main", **how).results]

        page = lake.log.page(repo.record, "main", amount=2)
        assert ([c.id for c in page.results], page.has_more) == (newest[:2], True)
        assert log(after=page.next_offset)[:2] == newest[2:]
        assert not lake.log.page(repo.record, "main", amount=2, limit=True).has_more
        assert log(stop_at=ids[2]) == newest[:2]
        assert log(objects=["a"]) == [ids[3], ids[0]]
        assert log(prefixes=["d/"]) == [ids[2], ids[1]]
        assert log(objects=["a"], prefixes=["d/c"]) == [ids[3], ids[2], ids[0]]
        assert log(since=lake.refs.commit(repo.record, ids[2]).creation_date) == newest[:2]


class TestResets:
    def test_reset_of_everything(self, repo: LakeRepo) -> None:
        """Staged entries and deletions go, in sealed tokens, too."""
        repo.put("a", b"1")
        repo.commit()
        repo.put("a", b"2")
        repo.put("b")
        repo.lake.committing._staging.seal(repo.record, "main")
        repo.lake.objects.delete(repo.record, "main", "a")
        repo.lake.resetting.reset(repo.record, "main", "reset")
        assert repo.contents() == {"a": b"1"}
        assert repo.uncommitted() == []

    @pytest.mark.parametrize("is_sealed", [False, True])
    def test_reset_of_an_object_and_of_a_prefix(self, repo: LakeRepo, is_sealed: bool) -> None:
        """What is committed comes back, what is not goes; other paths stay staged."""
        repo.put("d/a", b"1")
        repo.put("e", b"1")
        repo.commit()
        for path in ("d/a", "d/b", "e", "f"):
            repo.put(path, b"2")
        if is_sealed:
            repo.lake.committing._staging.seal(repo.record, "main")
        repo.lake.resetting.reset(repo.record, "main", "common_prefix", "d/")
        assert repo.contents() == {"d/a": b"1", "e": b"2", "f": b"2"}
        repo.lake.resetting.reset(repo.record, "main", "object", "e")
        repo.lake.resetting.reset(repo.record, "main", "object", "f")
        assert repo.contents() == {"d/a": b"1", "e": b"1"}
        assert repo.lake.diffing.diff_uncommitted(repo.record, "main").results == ()

    def test_reset_of_nothing(self, repo: LakeRepo) -> None:
        """An object that is not staged, an unknown kind of reset."""
        with pytest.raises(MissingError):
            repo.lake.resetting.reset(repo.record, "main", "object", "a")
        with pytest.raises(InvalidRequestError):
            repo.lake.resetting.reset(repo.record, "main", "other", "a")  # type: ignore[arg-type]

    def test_hard_reset_refuses_a_commit_left_half_way(self, repo: LakeRepo) -> None:
        """Sealed changes would land on the wrong head."""
        repo.put("a")
        first = repo.commit()
        repo.put("b")
        repo.lake.resetting.hard_reset(repo.record, "main", first + "~1")
        assert repo.paths() == ["b"]
        repo.lake.committing._staging.seal(repo.record, "main")
        with pytest.raises(DirtyBranchError):
            repo.lake.resetting.hard_reset(repo.record, "main", first)


class TestDeletes:
    def test_deleted_paths_are_gone_until_written_again(self, repo: LakeRepo) -> None:
        """Staged and committed ones, several at once; absent ones are no errors."""
        repo.put("a")
        repo.commit()
        repo.put("b")
        assert list(repo.lake.objects.delete_many(repo.record, "main", ["a", "b", "no", "a"])) == []
        assert repo.paths() == []
        repo.put("a", b"again")
        assert repo.contents() == {"a": b"again"}

    def test_wrong_path_does_not_stop_the_others(self, repo: LakeRepo) -> None:
        """Each comes back with its error; more than a thousand are refused at once."""
        repo.put("a")
        errors = repo.lake.objects.delete_many(repo.record, "main", ["", "a"])
        assert [error.path for error in errors] == [""]
        assert repo.paths() == []
        with pytest.raises(InvalidRequestError):
            repo.lake.objects.delete_many(repo.record, "main", ["a"] * 1001)

    def test_no_tombstone_leaves_no_trace(self, repo: LakeRepo) -> None:
        """Where the path is neither committed nor sealed; else there must be one."""
        repo.put("a")
        repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
        assert repo.kv.page(repo.lake.branches.head(repo.record, "main").staging_token) == []
        repo.put("a")
        repo.commit()
        repo.lake.objects.delete_many(repo.record, "main", ["a"], no_tombstone=True)
        assert repo.paths() == []

    def test_delete_without_a_tombstone_after_a_commit_that_was_quicker(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What was staged alone is committed when it is to be taken away: it gets its tombstone then."""
        repo.put("a")
        other, write_over = repo.server(), repo.kv.write_over

        def commit_first(*how: Any, **more: Any) -> bool:
            monkeypatch.undo()
            other.committing.commit(repo.record, "main", "m", committer="me")
            return write_over(*how, **more)

        monkeypatch.setattr(repo.kv, "write_over", commit_first)
        repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
        assert repo.paths() == []

    def test_delete_without_a_tombstone_beside_a_commit_that_read_it(
        self, repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The delete ends before the head moves to a commit that has the path."""
        repo.put("a")
        other, write_over = repo.server(), repo.kv.write_over
        make, is_read, is_deleted = other.commits.make, threading.Event(), threading.Event()

        def make_later(*how: Any, **more: Any) -> Commit:
            is_read.set()
            assert is_deleted.wait(30)
            return make(*how, **more)

        def read_first(*how: Any, **more: Any) -> bool:
            monkeypatch.undo()
            committed.append(
                pool.submit(other.committing.commit, repo.record, "main", "m", committer="me")
            )
            assert is_read.wait(30)
            return write_over(*how, **more)

        committed: list[Future[Commit]] = []
        with ThreadPoolExecutor(1) as pool:
            other.commits.make = make_later  # type: ignore[method-assign]
            monkeypatch.setattr(repo.kv, "write_over", read_first)
            repo.lake.objects.delete(repo.record, "main", "a", no_tombstone=True)
            is_deleted.set()
            committed[0].result()
        assert repo.paths() == []


class TestListing:
    def test_folds_and_pages(self, repo: LakeRepo) -> None:
        """Common prefixes, staged over committed, in path order, page by page."""
        for path in ("a", "b/1", "b/2", "c/d/1", "e"):
            repo.put(path)
        repo.commit()
        for path in ("b/3", "f/1"):
            repo.put(path)
        repo.lake.objects.delete(repo.record, "main", "e")
        expected = ["a", "b/", "c/", "f/"]
        for amount in (1, 2, 100):
            found: list[str] = []
            after = ""
            while True:
                page = repo.lake.objects.list_page(
                    repo.record, "main", delimiter="/", amount=amount, after=after
                )
                found += [entry.path for entry in page.results]
                after = page.next_offset
                if not page.has_more:
                    break
            assert found == expected
        below = repo.lake.objects.list_page(repo.record, "main", prefix="b/", delimiter="/").results
        assert [entry.path for entry in below] == ["b/1", "b/2", "b/3"]
        assert [
            e.path for e in repo.lake.objects.list_page(repo.record, "main", after="b/1").results
        ] == [
            "b/2",
            "b/3",
            "c/d/1",
            "f/1",
        ]

    def test_path_that_is_the_prefix_hides_nothing_below_it(self, repo: LakeRepo) -> None:
        """Many clients leave an empty object where a folder begins; a page that ends with it goes on below."""
        for path in ("b/", "b/c", "b/d/e", "b/d/f", "c", "d--", "d--e"):
            repo.put(path)

        def pages(prefix: str, after: str = "", delimiter: str = "/") -> list[str]:
            found: list[str] = []
            while True:
                page = repo.lake.objects.list_page(
                    repo.record, "main", prefix=prefix, delimiter=delimiter, amount=1, after=after
                )
                found += [entry.path for entry in page.results]
                if not page.has_more:
                    return found
                after = page.next_offset

        assert pages("b/") == ["b/", "b/c", "b/d/"]
        assert pages("b/", after="b/") == ["b/c", "b/d/"]
        assert pages("b/d/", after="b/") == ["b/d/e", "b/d/f"]
        assert pages("d-", delimiter="--") == ["d--", "d--e"]
        assert pages("", after="b/") == ["c", "d--", "d--e"]


def test_a_head_is_noted_before_its_branch_goes(
    repo: LakeRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever dies in between leaves a note too many, and not a head that no rule retains."""
    repo.put("a")
    commit = repo.commit()
    repo.lake.refs.create_branch(repo.record, "dev", "main")
    real = repo.kv.delete_if

    def die_after(partition: str, key: bytes, expected: bytes) -> NoReturn:
        real(partition, key, expected)
        raise RefStoreError("killed")

    monkeypatch.setattr(repo.kv, "delete_if", die_after)
    with pytest.raises(RefStoreError):
        repo.lake.branches.delete(repo.record, "dev")
    assert "dev" not in repo.branches()
    assert [move.commit_id for move in repo.lake.head_moves.all(repo.record)] == [commit]
