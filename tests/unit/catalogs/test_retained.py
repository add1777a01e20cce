"""The server's own list of retained commits, from servers of several ages."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import httpx
import pytest

from lakesweep.catalogs.lakefs.retained import server_retained_commits
from lakesweep.domain.commits import Commit, CommitId, MetaRangeId
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import CatalogError, CatalogNotFoundError, UnsafeToSweepError

ASYNC = ("POST", "gc/prepare_commits/async")
STATUS = ("GET", "gc/prepare_commits/status")
BLOCKING = ("POST", "gc/prepare_commits")


@pytest.fixture
def with_rules(fake):
    """A repository with rules; its first commit has no metarange and is left out of the list."""
    made = datetime(2024, 5, 1, tzinfo=UTC)
    fake.commits = [
        Commit(CommitId("first"), "", "", made, MetaRangeId(""), ()),
        Commit(CommitId("second"), "", "", made, MetaRangeId("m2"), (CommitId("first"),)),
    ]
    fake.rules = RetentionRules(7)
    return fake


def listed(found) -> dict[str, str]:
    ids, metaranges = found.commits.ids.astype(str), found.commits.meta_range_ids.astype(str)
    return dict(zip(ids.tolist(), metaranges.tolist(), strict=True))


def test_the_list_is_read_from_the_namespace(with_rules, store, normaliser):
    """One task, one file; no call per commit."""
    found = server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert found.run_id == "r1"
    assert listed(found) == {"second": "m2"}
    assert BLOCKING not in with_rules.requests


def test_a_task_is_waited_for(with_rules, store, normaliser):
    """Until it is completed."""
    pending = {"task_id": "GCPCtask", "completed": False, "update_time": "2024-05-01T12:00:00Z"}
    asked = []

    def third_time(request):
        asked.append(1)
        return httpx.Response(200, json=pending) if len(asked) < 3 else with_rules.answer(request)

    with_rules.overrides[STATUS] = third_time
    assert server_retained_commits(with_rules.client(), store, "repo", normaliser) is not None
    assert len(asked) == 3


def test_a_task_that_never_ends_is_given_up(with_rules, store, normaliser):
    """After the time for prepare calls."""
    pending = {"task_id": "GCPCtask", "completed": False, "update_time": "2024-05-01T12:00:00Z"}
    with_rules.overrides[STATUS] = lambda r: httpx.Response(200, json=pending)
    with pytest.raises(CatalogError) as caught:
        server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert caught.value.kind == "catalog-timeout"


def test_without_rules_a_new_server_fails_its_task(fake, store, normaliser):
    """The call is accepted and "not found" is only in its status; that means: nothing expires (6.5-1)."""
    assert server_retained_commits(fake.client(), store, "repo", normaliser) is None


@pytest.mark.parametrize("status", [404, 500])
def test_without_rules_an_old_server_answers_404(fake, store, normaliser, status):
    """No asynchronous call (404, or 500 before 1.75), then a blocking one that finds no rules."""
    fake.overrides[ASYNC] = lambda r: httpx.Response(status, json={"message": "unknown"})
    assert server_retained_commits(fake.client(), store, "repo", normaliser) is None
    assert BLOCKING in fake.requests


@pytest.mark.parametrize("status", [404, 500])
def test_old_servers_have_the_blocking_call(with_rules, store, normaliser, status):
    """The list is the same."""
    with_rules.overrides[ASYNC] = lambda r: httpx.Response(status, json={"message": "unknown"})
    found = server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert listed(found) == {"second": "m2"}


def test_a_400_of_two_bodies_holds_the_result_in_the_second(with_rules, store, normaliser):
    """A store that can't presign (local files) makes a server answer so, after it wrote the list."""
    with_rules.overrides[ASYNC] = lambda r: httpx.Response(404)

    def two_bodies(request):
        result = json.dumps(with_rules.answer(request).json())
        return httpx.Response(400, text='{"message": "operation not supported"}\n' + result + "\n")

    with_rules.overrides[BLOCKING] = two_bodies
    found = server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert listed(found) == {"second": "m2"}


@pytest.mark.parametrize("body", ['{"message": "bad"}', "", '{"message": "bad"}{}', "{} nonsense"])
def test_any_other_400_is_an_error(with_rules, store, normaliser, body):
    """It is not a result, and not "no rules"."""
    with_rules.overrides[ASYNC] = lambda r: httpx.Response(404)
    with_rules.overrides[BLOCKING] = lambda r: httpx.Response(400, text=body)
    with pytest.raises(CatalogError):
        server_retained_commits(with_rules.client(), store, "repo", normaliser)


@pytest.mark.parametrize(
    "status",
    [
        {"completed": True},
        {"completed": True, "error": {"message": "disk full"}},
        {"completed": False, "error": {"message": "disk full"}},
        {"completed": True, "error": {"message": "branch not found"}},
        {"completed": True, "result": {"run_id": "r1"}},
    ],
    ids=[
        "no result",
        "failed",
        "failed and not completed",
        "not found, but there are rules",
        "half a result",
    ],
)
def test_a_task_that_failed_is_an_error_and_not_no_rules(with_rules, store, normaliser, status):
    """Taking a failure for "no commits retained" would delete everything."""
    answer = {"task_id": "t", "update_time": "2024-05-01T12:00:00Z", **status}
    with_rules.overrides[STATUS] = lambda r: httpx.Response(200, json=answer)
    with pytest.raises(CatalogError) as caught:
        server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert caught.value.kind != "catalog-timeout"


def test_a_repository_that_is_not_there_is_an_error(fake, store, normaliser):
    """Its 404 does not mean "no rules"."""
    with pytest.raises(CatalogNotFoundError):
        server_retained_commits(fake.client(), store, "other", normaliser)


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("mem://elsewhere/commits.csv", "location-outside"),
        ("{namespace}/_lakefs/nothing-there.csv", "location-missing"),
    ],
)
def test_a_list_that_is_not_where_the_server_says_is_refused(
    with_rules, store, normaliser, location, kind
):
    """An absent list is not an empty one."""
    result = {
        "run_id": "r1",
        "gc_commits_location": location.format(namespace=with_rules.namespace),
    }
    answer = {"task_id": "t", "completed": True, "update_time": "x", "result": result}
    with_rules.overrides[STATUS] = lambda r: httpx.Response(200, json=answer)
    with pytest.raises(UnsafeToSweepError) as caught:
        server_retained_commits(with_rules.client(), store, "repo", normaliser)
    assert caught.value.kind == kind
