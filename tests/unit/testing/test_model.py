"""The model against examples that can be checked by hand, and against the collector's own rule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.domain.commits import (
    BranchHead,
    BranchId,
    Commit,
    CommitGraph,
    CommitId,
    HeadMove,
    MetaRangeId,
)
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep_testing.model import ModelCommit, ModelConflictError, ModelLake

NOW = datetime(2024, 6, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def days_ago(days: float) -> datetime:
    return NOW - DAY * days


def new_lake() -> ModelLake:
    lake = ModelLake(min_age=timedelta(seconds=1))
    lake.commits["root"] = ModelCommit({}, days_ago(100))
    lake.create_branch("main", "root")
    return lake


def put(lake: ModelLake, branch: str, path: str, at: datetime, content: str = "") -> str:
    address = f"data/{len(lake.contents)}"
    lake.store(address, content or address, at)
    lake.stage(branch, path, address)
    return address


def test_the_worked_table_of_ten_files():
    """lakeFS's own end-to-end example: main 10 days, dev 7, default 7; everything made 14 days ago."""
    lake = new_lake()
    lake.rules = (7, {"main": 10, "dev": 7})
    lake.create_branch("dev", "root")
    lake.create_branch("dev2", "root")
    born = days_ago(14)
    plan = {"main": [1, 2], "dev": [5, 6], "dev2": [8, 9]}
    files = {n: put(lake, branch, f"file_{n}", born) for branch in plan for n in plan[branch]}
    for branch in plan:
        lake.commit(branch, f"{branch} made", born)
    for branch, number, days in (
        ("main", 2, 12),
        ("main", 1, 8),
        ("dev", 5, 8),
        ("dev", 6, 4),
        ("dev2", 9, 8),
        ("dev2", 8, 6),
    ):
        lake.delete(branch, f"file_{number}")
        lake.commit(branch, f"{branch} without {number}", days_ago(days))
    files |= {3: put(lake, "main", "file_3", born), 4: put(lake, "main", "file_4", born)}
    files |= {7: put(lake, "dev", "file_7", born), 10: put(lake, "dev2", "file_10", born)}
    lake.delete("main", "file_4")
    lake.reset("dev")
    lake.delete_branch("dev2", days_ago(1))

    kept = {n for n, address in files.items() if address not in lake.garbage(NOW)}
    assert kept == {1, 3, 6, 8}
    expired = {n for n, a in files.items() if a in lake.garbage(NOW, "committed")}
    unreferenced = {n for n, a in files.items() if a in lake.garbage(NOW, "uncommitted")}
    assert (expired, unreferenced) == ({2, 5, 9}, {4, 7, 10})


def test_what_is_being_copied_or_uploaded_is_live_for_its_time():
    """And garbage after it."""
    lake = new_lake()
    address = put(lake, "main", "a", days_ago(5))
    lake.track_copy(address, NOW)
    lake.delete("main", "a")
    lake.store("data/pending", "x", days_ago(5))
    lake.pending["data/pending"] = NOW
    assert not lake.garbage(NOW - timedelta(seconds=1))
    assert set(lake.garbage(NOW)) == {address, "data/pending"}


def test_an_identical_upload_keeps_its_committed_address():
    """While staged, both addresses are live; once committed, the new one is not."""
    lake = new_lake()
    first = put(lake, "main", "a", days_ago(5), content="same")
    lake.commit("main", "c1", days_ago(5))
    second = put(lake, "main", "a", days_ago(4), content="same")
    assert lake.visible("main") == {"a": second}
    assert not lake.garbage(NOW)
    lake.commit("main", "c2", days_ago(4))
    assert lake.visible("main") == {"a": first}
    assert lake.garbage(NOW) == {second: "unreferenced"}


def test_merges_reverts_and_cherry_picks():
    """Path by path against the base."""
    lake = new_lake()
    a = put(lake, "main", "a", days_ago(9))
    lake.commit("main", "c1", days_ago(9))
    lake.create_branch("dev", "c1")
    b = put(lake, "dev", "b", days_ago(8))
    lake.delete("dev", "a")
    lake.commit("dev", "d1", days_ago(8))
    c = put(lake, "main", "c", days_ago(7))
    lake.commit("main", "c2", days_ago(7))
    lake.merge("d1", "main", "m", days_ago(6), base="c1")
    assert lake.visible("main") == {"b": b, "c": c}
    lake.revert("d1", "main", "r", days_ago(5))
    assert lake.visible("main") == {"a": a, "c": c}
    lake.cherry_pick("d1", "main", "p", days_ago(4))
    assert lake.visible("main") == {"b": b, "c": c}
    put(lake, "dev", "c", days_ago(3))
    lake.commit("dev", "d2", days_ago(3))
    with pytest.raises(ModelConflictError, match="c"):
        lake.merge("d2", "main", "x", days_ago(2), base="c1")


def test_young_objects_are_never_garbage():
    """Exactly as old as the minimum age is still young."""
    lake = ModelLake(min_age=DAY)
    lake.store("data/x", "x", days_ago(1))
    assert lake.garbage(NOW) == {}
    assert lake.garbage(NOW + timedelta(microseconds=1)) == {"data/x": "unreferenced"}


@st.composite
def lakes(draw):
    ages = st.integers(0, 9)
    lake = ModelLake(min_age=DAY)
    names: list[str] = []
    for number in range(draw(st.integers(1, 9))):
        parents = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
        lake.commits[f"c{number}"] = ModelCommit({}, days_ago(draw(ages)), tuple(parents))
        names.append(f"c{number}")
    commits, branches = st.sampled_from(names), st.sampled_from(["main", "dev", "x"])
    lake.branches = draw(st.dictionaries(branches, commits))
    days = st.integers(0, 9)
    lake.rules = draw(st.none() | st.tuples(days, st.dictionaries(branches, days)))
    lake.head_moves = draw(st.lists(st.tuples(branches, commits, ages.map(days_ago)), max_size=3))
    return lake


@given(lakes())
def test_model_and_collector_retain_the_same_commits(lake):
    """Two writings of one rule."""
    graph = CommitGraph(
        Commit(
            CommitId(name),
            "",
            "",
            commit.made_at,
            MetaRangeId(""),
            tuple(CommitId(parent) for parent in commit.parents),
        )
        for name, commit in lake.commits.items()
    )
    heads = [BranchHead(BranchId(b), CommitId(c)) for b, c in lake.branches.items()]
    rules = (
        RetentionRules(lake.rules[0], {BranchId(b): d for b, d in lake.rules[1].items()})
        if lake.rules is not None
        else None
    )
    moves = [HeadMove(BranchId(b), CommitId(c), until) for b, c, until in lake.head_moves]
    assert retained_commits(graph, heads, rules, NOW, moves).ids == lake.retained(NOW)
