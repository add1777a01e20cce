"""Sessions in signed cookies: nothing is stored, so every process of a server with the same key knows them.

A session ends after `LIFE_SECONDS`, when its cookie is removed, and when its caller is not found any more. The token that
forms carry is made from the session, so one session's token is worth nothing in another.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from lakesweep.json_text import parse_json

__all__ = ["LIFE_SECONDS", "Session", "Sessions"]

LIFE_SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True)
class Session:
    """Who a valid cookie belongs to, and the token that forms of this session carry."""

    caller_id: str
    form_token: str


class Sessions:
    """Makes cookies and reads them."""

    def __init__(self, signing_key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = signing_key
        self._clock = clock

    def begin(self, caller_id: str) -> str:
        """The cookie of a new session."""
        content = [caller_id, int(self._clock()) + LIFE_SECONDS, secrets.token_hex(16)]
        body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode()
        return f"{body}.{self._sign('session', body)}"

    def read(self, cookie: str) -> Session | None:
        """The session, or None when the cookie is not ours or too old."""
        body, _, signature = cookie.partition(".")
        # The signature is checked before a byte of the content is looked at.
        if not hmac.compare_digest(signature.encode(), self._sign("session", body).encode()):
            return None
        try:
            caller_id, ends_at, _nonce = parse_json(base64.urlsafe_b64decode(body))
        except (binascii.Error, ValueError, TypeError):
            return None
        if self._clock() >= ends_at:
            return None
        return Session(caller_id, self._sign("form", body))

    def _sign(self, purpose: str, body: str) -> str:
        return hmac.new(self._key, f"{purpose}:{body}".encode(), hashlib.sha256).hexdigest()
