"""The one-pass retention equals the rule as it is written down, over every path."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.commits import (
    BranchHead,
    Commit,
    CommitGraph,
    CommitId,
    HeadMove,
    MetaRangeId,
)
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.retention_end import retention_ends
from lakesweep.domain.rules import RetentionRules
from lakesweep.domain.what_if import NEVER_KEPT
from lakesweep_testing.commit_graphs import BRANCHES, DAY, NOW, histories
from lakesweep_testing.plain_least_days import least_days, least_days_on_branch


def by_the_letter(commits, heads, rules, moves, keep):
    """Every start, every step of its path: is the main child on this path younger than this path's threshold?"""
    graph = {commit.id: commit for commit in commits}
    superseded = {commit.main_parent for commit in commits}
    at_heads = {head.commit_id for head in heads}
    dangling = [c for c in commits if c.id not in superseded and c.id not in at_heads]
    # (commit that the path starts at, when its child was made, days)
    starts = [(head.commit_id, None, rules.days_for(head.id)) for head in heads]
    starts += [(move.commit_id, move.until, rules.days_for(move.branch_id)) for move in moves]
    starts += [(leaf.id, leaf.creation_date, rules.default_retention_days) for leaf in dangling]

    retained = at_heads | set(keep)
    for commit_id, child_made_at, days in starts:
        threshold = NOW - DAY * days
        while commit_id is not None:
            if child_made_at is not None and child_made_at > threshold:
                retained.add(commit_id)
            child_made_at = graph[commit_id].creation_date
            commit_id = graph[commit_id].main_parent
    return retained


@given(histories())
def test_one_pass_equals_the_rule_over_all_paths(history):
    """No shortcut drops a commit, and none is kept without a path that says so."""
    commits, heads, rules, moves, keep = history
    result = retained_commits(CommitGraph(commits), heads, rules, NOW, moves, keep)
    assert result.ids == by_the_letter(*history)


@given(histories(), st.randoms())
def test_the_order_of_commits_branches_and_moves_does_not_matter(history, random):
    """Ids and order decide nothing (they do on a real server)."""
    commits, heads, rules, moves, keep = history
    expected = retained_commits(CommitGraph(commits), heads, rules, NOW, moves, keep).ids
    for sequence in (commits, heads, moves, keep):
        random.shuffle(sequence)
    assert retained_commits(CommitGraph(commits), heads, rules, NOW, moves, keep).ids == expected


@given(histories(), st.integers(0, 5))
def test_longer_retention_never_drops_a_commit(history, more_days):
    """Retained sets grow with the days, and shrink as time passes."""
    commits, heads, rules, moves, keep = history
    graph = CommitGraph(commits)
    shorter = retained_commits(graph, heads, rules, NOW, moves, keep).ids
    longer_rules = RetentionRules(
        rules.default_retention_days + more_days,
        {branch: days + more_days for branch, days in rules.branch_retention_days.items()},
    )
    assert shorter <= retained_commits(graph, heads, longer_rules, NOW, moves, keep).ids
    later = NOW + DAY * more_days
    assert retained_commits(graph, heads, rules, later, moves, keep).ids <= shorter


MOMENT = timedelta(microseconds=1)


@given(histories())
def test_every_commit_is_retained_until_the_instant_named_for_it_and_not_from_then_on(history):
    """The end of a commit's retention is exact: just before it the rule retains the commit, at it the rule does not."""
    commits, heads, rules, moves, keep = history
    graph = CommitGraph(commits)
    ends = retention_ends(graph, heads, rules, moves, keep)
    assert set(ends) == {commit.id for commit in commits}
    instants = {end.at for end in ends.values() if end.at is not None} | {NOW}
    for now in sorted(instants | {instant - MOMENT for instant in instants}):
        retained = retained_commits(graph, heads, rules, now, moves, keep)
        assert {name for name, end in ends.items() if end.is_retained(now)} == retained.ids


@given(histories(), st.sampled_from([2**31 - 1, -(2**31), 800_000]))
def test_enormous_days_end_when_the_rule_says(history, days):
    """A number of days beyond the calendar means for ever, or never, in both rules."""
    commits, heads, _, moves, keep = history
    graph, rules = CommitGraph(commits), RetentionRules(days)
    ends = retention_ends(graph, heads, rules, moves, keep)
    for now in (NOW, NOW + DAY * 799_999, NOW + DAY * 800_001):
        retained = retained_commits(graph, heads, rules, now, moves, keep)
        assert {name for name, end in ends.items() if end.is_retained(now)} == retained.ids


