"""Keeping secrets out of whatever people read: logs, messages, records.

Whoever reads a secret from somewhere remembers it here; whoever writes text for people masks it here. Standard
library only, and visible to every layer, like the error tree.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote, urlsplit

__all__ = ["MASK", "SecretMask", "is_secret_name", "known_secrets", "secrets_in_url"]

MASK = "***"

# Masking one or two letters would only garble the text; they hide nothing.
_SHORTEST = 3

_SECRET_NAME = re.compile(
    r"secret|passw|token|credential|signature|private|\bsas\b|account[._-]?key|access[._-]?key",
    re.IGNORECASE,
)

# What is secret by its shape, whoever made it: signed URLs and authorization headers.
_SHAPES = re.compile(
    r"""(?ix)
    (?P<name> (?:X-Amz-(?:Signature|Credential|Security-Token)|[?&;]sig|[?&;]token|X-Goog-Signature) = )
        [^&;\s"'<>]+
    | (?P<header> authorization ["']? \s* [:=] \s* ["']? (?:basic|bearer|aws4-hmac-sha256|sharedkey) \s+ )
        [^"'\r\n]+
    """
)


def is_secret_name(name: str) -> bool:
    """Whether a property of that name holds a secret, as far as a name can tell."""
    return _SECRET_NAME.search(name) is not None


def secrets_in_url(text: str) -> frozenset[str]:
    """The password in `scheme://user:password@host`, the token of a Spark Connect URL, secret parameters of JDBC's."""
    parameters = re.findall(r"[?&;]([^=&;?]+)=([^&;]+)", text)
    found = {value for name, value in parameters if is_secret_name(name)}
    found.update(re.findall(r"(?i);token=([^;]+)", text))  # Spark ends it at ';' only
    try:
        password = urlsplit(text.removeprefix("jdbc:")).password
    except ValueError:
        password = None
    if password:
        found |= {password, unquote(password)}
    return frozenset(found)


class SecretMask:
    """Replaces every secret it was told of, and what looks like one, by `***`."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._spellings: set[str] = set()
        self._pattern: re.Pattern[str] | None = None
        self.remember(secrets)

    def remember(self, secrets: Iterable[str | None]) -> None:
        """Mask these from now on, also where they were encoded for a URL, a JSON text or a Python repr."""
        for secret in secrets:
            if secret and len(secret) >= _SHORTEST:
                self._spellings |= {s for s in _spellings(secret) if len(s) >= _SHORTEST}
        if self._spellings:
            # The longest first, so that a secret inside another leaves no remainder.
            ordered = sorted(self._spellings, key=len, reverse=True)
            self._pattern = re.compile("|".join(re.escape(spelling) for spelling in ordered))

    def mask(self, text: str) -> str:
        """The text without secrets."""
        if self._pattern is not None:
            text = self._pattern.sub(MASK, text)
        return _SHAPES.sub(lambda m: (m["name"] or m["header"]) + MASK, text)

    def mask_json(self, value: object) -> object:
        """A JSON value with every string in it masked, keys included."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, dict):
            return {self.mask(str(key)): self.mask_json(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.mask_json(item) for item in value]
        return value


def _spellings(secret: str) -> set[str]:
    return {
        secret,
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote(secret),
        quote_plus(secret),
        base64.b64encode(secret.encode("utf-8", "surrogatepass")).decode(),
    }


known_secrets = SecretMask()
"""The process's own: settings tell it what they read, logging and the command line ask it."""
