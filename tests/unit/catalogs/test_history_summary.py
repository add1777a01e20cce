"""Commits in short: bounded, complete in their months, and read back as they were written."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from lakesweep.catalogs.lakefs.history import History
from lakesweep.catalogs.lakefs.history_summary import MOST_COMMITS, summarise_history
from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitId,
    MetaRangeId,
    Tag,
    TagId,
)
from lakesweep.domain.garbage_summary import GarbageSummary
from lakesweep.domain.run_summary import RunSummary, decode_summary, encode_summary
from lakesweep.errors import FormatError
from lakesweep.formats.commit_columns import texts

AT = datetime(2026, 5, 1, tzinfo=UTC)


def commit(number: int, *parents: int, days: float | None = None, version: int = 1) -> Commit:
    ids = tuple(CommitId(f"c{parent}") for parent in parents)
    at = AT - timedelta(days=number if days is None else days)
    return Commit(CommitId(f"c{number}"), "a", "m", at, MetaRangeId("m"), ids, version=version)


def test_thousands_of_commits_are_a_few_and_their_months() -> None:
    """The newest stand for themselves; every commit is in a month, or before the first of them."""
    history = History.of(commit(n, n + 1) for n in range(5_000))
    is_retained = np.zeros(5_000, np.bool_)
    is_retained[history.rows_of(texts(f"c{n}" for n in range(10)))] = True
    found = summarise_history(history, is_retained, [], [])
    assert [c.id for c in found.newest] == [f"c{n}" for n in range(MOST_COMMITS)]
    assert [c.is_retained for c in found.newest[8:12]] == [True, True, False, False]
    assert sum(m.retained for m in found.months) == 10
    assert sum(m.retained + m.expired for m in found.months) == 5_000
    assert (found.months[0].month, found.months[-1].month) == ("2026-05", "")


def test_names_and_parents_are_those_of_the_commit() -> None:
    """Old commits have their main parent last; of many branches only a few are named."""
    heads = [BranchHead(BranchId(f"b{n}"), CommitId("c0")) for n in range(9)]
    history = History.of([commit(0, 2, 1, version=0), commit(1), commit(2)])
    tags = [Tag(TagId("v1"), CommitId("c1"))]
    found = summarise_history(history, np.zeros(3, np.bool_), heads, tags)
    first, second, _ = found.newest
    assert first.parents == ("c1", "c2")
    assert first.names == ("b0", "b1", "b2", "b3", "b4", "+4 more")
    assert second.names == ("v1",)


def test_a_summary_is_read_as_it_was_written() -> None:
    """A damaged one is an error of ours."""
    history = History.of([commit(0, 1), commit(1)])
    commits = summarise_history(history, np.array([True, False]), [], [])
    summary = RunSummary(AT, GarbageSummary(), commits)
    assert decode_summary(encode_summary(summary), "x") == summary
    for data in (b"", b"[]", b'{"schema": "other"}', encode_summary(summary)[:-5]):
        with pytest.raises(FormatError, match="can't be read"):
            decode_summary(data, "x")


def test_equal_dates_are_in_the_order_of_generations_and_ids() -> None:
    """As many commits of one second as there are, the newest are those of the greatest generation, then id."""
    same = [commit(n, days=0) for n in range(MOST_COMMITS + 30)]
    later = [replace(one, generation=1 + n % 7) for n, one in enumerate(same)]
    found = summarise_history(History.of(later), np.ones(len(later), np.bool_), [], [])
    expected = sorted(later, key=lambda c: (c.generation, c.id), reverse=True)[:MOST_COMMITS]
    assert [node.id for node in found.newest] == [c.id for c in expected]
