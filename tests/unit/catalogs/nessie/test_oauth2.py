"""OAuth2 tokens for Nessie, against a small token endpoint in this process."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import parse_qs

import httpx
import pytest

from lakesweep.catalogs.nessie.client import NessieClient
from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.errors import CatalogDeniedError, CatalogError, ConfigError
from lakesweep_testing.fake_nessie import FakeNessie

PREFIX = "nessie.authentication.oauth2."
ENDPOINT = "http://tokens.example/realm/token"


@dataclass
class TokenEndpoint:
    """Gives tokens `token-1`, `token-2`, … and tells the server behind it which one is good."""

    nessie: FakeNessie = field(default_factory=FakeNessie)
    lifespan: int | None = 300
    status: int = 200
    discovery: str = "openid-configuration"
    forms: list[dict[str, str]] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)

    def handle(self, request: httpx.Request) -> httpx.Response:
        if request.url.host != "tokens.example":
            return self.nessie.transport.handle_request(request)
        if "/.well-known/" in request.url.path:
            found = request.url.path.endswith(self.discovery)
            return httpx.Response(200 if found else 404, json={"token_endpoint": ENDPOINT})
        form = parse_qs(request.content.decode())
        self.forms.append({name: values[0] for name, values in form.items()})
        self.authorizations.append(request.headers.get("authorization"))
        if self.status != 200:
            return httpx.Response(self.status, json={"error": "invalid_client"})
        self.nessie.token = f"token-{len(self.forms)}"
        said: dict[str, object] = {"access_token": self.nessie.token, "token_type": "bearer"}
        return httpx.Response(
            200, json=said if self.lifespan is None else {**said, "expires_in": self.lifespan}
        )

    def client(self, **properties: str) -> NessieClient:
        values = {
            "nessie.authentication.type": "OAUTH2",
            f"{PREFIX}token-endpoint": ENDPOINT,
            f"{PREFIX}client-id": "lakesweep",
            f"{PREFIX}client-secret": "hidden",
            **{f"{PREFIX}{name.replace('_', '-')}": value for name, value in properties.items()},
        }
        return NessieClient(
            self.nessie.uri,
            ClientProperties({key: value for key, value in values.items() if value}),
            retries=0,
            http_transport=httpx.MockTransport(self.handle),
        )


def test_client_credentials_are_the_default_and_one_token_serves_many_requests():
    """The client shows itself by HTTP Basic, as Nessie's own does."""
    tokens = TokenEndpoint()
    with tokens.client(client_scopes="catalog", extra_params="audience=nessie,x=y") as client:
        client.config()
        client.references()
    assert tokens.forms == [
        {"grant_type": "client_credentials", "scope": "catalog", "audience": "nessie", "x": "y"}
    ]
    assert tokens.authorizations == ["Basic bGFrZXN3ZWVwOmhpZGRlbg=="]


def test_the_password_grant_sends_a_user():
    """With the client's secret in the form when asked so."""
    tokens = TokenEndpoint()
    with tokens.client(
        grant_type="password", username="me", password="pw", client_auth="client_secret_post"
    ) as client:
        client.config()
    assert tokens.forms == [
        {
            "grant_type": "password",
            "username": "me",
            "password": "pw",
            "client_id": "lakesweep",
            "client_secret": "hidden",
        }
    ]
    assert tokens.authorizations == [None]


def test_a_public_client_has_no_secret():
    """It names itself in the form."""
    tokens = TokenEndpoint()
    with tokens.client(client_secret="") as client:
        client.config()
    assert tokens.forms == [{"grant_type": "client_credentials", "client_id": "lakesweep"}]


@pytest.mark.parametrize("discovery", ["openid-configuration", "oauth-authorization-server"])
def test_an_issuer_names_its_endpoint(discovery):
    """Both well-known documents are looked for."""
    tokens = TokenEndpoint(discovery=discovery)
    with tokens.client(token_endpoint="", issuer_url="http://tokens.example/realm/") as client:
        client.config()
    assert len(tokens.forms) == 1


@pytest.mark.parametrize(("lifespan", "fetched"), [(5, 2), (None, 1), (300, 1)])
def test_a_token_is_renewed_before_it_ends(lifespan, fetched):
    """A life shorter than the safety window means a new token each time; without one, a minute is assumed."""
    tokens = TokenEndpoint(lifespan=lifespan)
    with tokens.client() as client:
        client.config()
        client.config()
    assert len(tokens.forms) == fetched


def test_a_token_that_is_refused_is_renewed_once():
    """Taken back before its time; a second refusal is the user's."""
    tokens = TokenEndpoint()
    with tokens.client() as client:
        client.config()
        tokens.nessie.token = "another"
        client.config()
        assert len(tokens.forms) == 2
        tokens.nessie.fail("/config", status=401, times=5)
        with pytest.raises(CatalogDeniedError):
            client.config()


def test_refused_credentials_are_told_without_showing_them():
    """What the endpoint calls the error is shown, and nothing that was sent."""
    tokens = TokenEndpoint(status=401)
    with tokens.client() as client, pytest.raises(CatalogDeniedError, match="invalid_client") as e:
        client.config()
    assert "hidden" not in str(e.value)
    assert tokens.nessie.requests == []


def test_a_broken_token_endpoint_is_told():
    """Nessie is not asked without a token."""
    tokens = TokenEndpoint(status=500)
    with tokens.client() as client, pytest.raises(CatalogError, match="answered 500"):
        client.config()
    silent = TokenEndpoint(discovery="nothing")
    with (
        silent.client(token_endpoint="", issuer_url="http://tokens.example") as client,
        pytest.raises(CatalogError, match="discovery"),
    ):
        client.config()


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"grant_type": "device_code"}, "device_code is not supported"),
        ({"token_endpoint": ""}, "token-endpoint"),
        ({"client_id": ""}, "client-id"),
        ({"client_secret": "", "client_auth": "client_secret_basic"}, "client-secret"),
        ({"client_auth": "private_key_jwt"}, "client-auth"),
        ({"grant_type": "password"}, "username"),
        ({"refresh_safety_window": "10s"}, "duration"),
    ],
)
def test_what_is_missing_or_needs_a_browser_is_refused(properties, problem):
    """Before anything is sent."""
    with pytest.raises(ConfigError, match=problem):
        TokenEndpoint().client(**properties)
