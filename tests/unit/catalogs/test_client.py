"""The client believes what is right, retries what is safe, and calls everything else an error."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from lakesweep.catalogs.lakefs.client import LakeFSClient
from lakesweep.catalogs.lakefs.transport import api_url
from lakesweep.catalogs.lakefs.values import ObjectState
from lakesweep.domain.commits import BranchHead, BranchId, CommitId, HeadMove, Tag, TagId
from lakesweep.domain.rules import RetentionRules
from lakesweep.errors import (
    CatalogDeniedError,
    CatalogError,
    CatalogNotFoundError,
    ConfigError,
)
from lakesweep_testing.fake_lakefs import ACCESS_KEY_ID, SECRET_ACCESS_KEY


def always(status: int, **more):
    return lambda request: httpx.Response(status, **more)


def in_turn(*answers):
    left = list(answers)

    def answer(request):
        turn = left.pop(0)
        if isinstance(turn, Exception):
            raise turn
        return turn(request) if callable(turn) else turn

    return answer


def branch(name: str) -> BranchHead:
    return BranchHead(BranchId(name), CommitId(f"commit-of-{name}"))


def test_lists_are_read_to_their_last_page(fake):
    """Branches, tags and head moves; hidden branches are asked for."""
    fake.page_size = 2
    fake.branches = [branch(f"b{n}") for n in range(5)]
    fake.tags = [Tag(TagId(f"t{n}"), CommitId("c")) for n in range(4)]
    until = datetime(2024, 5, 1, tzinfo=UTC)
    fake.head_moves = [HeadMove(BranchId("gone"), CommitId(f"c{n}"), until) for n in range(3)]
    seen = []
    fake.overrides["GET", "branches"] = lambda request: (
        seen.append(request.url.params["show_hidden"]) or fake.answer(request)
    )
    client = fake.client()
    assert client.branches("repo") == fake.branches
    assert client.tags("repo") == fake.tags
    assert client.head_moves("repo") == fake.head_moves
    assert seen == ["true"] * 3


@pytest.mark.parametrize("next_offset", ["", "b1"], ids=["no offset", "the offset we came from"])
def test_a_page_that_leads_nowhere_is_an_error_and_not_the_end(fake, next_offset):
    """A list that stops half-way would make branches look deleted."""
    page = {
        "pagination": {"has_more": True, "next_offset": next_offset, "results": 1},
        "results": [{"id": "b1", "commit_id": "c"}],
    }
    fake.overrides["GET", "branches"] = always(200, json=page)
    with pytest.raises(CatalogError, match="not complete"):
        fake.client().branches("repo")


def test_a_page_with_fewer_items_than_it_says_is_an_error(fake):
    """A page cut short on its way is not a shorter page."""
    page = {
        "pagination": {"has_more": False, "next_offset": "", "results": 2},
        "results": [{"id": "b1", "commit_id": "c"}],
    }
    fake.overrides["GET", "branches"] = always(200, json=page)
    with pytest.raises(CatalogError, match="says it has 2 results, but has 1"):
        fake.client().branches("repo")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"[]",
        b"<html>login</html>",
        b'{"pagination": {"has_more": false, "next_offset": "", "results": 0}}',
        b'{"pagination": {"has_more": false, "next_offset": "", "results": 0}, "results": null}',
        b'{"pagination": {"has_more": "no", "next_offset": "", "results": 0}, "results": []}',
        b'{"pagination": {"has_more": false, "next_offset": "", "results": 1}, "results": [{"id": "b"}]}',
        b'{"pagination": {"has_more": false, "next_offset": "", "results": 1}, "results": [{"id": "", "commit_id": "c"}]}',
    ],
)
def test_nonsense_is_an_error_and_never_an_empty_list(fake, body):
    """Whatever stands in a 200 answer, "no branches" must be said to be believed."""
    fake.overrides["GET", "branches"] = always(200, content=body)
    with pytest.raises(CatalogError, match="listing the branches of repo") as caught:
        fake.client().branches("repo")
    assert caught.value.kind == "catalog-nonsense"


def test_busy_servers_are_asked_again(fake):
    """429, 503 and a broken connection are retried for questions."""
    fake.branches = [branch("main")]
    fake.overrides["GET", "branches"] = in_turn(
        httpx.Response(503),
        httpx.Response(429, headers={"retry-after": "1"}),
        httpx.ConnectError("refused"),
        fake.answer,
    )
    assert fake.client(retries=3).branches("repo") == fake.branches


def test_retries_end(fake):
    """A server that stays busy or away is an error that says so."""
    fake.overrides["GET", "branches"] = always(503, json={"message": "throttled"})
    with pytest.raises(CatalogError, match="503 \\(throttled\\)") as caught:
        fake.client(retries=2).branches("repo")
    assert caught.value.kind == "http-503"
    assert len(fake.requests) == 3

    def refuse(request):
        raise httpx.ConnectError("refused")

    fake.overrides["GET", "branches"] = refuse
    with pytest.raises(CatalogError, match="ConnectError") as caught:
        fake.client(retries=1).branches("repo")
    assert caught.value.kind == "catalog-unreachable"


@pytest.mark.parametrize("status", [500, 400, 410])
def test_other_refusals_are_not_retried(fake, status):
    """Asking again would not change them."""
    fake.overrides["GET", "branches"] = always(status)
    with pytest.raises(CatalogError):
        fake.client().branches("repo")
    assert len(fake.requests) == 1


@pytest.mark.parametrize(
    ("call", "route"),
    [
        (lambda client: client.prepare_uncommitted("repo"), ("POST", "gc/prepare_uncommited")),
        (lambda client: client.start_prepare_commits("repo"), ("POST", "gc/prepare_commits/async")),
        (lambda client: client.prepare_commits("repo"), ("POST", "gc/prepare_commits")),
        (lambda client: client.dump_refs("repo"), ("PUT", "refs/dump")),
    ],
)
@pytest.mark.parametrize("failure", [503, 429, httpx.ReadTimeout("slow")])
def test_calls_that_do_something_are_sent_once(fake, call, route, failure):
    """A prepare call that is sent again is another run."""

    def fail(request):
        if isinstance(failure, Exception):
            raise failure
        return httpx.Response(failure)

    fake.overrides[route] = fail
    with pytest.raises(CatalogError):
        call(fake.client())
    assert fake.requests == [route]


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, CatalogDeniedError), (403, CatalogDeniedError), (404, CatalogNotFoundError)],
)
def test_statuses_become_errors_in_our_words(fake, status, error):
    """The message has endpoint, operation and the server's words on one line, and no secret."""
    fake.overrides["GET", "branches"] = always(status, json={"message": "no\nway " + "x" * 1000})
    with pytest.raises(error) as caught:
        fake.client().branches("repo")
    message = str(caught.value)
    assert "http://fake.example/api/v1" in message
    assert "listing the branches of repo" in message
    assert "no way" in message
    assert len(message) < 900
    assert SECRET_ACCESS_KEY not in message
    assert ACCESS_KEY_ID not in message