def test_without_rules_no_retention_ends():
    """A repository without rules keeps every commit for ever."""
    commit = Commit(CommitId("a"), "", "", NOW, MetaRangeId(""), ())
    ends = retention_ends(CommitGraph([commit]), [], None)
    assert ends[commit.id].at is None


@given(histories(), st.integers(0, 14))
def test_the_least_days_retain_a_commit_and_fewer_do_not(history, days):
    """With one number of days for everything, `retained_commits` has exactly those that need no more."""
    commits, heads, _, moves, keep = history
    graph = CommitGraph(commits)
    least = least_days(graph, heads, NOW, moves, keep)
    retained = retained_commits(graph, heads, RetentionRules(days), NOW, moves, keep)
    assert {name for name, found in least.items() if found.days <= days} == retained.ids
    # Between whole days of the history, too.
    later = NOW + timedelta(hours=7)
    least = least_days(graph, heads, later, moves, keep)
    retained = retained_commits(graph, heads, RetentionRules(days), later, moves, keep)
    assert {name for name, found in least.items() if found.days <= days} == retained.ids


@given(histories(), st.sampled_from(BRANCHES), st.integers(0, 14), st.booleans())
def test_the_least_days_of_one_branch_leave_the_other_rules_alone(history, branch, days, has_rules):
    """`retained_commits` with only this branch's days changed has exactly those that need no more of them."""
    commits, heads, rules, moves, keep = history
    graph = CommitGraph(commits)
    least = least_days_on_branch(
        graph, heads, rules if has_rules else None, branch, NOW, moves, keep
    )
    others = rules if has_rules else RetentionRules(2**31 - 1)
    changed = RetentionRules(
        others.default_retention_days, {**others.branch_retention_days, branch: days}
    )
    retained = retained_commits(graph, heads, changed, NOW, moves, keep)
    assert {name for name, least_of in least.items() if least_of <= days} == retained.ids


def test_a_commit_superseded_before_all_time_is_kept_by_no_days():
    """A commit without a date is as old as the calendar, and no number of days leads to before that."""
    first = Commit(CommitId("a"), "", "", NOW, MetaRangeId(""), ())
    second = Commit(
        CommitId("b"), "", "", datetime.min.replace(tzinfo=UTC), MetaRangeId(""), (first.id,)
    )
    graph, heads = CommitGraph([first, second]), [BranchHead(BRANCHES[0], second.id)]
    assert least_days(graph, heads, NOW)[first.id].days == NEVER_KEPT
    assert first.id not in retained_commits(graph, heads, RetentionRules(2**31 - 1), NOW)


def test_the_first_branch_that_has_a_commit_owns_it():
    """Of shared history the first branch is named, of a deleted branch's own commits that branch, of a lost leaf none."""
    first = Commit(CommitId("a"), "", "", NOW - 9 * DAY, MetaRangeId(""), ())
    on_dev = Commit(CommitId("b"), "", "", NOW - 3 * DAY, MetaRangeId(""), (first.id,))
    on_main = Commit(CommitId("c"), "", "", NOW - 5 * DAY, MetaRangeId(""), (first.id,))
    lost = Commit(CommitId("d"), "", "", NOW - 8 * DAY, MetaRangeId(""), (first.id,))
    dropped = Commit(CommitId("e"), "", "", NOW - 7 * DAY, MetaRangeId(""), (first.id,))
    main, dev, fix = BRANCHES
    heads = [BranchHead(main, on_main.id), BranchHead(dev, on_dev.id)]
    moves = [HeadMove(fix, dropped.id, NOW - 6 * DAY)]
    least = least_days(CommitGraph([first, on_dev, on_main, lost, dropped]), heads, NOW, moves)
    assert {name: (found.days, found.branch_id) for name, found in least.items()} == {
        first.id: (4, main),
        on_dev.id: (0, dev),
        on_main.id: (0, main),
        lost.id: (9, None),
        dropped.id: (7, fix),
    }
