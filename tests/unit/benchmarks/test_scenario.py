"""The scenario of the benchmarks at a thousandth of its size: a collection finds exactly what is garbage by construction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from lake_files import HistoryFiles, branch_name
from lake_history import History
from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.collector.lakefs.collect import run_gc, run_mark
from lakesweep.collector.lakefs.context import RunContext, open_repository
from lakesweep.collector.lakefs.request import Flow, MarkRequest
from lakesweep.collector.record import RunRecord
from lakesweep.collector.request import SweepRequest
from lakesweep.domain.commits import BranchId, CommitGraph
from lakesweep.domain.retention import retained_commits
from lakesweep.domain.rules import RetentionRules
from lakesweep.storage import StorageOptions
from lakesweep_testing.inprocess import InProcessEngine
from loopback_http import Trouble
from scenario import REPOSITORY, SHAPES, Proportions, Scenario
from scenario_check import WrongResultError, check_deleted, check_mark, check_run
from scenario_embedded import serve_embedded
from scenario_server import ACCESS_KEY_ID, SECRET_ACCESS_KEY, ScenarioServer, serve

TINY = 0.001


@pytest.fixture(scope="module")
def server() -> Iterator[ScenarioServer]:
    with serve(Scenario.at_scale(TINY)) as server:
        yield server


@pytest.fixture
def fresh(server: ScenarioServer) -> ScenarioServer:
    """The first state, with nothing of an earlier run."""
    server.reset()
    return server


@contextmanager
def opened(server: ScenarioServer) -> Iterator[RunContext]:
    """A run on the repository, without Spark."""
    storage = StorageOptions(
        s3_endpoint=server.url,
        s3_access_key_id=ACCESS_KEY_ID,
        s3_secret_access_key=SECRET_ACCESS_KEY,
        s3_region="us-east-1",
        first_pause_seconds=0.01,
    )
    said = server.environment
    access = [said["LAKECTL_SERVER_ENDPOINT_URL"], said["LAKECTL_CREDENTIALS_ACCESS_KEY_ID"]]
    with LakeFSClient(*access, said["LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY"]) as client:
        yield open_repository(client, REPOSITORY, storage, InProcessEngine())


def gc(server: ScenarioServer, flow: Flow = Flow.AUTO) -> RunRecord:
    """Collect, and check all of what came of it."""
    before, expected = server.alive(), server.expected()
    with opened(server) as context:
        record = run_gc(context, MarkRequest(flow=flow), SweepRequest())
    if len(expected.garbage):
        check_run(server, before, expected, asdict(record))
    check_deleted(server, before, expected)
    return record


def mark(server: ScenarioServer, request: MarkRequest) -> RunRecord:
    with opened(server) as context:
        return run_mark(context, request)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("keep_tags", [False, True])
def test_commits_and_roles_tell_of_the_same_garbage(shape: str, keep_tags: bool) -> None:
    """What no retained commit and no branch holds is what was meant to be garbage."""
    scenario = Scenario.at_scale(TINY, shape)
    told = scenario.expected(scenario.first, keep_tags=keep_tags)
    meant = scenario.by_role(keep_tags=keep_tags)
    assert np.array_equal(told.expired, np.sort(meant.expired))
    assert np.array_equal(told.unreferenced, meant.unreferenced)


@pytest.mark.slow
@pytest.mark.parametrize("is_second", [False, True])
def test_the_rules_of_the_product_retain_what_the_scenario_says(is_second: bool) -> None:
    """Two ways to say which commits are retained, of which neither knows the other."""
    scenario = Scenario.at_scale(0.002)
    history = (scenario.second if is_second else scenario.first).history
    days = {BranchId(branch_name(branch)): history.days(branch) for branch in history.heads}
    rules = RetentionRules(history.days(-1), days)
    with HistoryFiles(scenario.objects) as files:
        refs = files.add(history)
        expected = {commit.id for commit in files.commits(history.retained())}
    found = retained_commits(CommitGraph(refs.commits), refs.branches, rules, history.now)
    assert found.ids == expected
    assert 0 < len(found) < len(refs.commits)


def test_the_history_is_a_graph_of_many_branches() -> None:
    """Merges both ways, deleted branches, and branches that share their ranges with others."""
    scenario = Scenario.at_scale(0.02)
    history: History = scenario.first.history
    merges = {
        (c.branch == 0, history.commits[c.other].branch == 0)
        for c in history.commits
        if c.other >= 0
    }
    assert merges == {(True, False), (False, True)}
    assert {c.branch for c in history.commits} > set(history.heads)
    assert abs(len(history.commits) - 600) <= 1
    assert abs(len(history.slots) - 2400) <= 50
    held = [set(history.state(branch).tolist()) for branch in history.heads]
    assert len(set.union(*held)) < 0.5 * sum(map(len, held))


@pytest.mark.search
@pytest.mark.slow
def test_a_run_finds_exactly_the_garbage_and_the_next_one_what_changed(
    fresh: ScenarioServer,
) -> None:
    """A clean run; and when a hundredth has changed, an optimized and a clean one find the same."""
    assert gc(fresh).flow == "clean"
    fresh.change()
    expected = fresh.expected()
    assert len(expected.expired)
    assert len(expected.unreferenced)
    optimized = mark(fresh, MarkRequest(flow=Flow.OPTIMIZED))
    assert optimized.flow == "optimized"
    check_mark(fresh, expected, optimized.mark_id)
    assert gc(fresh, Flow.CLEAN).flow == "clean"


@pytest.mark.search
@pytest.mark.slow
def test_tagged_commits_are_kept_on_demand(fresh: ScenarioServer) -> None:
    """With tags as roots, what only a tagged commit holds is no garbage. The server says what it had to do meanwhile."""
    fresh.take_load()
    record = mark(fresh, MarkRequest(keep_tags=True))
    load = fresh.take_load()
    check_mark(fresh, fresh.expected(keep_tags=True), record.mark_id)
    with pytest.raises(WrongResultError, match="tagged"):
        check_mark(fresh, fresh.expected(), record.mark_id)
    assert load.requests > 100
    assert 0 < load.busy_share <= 1.1
    assert load.ceiling > 100


@pytest.mark.search
def test_errors_and_throttling_change_no_result() -> None:
    """One request in fifty fails and one in fifty is throttled, each answer comes late, and the result is the same."""
    trouble = Trouble(latency_seconds=0.001, error_share=0.02, throttle_share=0.02)
    with serve(Scenario.at_scale(TINY), trouble) as server:
        gc(server)
    assert trouble.struck[500]
    assert trouble.struck[503]


def test_a_wrong_delete_is_noticed(fresh: ScenarioServer) -> None:
    """What is gone and should not be, what is left, and a foreign file that somebody tried to delete."""
    before, expected = fresh.alive(), fresh.expected()
    with pytest.raises(WrongResultError, match="were left"):
        check_deleted(fresh, before, expected)
    objects = fresh.scenario.objects
    objects.is_alive[objects.indexes(expected.garbage)] = False
    check_deleted(fresh, before, expected)
    objects.is_alive[objects.indexes(objects.role("head")[:1])] = False
    with pytest.raises(WrongResultError, match=r"wrongly: .*head"):
        check_deleted(fresh, before, expected)
    fresh.s3.refused.append("README.md")
    with pytest.raises(WrongResultError, match="tried to delete"):
        check_deleted(fresh, before, expected)


def test_nothing_expires_while_a_benchmark_runs() -> None:
    """Twelve hours later the rules retain the same commits."""
    history = Scenario.at_scale(0.005).first.history
    now = history.retained()
    history.now += timedelta(hours=12)
    assert history.retained() == now


@pytest.mark.search
def test_the_embedded_lake_serves_it_too(tmp_path: Path) -> None:
    """Loaded into its ref store, the same lake has the same garbage."""
    with serve_embedded(Scenario.at_scale(TINY), tmp_path) as server:
        record = gc(server)
    assert record.objects["live"] == len(server.scenario.objects.role("head")) + sum(
        len(server.scenario.objects.role(role))
        for role in ("superseded", "staged", "tracked", "reupload")
    )


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario(40_000, times=Proportions(commits=4)),
        Scenario(40_000, times=Proportions(ranges=2)),
        Scenario(40_000, slices=40),
        Scenario(40_000, changed=0.3),
    ],
    ids=["commits", "ranges", "slices", "changed"],
)
def test_lakes_of_other_proportions_have_known_garbage_too(scenario: Scenario) -> None:
    """Those that curves over commits, ranges, slices and what changed are measured on."""
    told, meant = scenario.expected(scenario.first), scenario.by_role()
    assert np.array_equal(told.expired, np.sort(meant.expired))
    assert np.array_equal(told.unreferenced, meant.unreferenced)


def test_proportions_are_what_they_say() -> None:
    """So many times the commits and ranges of the seed's, and a share that changes."""
    plain, many = Scenario(40_000), Scenario(40_000, times=Proportions(commits=3, ranges=2))
    of = [len(one.first.history.commits) for one in (plain, many)]
    assert of[1] == pytest.approx(3 * of[0], rel=0.1)
    ranges = [len(one.first.history.slots) for one in (plain, many)]
    assert ranges[1] == pytest.approx(2 * ranges[0], rel=0.1)
    assert Scenario(40_000, changed=0.3).objects.new == pytest.approx(0.3 * 40_000, rel=0.1)