def test_a_name_that_the_server_does_not_know_says_what_to_look_at(fake):
    """It may be misspelt, or the server another one."""
    with pytest.raises(CatalogNotFoundError, match=r"stopped trying\. Check the name, and whether"):
        fake.client().repository("other")


def test_wrong_credentials_are_denied(fake):
    """And they do not show in the client's repr either."""
    client = LakeFSClient(
        "http://fake.example",
        ACCESS_KEY_ID,
        "wrong-secret",
        http_transport=httpx.MockTransport(fake.handle),
    )
    with pytest.raises(CatalogDeniedError):
        client.branches("repo")
    assert "wrong-secret" not in repr(client)


def test_endpoints_with_and_without_a_path():
    """`/api/v1` is added when there is no path, as the official clients do."""
    for endpoint in (
        "https://lake.example",
        "https://lake.example/",
        "https://lake.example/api/v1/",
    ):
        assert api_url(endpoint) == "https://lake.example/api/v1"
    for endpoint in (
        "lake.example",
        "ftp://lake.example",
        "https://",
        "https://user:pw@lake.example",
        "https://user:pw@lake.example:port",
        "https://lake.example:99999",
        "https://[::1",
        "https://lake..example",
        "https://xn--",
        "https://lake\udcff.example",
    ):
        with pytest.raises(ConfigError, match="endpoint") as caught:
            api_url(endpoint)
        assert "pw" not in str(caught.value)


def test_a_missing_repository_is_not_a_repository_without_rules(fake):
    """Both answer 404 to the rules; only one of them means that nothing expires."""
    assert fake.client().rules("repo") is None
    with pytest.raises(CatalogNotFoundError, match="reading repository other"):
        fake.client().rules("other")


def test_rules_of_a_server_that_sends_null_for_no_branches(fake):
    """A real server does; the days count all the same."""
    fake.rules = RetentionRules(7)
    assert fake.client().rules("repo") == RetentionRules(7)
    fake.rules = RetentionRules(7, {BranchId("main"): 21})
    assert fake.client().rules("repo") == fake.rules


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"branches": []},
        {"default_retention_days": 7},
        {"default_retention_days": "7", "branches": []},
        {"default_retention_days": 7, "branches": [{"branch_id": "main"}]},
        {
            "default_retention_days": 7,
            "branches": [
                {"branch_id": "main", "retention_days": 1},
                {"branch_id": "main", "retention_days": 9},
            ],
        },
    ],
)
def test_nonsense_rules_are_an_error(fake, body):
    """No day is made up."""
    fake.overrides["GET", "settings/gc_rules"] = always(200, json=body)
    with pytest.raises(CatalogError):
        fake.client().rules("repo")


