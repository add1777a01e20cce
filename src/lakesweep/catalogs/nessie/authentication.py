"""How requests to Nessie show who asks: not at all, by name and password, by a token, by OAuth2 tokens, or by a signature."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import httpx

from lakesweep.catalogs.nessie.client_properties import ClientProperties
from lakesweep.domain.cutoff_policies import parse_java_duration
from lakesweep.errors import CatalogDeniedError, CatalogError, ConfigError
from lakesweep.json_text import parse_json

if TYPE_CHECKING:
    from botocore.auth import SigV4Auth

__all__ = ["authentication_of"]

# The options below `nessie.authentication.` that each type takes.
_USED_BY: dict[str, tuple[str, ...]] = {
    "NONE": (),
    "BASIC": ("username", "password"),
    "BEARER": ("token",),
    "OAUTH2": ("oauth2",),
    "AWS": ("aws",),
}
_GRANTS = ("client_credentials", "password")
_CLIENT_AUTHS = ("client_secret_basic", "client_secret_post", "none")
_DISCOVERY = (".well-known/openid-configuration", ".well-known/oauth-authorization-server")


def authentication_of(properties: ClientProperties, http: httpx.Client) -> httpx.Auth:
    """What `nessie.authentication.type` and its kin ask for. `http` fetches tokens, where there are any to fetch."""
    key = "nessie.authentication.type"
    kind = (properties.get(key) or "NONE").upper()
    _refuse_unused(properties, kind)
    if kind == "NONE":
        return httpx.Auth()
    if kind == "BASIC":
        user = properties.needed("nessie.authentication.username", f"{key}=BASIC")
        password = properties.needed("nessie.authentication.password", f"{key}=BASIC")
        return httpx.BasicAuth(user, password)
    if kind == "BEARER":
        token = properties.needed("nessie.authentication.token", f"{key}=BEARER")
        return _Bearer(lambda is_renewed: token, can_renew=False)
    if kind == "OAUTH2":
        return _Bearer(_OAuth2Tokens.of(properties, http).token, can_renew=True)
    if kind == "AWS":
        return _SigV4.of(properties)
    raise ConfigError(
        f"{key}={kind} is not supported; write NONE, BASIC, BEARER, OAUTH2 or AWS. Nothing was asked of the server.",
        kind="nessie-option",
    )


def _refuse_unused(properties: ClientProperties, kind: str) -> None:
    """Credentials that the type leaves out were meant to be used."""
    prefix = "nessie.authentication."
    for key in sorted(k for k in properties.values if k.startswith(prefix)):
        group = key.removeprefix(prefix).partition(".")[0]
        is_used = group in ("type", *_USED_BY.get(kind, (group,)))
        if properties.get(key) is not None and not is_used:
            raise ConfigError(
                f"The Nessie option {key} is set, and {prefix}type={kind} does not use it. Nothing was asked of the "
                "server. Set the type that is meant, or leave the option out.",
                kind="nessie-option",
            )


class _Bearer(httpx.Auth):
    """Sends a token; one that the server does not take any more is renewed once."""

    def __init__(self, token: Callable[[bool], str], *, can_renew: bool) -> None:
        self._token = token
        self._can_renew = can_renew

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["Authorization"] = f"Bearer {self._token(False)}"
        response = yield request
        if response.status_code == 401 and self._can_renew:
            request.headers["Authorization"] = f"Bearer {self._token(True)}"
            yield request


class _SigV4(httpx.Auth):
    """Signs requests as a gateway of AWS in front of Nessie expects it, with AWS's own chain of credentials."""

    requires_request_body = True

    def __init__(self, signer: SigV4Auth) -> None:
        self._signer = signer

    @classmethod
    def of(cls, properties: ClientProperties) -> _SigV4:
        import botocore.session
        from botocore.auth import SigV4Auth
        from botocore.exceptions import BotoCoreError

        prefix = "nessie.authentication.aws."
        profile = properties.get(f"{prefix}profile")
        try:
            found = botocore.session.Session(profile=profile).get_credentials()
        except BotoCoreError as error:
            raise ConfigError(
                f"AWS credentials for Nessie can't be read ({error}). Nothing was asked of the server.",
                kind="nessie-option",
            ) from error
        if found is None:
            raise ConfigError(
                "nessie.authentication.type=AWS found no AWS credentials in the environment, the AWS files or a role. "
                f"Nothing was asked of the server. Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or {prefix}profile.",
                kind="nessie-option",
            )
        region = properties.get(f"{prefix}region") or "us-west-2"  # as in Nessie's own client
        return cls(SigV4Auth(found, "execute-api", region))

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        from botocore.awsrequest import AWSRequest

        # What a proxy may change on the way (connection, encodings) is not signed.
        signed = AWSRequest(request.method, str(request.url), {}, request.content)
        if "content-type" in request.headers:
            signed.headers["Content-Type"] = request.headers["content-type"]
        self._signer.add_auth(signed)
        request.headers.update(dict(signed.headers.items()))
        yield request


