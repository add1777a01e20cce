"""The Nessie client: what it sends, whom it says it is, and how its errors read."""

from __future__ import annotations

import httpx
import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.catalogs.nessie.values import CatalogConfig, Reference
from lakesweep.errors import CatalogDeniedError, CatalogError, ConfigError
from lakesweep_testing.fake_nessie import NO_ANCESTOR, FakeNessie, table

T = ("db", "t")


def client_of(handler, properties=None, uri="http://nessie.example/api/v2") -> NessieClient:
    """A client of a function."""
    return NessieClient(
        uri,
        ClientProperties(properties or {}),
        retries=2,
        http_transport=httpx.MockTransport(handler),
        sleep=lambda seconds: None,
    )


def test_the_configuration_names_the_default_branch():
    """And the hash of an empty history."""
    nessie = FakeNessie()
    with nessie.client() as client:
        assert client.config() == CatalogConfig("main", NO_ANCESTOR, "2.2.0")


def test_references_have_kind_name_and_hash():
    """Branches and tags alike, with names that must be quoted."""
    nessie = FakeNessie()
    head = nessie.commit("main", {T: table("s3://b/1", 1)})
    nessie.create_branch("feature/x")
    nessie.create_tag("v1")
    with nessie.client() as client:
        assert client.references() == [
            Reference("BRANCH", "feature/x", head),
            Reference("BRANCH", "main", head),
            Reference("TAG", "v1", head),
        ]
        page = client.history("feature/x", head, page_size=10)
    assert [commit.hash for commit in page.commits] == [head]
    assert nessie.requests[-1][1] == f"/trees/feature%2Fx%40{head}/history"


def test_history_pages_end_at_the_root():
    """Newest first; the last page has no token."""
    nessie = FakeNessie()
    hashes = [nessie.commit("main", {T: table(f"s3://b/{n}", n)}) for n in range(3)]
    with nessie.client() as client:
        first = client.history(None, hashes[-1], page_size=2)
        rest = client.history(None, hashes[-1], page_size=2, page_token=first.next_token)
    assert [commit.hash for commit in (*first.commits, *rest.commits)] == hashes[::-1]
    assert rest.next_token is None
    assert [commit.parent for commit in first.commits] == hashes[1::-1]


def test_it_has_no_method_that_writes():
    """Nothing but GETs can leave it."""
    public = {name for name in dir(NessieClient) if not name.startswith("_")}
    assert public == {
        *("close", "config", "entries", "has_commit", "history", "references", "server_time", "uri")
    }


@pytest.mark.parametrize(
    ("uri", "problem"),
    [
        ("http://host:19120/api/v1", "/api/v2"),
        ("http://host:19120/api/v1/", "/api/v2"),
        ("host:19120/api/v2", "not a URL"),
        ("http://[::1/api/v2", "not a URL"),
        ("http://host:port/api/v2", "not a URL"),
        ("http://nessie..example/api/v2", "not a URL"),
        ("http://host:19120", "no path"),
        ("http://me:secret@host/api/v2", "credentials"),
        ("http://host/api/v2?x=1", "query"),
    ],
)
def test_a_uri_that_can_not_be_right_is_refused(uri, problem):
    """Before anything is sent, and without showing a password."""
    with pytest.raises(ConfigError, match=problem) as caught:
        NessieClient(uri, ClientProperties({}))
    assert "secret" not in str(caught.value)


def test_a_uri_may_end_in_a_slash_and_lie_deeper():
    """Behind a proxy the API has a longer path."""
    with NessieClient("https://host/nessie/api/v2/", ClientProperties({})) as client:
        assert client.uri == "https://host/nessie/api/v2"


def test_a_server_of_version_1_is_refused():
    """Unless the check is switched off, as in Nessie's own client."""
    said = {"defaultBranch": "main", "maxSupportedApiVersion": 1}
    with (
        client_of(lambda request: httpx.Response(200, json=said)) as client,
        pytest.raises(CatalogError, match="version 2"),
    ):
        client.config()
    unchecked = {"nessie.enable-api-compatibility-check": "false"}
    with client_of(lambda request: httpx.Response(200, json=said), unchecked) as client:
        assert client.config().default_branch == "main"


def test_a_broken_connection_is_tried_again_then_told():
    """Three times in all with two retries."""
    attempts = []

    def broken(request: httpx.Request) -> httpx.Response:
        attempts.append(request)
        raise httpx.ConnectError("refused")

    with client_of(broken) as client, pytest.raises(CatalogError, match="refused") as caught:
        client.config()
    assert (len(attempts), caught.value.kind) == (3, "catalog-unreachable")


