"""Which commits keep their objects: the printed vectors, the seeds' example and the edges of the rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitGraph,
    CommitId,
    HeadMove,
    MetaRangeId,
)
from lakesweep.domain.retention import RetentionCause, retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import UnsafeToSweepError

NOW = datetime(2022, 3, 31, tzinfo=UTC)
DAY = timedelta(days=1)


def commit(name: str, age_days: float, *parents: str, version: int = 1) -> Commit:
    return Commit(
        id=CommitId(name),
        committer="",
        message="",
        creation_date=NOW - DAY * age_days,
        meta_range_id=MetaRangeId(""),
        parents=tuple(CommitId(p) for p in parents),
        version=version,
    )


def head(branch: str, commit_id: str) -> BranchHead:
    return BranchHead(BranchId(branch), CommitId(commit_id))


def rules(default: int, **branches: int) -> RetentionRules:
    return RetentionRules(default, {BranchId(b): d for b, d in branches.items()})


def move(branch: str, commit_id: str, days_ago: float) -> HeadMove:
    return HeadMove(BranchId(branch), CommitId(commit_id), NOW - DAY * days_ago)


def retained(commits, heads, given_rules, **more) -> set[str]:
    return set(retained_commits(CommitGraph(commits), heads, given_rules, NOW, **more).ids)


FORK = [
    commit("a", 15),
    commit("b", 10, "a"),
    commit("c", 10, "a"),
    commit("d", 5, "c"),
    commit("e", 5, "b"),
    commit("f", 1, "e"),
]
DANGLING = [*FORK, commit("g", 8, "c"), commit("h", 7, "g"), commit("i", 4, "h")]
CHAIN = [
    commit("root", 20),
    commit("x", 14, "root"),
    commit("head2", 10, "x"),
    commit("head1", 9, "head2"),
]


@pytest.mark.parametrize(
    ("commits", "heads", "branch_days", "expected"),
    [
        (FORK, {"one": "f", "two": "d"}, {"one": 7, "two": 3}, {"b", "d", "e", "f"}),
        (DANGLING, {"one": "f", "two": "d"}, {"one": 7, "two": 3}, {"b", "d", "e", "f", "h", "i"}),
        (
            CHAIN,
            {"one": "head1", "two": "head2"},
            {"one": 9, "two": 12},
            {"head1", "head2", "x"},
        ),
    ],
    ids=["two branches", "dangling commits", "the longer retention further down"],
)
def test_printed_vectors_of_the_servers_algorithm(commits, heads, branch_days, expected):
    """Where the server takes no shortcut, its answer is ours."""
    branch_heads = [head(b, c) for b, c in heads.items()]
    assert retained(commits, branch_heads, rules(5, **branch_days)) == expected


def test_worked_example_of_the_documentation():
    """On 2022-03-31, dev (7 days) keeps d:2022-03-23 and newer, main (21 days) 2022-03-09 and newer."""

    def on(month: int, day: int) -> float:
        return (NOW - datetime(2022, month, day, tzinfo=UTC)) / DAY

    commits = [
        commit("2022-02-27", on(2, 27)),
        commit("2022-03-01", on(3, 1), "2022-02-27"),
        commit("2022-03-09", on(3, 9), "2022-03-01"),
        commit("2022-03-12", on(3, 12), "2022-03-09"),
        commit("d:2022-03-14", on(3, 14), "2022-03-12"),
        commit("d:2022-03-20", on(3, 20), "d:2022-03-14"),
        commit("d:2022-03-23", on(3, 23), "d:2022-03-20"),
        commit("d:2022-03-25", on(3, 25), "d:2022-03-23"),
    ]
    heads = [head("main", "2022-03-12"), head("dev", "d:2022-03-25")]
    expected = {"2022-03-09", "2022-03-12", "d:2022-03-23", "d:2022-03-25"}
    assert retained(commits, heads, rules(14, main=21, dev=7)) == expected


def test_worked_table_of_deleted_files():
    """file_1 … file_9 of the upstream example: what a commit adds is gone once all commits holding it have expired."""
    commits = [
        commit("created", 14),
        commit("main-deletes-file_2", 12, "created"),
        commit("main-deletes-file_1", 8, "main-deletes-file_2"),
        commit("dev-deletes-file_5", 8, "created"),
        commit("dev-deletes-file_6", 4, "dev-deletes-file_5"),
        commit("dev2-deletes-file_9", 8, "created"),
        commit("dev2-deletes-file_8", 6, "dev2-deletes-file_9"),
    ]
    all_files = {1, 2, 5, 6, 8, 9}
    deleted_in = {
        "created": set(),
        "main-deletes-file_2": {2},
        "main-deletes-file_1": {1, 2},
        "dev-deletes-file_5": {5},
        "dev-deletes-file_6": {5, 6},
        "dev2-deletes-file_9": {9},
        "dev2-deletes-file_8": {8, 9},
    }
    on_line = {"main": {1, 2}, "dev": {5, 6}, "dev2": {8, 9}}
    heads = [head("main", "main-deletes-file_1"), head("dev", "dev-deletes-file_6")]
    kept = retained(commits, heads, rules(7, main=10, dev=7))
    visible = {
        number
        for name in kept
        for number in (on_line.get(name.split("-")[0], all_files) - deleted_in[name])
    }
    assert "created" not in kept
    assert visible == {1, 6, 8}


@pytest.mark.parametrize(("main", "fix"), [("m", "z"), ("m", "b")], ids=["main first", "fix first"])
def test_a_commit_that_another_path_found_inactive_is_still_retained(main, fix):
    """A path with a young child retains a commit, whatever order the ids have (the real server's shortcut loses it)."""
    commits = [
        commit("p", 40),
        commit("a", 35, "p"),
        commit(main, 30, "a"),
        commit(fix, 1 / 24, "p"),
    ]
    heads = [head("main", main), head("fix", fix)]
    assert retained(commits, heads, rules(10)) == {"p", main, fix}


def test_a_child_exactly_as_old_as_the_threshold_protects_nothing():
    """The window is exclusive: a child made exactly `days` ago superseded its parent too long ago."""
    commits = [commit("old", 20), commit("new", 5, "old")]
    assert retained(commits, [head("main", "new")], rules(5)) == {"new"}
    assert retained(commits, [head("main", "new")], rules(6)) == {"old", "new"}


def test_second_parents_protect_nothing():
    """A merged-in commit is retained by its own branch or not at all."""
    commits = [commit("a", 20), commit("b", 20), commit("merge", 1, "a", "b")]
    assert retained(commits, [head("main", "merge")], rules(5)) == {"a", "merge"}


def test_old_commits_have_their_main_parent_last():
    """Before the parent-order switch the superseded parent comes last."""
    commits = [commit("a", 20), commit("b", 20), commit("merge", 1, "a", "b", version=0)]
    assert retained(commits, [head("main", "merge")], rules(5)) == {"b", "merge"}


def test_without_rules_nothing_expires():
    """No rules is not the same as rules that retain nothing."""
    result = retained_commits(CommitGraph(FORK), [head("main", "f")], None, NOW)
    assert result.ids == {c.id for c in FORK}
    assert result.why[CommitId("a")].cause is RetentionCause.NO_RULES


def test_zero_and_negative_days_retain_heads_only():
    """The server accepts such rules; heads stay whatever the rules say."""
    for days in (0, -3):
        assert retained(FORK, [head("main", "f"), head("dev", "d")], rules(days)) == {"f", "d"}


def test_enormous_days_mean_for_ever():
    """A number of days before the beginning of time is a long time, not an error."""
    assert retained(FORK, [head("main", "f")], rules(2**31 - 1)) == {c.id for c in FORK}
    assert retained(FORK, [head("main", "f")], rules(-(2**31))) == {"f"}


def test_a_deleted_branch_counts_as_the_head_it_was():
    """Until it was deleted 3 days ago, branch gone (10 days) pointed at `tip`, whose parent it left 9 days ago."""
    commits = [
        commit("base", 40),
        commit("older", 30, "base"),
        commit("old", 20, "older"),
        commit("tip", 9, "old"),
        commit("main", 40),
    ]
    heads = [head("main", "main")]
    moves = [move("gone", "tip", 3)]
    assert retained(commits, heads, rules(1, gone=10)) == {"main"}
    assert retained(commits, heads, rules(1, gone=10), head_moves=moves) == {"main", "tip", "old"}
    assert retained(commits, heads, rules(1, gone=2), head_moves=moves) == {"main"}


def test_a_moved_head_that_dangles_keeps_the_default_days_too():
    """A short rule of the branch that left it takes nothing from a dangling commit."""
    commits = [commit("main", 40), commit("tip", 4)]
    heads = [head("main", "main")]
    kept = retained(commits, heads, rules(7, dev=1), head_moves=[move("dev", "tip", 3)])
    assert kept == {"main", "tip"}


def test_an_old_commit_that_was_a_head_until_yesterday_is_retained():
    """A branch hard-reset away from an old commit served its objects until the reset."""
    commits = [commit("a", 90), commit("b", 80, "a"), commit("c", 70, "b")]
    kept = retained(commits, [head("main", "a")], rules(7), head_moves=[move("main", "c", 1)])
    assert kept == {"a", "c"}


def test_kept_refs_retain_their_own_commit_only():
    """A tag reaches the objects of its commit, not those of the history behind it."""
    kept = retained(CHAIN, [head("main", "head1")], rules(1), keep=[CommitId("x")])
    assert kept == {"head1", "x"}


@pytest.mark.parametrize(
    ("commits", "heads", "more"),
    [
        ([commit("a", 1, "lost")], [head("main", "a")], {}),
        ([commit("a", 2), commit("m", 1, "a", "lost")], [head("main", "m")], {}),
        (FORK, [head("main", "lost")], {}),
        (FORK, [head("main", "f")], {"head_moves": [move("main", "lost", 1)]}),
        (FORK, [head("main", "f")], {"keep": [CommitId("lost")]}),
    ],
    ids=["main parent", "second parent", "head", "head move", "kept ref"],
)
@pytest.mark.parametrize("given_rules", [None, rules(7)], ids=["no rules", "rules"])
def test_an_incomplete_graph_is_refused(commits, heads, more, given_rules):
    """A commit that is named and not there might have retained anything."""
    with pytest.raises(UnsafeToSweepError, match="lost"):
        retained(commits, heads, given_rules, **more)


def test_a_cycle_is_refused():
    """Commits are named by their content, so a cycle is damage."""
    with pytest.raises(UnsafeToSweepError, match="cycle"):
        retained([commit("a", 1, "b"), commit("b", 1, "a")], [], rules(7))


def test_every_retained_commit_has_a_reason():
    """`why` names the branch and the moment at which the commit was superseded."""
    heads = [head("one", "f"), head("two", "d")]
    result = retained_commits(CommitGraph(DANGLING), heads, rules(5, one=7, two=3), NOW)
    assert set(result.why) == set(result.ids)
    assert str(result.why[CommitId("f")]) == "head of branch one"
    assert str(result.why[CommitId("e")]) == (
        "superseded recently on branch one (until 2022-03-30T00:00:00Z)"
    )
    assert result.why[CommitId("i")].cause is RetentionCause.DANGLING_RECENT
    assert result.why[CommitId("h")].cause is RetentionCause.DANGLING_SUPERSEDED_RECENTLY


@pytest.mark.search
@pytest.mark.slow
def test_a_chain_of_two_hundred_thousand_commits_takes_seconds_at_most():
    """No recursion, one pass."""
    size = 200_000
    chain = [
        Commit(
            CommitId(f"c{n}"),
            "",
            "",
            NOW - timedelta(hours=n),
            MetaRangeId(""),
            (CommitId(f"c{n + 1}"),) if n + 1 < size else (),
        )
        for n in range(size)
    ]
    assert len(retained(chain, [head("main", "c0")], rules(10))) == 240 + 1