@dataclass(slots=True)
class _OAuth2Tokens:
    """Access tokens of one client, fetched anew shortly before they end. Safe for many threads."""

    http: httpx.Client = field(repr=False)
    endpoint: str | None
    issuer: str | None
    form: dict[str, str] = field(repr=False)
    client: httpx.BasicAuth | None = field(repr=False)
    lifespan_seconds: float
    safety_seconds: float
    clock: Callable[[], float] = time.monotonic
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _token: str | None = field(default=None, repr=False)
    _ends_at: float = 0.0

    @classmethod
    def of(cls, properties: ClientProperties, http: httpx.Client) -> _OAuth2Tokens:
        prefix = "nessie.authentication.oauth2."
        grant = (properties.oauth2("grant-type") or "client_credentials").lower()
        if grant not in _GRANTS:
            raise ConfigError(
                f"{prefix}grant-type={grant} is not supported: lakesweep runs without a user who could log in. "
                f"Use one of {', '.join(_GRANTS)}.",
                kind="nessie-option",
            )
        issuer = properties.oauth2("issuer-url")
        endpoint = (
            properties.oauth2("token-endpoint")
            if issuer
            else properties.needed(f"{prefix}token-endpoint", "OAUTH2 without an issuer-url")
        )
        form = {"grant_type": grant, **_pairs(properties.oauth2("extra-params"))}
        if scopes := properties.oauth2("client-scopes"):
            form["scope"] = scopes
        if grant == "password":
            form["username"] = properties.needed(f"{prefix}username", "the grant type password")
            form["password"] = properties.needed(f"{prefix}password", "the grant type password")
        client_id = properties.needed(f"{prefix}client-id", "OAUTH2")
        secret = properties.oauth2("client-secret")
        client_auth = properties.oauth2("client-auth") or (
            "client_secret_basic" if secret else "none"
        )
        if client_auth not in _CLIENT_AUTHS:
            raise ConfigError(
                f"{prefix}client-auth={client_auth} is not supported. Use one of {', '.join(_CLIENT_AUTHS)}.",
                kind="nessie-option",
            )
        client = None
        if client_auth == "none":
            form["client_id"] = client_id
        else:
            secret = properties.needed(f"{prefix}client-secret", f"client-auth={client_auth}")
            if client_auth == "client_secret_basic":
                client = httpx.BasicAuth(client_id, secret)
            else:
                form |= {"client_id": client_id, "client_secret": secret}
        return cls(
            http,
            endpoint,
            issuer,
            form,
            client,
            _seconds(properties.oauth2("default-access-token-lifespan") or "PT1M"),
            _seconds(properties.oauth2("refresh-safety-window") or "PT10S"),
        )

    def token(self, is_refused: bool) -> str:
        """A token that is good for a while yet; a new one when the last was refused."""
        with self._lock:
            if self._token is None or is_refused or self.clock() >= self._ends_at:
                self._token, lifespan = self._fetch()
                self._ends_at = self.clock() + max(lifespan - self.safety_seconds, 0.0)
            return self._token

    def _fetch(self) -> tuple[str, float]:
        if self.endpoint is None:
            self.endpoint = self._discover(self.issuer or "")
        try:
            response = self.http.post(
                self.endpoint, data=self.form, auth=self.client or httpx.Auth()
            )
        except httpx.RequestError as error:
            raise _no_token(self.endpoint, f"{type(error).__name__}: {error}") from error
        if response.status_code in (400, 401, 403):
            raise CatalogDeniedError(
                f"The token endpoint {self.endpoint} refused our credentials ({response.status_code}"
                f"{_said(response)}). Nessie was not asked. Check the client id, secret and user.",
            )
        said = _json_object(response) if response.status_code == 200 else {}
        token, lifespan = said.get("access_token"), said.get("expires_in")
        if not isinstance(token, str) or not token:
            raise _no_token(self.endpoint, f"it answered {response.status_code} without one")
        if not isinstance(lifespan, int | float) or lifespan <= 0:
            return token, self.lifespan_seconds
        return token, float(lifespan)

    def _discover(self, issuer: str) -> str:
        """The token endpoint that an issuer names."""
        for document in _DISCOVERY:
            url = f"{issuer.rstrip('/')}/{document}"
            try:
                response = self.http.get(url, auth=httpx.Auth())
            except httpx.RequestError as error:
                raise _no_token(url, f"{type(error).__name__}: {error}") from error
            endpoint = _json_object(response).get("token_endpoint")
            if response.status_code == 200 and isinstance(endpoint, str) and endpoint:
                return endpoint
        raise _no_token(issuer, "none of its discovery documents names a token endpoint")


def _no_token(where: str, why: str) -> CatalogError:
    return CatalogError(
        f"No access token for Nessie from {where}: {why}. Nessie was not asked.",
        kind="catalog-unreachable",
    )


def _json_object(response: httpx.Response) -> dict[str, object]:
    try:
        said = parse_json(response.content)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _said(response: httpx.Response) -> str:
    # Only the error's code: descriptions of some servers repeat what was sent.
    code = _json_object(response).get("error")
    return f", {code[:60]}" if isinstance(code, str) else ""


def _pairs(text: str | None) -> dict[str, str]:
    pairs = (pair.partition("=") for pair in (text or "").split(",") if pair.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _seconds(text: str) -> float:
    return parse_java_duration(text).total_seconds()