def test_an_answer_that_was_damaged_on_its_way_is_asked_for_again_then_told():
    """One flipped byte in a compressed answer is no error of the connection, and none of ours either."""
    attempts = []

    def damaged(request: httpx.Request) -> httpx.Response:
        attempts.append(request)
        return httpx.Response(200, content=b"no gzip", headers={"content-encoding": "gzip"})

    with client_of(damaged) as client, pytest.raises(CatalogError, match="Decoding") as caught:
        client.config()
    assert (len(attempts), caught.value.kind) == (3, "catalog-unreachable")


def test_a_busy_server_says_how_long_to_wait():
    """Retry-After is honoured, within reason."""
    waited: list[float] = []
    answers = iter([httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(404)])
    client = NessieClient(
        "http://nessie.example/api/v2",
        ClientProperties({}),
        http_transport=httpx.MockTransport(lambda request: next(answers)),
        sleep=waited.append,
    )
    with client, pytest.raises(CatalogError):
        client.config()
    assert [7.0 <= seconds <= 60 for seconds in waited] == [True]


@pytest.mark.parametrize("body", ["<html>", "[]", "{}", '{"defaultBranch": ""}'])
def test_what_is_not_nessie_is_told(body):
    """A page of some other server is no configuration."""
    with (
        client_of(lambda request: httpx.Response(200, text=body)) as client,
        pytest.raises(CatalogError, match="Nessie server"),
    ):
        client.config()


def test_a_redirect_is_not_followed_unless_asked():
    """A token must not wander to another place by itself."""

    def moved(request: httpx.Request) -> httpx.Response:
        if request.url.host == "nessie.example":
            return httpx.Response(302, headers={"Location": "http://other.example/config"})
        return httpx.Response(200, json={"defaultBranch": "dev", "maxSupportedApiVersion": 2})

    with client_of(moved) as client, pytest.raises(CatalogError, match="302"):
        client.config()
    with client_of(moved, {"nessie.http-redirects": "ALWAYS"}) as client:
        assert client.config().default_branch == "dev"


def test_a_bearer_token_is_sent():
    """And a wrong one is told apart from a broken server."""
    nessie = FakeNessie(token="open-sesame")
    bearer = {"nessie.authentication.type": "BEARER"}
    with nessie.client({**bearer, "nessie.authentication.token": "open-sesame"}) as client:
        assert client.config().default_branch == "main"
    with (
        nessie.client({**bearer, "nessie.authentication.token": "barley"}) as client,
        pytest.raises(CatalogDeniedError) as caught,
    ):
        client.config()
    assert "barley" not in str(caught.value)
    with nessie.client() as client, pytest.raises(CatalogDeniedError):
        client.config()


def test_a_name_and_password_are_sent():
    """BASIC, which Nessie calls deprecated."""
    seen = []

    def config(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json={"defaultBranch": "main", "maxSupportedApiVersion": 2})

    basic = {
        "nessie.authentication.type": "basic",
        "nessie.authentication.username": "me",
        "nessie.authentication.password": "pw",
    }
    with client_of(config, basic) as client:
        client.config()
    assert seen == ["Basic bWU6cHc="]


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"nessie.authentication.type": "KERBEROS"}, "not supported"),
        ({"nessie.authentication.type": "BEARER"}, "nessie.authentication.token"),
        ({"nessie.authentication.type": "BASIC"}, "NESSIE_AUTHENTICATION_USERNAME"),
        ({"nessie.transport.read-timeout": "25s"}, "milliseconds"),
        ({"nessie.ssl.no-certificate-verification": "yes"}, "true or false"),
    ],
)
def test_wrong_properties_are_refused_before_anything_is_sent(properties, problem):
    """The message names the property, and the variable that could hold it."""
    with pytest.raises(ConfigError, match=problem):
        NessieClient("http://host/api/v2", ClientProperties(properties))


def test_settings_of_the_transport_reach_it():
    """Timeouts are milliseconds, as in Nessie's own client."""
    seen = []

    def config(request: httpx.Request) -> httpx.Response:
        seen.append((request.extensions["timeout"], request.headers["accept-encoding"]))
        return httpx.Response(200, json={"defaultBranch": "main", "maxSupportedApiVersion": 2})

    properties = {
        "nessie.transport.read-timeout": "1500",
        "nessie.transport.connect-timeout": "250",
        "nessie.transport.disable-compression": "true",
    }
    with client_of(config, properties) as client:
        client.config()
    (timeout, encoding), *_ = seen
    assert (timeout["read"], timeout["connect"], encoding) == (1.5, 0.25, "identity")
