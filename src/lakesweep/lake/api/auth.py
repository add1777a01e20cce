"""Who is asking: access keys by basic authentication, and login tokens made from them.

A login token is a JSON Web Token signed with a key derived from the access key's secret. So it needs no storage, works
on every server that shares the ref store, and ends with the access key it was made from.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from lakesweep.json_text import parse_json
from lakesweep.lake.api.observing import note
from lakesweep.lake.api.replies import error_reply
from lakesweep.lake.errors import RefStoreError
from lakesweep.lake.values import Credentials

logger = logging.getLogger(__name__)

LOGIN_LIFE_SECONDS = 7 * 24 * 3600
CREDENTIALS_KEY = "lakesweep_credentials"
"""Where the gate leaves the caller's credentials in the ASGI scope."""
KNOWN_KEY = "lakesweep_known"
"""Where a connection leaves, in the scope's state, what to call once its other end is known."""

# Asked before anyone can have credentials, or in exchange for them.
OPEN_ENDPOINTS = frozenset(
    {
        ("GET", "/_health"),
        ("GET", "/_ready"),
        ("GET", "/api/v1/healthcheck"),
        ("GET", "/api/v1/setup_lakefs"),
        ("POST", "/api/v1/setup_lakefs"),
        ("POST", "/api/v1/auth/login"),
    }
)
_CAN_NOT_TELL = (
    "The lake's ref store does not answer, so it is not known who is asking. Nothing was done."
)
_LOOKUP_THREADS = 4
_TOKEN_HEADER = {"alg": "HS256", "typ": "JWT"}

FindCredentials = Callable[[str], Credentials | None]


@dataclass(frozen=True, slots=True)
class LoginToken:
    """A signed token and when it ends (unix seconds)."""

    token: str
    expires_at: int


class Authenticator:
    """Checks what a request presents against the lake's access keys."""

    def __init__(self, find_credentials: FindCredentials, *, is_remote: bool) -> None:
        self._find = find_credentials
        self._is_remote = is_remote
        # Of its own: requests that hold all other threads must not keep anyone from being recognised.
        self._limiter = anyio.CapacityLimiter(_LOOKUP_THREADS)

    async def authenticate(self, authorization: str) -> Credentials | None:
        """The caller's credentials, or None when the header does not prove any."""
        scheme, _, presented = authorization.partition(" ")
        if scheme.lower() == "basic":
            return await self._check_basic(presented.strip())
        if scheme.lower() == "bearer":
            return await self._check_token(presented.strip())
        return None

    async def check_secret(self, access_key_id: str, secret: str) -> Credentials | None:
        """The credentials when the secret is the key's own."""
        credentials = await self._lookup(access_key_id)
        if credentials is None:
            return None
        matches = hmac.compare_digest(credentials.secret_access_key.encode(), secret.encode())
        return credentials if matches else None

    async def _check_basic(self, presented: str) -> Credentials | None:
        try:
            access_key_id, colon, secret = (
                base64.b64decode(presented, validate=True).decode().partition(":")
            )
        except (binascii.Error, UnicodeDecodeError):
            return None
        return await self.check_secret(access_key_id, secret) if colon else None

    async def _check_token(self, token: str) -> Credentials | None:
        access_key_id = _unverified_access_key(token)
        credentials = await self._lookup(access_key_id) if access_key_id else None
        if credentials is None or not is_valid_token(token, credentials, time.time()):
            return None
        return credentials

    async def _lookup(self, access_key_id: str) -> Credentials | None:
        # Looked up every time, so that a revoked key ends with its next request. To change threads takes many times as
        # long as to look into a file.
        if not self._is_remote:
            return self._find(access_key_id)
        return await anyio.to_thread.run_sync(self._find, access_key_id, limiter=self._limiter)


class RequireCredentials:
    """ASGI middleware: whoever shows no valid credentials gets past the open endpoints and no further."""

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or leave the credentials in the scope and pass on."""
        if scope["type"] == "http" and (scope["method"], scope["path"]) not in OPEN_ENDPOINTS:
            presented = find_header(scope, b"authorization") or ""
            try:
                credentials = await self._authenticator.authenticate(presented)
            except RefStoreError as error:
                # A stranger may be asking, who is not told where it lies.
                logger.error("nobody can be recognised: %s", error)
                await error_reply(503, _CAN_NOT_TELL)(scope, receive, send)
                return
            if credentials is None:
                await unauthorized()(scope, receive, send)
                return
            scope[CREDENTIALS_KEY] = credentials
            note(scope, credentials)
            tell_known(scope)
        await self._app(scope, receive, send)


def find_header(scope: Scope, name: bytes) -> str | None:
    """The first header of a name in lower case, as servers hand names over."""
    for found, value in scope["headers"]:
        if found == name:
            text: str = value.decode("latin-1")
            return text
    return None


def tell_known(scope: Scope) -> None:
    """Tell the connection, if the server is one that wants to know, that its other end has valid credentials."""
    known: Callable[[], None] | None = scope.get("state", {}).get(KNOWN_KEY)
    if known is not None:
        known()


def unauthorized() -> ASGIApp:
    """401, with nothing in it that tells an unknown key from a wrong secret."""
    return error_reply(401, "The request carries no valid credentials.")


def issue_token(credentials: Credentials, now: float) -> LoginToken:
    """A login token for the key's owner."""
    expires_at = int(now) + LOGIN_LIFE_SECONDS
    claims = {
        "iss": "auth",
        "aud": "login",
        "sub": credentials.username,
        "iat": int(now),
        "exp": expires_at,
    }
    signed = ".".join(
        _encode(json.dumps(part, separators=(",", ":")).encode())
        for part in (_TOKEN_HEADER | {"kid": credentials.access_key_id}, claims)
    )
    return LoginToken(f"{signed}.{_sign(signed, credentials)}", expires_at)


def is_valid_token(token: str, credentials: Credentials, now: float) -> bool:
    """Whether the token was made from these credentials and has not expired."""
    signed, _, signature = token.rpartition(".")
    # The signature is checked before a byte of the claims is trusted, and always as HS256: the header has no say.
    if not hmac.compare_digest(signature.encode(), _sign(signed, credentials).encode()):
        return False
    claims = _decode_json(signed.partition(".")[2])
    expires_at = claims.get("exp")
    return claims.get("aud") == "login" and isinstance(expires_at, int) and now < expires_at


def _sign(signed: str, credentials: Credentials) -> str:
    secret = credentials.secret_access_key.encode()
    key = hmac.new(secret, b"lakesweep login token", hashlib.sha256).digest()
    return _encode(hmac.new(key, signed.encode(), hashlib.sha256).digest())


def _unverified_access_key(token: str) -> str | None:
    if token.count(".") != 2:
        return None
    kid = _decode_json(token.partition(".")[0]).get("kid")
    return kid if isinstance(kid, str) else None


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_json(text: str) -> dict[str, object]:
    try:
        decoded = parse_json(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except (binascii.Error, ValueError):
        return {}
    return decoded if isinstance(decoded, dict) else {}
