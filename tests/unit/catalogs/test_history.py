"""Commits in columns: found by id, linked to their parents, refused when they make no history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import find_retained
from lakesweep.domain.commits import BranchHead, BranchId, Commit, CommitId, HeadMove, MetaRangeId
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import FormatError, UnsafeToSweepError
from lakesweep.formats.commit_columns import texts

AT = datetime(2026, 5, 1, 12, 30, 0, 5, tzinfo=UTC)


def commit(name: str, *parents: str, version: int = 1) -> Commit:
    ids = tuple(CommitId(parent) for parent in parents)
    return Commit(CommitId(name), "", "", AT, MetaRangeId(f"m-{name}"), ids, version=version)


def test_a_commit_is_found_by_its_id() -> None:
    """Whatever the ids look like: of one beginning, longer than lakeFS's, or a part of another."""
    names = ["a" * 64, "a" * 63 + "b", "a" * 80, "a", "b" * 8, "b" * 9, "é"]
    history = History.of(commit(name) for name in names)
    assert len(history) == len(names)
    assert [history.meta_range_id(CommitId(name)) for name in names] == [f"m-{n}" for n in names]
    for stranger in ("", "a" * 62, "a" * 79, "c", "b" * 200):
        assert CommitId(stranger) not in history
        assert history.meta_range_id(CommitId(stranger)) is None
    assert history.made_at(CommitId("a")) == AT


def test_of_two_rows_with_one_id_the_last_counts() -> None:
    """As in a graph of objects by id."""
    history = History.of([commit("b"), commit("a"), commit("b", "a", version=0)])
    row = int(history.rows_of(texts(["b"]))[0])
    assert len(history) == 2
    assert history.parents(row) == ("a",)


def test_old_commits_have_their_main_parent_last() -> None:
    """And of a row's parents, that one is its main parent in columns too."""
    history = History.of(
        [commit("x", "b", "a", version=0), commit("a"), commit("b"), commit("y", "b", "a")]
    )
    rows = dict(zip("abxy", history.rows_of(texts("abxy")).tolist(), strict=True))
    assert history.main_parents.tolist() == [-1, -1, rows["a"], rows["b"]]
    assert history.main_parent(rows["x"]) == "a"
    assert history.parents(rows["x"]) == ("b", "a")


def test_more_commits_join_a_history() -> None:
    """Those that were made while it was read; links lead across."""
    history = History.of([commit("b", "a"), commit("a")]).with_commits([commit("c", "b")])
    assert history.main_parents.tolist() == [-1, 0, 1]


def test_no_commits_are_a_history_too() -> None:
    """Nothing is found in it, and nothing retained."""
    history = History.of([])
    assert CommitId("a") not in history
    assert find_retained(history, [], RetentionRules(7), AT).tolist() == []


def test_an_id_with_a_nul_is_refused() -> None:
    """In a column it would be cut off, and two ids be one."""
    with pytest.raises(FormatError, match="NUL"):
        History.of([commit("a\0")])


@pytest.mark.parametrize(
    "commits", [[commit("a", "a")], [commit("a", "b"), commit("b", "a"), commit("c", "b")]]
)
def test_commits_that_descend_from_themselves_are_refused(commits: list[Commit]) -> None:
    """Then nobody knows which of them is the newest."""
    with pytest.raises(UnsafeToSweepError) as caught:
        find_retained(History.of(commits), [], None, AT)
    assert caught.value.kind == "commit-graph-cycle"


@pytest.mark.parametrize(
    ("heads", "moves", "keep", "said"),
    [
        ([BranchHead(BranchId("main"), CommitId("x"))], [], [], "branch main points at x"),
        ([], [HeadMove(BranchId("dev"), CommitId("x"), AT)], [], "branch dev was at x"),
        ([], [], [CommitId("x")], "must be kept names x"),
    ],
)
def test_a_ref_to_an_unknown_commit_is_refused(heads, moves, keep, said: str) -> None:
    """Its objects are not known, so nothing may go; rules or none."""
    for rules in (None, RetentionRules(7)):
        with pytest.raises(UnsafeToSweepError, match=said) as caught:
            find_retained(History.of([commit("a")]), heads, rules, AT, moves, keep)
        assert caught.value.kind == "commit-graph-incomplete"


def test_a_merged_parent_that_is_missing_is_refused() -> None:
    """It protects nothing, but a graph that lacks it is not whole."""
    history = History.of([commit("a"), commit("b", "a", "lost")])
    with pytest.raises(UnsafeToSweepError, match="commit b names a parent lost"):
        find_retained(history, [], None, AT)


@pytest.mark.parametrize(("hours", "is_kept"), [(1, True), (0, False), (-1, False)])
def test_what_a_branch_left_stays_for_its_days(hours: int, is_kept: bool) -> None:
    """Counted from when it was left, strictly; the commit itself is far older."""
    now = AT + timedelta(days=100)
    left = HeadMove(
        BranchId("gone"), CommitId("a"), now - timedelta(days=7) + timedelta(hours=hours)
    )
    found = find_retained(History.of([commit("a")]), [], RetentionRules(7), now, [left])
    assert found.tolist() == [is_kept]