def test_rules_are_set_as_users_write_them(fake):
    """The JSON of the documentation."""
    sent = []
    fake.overrides["PUT", "settings/gc_rules"] = lambda request: (
        sent.append(request.content) or httpx.Response(204)
    )
    fake.overrides["DELETE", "settings/gc_rules"] = always(204)
    fake.client().set_rules("repo", RetentionRules(14, {BranchId("main"): 21}))
    fake.client().delete_rules("repo")
    assert sent == [
        b'{"default_retention_days":14,"branches":[{"branch_id":"main","retention_days":21}]}'
    ]


def test_what_kind_of_server_it_is(fake):
    """A real server promises nothing beyond lakeFS; the embedded lake names its features."""
    profile = fake.client().profile()
    assert (profile.version, profile.blockstore_type) == ("1.84.0", "mem")
    assert not profile.is_embedded
    assert not profile.keeps_head_moves
    embedded = {
        "version_config": {"version": "lakesweep-0.1"},
        "storage_config": {"blockstore_type": "local"},
        "storage_config_list": [],
        "lakesweep": {"version": "0.1", "features": ["slices", "head-moves"]},
    }
    fake.overrides["GET", "config"] = always(200, json=embedded)
    profile = fake.client().profile()
    assert profile.is_embedded
    assert profile.keeps_head_moves
    assert profile.lists_linked_objects
    del embedded["lakesweep"]
    assert not fake.client().profile().lists_linked_objects


def test_a_server_of_several_stores_names_the_repositorys(fake):
    """The store is looked up by its id; an id that is not there is an error."""
    config = {
        "version_config": {},
        "storage_config_list": [
            {"blockstore_type": "s3", "blockstore_id": "one"},
            {"blockstore_type": "azure", "blockstore_id": "two"},
        ],
    }
    fake.overrides["GET", "config"] = always(200, json=config)
    assert fake.client().profile("two").blockstore_type == "azure"
    with pytest.raises(CatalogError, match="three"):
        fake.client().profile("three")


def test_the_servers_clock_and_grace_period(fake):
    """Read from its answers."""
    client = fake.client()
    assert client.server_time() == datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert client.grace_period() == timedelta(hours=24)
    fake.overrides["GET", "healthcheck"] = always(204)
    assert client.server_time() is None
    fake.overrides["GET", "config/garbage-collection"] = always(200, json={"grace_period": -1})
    with pytest.raises(CatalogError):
        client.grace_period()


def stats(path: str) -> dict[str, object]:
    return {
        "path": path,
        "path_type": "object",
        "physical_address": f"mem://b/ns/data/{path}",
        "checksum": "",
        "mtime": 1,
        "size_bytes": 3,
    }


def test_entries_are_listed_up_to_a_limit(fake):
    """Canaries take a few; look-ups take one."""
    fake.page_size = 2
    fake.entries["main"] = {path: stats(path) for path in ("a", "b", "c", "d/e", "d/é f")}
    client = fake.client()
    assert [e.path for e in client.list_objects("repo", "main")] == ["a", "b", "c", "d/e", "d/é f"]
    assert [e.path for e in client.list_objects("repo", "main", limit=3)] == ["a", "b", "c"]
    assert [e.path for e in client.list_objects("repo", "main", prefix="d/")] == ["d/e", "d/é f"]
    assert client.stat_object("repo", "main", "d/é f").size_bytes == 3
    assert client.stat_object("repo", "main", "none") is None


def test_entries_of_a_size_that_no_object_has_are_listed(fake):
    """A server keeps what a client has told when it linked an object, as -1 of one that did not know."""
    fake.entries["main"] = {"a": stats("a") | {"size_bytes": -1, "mtime": 1_700_000_000_000}}
    client = fake.client()
    assert [e.path for e in client.list_objects("repo", "main")] == ["a"]
    assert client.stat_object("repo", "main", "a").path == "a"


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (200, ObjectState.READABLE),
        (206, ObjectState.READABLE),
        (416, ObjectState.READABLE),
        (410, ObjectState.GONE),
        (404, ObjectState.NOT_FOUND),
    ],
)
def test_whether_an_object_still_reads(fake, status, state):
    """410 is what a hard-deleted object answers; an empty object answers 416 to a range."""
    fake.overrides["GET", "refs/main/objects"] = always(status, json={"message": "No data"})
    assert fake.client().object_state("repo", "main", "x") is state
