"""Commits in short: bounded, complete in their months, and read back as they were written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lakesweep.domain.commit_summary import MOST_COMMITS, summarise_commits
from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitGraph,
    CommitId,
    MetaRangeId,
    Tag,
    TagId,
)
from lakesweep.domain.garbage_summary import GarbageSummary
from lakesweep.domain.run_summary import RunSummary, decode_summary, encode_summary
from lakesweep.errors import FormatError

AT = datetime(2026, 5, 1, tzinfo=UTC)


def commit(number: int, *parents: int, days: float | None = None, version: int = 1) -> Commit:
    ids = tuple(CommitId(f"c{parent}") for parent in parents)
    at = AT - timedelta(days=number if days is None else days)
    return Commit(CommitId(f"c{number}"), "a", "m", at, MetaRangeId("m"), ids, version=version)


def test_thousands_of_commits_are_a_few_and_their_months() -> None:
    """The newest stand for themselves; every commit is in a month, or before the first of them."""
    graph = CommitGraph(commit(n, n + 1) for n in range(5_000))
    retained = {CommitId(f"c{n}") for n in range(10)}
    found = summarise_commits(graph, retained, [], [])
    assert [c.id for c in found.newest] == [f"c{n}" for n in range(MOST_COMMITS)]
    assert [c.is_retained for c in found.newest[8:12]] == [True, True, False, False]
    assert sum(m.retained for m in found.months) == 10
    assert sum(m.retained + m.expired for m in found.months) == 5_000
    assert (found.months[0].month, found.months[-1].month) == ("2026-05", "")


def test_names_and_parents_are_those_of_the_commit() -> None:
    """Old commits have their main parent last; of many branches only a few are named."""
    heads = [BranchHead(BranchId(f"b{n}"), CommitId("c0")) for n in range(9)]
    graph = CommitGraph([commit(0, 2, 1, version=0), commit(1), commit(2)])
    found = summarise_commits(graph, set(), heads, [Tag(TagId("v1"), CommitId("c1"))])
    first, second, _ = found.newest
    assert first.parents == ("c1", "c2")
    assert first.names == ("b0", "b1", "b2", "b3", "b4", "+4 more")
    assert second.names == ("v1",)


def test_a_summary_is_read_as_it_was_written() -> None:
    """A damaged one is an error of ours."""
    commits = summarise_commits(CommitGraph([commit(0, 1), commit(1)]), {CommitId("c0")}, [], [])
    summary = RunSummary(AT, GarbageSummary(), commits)
    assert decode_summary(encode_summary(summary), "x") == summary
    for data in (b"", b"[]", b'{"schema": "other"}', encode_summary(summary)[:-5]):
        with pytest.raises(FormatError, match="can't be read"):
            decode_summary(data, "x")
