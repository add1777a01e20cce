"""What columns of commits say is what the plain rules say, on every history there is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_retention import (
    find_retained,
    least_days,
    least_days_on_branch,
)
from lakesweep.domain.commits import BranchHead, Commit, CommitGraph, CommitId, MetaRangeId
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import UnsafeToSweepError
from lakesweep_testing import plain_least_days
from lakesweep_testing.commit_graphs import BRANCHES, DAY, NOW, histories

# Whole days meet thresholds exactly; hours fall between them.
MOMENTS = st.sampled_from([NOW, NOW + timedelta(hours=7), NOW - timedelta(microseconds=1)])
NUMBERS_OF_DAYS = st.sampled_from([0, 3, 2**31 - 1, -(2**31), 800_000])


def ids(history: History, mask) -> set[str]:
    return set(history.columns.ids[mask].astype(str).tolist())


@given(histories(), MOMENTS, st.booleans())
def test_the_same_commits_are_retained(history, now, has_rules):
    """By rules of branches, by moved heads, by kept refs, by nothing; without rules, all."""
    commits, heads, rules, moves, keep = history
    asked = (heads, rules if has_rules else None, now, moves, keep)
    columns = History.of(commits)
    plain = retained_commits(CommitGraph(commits), *asked)
    assert ids(columns, find_retained(columns, *asked)) == plain.ids


@pytest.mark.parametrize("longer", BRANCHES[:2])
def test_the_longest_rule_of_all_paths_through_a_commit_decides(longer):
    """Whichever path comes first."""
    ages = {"grandparent": 6, "parent": 5, "main": 2, "dev": 2}
    parents = {"parent": "grandparent", "main": "parent", "dev": "parent"}
    commits = [
        Commit(
            CommitId(name),
            "",
            "",
            NOW - DAY * age,
            MetaRangeId(""),
            (CommitId(parents[name]),) if name in parents else (),
        )
        for name, age in ages.items()
    ]
    heads = [BranchHead(branch, CommitId(branch)) for branch in BRANCHES[:2]]
    columns = History.of(commits)
    asked = (heads, RetentionRules(1, {longer: 10}), NOW, [], [])
    assert retained_commits(CommitGraph(commits), *asked).ids == set(ages)
    assert ids(columns, find_retained(columns, *asked)) == set(ages)


def test_a_child_exactly_as_old_as_the_rule_says_protects_no_parent():
    """One that is a moment younger does."""
    ages = {"old": DAY * 9, "edge": DAY * 5, "main": DAY}
    parents = {"edge": "old", "main": "edge"}
    for moment, expected in ((timedelta(0), {"edge", "main"}), (timedelta.resolution, set(ages))):
        commits = [
            Commit(
                CommitId(name),
                "",
                "",
                NOW - age + moment,
                MetaRangeId(""),
                (CommitId(parents[name]),) if name in parents else (),
            )
            for name, age in ages.items()
        ]
        asked = ([BranchHead("main", CommitId("main"))], RetentionRules(5, {}), NOW, [], [])
        columns = History.of(commits)
        assert retained_commits(CommitGraph(commits), *asked).ids == expected
        assert ids(columns, find_retained(columns, *asked)) == expected


@given(histories(), NUMBERS_OF_DAYS, NUMBERS_OF_DAYS)
def test_days_beyond_the_calendar_are_read_alike(history, default, own):
    """A number of days that leads before all time, or after it."""
    commits, heads, _, moves, keep = history
    asked = (heads, RetentionRules(default, {BRANCHES[0]: own}), NOW, moves, keep)
    columns = History.of(commits)
    plain = retained_commits(CommitGraph(commits), *asked)
    assert ids(columns, find_retained(columns, *asked)) == plain.ids


@given(histories(), MOMENTS)
def test_the_same_days_retain_a_commit_for_the_same_branch(history, now):
    """For every commit, the least days and the branch that is named."""
    commits, heads, _, moves, keep = history
    columns = History.of(commits)
    found = least_days(columns, heads, now, moves, keep)
    plain = plain_least_days.least_days(CommitGraph(commits), heads, now, moves, keep)
    assert {
        columns.id(row): (int(found.days[row]), found.branches[found.owners[row]])
        for row in range(len(columns))
    } == {name: (least.days, least.branch_id) for name, least in plain.items()}


@given(histories(), st.sampled_from(BRANCHES), MOMENTS, st.booleans())
def test_the_same_days_of_one_branch_retain_a_commit(history, branch, now, has_rules):
    """Other rules being as they are, or none."""
    commits, heads, rules, moves, keep = history
    asked = (heads, rules if has_rules else None, branch, now, moves, keep)
    columns = History.of(commits)
    days = least_days_on_branch(columns, *asked)
    found = {columns.id(row): int(days[row]) for row in range(len(columns))}
    assert found == plain_least_days.least_days_on_branch(CommitGraph(commits), *asked)


@given(histories(), st.integers(0, 11))
def test_a_commit_that_is_missing_is_refused_alike(history, number):
    """Its children, heads, moves and kept refs may name it; if nothing does, both say the same of the rest."""
    commits, heads, rules, moves, keep = history
    del commits[number % len(commits)]
    commits.sort(key=lambda commit: commit.id)  # the first commit that lacks a parent is named

    def plain() -> object:
        return retained_commits(CommitGraph(commits), heads, rules, NOW, moves, keep).ids

    def quick() -> object:
        columns = History.of(commits)
        return ids(columns, find_retained(columns, heads, rules, NOW, moves, keep))

    assert _answer(quick) == _answer(plain)


def _answer(ask):
    try:
        return ask()
    except UnsafeToSweepError as error:
        return error.kind, error.message
